"""Joining the work on a directory: by lease, until nothing is left or it is time, and letting go on every signal."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest
from support import quadratic, stored

from headway.errors import ResultsError
from headway.execute.join import Joining
from headway.execute.sweep import ExecutionOptions, JoinedWorker
from headway.execute.work import DONE, ELSEWHERE, FAILED
from headway.store import checkpoint, lease
from headway.store.directory import Store
from headway.store.run import Run
from headway.store.watch import Watch

AS_SCRIPT = Path(__file__).parents[1] / "support" / "join.py"


def directory_of(tmp_path, **document) -> Path:
    of = quadratic.experiment(**document)
    Store.with_runs(tmp_path / "results", of, of.runs)
    return tmp_path / "results"


def joining(directory, **how) -> Joining:
    options = ExecutionOptions(workers=2, device="cpu", command=quadratic.WORKER)
    return Joining(directory=directory, options=options, **how)


def statuses(directory) -> list[str]:
    return [run.status for run in Store.open(directory).runs()]


def work(joined: Joining):
    return joined.work(partial(deque, maxlen=0), lambda _: None)


@pytest.mark.slow
def test_what_had_failed_before_is_left_alone_and_what_fails_meanwhile_is_counted(tmp_path, monkeypatch):
    directory = directory_of(tmp_path)
    first = Store.open(directory).runs()[0]
    stored.rewrite(first.path, status="failed", message="as it was")
    monkeypatch.setenv("QUADRATIC_ERROR", "no such luck")
    left = work(joining(directory))
    assert (left.failed, left.failed_here) == (4, 3)
    assert str(left) == "4 runs failed (`headway run` tries again)"
    assert Run.open(first.path).message == "as it was"


@pytest.mark.slow
def test_when_it_is_time_it_stores_and_says_what_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("QUADRATIC_STEP_S", "0.005")
    directory = directory_of(tmp_path, steps=20_000)
    left = work(joining(directory, until=time.monotonic() + 3))
    assert str(left) == "4 runs waiting"
    interrupted = [run for run in Store.open(directory).runs() if run.status == "interrupted"]
    assert len(interrupted) == 2
    assert all(checkpoint.load(run.path / "checkpoint")[0].step > 0 for run in interrupted)


@pytest.mark.slow
def test_what_is_added_meanwhile_is_done_too(tmp_path):
    directory, added = directory_of(tmp_path, seeds=1), []

    def watch(snapshots):
        for _ in snapshots:
            if not added:
                of = quadratic.experiment(seeds=1).select(seeds=2)
                added.extend(Store.with_runs(directory, quadratic.experiment(seeds=1), of.runs)[1])

    left = joining(directory).work(watch, lambda _: None)
    assert statuses(directory) == ["done"] * 4
    assert str(left) == "nothing is left"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_stores_where_it_is_and_lets_go_within_seconds(tmp_path, number):
    directory = directory_of(tmp_path, steps=20_000)
    environment = {**os.environ, "QUADRATIC_STEP_S": "0.005"}
    process = subprocess.Popen([sys.executable, str(AS_SCRIPT), str(directory)], env=environment)
    runs = Store.open(directory).runs()
    quadratic.wait_until(lambda: sum((lease_step(run) > 5) for run in runs) == 2)
    began = time.monotonic()
    process.send_signal(number)
    assert process.wait(60) == 130
    assert time.monotonic() - began < 15
    assert sorted(statuses(directory)) == ["interrupted"] * 2 + ["waiting"] * 2
    assert not any(quadratic.owner(run) for run in runs), "they are free at once"


def lease_step(run) -> int:
    sight = lease.seen(run.path / "lease")
    return sight.holder.step if sight and sight.holder else 0


@pytest.mark.slow
def test_any_number_of_workers_and_a_driver_share_a_directory(tmp_path):
    directory = directory_of(tmp_path, seeds=4)
    scripts = [AS_SCRIPT, AS_SCRIPT, AS_SCRIPT.with_name("sweep.py")]
    environment = {**os.environ, "QUADRATIC_STEP_S": "0.01"}
    processes = [subprocess.Popen([sys.executable, str(script), str(directory)], env=environment) for script in scripts]
    assert [process.wait(240) for process in processes] == [0, 0, 0]
    runs = Store.open(directory).runs()
    assert [run.status for run in runs] == ["done"] * 8
    for run in runs:
        assert [record["step"] for record in run.records()] == sorted({record["step"] for record in run.records()})
    # Nobody did what another had done: a lease per run, unless some wanted it at the same moment.
    assert sum(int(path.stem) for run in runs for path in (run.path / "lease").iterdir()) <= 12
    whole = quadratic.fresh_run(tmp_path / "undisturbed", seed=3)
    quadratic.train_here(whole)
    assert quadratic.lasting(Store.open(directory).run("slow", 3)) == quadratic.lasting(whole)


def test_a_joined_worker_is_whoever_has_the_lease_and_ends_with_what_the_folder_says(tmp_path):
    run = quadratic.fresh_run(tmp_path / "results")
    worker = JoinedWorker(runs=(run.path,), watch=Watch())
    assert not worker.is_at_work
    with quadratic.taken(run):
        assert worker.is_at_work
        assert worker.ended is None
        worker.ask_to_stop()
        worker.kill()
        assert worker.ended is None, "it works for somebody else"
        assert worker.has(lease.seen(run.path / "lease").holder)
    assert worker.ended == ELSEWHERE
    quadratic.train_here(run)
    assert worker.ended == DONE
    stored.rewrite(run.path, status="failed")
    assert worker.ended == FAILED


@pytest.mark.slow
def test_a_joined_worker_that_is_silent_is_given_up_and_its_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("headway.store.lease.STALE_S", 0.6)
    directory = directory_of(tmp_path, seeds=1)
    run = Store.open(directory).runs()[0]
    with quadratic.taken(run):
        pass
    sight = lease.seen(run.path / "lease")
    silent = replace(sight.holder, machine="another machine", released=False)
    (run.path / "lease" / "000001.json").write_text(json.dumps(asdict(silent)))
    work(joining(directory))
    assert statuses(directory) == ["done", "done"]


def test_a_directory_that_cannot_be_written_is_one_error_that_names_it(tmp_path, monkeypatch):
    directory = directory_of(tmp_path)

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("headway.execute.join.tempfile.TemporaryFile", refused)
    said = rf"{directory}: you cannot write there .* \(Permission denied\), .* make it writable"
    with pytest.raises(ResultsError, match=said):
        work(joining(directory))
    assert statuses(directory) == ["waiting"] * 4


def test_a_run_that_fails_and_cannot_say_so_is_tried_once(tmp_path, monkeypatch):
    directory, started = directory_of(tmp_path), []

    def refused(self, run, **_):
        started.append(run)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headway.execute.places.LocalPlace.start", refused)
    left = work(joining(directory))
    assert sorted(started) == sorted(run.path for run in Store.open(directory).runs())
    assert statuses(directory) == ["waiting"] * 4
    assert (left.waiting, left.failed, left.failed_here) == (0, 4, 4)
