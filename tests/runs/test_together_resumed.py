"""Ensembles that are killed: members at different steps go on, and come out as if nobody had disturbed them."""

import json
import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tolerance import assert_same

from headway import api
from headway.declare.loading import resolve
from headway.runs import together
from headway.runs.devices import slots
from headway.runs.folder import Run
from headway.runs.memory import estimated_bytes
from headway.train.tokens.study import open_study
from headway.train.tokens.together import open_together

DOCUMENT = {
    "name": "resumed-parity",
    "task": {"kind": "parity", "n_bits": 2},
    "model": {"family": "gpt-2", "d_model": 8, "n_layers": 1, "n_heads": 2, "d_head": 8, "positions": "joint",
              "n_positions": 3, "norm": "none", "mlp": "none", "residual": False, "tied": False, "readout": 2,
              "init_std": 0.3, "biases": []},
    "training": {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 4, "steps": 60, "clip": None},
    "evaluation": {"every": 20},
    "samples": None,
    "logging": {"every": 10},
    "arms": {"h2": {}},
    "baseline": "h2",
    "seeds": 4,
}  # fmt: skip
# Without biases: that of keys changes nothing, so that Adam makes large steps of the rounding of its gradient.
KILLED = """
import os, signal, sys
from pathlib import Path
from headway.runs import work
from headway.runs.worker import main
from headway.train.tokens.ensemble import Ensemble

metrics, records = Path(sys.argv.pop(1)), int(sys.argv.pop(1))
work.CHECKPOINT_EVERY_S = 0.0
whole = Ensemble.advance


def advance(self, n):
    if metrics.exists() and metrics.read_text().count("\\n") >= records:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(self, 1)


Ensemble.advance = advance
sys.exit(main(sys.argv[1:]))
"""
"""A worker that stores each step, and is killed before the next one when a run has so many records."""


def prepared(folder):
    _, made = api.prepare(resolve(DOCUMENT), folder, slots("cpu", workers=1, runs=1))
    return {run.seed: run.path for run in made}


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def worked(path, at_most="4"):
    command = [sys.executable, "-m", "headway.runs.worker", str(path), "--together", at_most, "--device", "cpu"]
    assert subprocess.run(command, env=environment(), check=False).returncode == 0


def killed(path, records):
    """Work on a run and its companions, until the process is killed once so many records are written."""
    command = [sys.executable, "-c", KILLED, str(path / "metrics.jsonl"), str(records)]
    command += [str(path), "--together", "4", "--device", "cpu"]
    assert subprocess.run(command, env=environment(), check=False).returncode == -signal.SIGKILL


def steps_of(path):
    """The steps that are recorded, whole lines alone."""
    found = path / "metrics.jsonl"
    return [json.loads(line)["step"] for line in found.read_text().split("\n")[:-1]] if found.exists() else []


def outcome(path):
    run = Run.open(path)
    run.check()
    assert run.status == "done"
    timed = ("steps_per_s", "training_s", "wall_s")
    return [{k: v for k, v in record.items() if k not in timed} for record in run.records()], run.weights()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    runs = prepared(tmp_path_factory.mktemp("undisturbed"))
    worked(runs[0])
    return {seed: outcome(path) for seed, path in runs.items()}


def test_members_at_different_steps_are_those_of_an_undisturbed_ensemble(undisturbed, tmp_path):
    """After two killings one has lost what it did since the first, and one its checkpoint; equal up to rounding."""
    runs = prepared(tmp_path / "out")
    killed(runs[0], 2)
    shutil.copytree(runs[1], tmp_path / "early")
    killed(runs[0], 4)
    shutil.rmtree(runs[1])
    shutil.copytree(tmp_path / "early", runs[1])
    shutil.rmtree(runs[2] / "checkpoint")
    assert max(steps_of(runs[1])) < max(steps_of(runs[0]))
    for path in runs.values():
        if Run.open(path).status != "done":
            worked(path)
    for seed, path in runs.items():
        records, weights = outcome(path)
        expected, reference = undisturbed[seed]
        assert [record["step"] for record in records] == [record["step"] for record in expected]
        for name in ("train_loss_nats", "eval_loss_nats", "accuracy"):
            found = [[r[name] for r in of if name in r] for of in (records, expected)]
            assert_same(*found, what=f"{name} of seed {seed}", dtype=np.float32)
        for name, array in weights.items():
            assert_same(array, reference[name], dtype=np.float32)


@pytest.mark.parametrize(
    ("memory", "fit", "told"), [(2.5, 1, "1 run is"), (7.0, 3, "3 runs are"), (100.0, 4, "")], ids=str
)
def test_more_than_fits_into_memory_is_split_and_says_so(monkeypatch, tmp_path, memory, fit, told):
    """Half of the memory is theirs; a run alone is always tried."""
    spec = Run.open(prepared(tmp_path)[0]).spec
    each = estimated_bytes(spec)
    monkeypatch.setattr(together.psutil, "virtual_memory", lambda: SimpleNamespace(total=memory * each))
    n, said = together.how_many(spec, 4)
    assert n == fit
    assert said.startswith("4 runs together need about " if told else "")
    assert said.endswith(f": {told} trained together, the others after them" if told else "")
    assert bool(said) == bool(told)


def test_on_a_gpu_it_is_the_memory_that_is_free_there(monkeypatch, tmp_path):
    """However much the machine has; and nobody looks where one is trained at a time."""
    spec = Run.open(prepared(tmp_path)[0]).spec
    each = estimated_bytes(spec)
    monkeypatch.setattr(together.psutil, "virtual_memory", lambda: SimpleNamespace(total=1000 * each))
    n, said = together.how_many(spec, 4, lambda: 5 * each)
    assert n == 2
    assert "half of what is free of the memory of the GPU is" in said
    assert together.how_many(spec, 4, lambda: None) == (4, "")
    assert together.how_many(spec, 1, pytest.fail) == (1, "")


@pytest.mark.parametrize(("at_most", "says"), [(4, True), (None, False)])
def test_who_asked_for_several_reads_in_the_log_why_a_run_is_alone(tmp_path, at_most, says):
    document = {**DOCUMENT, "training": {**DOCUMENT["training"], "accumulate": 2, "steps": 2}}
    _, made = api.prepare(resolve(document), tmp_path / "out", slots("cpu", workers=1, runs=1))
    path = made[0].path
    code = together.work_together(
        path, lambda spec, _stored: open_study(spec, device="cpu"), open_together, at_most=at_most
    )
    assert code == 0
    assert (path / "log.txt").read_text().count("trained alone, and not together with others of its shape: ") == says
    assert ("training.accumulate: a batch" in (path / "log.txt").read_text()) == says


def test_what_was_split_is_all_trained(monkeypatch, tmp_path, capfd):
    """Two fit: the worker of the first takes one along, and says so; the others wait for the next."""
    runs = prepared(tmp_path)
    each = estimated_bytes(Run.open(runs[0]).spec)
    monkeypatch.setattr(together.psutil, "virtual_memory", lambda: SimpleNamespace(total=5 * each))
    codes = []
    for path in (runs[0], runs[2]):
        codes.append(
            together.work_together(
                path,
                lambda spec, _stored: open_study(spec, device="cpu"),
                lambda specs: open_together(specs, device="cpu"),
                at_most=4,
            )
        )
        assert "2 runs are trained together, the others after them" in capfd.readouterr().out
    assert codes == [0, 0]
    found = [Run.open(path) for path in runs.values()]
    assert [run.status for run in found] == ["done"] * 4
    assert {run.execution["together"] for run in found} == {2}
