"""Runs of a batch that the worker of one of them has in hand are shown as what they are."""

import pytest
from support.parity import DOCUMENT, prepared

from headway.execute.places import local_places
from headway.execute.sweep import run_all
from headway.store.run import read


@pytest.fixture
def runs(tmp_path):
    long = {**DOCUMENT["training"], "steps": 1000}
    changes = {"training": long, "evaluation": {"every": 500}, "logging": {"every": 100}, "arms": {"h2": {}}}
    return [read(path) for path in prepared(tmp_path / "out", **changes, seeds=12).values()]


@pytest.mark.slow
def test_a_sweep_shows_all_that_one_worker_has_in_hand(runs):
    counts, lefts = [], []
    for shown in run_all(runs, local_places("cpu", workers=1, runs=len(runs))):
        counts.append((shown.count("waiting"), shown.count("running"), shown.count("done")))
        lefts.append(shown.seconds_left)
        assert not any(run.worker for run in shown.runs)
    assert max(running for _, running, _ in counts) == len(runs), counts
    assert counts[-1] == (0, 0, len(runs))
    assert [read(run.path).status for run in runs] == ["done"] * len(runs)
