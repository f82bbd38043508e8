"""Runs of a batch that the worker of one of them has in hand are shown as what they are."""

import pytest

from headway import api
from headway.config.load import resolve
from headway.execute.places import local_places
from headway.execute.sweep import run_all
from headway.store.environment import slots
from headway.store.run import read

DOCUMENT = {
    "name": "parities",
    "task": {"kind": "parity", "n_bits": 2},
    "model": {"family": "gpt-2", "d_model": 8, "n_layers": 1, "n_heads": 1, "d_head": 8, "positions": "joint",
              "n_positions": 3, "norm": "none", "mlp": "none", "residual": False, "tied": False, "readout": 2},
    "training": {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 4, "steps": 1000, "clip": None},
    "evaluation": {"every": 500},
    "samples": None,
    "logging": {"every": 100},
    "arms": {"h1": {}},
    "seeds": 12,
}  # fmt: skip


@pytest.fixture
def runs(tmp_path):
    _, made = api.prepare(resolve(DOCUMENT), tmp_path / "out", slots("cpu", workers=1, runs=1))
    return made


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
