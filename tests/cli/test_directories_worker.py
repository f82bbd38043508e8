"""The verbs with which others join: what they take, what they refuse, and what they say at the end."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from support import quadratic, stored
from support.typed import typed

from headway.store.directory import Store


@pytest.fixture
def directory(tmp_path):
    of = quadratic.brief(seeds=1)
    Store.with_runs(tmp_path / "results", of, of.runs)
    return tmp_path / "results"


def headway(*arguments, **environment):
    command = [sys.executable, "-m", "headway", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=300
    )


@pytest.mark.slow
def test_a_worker_ends_with_zero_when_nothing_is_left_and_says_so(directory):
    done = headway("worker", directory, "--slots", 1, "--device", "cpu", "--until", "10min")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done: nothing is left"
    assert [run.status for run in Store.open(directory).runs()] == ["done", "done"]
    again = headway("worker", directory)
    assert (again.returncode, again.stdout) == (0, "done: nothing is left\n")


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--tell-left",), 75)])
def test_a_worker_whose_time_is_up_says_what_is_left_and_tells_a_scheduler_by_its_exit_code(directory, options, code):
    done = headway("worker", directory, "--slots", 1, "--device", "cpu", "--until", "0.001s", *options)
    assert (done.returncode, done.stdout) == (code, "time is up: 2 runs waiting\n"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGUSR1, 75), (signal.SIGTERM, 130)])
def test_a_worker_that_a_scheduler_ends_soon_is_told_apart_from_one_that_somebody_ends(tmp_path, number, code):
    of = quadratic.endless(seeds=1)
    _, (run, _) = Store.with_runs(tmp_path / "results", of, of.runs)
    command = [sys.executable, "-m", "headway", "worker", str(tmp_path / "results"), "--slots", "1", "--tell-left"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    quadratic.wait_until(lambda: bool(run.records()))
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (code, "stopped; checkpoints are stored: 2 runs waiting\n")


def test_a_finished_run_that_is_gone_is_no_nothing(directory):
    runs = Store.open(directory).runs()
    for run in runs:
        quadratic.train_here(run)
    assert len(Store.open(directory).runs()) == 2, "they were seen to be done"
    done = typed("worker", directory, "--runs-per-gpu", 0)
    assert (done.returncode, done.stdout) == (2, ""), "what is wrong is told where nothing is left, too"
    shutil.rmtree(runs[0].path)
    done = typed("worker", directory)
    assert (done.returncode, done.stdout) == (0, "done: 1 run without a folder (`headway run` trains them again)\n")


@pytest.mark.slow
def test_a_worker_says_of_its_own_runs_alone_that_they_run(directory):
    runs = Store.open(directory).runs()
    with quadratic.taken(runs[0]):
        done = headway("worker", directory, "--slots", 1, "--device", "cpu", "--until", "12s")
    assert f"{runs[0].name} seed 0 running" not in done.stdout
    assert f"{runs[0].name} seed 0 is trained by {socket.gethostname()} {os.getpid()}\n" in done.stdout
    assert f"{runs[1].name} seed 0 done" in done.stdout
    assert done.stdout.splitlines()[-1] == "time is up: 1 run worked on by others"


def test_what_failed_before_stays_and_is_told_and_a_later_headway_is_refused(directory):
    runs = Store.open(directory).runs()
    for run in runs:
        stored.rewrite(run.path, status="failed", message="as it was")
    done = typed("worker", directory)
    assert (done.returncode, done.stdout) == (0, "done: 2 runs failed (`headway run` tries again)\n")
    file = runs[0].path / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema": 7}))
    done = typed("worker", directory)
    assert done.returncode == 2
    assert "was written by a later version of Headway (schema 7" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["worker", "nowhere"], "nowhere is not a results directory of Headway"),
        (["worker", "DIR", "--until", "2020-01-01"], "until 2020-01-01: this is past"),
        (["worker", "DIR", "--until", "soon"], "until soon: give a duration, such as 1h50m"),
        (["worker", "DIR", "--device", "tpu"], "device tpu: there is no such device"),
        (["worker", "DIR", "--runs-per-gpu", "0"], "runs per GPU 0: give 1 to 64"),
        (["worker", "DIR", "--runs-per-gpu", "4", "--device", "cpu"], "runs per GPU 4: device cpu has no GPU"),
        (["run", "DIR", "--runs-per-gpu", "4", "--device", "cpu"], "runs per GPU 4: device cpu has no GPU"),
        (["run", "DIR", "--ray", "auto", "--runs-per-gpu", "4", "--device", "cpu"], "device cpu has no GPU"),
        (["submit", "DIR", "--runs-per-gpu", "4", "--device", "cpu"], "runs per GPU 4: device cpu has no GPU"),
        (["submit", "DIR", "--time", "2h"], "time 2h: give the limit as Slurm writes it"),
        (["submit", "DIR", "--sbatch", "array=3"], "array is set by Headway"),
        (["run", "icl-heads", "--out", "DIR", "--ray", "nonsense"], "ray nonsense: give auto, or HOST:PORT"),
    ],
)
def test_what_cannot_be_done_is_one_clear_error(directory, arguments, message):
    done = typed(*[directory if argument == "DIR" else argument for argument in arguments])
    assert done.returncode == 2
    assert message in done.stderr
