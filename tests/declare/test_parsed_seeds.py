"""The seeds of an arm, validated as one: each is the run that it is alone, and what is wrong is told as ever."""

import pytest

from headway.declare.experiment import load
from headway.declare.laboratories import parse_run, parse_seeds
from headway.errors import DeclarationError

ARMS = [("icl-heads", "h2"), ("head-progression", "descending-low"), ("heads-for-parity", "n2-h2")]


@pytest.mark.parametrize(("name", "arm"), ARMS)
def test_a_seed_is_the_run_that_it_is_alone(name, arm):
    for seed in (0, 3, 41):
        content = load(name).arm(arm).configuration(seed)
        assert parse_seeds(content) == parse_run(content)
        assert parse_seeds(content).id == parse_run(content).id


def test_runs_that_start_from_others_are_each_validated():
    arm = next(arm for arm in load("prune-heads").arms if arm.parent is not None)
    for seed in (0, 1):
        assert parse_seeds(arm.configuration(seed)) == parse_run(arm.configuration(seed)) == arm.spec(seed)


@pytest.mark.parametrize("seed", [-1, 1.0, True, "3", None, [1]])
def test_another_seed_is_an_error_though_its_arm_is_known(seed):
    content = load("icl-heads").arm("h2").configuration(0)
    parse_seeds(content)
    with pytest.raises(DeclarationError, match="seed"):
        parse_seeds({**content, "seed": seed})


def test_what_is_wrong_is_told_where_it_stands():
    content = {**load("icl-heads").arm("h2").configuration(0), "sed": 1}
    with pytest.raises(DeclarationError, match=r"here sed: there is no such key"):
        parse_seeds(content, lambda path: f"here {path}")
