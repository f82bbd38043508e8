"""The fused trainer against autograd in float64, torch.optim, and its own laws."""

import itertools
import math

import numpy as np
import pytest
import torch
from support.tolerance import assert_same, nearly

from headway.base import rng as streams
from headway.config.kinds import parse_run
from headway.data import native
from headway.data.regression import Prompts, draw
from headway.errors import Diverged, UserError
from headway.icl import fused
from headway.icl.fused import FusedTrainer, obstacle
from headway.icl.weights import Weights, initial_weights, weight_shapes

pytestmark = pytest.mark.skipif(native.available() is None, reason="the native code is not built")

ADAM = {"optimizer": "adam", "learning_rate": 1e-3}


def make_run(*, task=(), model=(), training=(), seed=0):
    return parse_run(
        {
            "task": {"kind": "regression", "d_x": 5, "n_pairs": 40, "noise_variance": 0.05} | dict(task),
            "model": {"family": "icl", "n_heads": 2, "n_out": (dict(task).get("d_y") or 1)} | dict(model),
            "training": ADAM | {"steps": 100, "batch_size": 32} | dict(training),
            "seed": seed,
        }
    )


def sizeable_weights(run, seed=0, scale=1.0) -> Weights:
    rng = np.random.default_rng(seed)
    width = run.task.d_token
    return {
        name: (scale * rng.normal(size=shape) / math.sqrt(width)).astype(np.float32)
        for name, shape in weight_shapes(run.model, run.task).items()
    }


def reference_loss(run, weights: dict[str, torch.Tensor], prompts: Prompts) -> torch.Tensor:
    """The published formula, uncollapsed, in float64."""
    x, y, x_query, y_query = (
        torch.from_numpy(getattr(prompts, name)).double() for name in ("x", "y", "x_query", "y_query")
    )
    tokens = torch.cat([x, y], -1)
    query = torch.cat([x_query, torch.zeros_like(y_query)], -1)
    w_q, w_k, w_v, w_o = (weights[f"W_{name}"][0] for name in "QKVO")
    logits = torch.einsum("hac,bc,har,bir->bhi", w_q, query, w_k, tokens) / math.sqrt(run.task.d_token)
    attention = {
        "softmax": lambda: logits.softmax(-1),
        "linear-mean": lambda: logits / logits.shape[-1],
        "linear-sum": lambda: logits,
    }[run.model.attention]()
    outputs = torch.einsum("hoa,har,bir,bhi->bo", w_o, w_v, tokens, attention)
    return ((outputs[:, -run.task.d_y :] - y_query) ** 2).mean()


def training_prompts(run, step):
    return draw(run.task, key=streams.key(run.seed, "training data"), step=step, batch_size=run.training.batch_size)


def assert_gradient_is_right(run, weights, instruction_set):
    loss, gradient = FusedTrainer(run, weights, instruction_set=instruction_set).gradient()
    exact = {name: torch.from_numpy(w).double().requires_grad_() for name, w in weights.items()}
    exact_loss = reference_loss(run, exact, training_prompts(run, 1))
    exact_loss.backward()
    assert loss == nearly(exact_loss.item(), dtype=np.float32)
    for name, expected in exact.items():
        assert_same(gradient[name], expected.grad.numpy(), what=name)


@pytest.mark.parametrize("instruction_set", native.instruction_sets())
@pytest.mark.parametrize("attention", ["softmax", "linear-mean", "linear-sum"])
@pytest.mark.parametrize(
    ("d_x", "d_y", "n_heads", "n_pairs", "batch_size"),
    [
        (1, 1, 1, 1, 1),
        (2, 1, 3, 2, 5),
        (5, 1, 2, 40, 128),
        (6, 2, 4, 48, 37),
        (7, 1, 2, 9, 16),
        (8, 3, 2, 30, 17),
        (13, 1, 5, 77, 19),
        (16, 2, 16, 3, 33),
        (32, 1, 2, 64, 15),
        (31, 3, 3, 21, 24),
        (4, 1, 2, 500, 9),
    ],
)
def test_loss_and_gradient_are_those_of_autograd_in_float64(
    instruction_set, attention, d_x, d_y, n_heads, n_pairs, batch_size
):
    run = make_run(
        task={"d_x": d_x, "d_y": d_y, "n_pairs": n_pairs},
        model={"n_heads": n_heads, "attention": attention},
        training={"batch_size": batch_size},
    )
    assert_gradient_is_right(run, sizeable_weights(run), instruction_set)


