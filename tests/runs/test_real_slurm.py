"""A real Slurm of one node: an array works until nothing is left, and a job that was told to end comes back."""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import loopback_slurm
import pytest
import quadratic

from headway.runs.slurm import submit
from headway.runs.store import Store
from headway.train import checkpoint

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    """The Slurm that answers here, or one of our own."""
    pytest.importorskip("submitit")
    if loopback_slurm.answers():
        yield
        return
    if why_not := loopback_slurm.why_not():
        pytest.skip(why_not)
    folder = Path(tempfile.mkdtemp(prefix="hw-slurm-"))  # the path of a socket has to be short
    try:
        with loopback_slurm.started(folder):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def asked(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def logs(directory: Path) -> str:
    return "\n".join(file.read_text() for file in sorted((directory / "slurm").glob("*_log.*")))


def test_an_array_works_until_nothing_is_left(cluster, tmp_path):
    of = quadratic.experiment(steps=12, seeds=2, controls={}, evaluation={"every": 7, "prompts": 100, "curve": None})
    Store.with_runs(tmp_path / "results", of, of.runs)
    jobs = submit(tmp_path / "results", array=2, time="0:10:00", options=("--slots", "1", "--device", "cpu"))
    assert len(jobs) == 2
    until = time.monotonic() + 180
    while asked("squeue", "-h", "-j", jobs[0].partition("_")[0]) and time.monotonic() < until:
        time.sleep(0.5)
    assert {run.status for run in Store.open(tmp_path / "results").runs()} == {"done"}, logs(tmp_path / "results")
    assert logs(tmp_path / "results").count("done: nothing is left") == 2


def test_a_job_whose_limit_is_near_stores_lets_go_and_waits_in_the_queue_again(cluster, tmp_path):
    of = quadratic.experiment(
        task={"kind": "regression", "d_x": 3, "n_pairs": 8},
        training={"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 16, "steps": 50_000_000},
        evaluation={"every": 10_000, "prompts": 100, "curve": None},
        logging={"every": 10_000},
        controls={},
        seeds=1,
    )
    directory = tmp_path / "long"
    Store.with_runs(directory, of, of.runs)
    (job,) = submit(directory, array=1, time="0:10:00", options=("--slots", "1", "--device", "cpu"))
    try:
        quadratic.wait_until(lambda: any(run.records() for run in Store.open(directory).runs()))
        began = time.monotonic()
        asked("scancel", "--signal=USR2", job)  # as Slurm does before the limit
        quadratic.wait_until(lambda: "Restarts=1" in asked("scontrol", "show", "job", job))
        assert time.monotonic() - began < 30
        (stored,) = [run for run in Store.open(directory).runs() if run.status == "interrupted"]
        assert checkpoint.load(stored.path / "checkpoint")[0].step > 0
        assert not quadratic.owner(stored)
    finally:
        asked("scancel", job)
