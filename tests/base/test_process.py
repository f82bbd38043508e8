"""Commands that are run: nothing of them is left."""

import subprocess
import sys

import pytest
from support.processes import ends, is_running

from headway.base.process import RunningCommand


def test_what_a_command_started_ends_with_it(tmp_path):
    program = """
import subprocess, time
process = subprocess.Popen(["sleep", "60"])
open("pid", "w").write(str(process.pid))
time.sleep(60)
"""
    with RunningCommand([sys.executable, "-S", "-c", program], folder=tmp_path) as command:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert command.wait(0.05) is None
        pid = int((tmp_path / "pid").read_text())
        assert is_running(pid)
    ends(pid)


def test_what_a_command_left_behind_ends(tmp_path):
    program = "import os, subprocess; open('pid', 'w').write(str(subprocess.Popen(['sleep', '60']).pid))"
    with RunningCommand([sys.executable, "-S", "-c", program], folder=tmp_path) as command:
        assert command.wait(60) == 0
        ends(int((tmp_path / "pid").read_text()))


def test_what_a_command_started_ends_when_this_process_is_killed(tmp_path):
    program = f"""
import os, time
from headway.base.process import RunningCommand
command = RunningCommand(["sh", "-c", "sleep 60 & echo $! > pid; wait"], folder={str(tmp_path)!r})
while not os.path.exists({str(tmp_path / "pid")!r}):
    command.wait(0.05)
time.sleep(0.1)
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    ends(int((tmp_path / "pid").read_text()))


def test_without_a_guard_no_command_runs(tmp_path, monkeypatch):
    started = []

    def popen(words, **options):
        if words[0] == "/bin/sh":
            raise BlockingIOError("no more processes")
        started.append(real(words, **options))
        return started[0]

    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", popen)
    with RunningCommand(["sleep", "60"], folder=tmp_path) as command, pytest.raises(BlockingIOError):
        command.wait()
    ends(started[0].pid)


def test_variables_and_the_folder_are_its_own(tmp_path):
    program = "import os; open('said', 'w').write(os.environ['MINE'])"
    with RunningCommand([sys.executable, "-S", "-c", program], folder=tmp_path, environment={"MINE": "7"}) as command:
        assert command.wait(60) == 0
    assert (tmp_path / "said").read_text() == "7"
