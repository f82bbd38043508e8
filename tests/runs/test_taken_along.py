"""Runs that the worker of another run has in hand are shown as what they are."""

import contextlib

import pytest

from headway import api
from headway.declare.loading import resolve
from headway.runs import seal
from headway.runs.devices import slots
from headway.runs.folder import read
from headway.runs.folder_written import update
from headway.runs.lease import Lease, last_holder
from headway.runs.local import run_all
from headway.runs.places import local_places
from headway.runs.taken_along import TakenAlong

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


def ended(run, status):
    with Lease.take(run.path / "lease") as lease:
        done = {"metrics": {"x": 1.0}, "seal": seal.write(run.path, {})} if status == "done" else {}
        update(run, lease, status=status, message="", **done)


def test_what_a_worker_holds_is_worked_on_and_what_it_let_go_has_ended(runs):
    paths, along = [run.path for run in runs], TakenAlong()
    with contextlib.ExitStack() as held:
        for run in runs[:3]:
            held.enter_context(Lease.take(run.path / "lease")).progress(7, 3.5)
        me = last_holder(paths[0] / "lease").worker
        along.look(paths, {"elsewhere 1"})
        assert not any(along.holder(path) for path in paths)
        along.look(paths, {me})
        assert [path for path in paths if along.holder(path)] == paths[:3]
    for run, status in zip(runs, ("done", "failed", "waiting"), strict=False):
        ended(run, status)
    along.look(paths, {me})
    assert not any(along.holder(path) for path in paths)
    found = [along.ended(path) for path in paths[:4]]
    assert [run and run.status for run in found] == ["done", "failed", None, None]


def test_a_run_that_failed_before_is_not_said_to_have_ended(runs):
    ended(runs[0], "failed")
    along = TakenAlong()
    along.look([runs[0].path], set())
    assert along.ended(runs[0].path) is None


def test_of_many_runs_some_are_looked_at_each_time_and_those_at_work_always(runs, monkeypatch):
    monkeypatch.setattr("headway.runs.taken_along._LOOKED_AT_ONCE", 5)
    paths, along = [run.path for run in runs], TakenAlong()
    with contextlib.ExitStack() as held:
        for run in (runs[1], runs[11]):
            held.enter_context(Lease.take(run.path / "lease"))
        me = {last_holder(paths[1] / "lease").worker}
        seen = []
        for _ in range(3):
            along.look(paths, me)
            seen.append(
                [path in (paths[1], paths[11]) and along.holder(path) is not None for path in paths].count(True)
            )
        assert seen == [1, 1, 2]
    along.look(paths, me)
    assert not any(along.holder(path) for path in paths)


def test_a_sweep_shows_all_that_one_worker_has_in_hand(runs):
    command = (*local_places("cpu", workers=1, runs=1)[0].command, "--together", "auto")
    counts, lefts = [], []
    for shown in run_all(runs, local_places("cpu", workers=1, runs=len(runs), command=command)):
        counts.append((shown.count("waiting"), shown.count("running"), shown.count("done")))
        lefts.append(shown.seconds_left)
        assert not any(run.worker for run in shown.runs)
    assert max(running for _, running, _ in counts) == len(runs), counts
    assert counts[-1] == (0, 0, len(runs))
    assert [read(run.path).status for run in runs] == ["done"] * len(runs)