@pytest.mark.slow
@pytest.mark.parametrize("d_x", range(1, 33))
def test_gradients_over_all_widths_heads_and_lengths(d_x):
    rng = np.random.default_rng(d_x)
    for attention, d_y in itertools.product(["softmax", "linear-mean", "linear-sum"], [1, 2, 3]):
        run = make_run(
            task={"d_x": d_x, "d_y": d_y, "n_pairs": int(rng.choice([1, 2, 3, 17, 40, 101, 500]))},
            model={"n_heads": int(rng.integers(1, 17)), "attention": attention, "n_out": [None, d_y][d_x % 2]},
            training={"batch_size": int(rng.integers(1, 50))},
        )
        assert_gradient_is_right(run, sizeable_weights(run, d_x), None)


def test_gradient_with_whole_tokens_out_covariance_reads_and_noisy_query():
    run = make_run(
        task={
            "d_x": 6,
            "d_y": 2,
            "covariance": {"kind": "power", "rho": 0.5},
            "reads": [[0, 1, 2, 3], [2, 3, 4, 5]],
            "noisy_query": True,
            "beta_variance": "1/d_x",
        },
        model={"n_out": None, "n_heads": 4},
    )
    assert_gradient_is_right(run, sizeable_weights(run), None)


@pytest.mark.parametrize("instruction_set", native.instruction_sets())
def test_huge_logits_stay_finite_and_right(instruction_set):
    run = make_run(model={"n_heads": 4})
    weights = sizeable_weights(run)
    weights["W_Q"] *= np.float32(1000)
    loss, gradient = FusedTrainer(run, weights, instruction_set=instruction_set).gradient()
    exact = {name: torch.from_numpy(w).double() for name, w in weights.items()}
    assert loss == nearly(reference_loss(run, exact, training_prompts(run, 1)).item(), dtype=np.float32)
    assert all(np.isfinite(g).all() for g in gradient.values())


@pytest.mark.parametrize(
    ("training", "torch_optimizer"),
    [
        ({"optimizer": "sgd", "learning_rate": 0.02}, lambda p: torch.optim.SGD(p, 0.02)),
        (
            {"optimizer": "sgd", "learning_rate": 0.01, "momentum": 0.9, "weight_decay": 0.1},
            lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, weight_decay=0.1),
        ),
        ({"optimizer": "adam", "learning_rate": 1e-2}, lambda p: torch.optim.Adam(p, 1e-2)),
        (
            {"optimizer": "adam", "learning_rate": 1e-2, "betas": [0.8, 0.9], "eps": 1e-3, "weight_decay": 0.1},
            lambda p: torch.optim.Adam(p, 1e-2, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1),
        ),
        (
            {"optimizer": "adamw", "learning_rate": 1e-2, "weight_decay": 0.1},
            lambda p: torch.optim.AdamW(p, 1e-2, weight_decay=0.1),
        ),
    ],
)
def test_optimizers_are_those_of_torch_over_50_steps(training, torch_optimizer):
    run = make_run(training=training)
    weights = sizeable_weights(run)
    trainer = FusedTrainer(run, weights)
    losses = trainer.advance(50)
    expected = {name: torch.from_numpy(w).double().requires_grad_() for name, w in weights.items()}
    optimizer = torch_optimizer(list(expected.values()))
    for step, loss in enumerate(losses, start=1):
        optimizer.zero_grad()
        exact = reference_loss(run, expected, training_prompts(run, step))
        exact.backward()
        optimizer.step()
        assert loss == nearly(exact.item(), dtype=np.float32)
    moved = np.concatenate([(trainer.weights()[n] - weights[n]).ravel() for n in weights])
    should = np.concatenate([(expected[n].detach().numpy() - weights[n]).ravel() for n in weights])
    assert_same(moved, should)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_advancing_in_other_chunks_and_restoring_change_no_bit(optimizer):
    run = make_run(training={"optimizer": optimizer, "learning_rate": 1e-3})
    weights = initial_weights(run.model, run.task, run.seed)
    whole, first, second = (FusedTrainer(run, weights) for _ in range(3))
    losses = whole.advance(60)
    parts = [first.advance(n) for n in (1, 7, 20)]
    second.restore(first.step, first.state())
    parts.append(second.advance(32))
    assert np.array_equal(losses, np.concatenate(parts))
    assert second.step == whole.step == 60
    for name, array in whole.state().items():
        assert np.array_equal(array, second.state()[name]), name


