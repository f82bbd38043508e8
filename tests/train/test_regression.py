"""The study of an in-context run: who trains it, what it measures, and that both trainers are judged alike."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.tolerance import assert_same

from headway.config.kinds import parse_run
from headway.config.metrics import METRICS
from headway.errors import UserError
from headway.icl import fused
from headway.icl.circuits import PATTERN_FIT, circuits, head_table
from headway.train.loop import train
from headway.train.regression import LABORATORY

needs_native = pytest.mark.skipif(fused.available() is None, reason="the native code is not built")


def run_of(model=(), steps=20, **task):
    return parse_run(
        {
            "task": {"kind": "regression", "d_x": 3, "n_pairs": 10, "noise_variance": 0.01} | task,
            "model": {"family": "icl", "n_heads": 2} | dict(model),
            "training": {"optimizer": "adam", "learning_rate": 0.01, "steps": steps, "batch_size": 16},
            "evaluation": {
                "every": 10,
                "prompts_during": 50,
                "prompts": 300,
                "curve": {"prompts": 40, "longest": 20, "lengths": 5, "resamples": 10},
            },
            "probes": {"every": 5, "circuits": [1, 10]},
            "seed": 0,
        }
    )


def finished(run, **how):
    study = LABORATORY.open_study(run, **how)
    milestones = {
        event.step: event for event in train(study, steps=run.training.steps, log_every=10) if hasattr(event, "metrics")
    }
    return study, milestones, study.conclude()


MODELS = {
    "one layer": {},
    "bias": {"bias": True},
    "stack": {"family": "icl-stack", "n_layers": 2},
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_what_is_measured(model):
    run = run_of(model)
    study, milestones, conclusion = finished(run, trainer="torch")
    one_layer = model.get("family") != "icl-stack"
    assert study.execution == {"trainer": "torch", "compile": False}
    assert {"train_mse", "eval_mse", "eval_mse_se", "eval_mse_adjusted"} <= set(milestones[10].metrics)
    assert "w" in milestones[5].metrics if 5 in milestones else not one_layer
    assert set(milestones[10].arrays) == {"qk", "ov"}
    assert milestones[10].arrays["qk"].shape == (1 if one_layer else 2, 2, 4, 4)
    assert set(conclusion.metrics) <= set(METRICS)
    assert ("kernel_mse" in conclusion.metrics) == one_layer
    assert (set(PATTERN_FIT) <= set(conclusion.metrics)) == one_layer
    if one_layer:
        now = circuits(study.trainer.weights(), run.model, run.task)
        table = head_table(now["qk"][0], now["ov"][0], run.task)
        assert all(conclusion.metrics[name] == table[name].tolist() for name in PATTERN_FIT)
    curve = conclusion.curves["error_by_length"]
    assert set(curve) == {"n_pairs", "model"} | ({"kernel"} if one_layer else set())
    assert len(curve["model"]["mse"]) == len(curve["n_pairs"])


@pytest.mark.parametrize("task", [{}, {"d_y": 2, "reads": [[0, 1], [1, 2]]}], ids=["one output", "two outputs"])
def test_numpy_judges_a_one_layer_model_as_torch_does(task):
    """The model with all biases 0 is the model without them; torch evaluates the one, numpy the other."""
    run, biased = run_of(**task), run_of({"bias": True}, **task)
    plain, with_bias = LABORATORY.open_study(run, trainer="torch"), LABORATORY.open_study(biased, trainer="torch")
    state = with_bias.trainer.state()
    zeroed = {name: np.zeros_like(array) for name, array in state.items() if name.startswith("weights/b_")}
    with_bias.trainer.restore(0, state | plain.trainer.state() | zeroed)
    expected, found = plain.conclude(), with_bias.conclude()
    for name in set(expected.metrics) - {"n_parameters"}:
        assert_same(found.metrics[name], expected.metrics[name], what=name, dtype=np.float32)
    by_length = (conclusion.curves["error_by_length"]["model"]["mse"] for conclusion in (found, expected))
    assert_same(*by_length, dtype=np.float32)


@needs_native
@pytest.mark.parametrize("task", [{}, {"d_y": 2, "reads": [[0, 1], [1, 2]]}], ids=["one output", "two outputs"])
def test_fused_and_torch_come_to_the_same_conclusion(task):
    run = run_of(**task)
    (native, _, expected), (_, _, found) = finished(run), finished(run, trainer="torch")
    assert native.execution["trainer"] == "fused"
    assert set(found.metrics) == set(expected.metrics)
    for name, value in expected.metrics.items():
        assert_same(found.metrics[name], value, what=name, dtype=np.float32)


@needs_native
def test_a_fused_run_never_imports_torch():
    code = """
import sys
from test_regression import finished, run_of
finished(run_of())
assert "torch" not in sys.modules
"""
    path = [str(folder) for folder in Path(__file__).parents[:2]]
    subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {path}\n{code}"], check=True)


def test_the_fused_trainer_is_refused_where_it_cannot():
    with pytest.raises(UserError, match=r"trainer fused: .*stack; leave the choice to auto"):
        LABORATORY.open_study(run_of({"family": "icl-stack", "n_layers": 2}), trainer="fused")


def test_torch_trains_what_native_code_cannot():
    for run in (run_of(d_x=33), run_of({"bias": True}), run_of({"family": "icl-stack", "n_layers": 2})):
        assert LABORATORY.open_study(run).execution["trainer"] == "torch"


def test_the_trained_model_predicts_what_was_trained():
    run = run_of({"family": "icl-stack", "n_layers": 2})
    study, _, _ = finished(run)
    module = LABORATORY.trained_model(run, study.trainer.weights())
    assert module.weights().keys() == study.trainer.weights().keys()
