"""Code of one's own goes where runs are worked on: to processes, to machines that join, to copies."""

import os
import subprocess
import sys

import pytest
from support.own_code import DOCUMENT, ECHO
from support.own_code import write as write

import headway
from headway.store.directory import Store
from headway.store.run import Run


@pytest.fixture
def runs(write, tmp_path):
    """Waiting runs; the file that they were made with is gone."""
    mine = write(ECHO)
    experiment = headway.load(DOCUMENT)
    _, runs = Store.with_runs(tmp_path / "results", experiment, experiment.runs)
    mine.unlink()
    return runs


def elsewhere(tmp_path, *command):
    """What a command does for a user that has not run the code yet."""
    environment = {**os.environ, "HEADWAY_CACHE": str(tmp_path / "other-cache")}
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.slow
def test_who_joins_the_work_runs_it_and_who_only_reads_does_not(runs, tmp_path):
    read = elsewhere(tmp_path, "headway", "status", "results")
    assert read.returncode == 2
    assert "which you have not run here yet and which reading its runs would run" in read.stderr
    assert read.stderr.splitlines()[-1].startswith("headway status results --plugin results/plugins/mine-")
    joined = elsewhere(tmp_path, "headway", "worker", "results", "--slots", "1")
    assert joined.returncode == 0, joined.stderr
    assert "plugin plugins/mine-" in joined.stderr
    assert {Run.open(run.path).status for run in runs} == {"done"}
    assert elsewhere(tmp_path, "headway", "status", "results").returncode == 0
