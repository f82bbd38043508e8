"""The spread of earlier experiments as a prior: when it is used, when not, and what is said."""

import numpy as np
import pytest
from support import stored

from headway.config.load import load, resolve
from headway.stats import regression, results
from headway.stats.answer import answer
from headway.store import checkpoint
from headway.store.directory import Store

TASK = {"kind": "regression", "d_x": 3, "n_pairs": 8}
ARMS = {f"h{n}": {"label": f"{n} heads", "model": {"n_heads": n}} for n in (1, 2, 3, 4, 5, 6)}


@pytest.fixture(autouse=True)
def no_estimators(monkeypatch):
    estimates = {"baselines": {"ridge": {"mse": 0.1, "se": 0.0}}, "curves": {"n_pairs": [1, 12]}}
    monkeypatch.setattr(regression, "estimator_errors", lambda task, evaluation: estimates)


def directory(path, arms, n_seeds, sd, seed, steps=10, **changes):
    """A directory of finished runs whose metric varies by `sd` per cent beside its seed, without any effect."""
    document = {
        "name": path.name,
        "task": TASK,
        "model": {"family": "icl"},
        "training": {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 8, "steps": steps},
        "evaluation": {"prompts": 300, "curve": {"prompts": 50, "longest": 12, "lengths": 4, "resamples": 20}},
        "arms": {name: ARMS[name] for name in arms},
        "baseline": arms[0],
        "seeds": n_seeds,
        **changes,
    }
    store, rng = Store.create(path, resolve(document)), np.random.default_rng(seed)
    for of_seed in range(n_seeds):
        common = rng.normal(0, 1)
        for name in arms:
            run = store.add(store.experiment.arm(name), of_seed)
            (run.path / "metrics.jsonl").write_text('{"step": 10}\n')
            checkpoint.save(run.path / "checkpoint", checkpoint.Checkpoint(step=10, state={}))
            value = float(np.exp((common + sd * rng.normal()) / 100))
            stored.rewrite(run.path, status="done", execution={"threads": 1}, metrics={"eval_mse": value})
            stored.seal(run.path)
    return store


def family_of(store):
    found = results.write(store)
    return next(f for f in found.families if f.metric == "eval_mse" and f.control is None), found


def here(tmp_path, sd=0.5, n_seeds=3, seed=7, **changes):
    return directory(tmp_path / "here", ["h1", "h2"], n_seeds, sd, seed, **changes)


@pytest.fixture
def earlier(tmp_path):
    return directory(tmp_path / "earlier", list(ARMS), 4, 0.5, 1, steps=20)


@pytest.mark.parametrize("named", ["earlier", ["earlier"]])
def test_a_prior_that_agrees_narrows_the_interval_and_is_said(tmp_path, earlier, named):
    plain, before = family_of(here(tmp_path / "without"))
    family, found = family_of(here(tmp_path, prior=named))
    own = found.comparisons[0]
    assert (plain.prior, plain.prior_sd, plain.freedom, family.freedom) == ("", None, 2.0, 2.0)
    assert (family.prior_freedom, own.freedom) == (8.0, 10.0)
    assert own.detectable < before.comparisons[0].detectable
    assert family.prior.startswith("intervals use the spread of runs in earlier as a prior (0.")
    assert any(line.endswith(f"; {family.prior}") for line in answer(found))
    assert results.Results.from_json(found.to_json()) == found


def test_a_prior_does_not_enter_the_ids_of_runs(tmp_path, earlier):
    ids = [[run.id for run in here(tmp_path / each, **key).runs()] for each, key in [("a", {}), ("b", {"prior": "x"})]]
    assert ids[0] == ids[1]


@pytest.mark.parametrize("sd", [0.02, 5.0])
def test_a_prior_that_disagrees_is_dropped_and_leaves_the_verdict_as_it_was(tmp_path, earlier, sd):
    _, before = family_of(here(tmp_path / "without", sd=sd))
    family, found = family_of(here(tmp_path, sd=sd, prior="earlier"))
    assert family.prior.startswith("the prior of earlier was dropped: the spread of runs disagrees by an F test (")
    assert (family.prior_sd, family.prior_freedom) == (None, None)
    assert found.comparisons[0].interval == before.comparisons[0].interval


def made(tmp_path, kind):
    if kind == "few":
        directory(tmp_path / "few", ["h1", "h2"], 3, 0.5, 1, steps=20)
    elif kind == "same":
        directory(tmp_path / "same", list(ARMS), 4, 0.5, 1)
    elif kind == "kind":
        Store.create(tmp_path / "kind", load("heads-for-parity"))
    elif kind == "empty":
        (tmp_path / "empty").mkdir()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("absent", "there is no such directory"),
        ("empty", "is no results directory of Headway"),
        ("here", "it is this experiment's own directory"),
        ("few", "it has too few runs (its spread has 2 degrees of freedom, 10 are needed)"),
        ("same", "it holds runs that this experiment has too"),
        ("kind", "it is about another task"),
    ],
)
def test_a_prior_that_cannot_be_used_is_told_and_changes_no_verdict(tmp_path, kind, why):
    made(tmp_path, kind)
    _, before = family_of(here(tmp_path / "without"))
    family, found = family_of(here(tmp_path, prior=["here" if kind == "here" else kind]))
    assert family.prior.startswith(f"the prior {kind} is not used: ")
    assert why in family.prior
    assert found.comparisons[0].interval == before.comparisons[0].interval
