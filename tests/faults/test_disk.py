"""A full disk, or one that cannot be written: nothing recorded is lost, and it is said."""

import contextlib
import itertools
import os
import subprocess
import sys

import faulty
import pytest
import quadratic

from headway.errors import ResultsError
from headway.runs.folder import Run
from headway.runs.local import run_all
from headway.runs.storage import DISK_FULL, UNREACHABLE
from headway.runs.store import Store
from headway.runs.work import DONE

pytestmark = pytest.mark.filterwarnings("ignore:.*the last line was cut short")


@contextlib.contextmanager
def small_disk(at, kilobytes):
    """A file system of a size, mounted."""
    at.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(at)]
    if os.geteuid() != 0 or sys.platform != "linux" or subprocess.run(mount, check=False).returncode:
        pytest.skip("this user cannot mount a file system")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


@pytest.mark.slow
def test_full_from_any_operation_on_nothing_recorded_is_lost(tmp_path):
    undisturbed = quadratic.fresh_run(tmp_path / "undisturbed", steps=12)
    quadratic.train_here(undisturbed)
    whole = quadratic.lasting(undisturbed)
    for number in itertools.count(1):
        run = quadratic.fresh_run(tmp_path / str(number), steps=12)
        code = faulty.working(run, number, faulty.disk_full)
        if code == DONE:
            break
        assert code == DISK_FULL, f"full from operation {number} on"
        assert Run.open(run.path).status in ("waiting", "interrupted", "done"), "it cannot be written that it failed"
        recorded = [record["step"] for record in run.records()]
        assert quadratic.train_here(run) == DONE
        assert quadratic.lasting(run) == whole
        assert [record["step"] for record in run.records()][: len(recorded)] == recorded
    assert number > 60


@pytest.mark.parametrize("free_bytes", [8_192, 24_576], ids=["full at once", "full on the way"])
def test_on_a_small_disk_a_sweep_says_that_it_is_full_and_goes_on_when_there_is_space(tmp_path, free_bytes):
    with small_disk(tmp_path / "disk", 160) as disk:
        of = quadratic.experiment(steps=300)
        store = Store.create(disk / "results", of)
        run = store.add(of.arm("slow"), 0)
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * (os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize - free_bytes))
        for snapshot in run_all([run], quadratic.places(1)):
            last = snapshot.runs[0]
        assert last.status == "failed"
        assert "the disk is full; nothing recorded is lost: free some space" in last.message
        assert (len(run.records()) > 3) is (free_bytes > 10_000)
        ballast.unlink()
        for _ in run_all(store.runs(), quadratic.places(1)):
            pass
        assert store.run("slow", 0).status == "done"
        finished = quadratic.lasting(run)
    undisturbed = quadratic.fresh_run(tmp_path / "undisturbed", steps=300)
    quadratic.train_here(undisturbed)
    assert finished == quadratic.lasting(undisturbed)


def test_where_nothing_can_be_written_it_says_so(tmp_path):
    with small_disk(tmp_path / "disk", 160) as disk:
        of = quadratic.experiment()
        run = Store.create(disk / "results", of).add(of.arm("slow"), 0)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(ResultsError, match="cannot be written: Read-only file system; choose another directory"):
            Store.create(disk / "other", of)
        with pytest.raises(ResultsError, match="cannot be written: Read-only file system; choose another directory"):
            Store.open(disk / "results").add(of.arm("fast"), 0)
        assert Store.create(disk / "results", of).runs()[0].status == "waiting", "reading is possible"
        for snapshot in run_all([run], quadratic.places(1)):
            last = snapshot.runs[0]
        assert last.status == "failed"
        assert "Read-only file system" in last.message
        worker = subprocess.run([*quadratic.WORKER, str(run.path)], capture_output=True, text=True, check=False)
        assert worker.returncode == UNREACHABLE
        assert "cannot be written: Read-only file system" in worker.stdout


def test_without_permission_it_says_so(tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refused)
    with pytest.raises(ResultsError, match="cannot be written: Permission denied; choose another directory"):
        Store.create(tmp_path / "results", quadratic.experiment())
