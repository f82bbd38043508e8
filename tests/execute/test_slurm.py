"""Slurm: an array of joined workers is submitted, stores before its limit and is put back while something is left."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support import quadratic

from headway.errors import UserError
from headway.execute.slurm import SlurmJob, minutes_of, submit
from headway.store import checkpoint
from headway.store.directory import Store


@pytest.fixture
def directory(tmp_path):
    of = quadratic.experiment()
    Store.with_runs(tmp_path / "results", of, of.runs)
    return tmp_path / "results"


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder of programs that note how they were called; sbatch keeps the script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {
        "sbatch": f"cp $1 {tmp_path}/script.sh; echo Submitted batch job 4711",
        "srun": "exit 0",
        "scontrol": f"echo $@ >> {tmp_path}/scontrol.txt",
    }
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return tmp_path


def test_an_array_is_submitted_with_its_limit_its_signal_and_what_was_asked_for(directory, tools):
    pytest.importorskip("submitit")
    jobs = submit(directory, array=20, time="2:00:00", sbatch=["account=lab", "mem=4G"])
    assert jobs == tuple(f"4711_{n}" for n in range(20))
    script = (tools / "script.sh").read_text()
    for line in ("--time=120", "--array=0-19%20", "--signal=USR2@120", "--account=lab", "--mem=4G"):
        assert f"#SBATCH {line}\n" in script, script
    assert str(directory / "slurm") in script


def test_without_submitit_the_line_to_install_it(directory, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UserError, match=r"`pip install '\.\[slurm\]'` installs it"):
        submit(directory, array=1, time="1:00:00")


def test_where_there_is_no_slurm_it_says_so(directory, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="there is no sbatch here; submit from a machine of the cluster"):
        submit(directory, array=1, time="1:00:00")


def test_a_refused_submission_is_told_once_and_leaves_nothing(directory, tools, capfd):
    pytest.importorskip("submitit")
    (tools / "bin" / "sbatch").write_text("#!/bin/sh\necho sbatch: error: invalid partition specified >&2; exit 1\n")
    for _ in range(2):
        with pytest.raises(UserError, match=r"slurm: sbatch refused: .*invalid partition specified"):
            submit(directory, array=2, time="1:00:00", sbatch=["partition=none"])
        assert not (directory / "slurm").exists()
        assert capfd.readouterr() == ("", "")
    (directory / "slurm").mkdir()
    (directory / "slurm" / "of-before.pkl").touch()
    with pytest.raises(UserError):
        submit(directory, array=2, time="1:00:00")
    assert [file.name for file in (directory / "slurm").iterdir()] == ["of-before.pkl"]


def test_limits_are_as_slurm_writes_them():
    assert (minutes_of("30:00"), minutes_of("1:30:30")) == (30, 91)


NO_TIME, TOO_SHORT = "as Slurm writes it, such as 2:00:00", "give 5 minutes or more"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        *(({"array": array}, f"array {array}: give 1 to 10,000 jobs") for array in (0, 10_001)),
        *(({"time": limit}, NO_TIME) for limit in ("soon", "", "2h", "1:2:3:4")),
        *(({"time": limit}, TOO_SHORT) for limit in ("4", "0:30", "400-00:00:00")),
        *(({"sbatch": [given]}, "as KEY=VALUE") for given in ("partition", "mem=", "$(x)=1")),
        ({"sbatch": ["time=5"]}, "set by Headway"),
    ],
)
def test_what_cannot_be_submitted_is_refused(directory, asked, said):
    with pytest.raises(UserError, match=said):
        submit(directory, **{"array": 1, "time": "1:00:00", **asked})


JOB = """
import sys; sys.path.insert(0, {tests!r})
import subprocess, time
from submitit.core.submission import process_job
process_job({folder!r})
"""


@pytest.mark.slow
def test_the_signal_before_the_limit_stores_everything_and_has_the_job_put_back(tools, monkeypatch):
    """Slurm itself is not there: the signal is sent as it does, to every process of the job."""
    pytest.importorskip("submitit")
    from submitit.core.utils import DelayedSubmission, JobPaths

    of = quadratic.endless()
    directory = tools / "long"
    Store.with_runs(directory, of, of.runs)
    paths = JobPaths(tools / "slurm", job_id="4711_0", task_id=0)
    paths.folder.mkdir()
    waiting = DelayedSubmission(SlurmJob(str(directory), ("--slots", "2", "--device", "cpu")))
    waiting.set_timeout(60, 1000)
    waiting.dump(paths.submitted_pickle)
    environment = {
        **os.environ,
        "SUBMITIT_EXECUTOR": "slurm",
        "SUBMITIT_FOLDER": str(tools / "slurm"),
        "SLURM_JOB_ID": "4712",
        "SLURM_ARRAY_JOB_ID": "4711",
        **{f"SLURM_{name}": "0" for name in ("ARRAY_TASK_ID", "PROCID", "LOCALID", "NODEID")},
        **{f"SLURM_{name}": "1" for name in ("NTASKS", "JOB_NUM_NODES")},
    }
    code = JOB.format(tests=str(Path(__file__).parents[1]), folder=str(tools / "slurm"))
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    runs = Store.open(directory).runs()
    quadratic.wait_until(lambda: all(quadratic.owner(run) for run in runs[:2]) or process.poll() is not None)
    quadratic.wait_until(lambda: sum(bool(run.records()) for run in runs) >= 2 or process.poll() is not None)
    for pid in [process.pid, *[quadratic.owner(run) for run in runs if quadratic.owner(run)]]:
        os.kill(pid, signal.SIGUSR2)
    process.wait(120)
    assert (tools / "scontrol.txt").read_text() == "requeue 4711_0\n"
    stored = [run for run in Store.open(directory).runs() if run.status == "interrupted"]
    assert len(stored) == 2
    assert all(checkpoint.load(run.path / "checkpoint")[0].step > 0 for run in stored)


def test_a_worker_that_has_stored_is_waited_for_no_longer(directory, tmp_path, monkeypatch):
    """The handler of the signal interrupts a call that waits for the worker already."""
    pytest.importorskip("submitit")
    worker = tmp_path / "worker"
    worker.write_text(f"#!/bin/sh\ntrap 'exit 0' TERM\ntouch {tmp_path}/begun\nwhile :; do sleep 0.05; done\n")
    worker.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(worker))
    job, took = SlurmJob(str(directory)), []

    def at_limit(_number, _frame):
        began = time.monotonic()
        assert job.checkpoint() is not None
        took.append(time.monotonic() - began)

    def send_when_begun():
        quadratic.wait_until((tmp_path / "begun").exists)
        os.kill(os.getpid(), signal.SIGALRM)

    waiting = threading.Thread(target=send_when_begun)
    former = signal.signal(signal.SIGALRM, at_limit)
    try:
        waiting.start()
        assert job() == 0
    finally:
        signal.signal(signal.SIGALRM, former)
        waiting.join()
    assert took[0] < 10


def test_a_job_with_nothing_left_is_not_put_back(directory):
    pytest.importorskip("submitit")
    assert SlurmJob(str(directory)).checkpoint() is not None
    for run in Store.open(directory).runs():
        quadratic.train_here(run)
    assert SlurmJob(str(directory)).checkpoint() is None
