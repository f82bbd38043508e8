"""A full disk, or one that cannot be written: nothing recorded is lost, and it is said."""

import contextlib
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults import full_disks
from support import quadratic

from headway.base.files import derived
from headway.errors import ResultsError, StorageFailed
from headway.execute.sweep import run_all
from headway.icl import fused
from headway.store.directory import Store
from headway.store.storage import UNREACHABLE, disk_full, failure, stored, why_no_room

NATIVE = "icl, native" if fused.available() is None else "known answers"

pytestmark = pytest.mark.filterwarnings("ignore:.*the last line was cut short")


@contextlib.contextmanager
def small_disk(at, kilobytes):
    """A file system of a size, mounted."""
    at.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(at)]
    if os.geteuid() != 0 or sys.platform != "linux" or subprocess.run(mount, check=False).returncode:
        pytest.skip("only root can mount a file system into the process of a test (see the test that fills disks)")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("free_bytes", [8_192, 24_576], ids=["full at once", "full on the way"])
def test_on_a_small_disk_a_sweep_says_that_it_is_full_and_goes_on_when_there_is_space(tmp_path, free_bytes):
    with small_disk(tmp_path / "disk", 160) as disk:
        of = quadratic.experiment(steps=300)
        store = Store.create(disk / "results", of)
        run = store.add(of.arm("slow"), 0)
        fill(disk, free_bytes)
        with contextlib.suppress(StorageFailed):
            for snapshot in run_all([run], quadratic.places(1)):
                last = snapshot.runs[0]
        assert last.status == "failed"
        assert "the disk is full; nothing recorded is lost: free some space" in last.message
        assert (len(run.records()) > 3) is (free_bytes > 10_000)
        (disk / "ballast").unlink()
        for _ in run_all(store.runs(), quadratic.places(1)):
            pass
        assert store.run("slow", 0).status == "done"
        finished = quadratic.lasting(run)
    undisturbed = quadratic.fresh_run(tmp_path / "undisturbed", steps=300)
    quadratic.train_here(undisturbed)
    assert finished == quadratic.lasting(undisturbed)


def test_where_no_run_can_be_stored_all_of_them_end_and_one_error_says_why(tmp_path):
    with small_disk(tmp_path / "disk", 160) as disk:
        of = quadratic.experiment(steps=300)
        runs = Store.with_runs(disk / "results", of, of.runs)[1]
        fill(disk, 8_192)
        snapshots = []
        full = r"results cannot be written: the disk is full\. Nothing .* is lost"
        with pytest.raises(StorageFailed, match=full) as said:
            snapshots.extend(run_all(runs, quadratic.places(2)))
        advice = f"Free some space there, then run the same command again, or `headway run {disk}/results`"
        assert advice in str(said.value)
        assert snapshots[-1].count("waiting") >= 2, "those that had not begun wait"
        assert all(lines(run) == run.records() for run in runs)


def fill(disk, but_for):
    """Leave so many bytes."""
    (disk / "ballast").write_bytes(b"x" * (os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize - but_for))


def lines(run):
    """What a run has recorded in whole lines."""
    file = run.path / "metrics.jsonl"
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]] if file.exists() else []


@pytest.mark.parametrize(
    ("options", "said"),
    [("size=1m", "the disk is full"), ("size=50m,nr_inodes=12", "no inode is left for a new file")],
    ids=["bytes", "inodes"],
)
def test_a_lack_of_inodes_is_distinguished_from_a_lack_of_bytes(tmp_path, options, said):
    with small_disk(tmp_path / "disk", 50_000) as disk:
        subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)
        error = why_no_room(disk)
        assert error is not None
        assert not list(disk.iterdir()), "nothing is left of what was tried"
        for number in range(11):
            (disk / str(number)).touch()
        if "inodes" not in options:
            fill(disk, 0)
        assert f"{disk} cannot be written: {said}. Nothing recorded is lost." in str(failure(disk, error))
        assert disk_full(disk).startswith(said)
        with pytest.raises(StorageFailed, match="cannot be written"), derived(disk / "page.html"):
            (disk / "page.html").write_bytes(b"x" * 4096)


def test_where_there_is_room_there_is_no_reason_to_end(tmp_path):
    assert why_no_room(tmp_path) is None
    assert why_no_room(tmp_path, 10**18).errno == errno.ENOSPC


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EDQUOT, "the disk quota is used up. Nothing recorded is lost. Free some of your space there"),
        (errno.EROFS, "Read-only file system. Nothing recorded is lost. Mount it for writing"),
        (errno.EIO, "Input/output error. Nothing recorded is lost. Check its file system"),
    ],
)
def test_other_ways_to_fail_are_told_as_they_are(tmp_path, number, said):
    with pytest.raises(StorageFailed) as told, stored(tmp_path):
        raise OSError(number, os.strerror(number), str(tmp_path / "runs"))
    assert str(told.value) == f"{tmp_path} cannot be written: {said}, then run the same command again to resume."


def test_what_is_full_elsewhere_is_named_and_what_is_no_failure_of_a_disk_passes(tmp_path):
    with pytest.raises(StorageFailed, match="/elsewhere/cache cannot be written"), stored(tmp_path):
        raise OSError(errno.EIO, "Input/output error", "/elsewhere/cache")
    with pytest.raises(PermissionError), stored(tmp_path):
        raise PermissionError(13, "Permission denied")


@pytest.mark.slow
def test_headway_run_ends_on_full_disks_says_why_and_goes_on_with_equal_bits():
    script = Path(full_disks.__file__)
    try:
        before = full_disks.as_root()
    except PermissionError as error:
        pytest.skip(str(error))
    command = [*before, sys.executable, str(script), "--ways", "3", "--laboratories", NATIVE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("with equal bits") == 3
    assert "no inode is left for a new file" in done.stdout
    assert "the disk is full" in done.stdout


def test_where_nothing_can_be_written_it_says_so(tmp_path):
    with small_disk(tmp_path / "disk", 160) as disk:
        of = quadratic.experiment()
        store = Store.create(disk / "results", of)
        run = store.add(of.arm("slow"), 0)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        said = "cannot be written: Read-only file system; choose another directory"
        for write in (lambda: Store.create(disk / "other", of), lambda: store.add(of.arm("fast"), 0)):
            with pytest.raises(ResultsError, match=said):
                write()
        assert Store.create(disk / "results", of).runs()[0].status == "waiting", "reading is possible"
        with contextlib.suppress(StorageFailed):
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
