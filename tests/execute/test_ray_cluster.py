"""What private Rays and copies of runs leave when their process is killed: a later one removes it, and nothing else."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest
from support import quadratic

from headway.execute.ray_cluster import PRIVATE, Scratch, sweep
from headway.execute.ray_copies import RaySlot
from headway.store.lease import this_process


@pytest.fixture
def there(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def folder_of(there: Path, name: str, **owner) -> Path:
    (there / name / "session").mkdir(parents=True)
    text = json.dumps(asdict(replace(this_process(), **owner)))
    (there / name / "headway.json").write_text(text)
    return there / name


def an_ended_process() -> int:
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid


def test_a_folder_is_there_for_the_block(there):
    with Scratch(PRIVATE) as folder:
        assert folder.is_dir()
        sweep(PRIVATE)
        assert folder.is_dir(), "its process lives"
    assert not folder.exists()


def test_what_a_killed_process_left_is_removed_by_the_next(there):
    left = folder_of(there, "hw-ray-left", pid=an_ended_process(), born=1)
    with Scratch(PRIVATE):
        assert not left.exists()


def test_nothing_else_is_removed(there, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "mine.txt").write_text("kept")
    kept = [
        folder_of(there, "hw-ray-alive"),
        folder_of(there, "hw-ray-of-another-machine", machine="another", pid=an_ended_process(), born=1),
        folder_of(there, "another-name", pid=an_ended_process(), born=1),
    ]
    (there / "hw-ray-unknown").mkdir()
    (there / "hw-ray-link").symlink_to(folder_of(elsewhere, "theirs", pid=an_ended_process(), born=1))
    needed = folder_of(there, "hw-ray-needed", pid=an_ended_process(), born=1)
    with subprocess.Popen([sys.executable, "-c", "input()", str(needed)], stdin=subprocess.PIPE) as still:
        sweep(PRIVATE)
        assert all(folder.exists() for folder in (*kept, needed, there / "hw-ray-unknown"))
        assert (elsewhere / "theirs" / "session").is_dir()
        still.communicate(os.linesep.encode())
    sweep(PRIVATE)
    assert not needed.exists()


def test_a_slot_removes_what_slots_of_lost_nodes_left(there):
    left = folder_of(there, "headway-ray-left", pid=an_ended_process(), born=1)
    kept = folder_of(there, "headway-ray-alive")
    slot = RaySlot("cpu", 1, command=(sys.executable, "-c", "pass"), lasts=False)
    slot.copy("arm/seed-0", {"run.json": b"{}"})
    assert not left.exists()
    assert len(list(there.glob("headway-ray-*/runs/arm/seed-0/run.json"))) == 1
    slot.rest()
    assert list(there.iterdir()) == [kept]


OWNER = """
import subprocess, sys
from headway.execute.ray_cluster import Scratch
scratch = Scratch("hw-ray-", guarded=True)
sleeps = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
sleeping = [sys.executable, "-c", sleeps]
(scratch.path / "read").write_text("read")
named = subprocess.Popen([*sleeping, str(scratch.path)], stdout=subprocess.DEVNULL)
writes = subprocess.Popen(sleeping, stdout=open(scratch.path / "log", "w"))
reads = subprocess.Popen(sleeping, stdout=subprocess.DEVNULL, stdin=open(scratch.path / "read"))
print(scratch.path, scratch._guard.pid, named.pid, writes.pid, reads.pid, flush=True)
sys.stdin.read()
named.kill(), writes.kill(), named.wait(), writes.wait()
scratch.remove()
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "ends"])
def test_when_its_owner_is_killed_a_guard_ends_what_works_there_and_removes_it(tmp_path, is_killed):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", OWNER]
    owner = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    folder, *pids = owner.stdout.readline().split()
    guard, *workers, reads = (psutil.Process(int(pid)) for pid in pids)
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            guard.send_signal(number)
        assert quadratic.lives(guard)
        assert Path(folder).is_dir()
        began = time.monotonic()
        if is_killed:
            owner.kill()
        owner.stdin.close()
        owner.wait(timeout=60)
        quadratic.wait_until(lambda: not Path(folder).exists() and not any(map(quadratic.lives, (guard, *workers))))
        assert time.monotonic() - began < 15
        assert owner.returncode == (-signal.SIGKILL if is_killed else 0)
        assert quadratic.lives(reads), "whoever looks at a file there is left alone"
    finally:
        for process in (*workers, reads):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def test_where_its_owner_cannot_be_written_nothing_is_left(there, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        Scratch(PRIVATE)
    assert list(there.iterdir()) == []
