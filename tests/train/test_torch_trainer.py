"""The PyTorch trainer: the same bits however it is advanced, stopped and restored; compiled and eager agree."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save
from support.tolerance import assert_same

from headway.config.kinds import parse_run
from headway.errors import Diverged
from headway.icl import fused
from headway.icl.weights import initial_weights
from headway.train.regression_torch import torch_trainer

STACK = {"family": "icl-stack", "n_heads": 2, "n_layers": 2}
OPTIMIZERS = {
    "sgd": {"optimizer": "sgd", "learning_rate": 0.01},
    "momentum": {"optimizer": "sgd", "learning_rate": 0.01, "momentum": 0.9, "weight_decay": 0.01},
    "adam": {"optimizer": "adam", "learning_rate": 1e-3, "weight_decay": 0.01},
    "adamw": {"optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 0.1, "betas": [0.8, 0.9]},
}


def run_of(model=STACK, training=OPTIMIZERS["adam"], **task):
    return parse_run(
        {
            "task": {"kind": "regression", "d_x": 5, "n_pairs": 40, "noise_variance": 0.0005} | task,
            "model": model,
            "training": training | {"steps": 100, "batch_size": 16},
            "seed": 0,
        }
    )


def trainer_of(run, compile=False):
    return torch_trainer(run, initial_weights(run.model, run.task, run.seed), compile)[0]


@pytest.mark.parametrize("training", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_advancing_in_other_portions_and_restoring_change_no_bit(training):
    run = run_of(training=training)
    whole, parts = trainer_of(run), trainer_of(run)
    losses = whole.advance(6)
    first = np.concatenate([parts.advance(1), parts.advance(2)])
    stored = load(save({name: np.ascontiguousarray(array) for name, array in parts.state().items()}))
    restored = trainer_of(run)
    restored.advance(1)
    restored.restore(3, stored)
    np.testing.assert_array_equal(np.concatenate([first, restored.advance(3)]), losses)
    assert restored.step == 6
    for name, array in whole.state().items():
        np.testing.assert_array_equal(restored.state()[name], array, err_msg=name)


def test_state_names_the_weights_and_what_the_optimizer_keeps():
    trainer = trainer_of(run_of())
    trainer.advance(1)
    names = {name.rpartition("/")[0] for name in trainer.state()}
    assert names == {"weights", "optimizer/step", "optimizer/exp_avg", "optimizer/exp_avg_sq"}


def test_training_lowers_the_loss_and_moves_no_global_generator():
    before = torch.random.get_rng_state()
    model = {"family": "icl", "n_heads": 1, "n_out": 1, "attention": "linear-mean"}
    losses = trainer_of(run_of(model, {"optimizer": "adam", "learning_rate": 0.02})).advance(300)
    assert losses[-100:].mean() < 0.5 * losses[:100].mean()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_loss_that_is_not_finite_names_its_step():
    model = {"family": "icl-stack", "n_heads": 2, "n_layers": 2, "attention": "linear-sum"}
    trainer = trainer_of(run_of(model, {"optimizer": "sgd", "learning_rate": 100.0}))
    with pytest.raises(Diverged, match=r"the loss of step \d+ is (nan|inf): training diverged") as caught:
        trainer.advance(50)
    step = int(str(caught.value).split()[4])
    again = trainer_of(run_of(model, {"optimizer": "sgd", "learning_rate": 100.0}))
    assert np.isfinite(again.advance(step - 1)).all()


@pytest.mark.skipif(fused.available() is None, reason="the native code is not built")
@pytest.mark.parametrize("training", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_fused_and_torch_reach_the_same_losses_step_by_step(training):
    model = {"family": "icl", "n_heads": 2, "n_out": 1}
    run = run_of(model, training)
    weights = initial_weights(run.model, run.task, run.seed)
    native, reference = fused.FusedTrainer(run, weights), trainer_of(run)
    assert_same(native.advance(50), reference.advance(50), dtype=np.float32)
    for name, array in reference.weights().items():
        assert_same(native.weights()[name], array, what=name, dtype=np.float32)


# In a process of its own: shapes in signatures are checked here, and those checks are not to be compiled.
COMPILED = """
import numpy as np, sys
sys.path[:0] = {tests!r}
from support.tolerance import assert_same
from test_torch_trainer import run_of, trainer_of
model = {{"family": "icl-stack", "n_heads": 2, "n_layers": 2, "residual": True, "attend_self": True}}
run = run_of(model, d_x=3, n_pairs=12)
fast, slow = trainer_of(run, compile=True), trainer_of(run)
assert_same(fast.advance(20), slow.advance(20), dtype=np.float32)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("compiles")
def test_compiled_and_eager_reach_the_same_losses():
    code = COMPILED.format(tests=[str(folder) for folder in Path(__file__).parents[:2]])
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_without_a_compiler_torch_says_so_and_trains_eagerly(tmp_path):
    code = """
import warnings
from test_torch_trainer import run_of
from headway.icl.weights import initial_weights
from headway.train.regression_torch import torch_trainer
run = run_of()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    trainer, _, compiled = torch_trainer(run, initial_weights(run.model, run.task, 0), True)
trainer.advance(1)
print(compiled, [str(w.message) for w in caught if w.category is RuntimeWarning])
"""
    environment = os.environ | {
        "CXX": str(tmp_path / "none"),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith('False ["torch cannot compile here (InvalidCxxCompiler')
    assert "install a C++ compiler" in done.stdout
