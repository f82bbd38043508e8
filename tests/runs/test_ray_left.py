"""What private Rays leave when the process that started one is killed: a later one removes it, and nothing else."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from headway.runs.lease_files import this_process
from headway.runs.ray_left import private_folder_of_ray, sweep


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
    with private_folder_of_ray() as folder:
        assert Path(folder).is_dir()
        sweep()
        assert Path(folder).is_dir(), "its process lives"
    assert not Path(folder).exists()


def test_what_a_killed_process_left_is_removed_by_the_next(there):
    left = folder_of(there, "hw-ray-left", pid=an_ended_process(), born=1)
    with private_folder_of_ray():
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
        sweep()
        assert all(folder.exists() for folder in (*kept, needed, there / "hw-ray-unknown"))
        assert (elsewhere / "theirs" / "session").is_dir()
        still.communicate(os.linesep.encode())
    sweep()
    assert not needed.exists()
