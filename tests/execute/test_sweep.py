"""Many runs on this machine: order, failures, signals, and two sweeps at once."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support import quadratic

from headway.errors import UserError
from headway.execute.places import local_places
from headway.execute.sweep import run_all
from headway.store.directory import Store
from headway.store.run import Run


def runs_of(directory, seeds=2, **document) -> list[Run]:
    of = quadratic.experiment(**document)
    store = Store.create(directory, of)
    return [store.add(arm, seed) for arm, seed in of.select(seeds=seeds).runs]


def last_of(snapshots):
    for snapshot in snapshots:
        last = snapshot
    return last


def sweep(runs, workers=2):
    return run_all(runs, quadratic.places(workers))


def statuses(runs) -> list[str]:
    return [Run.open(run.path).status for run in runs]


@pytest.fixture
def slow_steps(monkeypatch):
    monkeypatch.setenv("QUADRATIC_STEP_S", "0.005")


@pytest.mark.slow
def test_snapshots_show_what_runs_how_fast_and_how_long_it_takes(tmp_path, slow_steps, monkeypatch):
    runs = runs_of(tmp_path, steps=1000)
    with contextlib.closing(sweep(runs, workers=1)) as snapshots:
        for snapshot in snapshots:
            assert snapshot.count("running") == 1
            assert snapshot.count("waiting") == 3
            first = snapshot.runs[0]
            if first.steps_per_s and first.step > 100:
                break
    assert 0 < first.steps_per_s < 200
    assert first.seconds_left == pytest.approx((1000 - first.step) / first.steps_per_s)
    assert snapshot.seconds_left == pytest.approx((4000 - first.step) / first.steps_per_s)
    assert snapshot.elapsed_s > 0.5


def test_the_longest_runs_start_first(tmp_path, slow_steps):
    arms = {
        "short": {"training": {"steps": 20}},
        "long": {"training": {"steps": 2000}},
        "wide": {"model": {"n_heads": 64}},
    }
    runs = runs_of(tmp_path, seeds=1, arms=arms, baseline=None)
    with contextlib.closing(sweep(runs, workers=2)) as snapshots:
        running = [p.name for p in next(snapshots).runs if p.status == "running"]
    assert running == ["long", "wide"]


@pytest.mark.slow
def test_done_runs_are_left_alone_and_failed_ones_tried_again(tmp_path, monkeypatch):
    runs = runs_of(tmp_path, seeds=1)
    quadratic.train_here(runs[0])
    before = (runs[0].path / "run.json").stat().st_mtime_ns
    monkeypatch.setenv("QUADRATIC_ERROR", "no such luck")
    assert [p.message for p in last_of(sweep(runs)).runs] == ["", "RuntimeError: no such luck; log.txt says where"]
    monkeypatch.delenv("QUADRATIC_ERROR")
    last_of(sweep([Run.open(run.path) for run in runs]))
    assert statuses(runs) == ["done", "done"]
    assert (runs[0].path / "run.json").stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_worker_that_is_killed_is_noted_with_the_signal_and_goes_on_later(tmp_path, slow_steps, monkeypatch):
    runs = runs_of(tmp_path, seeds=1, steps=300)
    killed = False
    for snapshot in sweep(runs):
        if not killed and snapshot.runs[0].step > 5:
            os.kill(quadratic.owner(runs[0]), signal.SIGKILL)
            killed = True
        last = snapshot
    assert last.runs[0].status == "failed"
    assert "killed by SIGKILL" in last.runs[0].message
    assert statuses(runs) == ["failed", "done"]
    assert Run.open(runs[0].path).message == last.runs[0].message
    monkeypatch.setenv("QUADRATIC_STEP_S", "0")
    last_of(sweep([Run.open(run.path) for run in runs]))
    assert statuses(runs) == ["done", "done"]


def test_a_worker_that_cannot_even_begin_is_noted(tmp_path):
    runs = runs_of(tmp_path, seeds=1)
    broken = last_of(run_all(runs, quadratic.places(2, (sys.executable, "-c", "raise ImportError('half installed')"))))
    assert [p.status for p in broken.runs] == ["failed", "failed"]
    assert "exit code 1" in broken.runs[0].message
    assert "half installed" in (runs[0].path / "log.txt").read_text()
    missing = last_of(run_all(runs, quadratic.places(2, ("/no/such/python",))))
    assert "could not be started" in missing.runs[0].message


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_its_likes_stop_all_workers_which_store_where_they_are(tmp_path, slow_steps, number):
    runs = runs_of(tmp_path, seeds=1, steps=5000)
    process = subprocess.Popen([sys.executable, str(SWEEP), str(tmp_path)], stderr=subprocess.PIPE)
    quadratic.wait_until(lambda: all(run.records()[3:] for run in runs))
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert b"KeyboardInterrupt" in errors
    opened = [Run.open(run.path) for run in runs]
    assert [run.status for run in opened] == ["interrupted", "interrupted"]
    assert all(re.match(r"stopped at step \d+ with `headway run`; run again", run.message) for run in opened)
    assert all(run.weights() for run in opened)


def test_it_works_outside_the_main_thread(tmp_path):
    runs = runs_of(tmp_path, seeds=1)
    thread = threading.Thread(target=lambda: last_of(sweep(runs)))
    thread.start()
    thread.join(30)
    assert statuses(runs) == ["done", "done"]


def test_no_worker_is_a_users_error():
    with pytest.raises(UserError, match="workers 0: at least 1 is needed"):
        local_places(workers=0, runs=1)


def test_nothing_to_do_is_done_at_once():
    assert [snapshot.runs for snapshot in run_all([], ())] == [()]


SWEEP = Path(__file__).parents[1] / "support" / "sweep.py"
