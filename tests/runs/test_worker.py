"""The worker process: its threads, its trainer, and when it ends."""

import os
import subprocess
import sys

import pytest
import quadratic
import stored

from headway.runs import worker
from headway.runs.folder import Run

WORKER = (sys.executable, "-m", "headway.runs.worker")


def test_the_threads_are_set_before_numpy_is_imported():
    script = (
        "import sys; from headway.runs import worker; assert 'numpy' not in sys.modules; "
        "import os; os.environ.pop('OMP_NUM_THREADS', None); code = worker.main(['nowhere', '--threads', '3']); "
        "print(code, os.environ['OMP_NUM_THREADS'], os.environ['OPENBLAS_NUM_THREADS'], 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "2 3 3 False\n"
    assert "nowhere holds no run" in result.stderr


def test_a_run_has_the_threads_it_began_with(tmp_path):
    run = quadratic.fresh_run(tmp_path / "results")
    assert worker._stored_threads(run.path) is None, "it has not begun"
    stored.rewrite(run.path, execution={"threads": 7})
    assert worker._stored_threads(run.path) == 7
    (run.path / "run.json").unlink()
    assert worker._stored_threads(run.path) is None


@pytest.mark.parametrize(
    ("trainer", "stored", "asked"),
    [
        ("auto", {}, ("auto", None)),
        ("auto", {"trainer": "torch", "compile": True}, ("torch", True)),
        ("auto", {"trainer": "fused"}, ("auto", None)),
        ("fused", {"trainer": "torch", "compile": False}, ("fused", False)),
    ],
)
def test_a_run_that_goes_on_has_the_trainer_and_compilation_it_began_with(monkeypatch, trainer, stored, asked):
    calls = []

    class Room:
        @staticmethod
        def open_study(spec, *, trainer, compile, device):
            calls.append((trainer, compile))
            return quadratic.study(spec)

    monkeypatch.setattr("headway.train.laboratory.laboratory_of", lambda spec: Room)
    spec = quadratic.experiment().arm("slow").spec(0)
    study = worker._open_study(spec, stored, trainer=trainer, threads=2)
    assert calls == [asked]
    assert study.execution["threads"] == 2


def test_a_folder_without_a_run_is_a_users_error(tmp_path):
    result = subprocess.run([*WORKER, str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "holds no run" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_worker_ends_with_the_process_that_it_works_for(tmp_path):
    run = quadratic.fresh_run(tmp_path / "results", steps=5_000)
    command = [*quadratic.WORKER, str(run.path), "--parent"]
    script = f"import subprocess, os; subprocess.Popen([*{command!r}, str(os.getpid())])"
    environment = {**os.environ, "QUADRATIC_STEP_S": "0.002"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    quadratic.wait_until(lambda: Run.open(run.path).status == "interrupted" and Run.open(run.path).message)
    assert "by the end of the process that started it" in Run.open(run.path).message
