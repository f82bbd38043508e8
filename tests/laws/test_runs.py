"""Killed at any moment and started again, a run ends with the same bits; racing writers lose nothing."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from support import faults, quadratic

from headway.execute.work import DONE, ELSEWHERE
from headway.icl import fused
from headway.store.run import Run

pytestmark = pytest.mark.filterwarnings("ignore:.*the last line was cut short")


@pytest.fixture
def undisturbed(tmp_path):
    def of(**document):
        run = quadratic.fresh_run(tmp_path / "undisturbed", **document)
        assert quadratic.train_here(run) == DONE
        return quadratic.lasting(run)

    return of


@pytest.mark.slow
def test_killed_at_any_operation_and_started_again_it_ends_with_the_same_bits(tmp_path, undisturbed):
    whole = undisturbed(steps=8)
    for number in itertools.count(1):
        run = quadratic.fresh_run(tmp_path / str(number), steps=8)
        code = faults.working(run, number, faults.die)
        if code == DONE:
            break
        assert code == faults.KILLED
        assert Run.open(run.path).status in ("waiting", "interrupted", "done")
        before = run.records()
        assert quadratic.train_here(run) == DONE
        assert quadratic.lasting(run) == whole, f"killed at operation {number}"
        assert [record["step"] for record in run.records()][: len(before)] == [record["step"] for record in before]
    assert number > 60, "there are that many operations to be killed at"


@pytest.mark.slow
def test_killed_again_and_again_at_any_operations_it_ends_with_the_same_bits(tmp_path, undisturbed):
    whole = undisturbed(steps=40)
    chance = random.Random(0)
    for number in range(12):
        run = quadratic.fresh_run(tmp_path / str(number), steps=40)
        kills = 0
        while faults.working(run, chance.randrange(1, 160), faults.die) != DONE:
            kills += 1
        assert quadratic.lasting(run) == whole, f"after {kills} kills"
        assert not list(run.path.rglob(".*")), "nothing is left of what was half-written"


@pytest.mark.slow
def test_killed_at_any_time_and_started_again_it_ends_with_the_same_bits(tmp_path, undisturbed, monkeypatch):
    whole = undisturbed(steps=400)
    monkeypatch.setenv("QUADRATIC_STEP_S", "0.001")
    monkeypatch.setenv("QUADRATIC_CHECKPOINT_S", "0.05")
    run = quadratic.fresh_run(tmp_path / "run", steps=400)
    chance, kills = random.Random(1), 0
    while Run.open(run.path).status != "done":
        process = subprocess.Popen([*quadratic.WORKER, str(run.path)])
        before = quadratic.owner(run)
        quadratic.wait_until(lambda: quadratic.owner(run) == process.pid or process.poll() is not None)  # noqa: B023
        try:
            process.wait(chance.uniform(0.02, 0.4))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
        assert before != process.pid
    assert kills >= 2
    assert quadratic.lasting(run) == whole


@pytest.mark.slow
def test_of_racing_processes_one_works_and_nothing_is_lost(tmp_path, undisturbed, monkeypatch):
    whole = undisturbed(steps=60)
    monkeypatch.setenv("QUADRATIC_STEP_S", "0.08")
    run = quadratic.fresh_run(tmp_path / "run", steps=60)
    processes = [subprocess.Popen([*quadratic.WORKER, str(run.path)], stdout=subprocess.DEVNULL) for _ in range(4)]
    assert sorted(process.wait(120) for process in processes) == [DONE] + [ELSEWHERE] * 3
    assert quadratic.lasting(run) == whole


@pytest.mark.slow
def test_a_suspended_owner_that_wakes_up_loses_nothing_of_its_successor(tmp_path, undisturbed, monkeypatch):
    whole = undisturbed(steps=60)
    monkeypatch.setenv("QUADRATIC_STEP_S", "0.05")
    monkeypatch.setenv("QUADRATIC_CHECKPOINT_S", "0.0")
    run = quadratic.fresh_run(tmp_path / "run", steps=60)
    sleeper = subprocess.Popen([*quadratic.WORKER, str(run.path)])
    quadratic.wait_until(lambda: len(run.records()) > 4)
    sleeper.send_signal(signal.SIGSTOP)
    time.sleep(0.05)
    quadratic.given_up(run)
    successor = subprocess.Popen([*quadratic.WORKER, str(run.path)])
    quadratic.wait_until(lambda: quadratic.owner(run) == successor.pid)
    sleeper.send_signal(signal.SIGCONT)
    assert sleeper.wait(120) == ELSEWHERE
    assert successor.wait(120) == DONE
    assert quadratic.lasting(run) == whole
    assert f"process {successor.pid}" in (run.path / "log.txt").read_text()


def test_the_checkpoint_is_never_ahead_of_the_records(tmp_path):
    run = quadratic.fresh_run(tmp_path / "run", steps=12)
    for number in range(10, 100, 7):
        if faults.working(run, number, faults.die) == DONE:
            break
        commits = [json.loads(path.read_text()) for path in run.path.glob("checkpoint/*.json")]
        steps = {commit.get("unrecorded", {}).get("since", commit["step"]) for commit in commits}
        assert steps <= {record["step"] for record in run.records()}
    assert os.listdir(run.path / "checkpoint")


REAL = {
    "task": {"kind": "regression", "d_x": 3, "n_pairs": 8},
    "evaluation": {"every": 100, "prompts_during": 100, "prompts": 500, "curve": {"prompts": 100, "longest": 20}},
    "probes": {"every": 50, "circuits": [1, 500]},
    "logging": {"every": 50},
}


@pytest.mark.slow
@pytest.mark.parametrize(("trainer", "steps"), [("fused", 60_000), ("torch", 1_000)])
def test_the_laboratorys_runs_end_with_the_same_bits_too(tmp_path, trainer, steps):
    if trainer == "fused" and fused.available() is None:
        pytest.skip("the native code is not built")
    command = [sys.executable, "-m", "headway.execute.worker", "--trainer", trainer]
    of = {**REAL, "training": {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 16, "steps": steps}}
    undisturbed = quadratic.fresh_run(tmp_path / "undisturbed", **of)
    assert subprocess.run([*command, str(undisturbed.path)], check=False).returncode == DONE
    run = quadratic.fresh_run(tmp_path / "run", **of)
    stops = 0
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        process, before = subprocess.Popen([*command, str(run.path)]), len(run.records())
        quadratic.wait_until(lambda: len(run.records()) > before + 2 or process.poll() is not None)  # noqa: B023
        process.send_signal(number)
        stops += process.wait(60) != DONE
    assert subprocess.run([*command, str(run.path)], check=False).returncode == DONE
    assert quadratic.lasting(run) == quadratic.lasting(undisturbed)
    assert stops > 0
    assert Run.open(run.path).execution["trainer"] == trainer
    assert ("torch" in Run.open(run.path).execution["versions"]) is (trainer == "torch")
