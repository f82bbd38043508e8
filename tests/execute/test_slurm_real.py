"""A real Slurm of one node: an array works until nothing is left, and a job that was told to end comes back."""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from support import faults, quadratic

from headway.execute.slurm import submit
from headway.store import checkpoint
from headway.store.directory import Store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    """The Slurm that answers here, or one of our own."""
    pytest.importorskip("submitit")
    if faults.answers():
        yield
        return
    if why_not := faults.why_not():
        pytest.skip(why_not)
    folder = Path(tempfile.mkdtemp(prefix="hw-slurm-"))  # the path of a socket has to be short
    try:
        with faults.started(folder):
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def readme_line(directory: Path) -> list[str]:
    """The line of the documentation for a plain sbatch, with one job on this directory."""
    text = (Path(__file__).parents[2] / "docs/machines.md").read_text()
    found = re.search(r"^    sbatch (.*)\\\n +(.*)$", text, re.MULTILINE)
    assert found
    words = shlex.split(" ".join(found.groups()))
    worker = f"{sys.executable} -m headway worker {directory} --slots 1 --device cpu"
    words = [word.replace("headway worker DIR", worker).replace("--array=1-20", "--array=1") for word in words]
    assert worker in words[-1]
    return ["sbatch", "--parsable", f"--output={directory}/slurm-%a.txt", *words]


def asked(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def logs(directory: Path) -> str:
    return "\n".join(file.read_text() for file in sorted((directory / "slurm").glob("*_log.*")))


def test_an_array_works_until_nothing_is_left(cluster, tmp_path):
    of = quadratic.brief(seeds=2)
    Store.with_runs(tmp_path / "results", of, of.runs)
    jobs = submit(tmp_path / "results", array=2, time="0:10:00", options=("--slots", "1", "--device", "cpu"))
    assert len(jobs) == 2
    until = time.monotonic() + 180
    while asked("squeue", "-h", "-j", jobs[0].partition("_")[0]) and time.monotonic() < until:
        time.sleep(0.5)
    assert {run.status for run in Store.open(tmp_path / "results").runs()} == {"done"}, logs(tmp_path / "results")
    assert logs(tmp_path / "results").count("done: nothing is left") == 2


@pytest.mark.parametrize("how", ["submit", "the line of README"])
def test_a_job_whose_limit_is_near_stores_lets_go_and_waits_in_the_queue_again(cluster, tmp_path, how):
    of = quadratic.endless(seeds=1)
    directory = tmp_path / "long"
    Store.with_runs(directory, of, of.runs)
    if how == "submit":
        (job,), number = submit(directory, array=1, time="0:10:00", options=("--slots", "1", "--device", "cpu")), "USR2"
    else:
        job, number = asked(*readme_line(directory)).strip() + "_1", "USR1"
    try:
        quadratic.wait_until(lambda: any(run.records() for run in Store.open(directory).runs()))
        began = time.monotonic()
        asked("scancel", f"--signal={number}", job)  # as Slurm does before the limit
        quadratic.wait_until(lambda: "Restarts=1" in asked("scontrol", "show", "job", job))
        assert time.monotonic() - began < 30
        (stored,) = [run for run in Store.open(directory).runs() if run.status == "interrupted"]
        assert checkpoint.load(stored.path / "checkpoint")[0].step > 0
        assert not quadratic.owner(stored)
    finally:
        asked("scancel", job)


def test_a_job_of_readme_that_is_cancelled_does_not_come_back_and_one_with_nothing_left_ends(cluster, tmp_path):
    of = quadratic.brief(seeds=1)
    directory = tmp_path / "results"
    Store.with_runs(directory, of, of.runs)
    job = asked(*readme_line(directory)).strip()
    quadratic.wait_until(lambda: not asked("squeue", "-h", "-j", job))
    assert "done: nothing is left" in (directory / "slurm-1.txt").read_text()
    assert "Restarts=0" in asked("scontrol", "show", "job", f"{job}_1")
