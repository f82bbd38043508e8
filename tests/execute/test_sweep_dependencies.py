"""Which run waits for which: longest lines first, and a failed parent fails its children with its name."""

import contextlib
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import small_text

from headway.execute import parents as lines_module
from headway.execute.parents import RunDependencies
from headway.execute.places import local_places
from headway.execute.sweep import run_all
from headway.store import lease as lease_module
from headway.store.directory import Store
from headway.store.lease import Lease
from headway.store.run import Run, update


def told(name: str, parent: str | None = None, *, seed: int = 0, status: str = "waiting", cost: float = 1.0) -> Any:
    """As much of a run as a line asks for."""
    spec = SimpleNamespace(initial_run=parent and SimpleNamespace(run=parent))
    path = Path(name) / f"seed-{seed}"
    return SimpleNamespace(name=name, id=name, path=path, seed=seed, status=status, message="", cost=cost, spec=spec)


def lines_of(*runs: Any) -> RunDependencies:
    return RunDependencies(list(runs), lambda run: run.cost)


def test_a_line_is_as_long_as_all_that_wait_in_it():
    a, b, c, d = told("a"), told("b", "a", cost=5.0), told("c", "b", cost=2.0), told("d", cost=7.0)
    lines = lines_of(a, b, c, d)
    assert [lines.work_until_the_end(run.path) for run in (a, b, c, d)] == [8.0, 7.0, 2.0, 7.0]


def test_a_parent_that_another_process_works_on_is_waited_for(monkeypatch):
    child, parent = told("small", "dense"), told("dense", status="running")
    monkeypatch.setattr(lines_module, "parent_of", lambda _: parent)
    lines = lines_of(child)
    other_seed = {parent.path.with_name("seed-1"): told("dense", seed=1, status="done")}
    assert lines.waits(child, other_seed)
    assert lines.why_never(child, {}) == ""
    parent.status = "done"
    assert not lines.waits(child, {})
    parent.status = "interrupted"
    assert lines.why_never(child, {}) == "it starts from dense seed 0, which is interrupted"


def test_a_parent_elsewhere_whose_worker_is_silent_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(lease_module, "STALE_S", 0.1)
    arms = {"dense": {}, "small": {"init_from": {"arm": "dense", "prune": {"by": "random", "keep": 3}}}}
    of = small_text.experiment(arms=arms, baseline="dense", samples=None)
    store = Store.create(tmp_path / "results", of)
    parent, child = (store.add(arm, seed) for arm, seed in of.runs)
    with Lease.take(parent.path / "lease") as lease:
        update(parent, lease, status="running")
    silent = replace(lease_module.this_process(), machine="another machine")
    (parent.path / "lease" / "000002.json").write_text(json.dumps(asdict(silent)))
    lines = RunDependencies([child], lambda _: 1.0)
    until = time.monotonic() + 10.0
    while not (said := lines.why_never(child, {})) and time.monotonic() < until:
        time.sleep(0.02)
    assert said.startswith("it starts from dense seed 0, which is interrupted")


@pytest.mark.slow
def test_a_sweep_trains_parents_first_and_says_why_children_of_failed_ones_fail(tmp_path):
    grow = {"init_from": {"arm": "wild"}, "training": {"steps": 0}}
    arms = {
        "child": grow,
        "grandchild": {"init_from": {"arm": "child"}, "training": {"steps": 0}},
        "wild": {"training": {"learning_rate": 1e14, "clip": None}},
        "small": {"init_from": {"arm": "tame", "prune": {"by": "random", "keep": 3}}, "training": {"steps": 0}},
        "tame": {"training": {"steps": 2}},
    }
    of = small_text.experiment(arms=arms, baseline="tame", samples=None)
    store = Store.create(tmp_path / "results", of)
    runs = [store.add(arm, seed) for arm, seed in of.runs]
    for _ in run_all(runs, local_places("cpu", workers=2, runs=len(runs))):
        pass
    found = {run.name: Run.open(run.path) for run in runs}
    assert {name: run.status for name, run in found.items()} == {
        "child": "failed", "grandchild": "failed", "wild": "failed", "small": "done", "tame": "done",
    }  # fmt: skip
    assert found["child"].message.startswith("it starts from wild seed 0, which failed: the loss of step")
    assert found["grandchild"].message.startswith(
        "it starts from child seed 0, which failed: it starts from wild seed 0"
    )


@pytest.mark.slow
def test_a_run_that_another_driver_holds_when_its_parent_has_failed_is_waited_for(tmp_path):
    arms = {
        "dense": {},
        "small": {"init_from": {"arm": "dense", "prune": {"by": "random", "keep": 3}}, "training": {"steps": 1}},
        "regrown": {"init_from": {"arm": "small", "regrow": True}, "training": {"steps": 1}},
    }
    of = small_text.experiment(arms=arms, baseline="dense", samples=None)
    store = Store.create(tmp_path / "results", of)
    runs = {arm.name: store.add(arm, seed) for arm, seed in of.runs}
    began, lease = time.monotonic(), Lease.take(runs["small"].path / "lease")
    killed = (sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    with contextlib.closing(run_all(list(runs.values()), local_places("cpu", workers=1, runs=3, command=killed))) as on:
        for snapshot in on:
            of_dense = next(run for run in snapshot.runs if run.name == "dense")
            if of_dense.status == "failed" and time.monotonic() - began > 1.0:
                lease.release()  # the other driver is done with it
            assert time.monotonic() - began < 20.0, "it waits for a run that has left its queue"
    assert {run.name: run.status for run in snapshot.runs} == dict.fromkeys(runs, "failed")
    assert "it starts from dense seed 0, which failed" in Run.open(runs["small"].path).message
