"""Runs that one worker takes along: each in its own folder, whatever becomes of the others."""

import json
import os
import subprocess
import sys

import pytest

from headway import api
from headway.declare.loading import resolve
from headway.errors import UserError
from headway.runs.devices import slots
from headway.runs.folder import Run
from headway.runs.lease import Lease
from headway.runs.together import checked_together, companions

DOCUMENT = {
    "name": "small-parity",
    "task": {"kind": "parity", "n_bits": 2},
    "model": {"family": "gpt-2", "d_model": 8, "n_layers": 1, "n_heads": 2, "d_head": 8, "positions": "joint",
              "n_positions": 3, "norm": "none", "mlp": "none", "residual": False, "tied": False, "readout": 2,
              "init_std": 0.3},
    "training": {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 4, "steps": 30, "clip": None},
    "evaluation": {"every": 15},
    "samples": None,
    "logging": {"every": 10},
    "arms": {"h2": {}, "faster": {"training": {"learning_rate": 0.03}}, "wild": {"training": {"learning_rate": 1e14}},
             "h1": {"model": {"n_heads": 1}}},
    "baseline": "h2",
    "seeds": 3,
}  # fmt: skip


@pytest.fixture
def runs(tmp_path):
    _, made = api.prepare(resolve(DOCUMENT), tmp_path / "out", slots("cpu", workers=1, runs=1))
    return {(run.arm, run.seed): run.path for run in made}


def worked(path, together):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "headway.runs.worker", str(path), "--together", together, "--device", "cpu"]
    return subprocess.run(command, env=environment, check=False).returncode


def test_runs_of_one_shape_wait_for_one_another(runs):
    spec = Run.open(runs["h2", 1]).spec
    found = companions(runs["h2", 1], spec, 100)
    assert found == [
        runs[key] for key in [("h2", 0), ("h2", 2), *((a, s) for a in ("faster", "wild") for s in (0, 1, 2))]
    ]
    assert companions(runs["h2", 1], spec, 2) == found[:2]


def test_each_has_its_own_folder_and_one_that_diverges_ends_alone(runs):
    """And what another process holds is left to it."""
    with Lease.take(runs["faster", 2] / "lease"):
        assert worked(runs["h2", 1], "auto") == 0
    found = {key: Run.open(path) for key, path in runs.items()}
    for seed in (0, 1, 2):
        run = found["h2", seed]
        run.check()
        assert run.status == "done"
        assert run.execution["together"] == 8
        assert [record["step"] for record in run.records()] == [0, 10, 15, 20, 30]
        assert run.metrics["steps_per_s"] > 0
        assert set(run.metrics) >= {"accuracy", "solved", "eval_loss_nats", "train_loss_nats", "wall_s"}
        assert run.weights()["readout.weight"].shape == (2, 8)
        assert found["wild", seed].status == "failed"
        assert "diverged" in found["wild", seed].message
        assert found["h1", seed].status == "waiting"
    assert found["faster", 2].status == "waiting"
    alone = Run.open(runs["faster", 2])
    assert worked(alone.path, "1") == 0
    assert "together" not in Run.open(alone.path).execution


def test_together_and_alone_say_the_same_up_to_rounding(runs, tmp_path):
    assert worked(runs["h2", 0], "3") == 0
    _, others = api.prepare(resolve(DOCUMENT), tmp_path / "alone", slots("cpu", workers=1, runs=1))
    other = next(run.path for run in others if (run.arm, run.seed) == ("h2", 1))
    assert worked(other, "1") == 0
    one, same = (Run.open(path).metrics for path in (runs["h2", 1], other))
    assert one["eval_loss_nats"] == same(same["eval_loss_nats"], dtype="float32")
    assert one["accuracy"] == same["accuracy"]


def test_what_is_beyond_the_possible_fails_a_run(runs):
    """A bound that is wrong is a defect: here the weights are those of a model with more heads than it says."""
    path = runs["h1", 0]
    code = (
        "from headway.declare.tokens.parity import ParityTask\n"
        "ParityTask.best_possible = lambda self, model: {'accuracy': 0.1}\n"
        f"import sys; from headway.runs.worker import main; sys.exit(main([{str(path)!r}, '--device', 'cpu']))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1
    content = json.loads((path / "run.json").read_text())
    assert content["status"] == "failed"
    assert "no model of this shape gets beyond 0.1 at 2-bit parity: a defect" in content["message"]


@pytest.mark.parametrize("asked", ["0", "-1", "many", "1.5"])
def test_a_number_of_runs_is_auto_or_at_least_one(asked):
    with pytest.raises(UserError, match="give auto, or a number of runs; 1 trains each alone"):
        checked_together(asked)


def test_workers_that_join_train_together_as_headway_run_does(runs):
    """Two at once: what one of them has taken along is left alone by the other, and nothing is trained twice."""
    directory = runs["h2", 0].parents[2]
    command = [sys.executable, "-m", "headway", "worker", str(directory), "--slots", "1", "--device", "cpu"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]
    said = [process.communicate(timeout=240)[0].decode() for process in both]
    found = {key: Run.open(path) for key, path in runs.items()}
    assert {run.status for (arm, _), run in found.items() if arm != "wild"} == {"done"}, said
    assert {run.status for (arm, _), run in found.items() if arm == "wild"} == {"failed"}
    assert max(run.execution.get("together", 1) for run in found.values()) > 1
    for run in found.values():
        run.check()


def test_a_worker_that_joined_can_be_told_to_train_each_alone(tmp_path):
    of = resolve({**DOCUMENT, "arms": {"h2": {}}, "seeds": 2})
    store, made = api.prepare(of, tmp_path / "out", slots("cpu", workers=1, runs=1))
    command = [sys.executable, "-m", "headway", "worker", str(store.path), "--slots", "1", "--device", "cpu"]
    refused = subprocess.run([*command, "--together", "none"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "together none: give auto, or a number of runs" in refused.stderr
    subprocess.run([*command, "--together", "1"], check=True)
    assert [Run.open(run.path).status for run in made] == ["done", "done"]
    assert not any("together" in Run.open(run.path).execution for run in made)
