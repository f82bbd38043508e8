"""The worker process: its threads, its trainer, and when it ends."""

import os
import subprocess
import sys
from unittest.mock import Mock

import pytest
from support import quadratic

from headway.execute import worker
from headway.execute.places import WorkerOptions
from headway.store.run import Run

WORKER = (sys.executable, "-m", "headway.execute.worker")


def test_the_threads_are_set_before_numpy_is_imported():
    script = (
        "import sys; from headway.execute import worker; assert 'numpy' not in sys.modules; "
        "import os; os.environ.pop('OMP_NUM_THREADS', None); code = worker.main(['nowhere', '--threads', '3']); "
        "print(code, os.environ['OMP_NUM_THREADS'], os.environ['OPENBLAS_NUM_THREADS'], 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "2 3 3 False\n"
    assert "nowhere holds no run" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        ({}, "None 10000"),
        ({"OMP_WAIT_POLICY": "active"}, "active None"),
        ({"GOMP_SPINCOUNT": "7"}, "None 7"),
        ({"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "9"}, "passive 9"),
    ],
)
def test_threads_that_wait_soon_sleep_unless_the_user_says_how_they_wait(given, waits):
    script = (
        "from headway.execute import worker; import os; worker.set_up_process(2); "
        "print(os.environ.get('OMP_WAIT_POLICY'), os.environ.get('GOMP_SPINCOUNT'))"
    )
    free = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    done = subprocess.run([sys.executable, "-c", script], env=free | given, capture_output=True, text=True, check=True)
    assert done.stdout == f"{waits}\n"


@pytest.mark.parametrize(
    ("trainer", "stored", "asked"),
    [
        ("auto", {}, ("auto", None)),
        ("auto", {"trainer": "torch", "compile": True}, ("torch", True)),
        ("auto", {"trainer": "fused"}, ("auto", None)),
        ("fused", {"trainer": "torch", "compile": False}, ("fused", False)),
    ],
)
def test_a_run_that_goes_on_has_the_trainer_and_compilation_it_began_with(
    monkeypatch, tmp_path, trainer, stored, asked
):
    part = Mock(open_study=Mock(side_effect=lambda spec, **_: quadratic.study(spec)))
    monkeypatch.setattr("headway.train.loop.training_part_of", lambda spec: part)
    spec = quadratic.experiment().arm("slow").spec(0)
    study = worker._open_study(tmp_path, spec, stored, WorkerOptions(trainer=trainer), threads=2)
    given = part.open_study.call_args.kwargs
    assert (given["trainer"], given["compile"]) == asked
    assert study.execution["threads"] == 2


def test_a_worker_ends_with_the_process_that_it_works_for(tmp_path):
    run = quadratic.fresh_run(tmp_path / "results", steps=5_000)
    command = [*quadratic.WORKER, str(run.path), "--parent"]
    script = f"import subprocess, os; subprocess.Popen([*{command!r}, str(os.getpid())])"
    environment = {**os.environ, "QUADRATIC_STEP_S": "0.002"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    quadratic.wait_until(lambda: Run.open(run.path).status == "interrupted" and Run.open(run.path).message)
    assert "by the end of the process that started it" in Run.open(run.path).message


PLACES = """
import os, tempfile
from headway.execute import worker
from headway.execute.places import WorkerOptions
said = worker.set_up_process(1)
from torch._inductor.codecache import _HEADER_DIR
from torch._inductor.runtime.cache_dir_utils import cache_dir
print(cache_dir(), _HEADER_DIR, said, sep="\\n")
"""


@pytest.mark.slow
def test_what_torch_compiles_is_kept_in_headways_own_cache(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    own = tmp_path / f"torch-{os.getuid()}"
    for given, expected in [({}, own / "compiled"), ({"TORCHINDUCTOR_CACHE_DIR": "/of/mine"}, "/of/mine")]:
        env = {**environment, **given, "HEADWAY_CACHE": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", PLACES], capture_output=True, text=True, check=True, env=env)
        compiled, headers, said = done.stdout.split("\n")[:3]
        assert compiled == str(expected)
        assert headers.startswith(f"{own}/torchinductor_")
        assert said == ""
    assert own.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_cache_of_torch_that_is_not_ours_is_avoided_and_the_log_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    open_to_all = tmp_path / "cache" / f"torch-{os.getuid()}"
    open_to_all.mkdir(parents=True)
    open_to_all.chmod(0o777)
    steps = {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 4, "steps": 20}
    run = quadratic.fresh_run(tmp_path / "results", training=steps)
    subprocess.run([*WORKER, "--trainer", "torch", str(run.path)], check=True)
    assert f"{open_to_all} is not used: other users can write to it" in (run.path / "log.txt").read_text()
    assert not list(open_to_all.iterdir())
    native = quadratic.fresh_run(tmp_path / "native", training=steps)
    subprocess.run([*WORKER, "--trainer", "fused", str(native.path)], check=True)
    assert "is not used" not in (native.path / "log.txt").read_text(), "torch has no part in it"