def test_state_names_weights_and_what_the_optimizer_keeps():
    trainer = FusedTrainer(make_run(), sizeable_weights(make_run()))
    assert set(trainer.state()) == {
        f"{prefix}/W_{name}" for prefix in ("weights", "optimizer/exp_avg", "optimizer/exp_avg_sq") for name in "QKVO"
    }
    assert {w.dtype for w in trainer.weights().values()} == {np.dtype(np.float32)}


def test_the_weights_given_are_copied_and_what_is_returned_is_ours():
    run = make_run()
    weights = sizeable_weights(run)
    kept = {name: w.copy() for name, w in weights.items()}
    trainer = FusedTrainer(run, weights)
    trainer.weights()["W_Q"][:] = 0
    trainer.advance(3)
    assert all(np.array_equal(weights[n], kept[n]) for n in weights)
    assert not np.array_equal(trainer.weights()["W_Q"], kept["W_Q"])


def test_a_diverging_run_says_at_which_step_and_what_to_lower():
    run = make_run(training={"optimizer": "sgd", "learning_rate": 1e6})
    trainer = FusedTrainer(run, sizeable_weights(run))
    with pytest.raises(Diverged, match=r"the loss of step \d+ is (inf|nan): training diverged") as error:
        trainer.advance(100)
    assert f"step {trainer.step + 1} is" in str(error.value)
    with pytest.raises(Diverged):  # it stays where it is
        trainer.advance(1)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"model": {"bias": True}}, "the fused trainer knows no biases, and this model has them"),
        (
            {"task": {"d_x": 33}},
            "the fused trainer takes up to 32 coordinates of x, and this task has 33",
        ),
        (
            {"model": {"family": "icl-stack", "n_layers": 2, "n_heads": 2, "n_out": ...}},
            "the fused trainer knows one-layer models only, and this is a stack",
        ),
    ],
)
def test_obstacles_are_sentences(changes, sentence):
    model = dict(changes.get("model", {}))
    if model.pop("n_out", None) is ...:
        content = make_run().content() | {"model": model}
        run = parse_run(content)
    else:
        run = make_run(**changes)
    assert obstacle(run) == sentence
    with pytest.raises(UserError, match="take the torch trainer"):
        FusedTrainer(run, {})


def test_no_obstacle_for_a_plain_run_and_one_without_native_code(monkeypatch):
    assert obstacle(make_run()) is None
    monkeypatch.setattr(fused, "available", lambda: None)
    assert "install a C++ compiler" in obstacle(make_run())


def test_an_unavailable_instruction_set_is_refused(monkeypatch):
    monkeypatch.setattr(native, "instruction_sets", lambda: ("base",))
    with pytest.raises(UserError, match="instruction set avx512 is not available here; choose from: base"):
        FusedTrainer(make_run(), sizeable_weights(make_run()), instruction_set="avx512")
