"""What private Rays and copies of runs leave when their process is killed: a later one removes it, and nothing else."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from headway.runs.lease_files import this_process
from headway.runs.ray_address import PRIVATE
from headway.runs.ray_slot import RaySlot
from headway.runs.scratch import Scratch, sweep


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


def test_where_its_owner_cannot_be_written_nothing_is_left(there, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        Scratch(PRIVATE)
    assert list(there.iterdir()) == []
