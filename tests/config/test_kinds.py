"""Stored runs, read many at a time: what is validated once for a whole arm is what each would have been by itself."""

import pytest

from headway.config import kinds
from headway.config.kinds import parse_run, parse_stored
from headway.config.load import load
from headway.config.own_program import CommandRun
from headway.config.regression import IclRun
from headway.errors import DeclarationError

NAMES = ("icl-heads", "head-progression", "heads-for-parity")


def contents(name):
    return [arm.configuration(seed) for arm in load(name).selected[:4] for seed in (0, 1, 7, 10**18)]


@pytest.mark.parametrize("name", NAMES)
def test_each_is_the_run_that_it_would_be_by_itself(name):
    for content in contents(name):
        alone, found = parse_run(content), parse_stored(content)
        assert found == alone
        assert found.id == alone.id


def test_runs_that_start_from_others_are_what_they_are_by_themselves():
    arm = next(arm for arm in load("prune-heads").arms if arm.parent is not None)
    for seed in (0, 1):
        assert parse_stored(arm.configuration(seed)) == parse_run(arm.configuration(seed)) == arm.spec(seed)


WRONG = [True, 1.0, "1", -1, None]


@pytest.mark.parametrize("seed", WRONG)
def test_a_seed_that_is_none_is_refused_after_one_that_is(seed):
    content = contents("icl-heads")[0]
    assert parse_stored(content).seed == 0
    with pytest.raises(DeclarationError, match=r"^run\.json: seed"):
        parse_stored({**content, "seed": seed}, "run.json: {}".format)


@pytest.mark.parametrize("steps", [True, "100", 0])
def test_what_equals_it_in_python_and_is_no_such_number_is_refused(steps):
    content = contents("icl-heads")[0]
    one = {**content, "training": {**content["training"], "steps": 1}}
    assert parse_stored(one).declared_steps == 1
    with pytest.raises(DeclarationError, match=r"^run\.json: training\.steps"):
        parse_stored({**one, "training": {**one["training"], "steps": steps}}, "run.json: {}".format)


def test_what_nests_too_deep_is_no_crash():
    deep = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises((DeclarationError, RecursionError)) as alone:
        parse_run({**contents("icl-heads")[0], "model": deep})
    with pytest.raises(alone.type):
        parse_stored({**contents("icl-heads")[0], "model": deep})


@pytest.mark.parametrize("kind", [5, None, "regresion"])
def test_an_unknown_kind_is_told_the_tasks_on_tokens_too(kind, monkeypatch):
    """Before anybody has asked for one of them."""
    monkeypatch.setattr(kinds, "RUN_KINDS", {"regression": IclRun, "command": CommandRun})
    with pytest.raises(DeclarationError) as caught:
        parse_run({"task": {"kind": kind}})
    assert {"regression", "induction", "text"} <= kinds.RUN_KINDS.keys()
    assert "choose from" in str(caught.value) or "did you mean regression" in str(caught.value)
    if kind != "regresion":
        assert "induction" in str(caught.value)
