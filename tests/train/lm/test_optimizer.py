"""Lengths and step sizes of language models."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support import small_text
from support.tolerance import assert_same

from headway.train.lm.optimizer import StackedMuon, rate_share, steps_of


def shares(steps, **training):
    declared = small_text.run_of(training={"steps": steps, **training}).training
    return [rate_share(declared, step, steps) for step in range(1, steps + 1)]


def test_linear_decay_without_warm_up_is_the_published_one():
    assert shares(4) == [1.0, 0.75, 0.5, 0.25]


def test_warm_up_rises_by_equal_parts_to_all_of_it():
    assert shares(8, warmup_steps=4) == [0.25, 0.5, 0.75, 1.0, 1.0, 0.75, 0.5, 0.25]
    assert shares(3, warmup_steps=6) == [1 / 6, 2 / 6, 3 / 6], "a warm-up longer than the training never ends"


def test_cosine_and_constant():
    assert shares(5, lr_schedule="constant", warmup_steps=2) == [0.5, 1.0, 1.0, 1.0, 1.0]
    assert shares(4, lr_schedule="cosine") == pytest.approx([(1 + math.cos(math.pi * i / 4)) / 2 for i in range(4)])


def test_the_length_is_counted_in_steps_tokens_or_epochs():
    def of(**length):
        run = small_text.run_of(training={"steps": None, **length})
        return run.declared_steps, steps_of(run, SimpleNamespace(steps_per_epoch=lambda _: 10.5))

    assert of(steps=7) == (7, 7)
    assert of(tokens=4 * 24 * 9 + 5) == (9, 9)
    assert of(tokens=1) == (1, 1)
    assert of(epochs=2.0) == (None, 21)


def matrices(dtype):
    draw = torch.Generator().manual_seed(0)
    shapes = [(6, 6), (9, 4), (6, 6), (4, 9), (6, 6)]
    return [torch.randn(shape, generator=draw).to(dtype).requires_grad_() for shape in shapes]


def muon_written_out(parameters, gradients):
    """Three updates, one matrix after another, as Jordan et al. 2024 state them."""
    averages = [np.zeros_like(parameter) for parameter in parameters]
    for step in range(3):
        for i, gradient in enumerate(gradients[step]):
            averages[i] = 0.95 * averages[i] + 0.05 * gradient
            x = 0.05 * gradient + 0.95 * averages[i]
            x = x / np.linalg.norm(x)
            for _ in range(5):
                gram = x @ x.T
                x = 3.4445 * x - 4.775 * gram @ x + 2.0315 * gram @ gram @ x
            rows, columns = x.shape
            parameters[i] = parameters[i] * (1 - 0.1 * 0.2) - 0.1 * max(1, rows / columns) ** 0.5 * x
    return parameters


def updated(kind, dtype, gradients):
    parameters = matrices(dtype)
    optimizer = kind(parameters, lr=0.1, weight_decay=0.2, momentum=0.95)
    for of_step in gradients:
        for parameter, gradient in zip(parameters, of_step, strict=True):
            parameter.grad = torch.from_numpy(gradient).to(dtype)
        optimizer.step()
    return [parameter.detach().numpy() for parameter in parameters]


def test_muon_of_stacked_matrices_is_the_formula_and_that_of_torch():
    draw = np.random.default_rng(0)
    gradients = [[draw.standard_normal(m.shape) for m in matrices(torch.float64)] for _ in range(3)]
    expected = muon_written_out([m.detach().numpy() for m in matrices(torch.float64)], gradients)
    stacked, torch_s = (updated(kind, torch.float32, gradients) for kind in (StackedMuon, torch.optim.Muon))
    for i, exact in enumerate(expected):
        assert_same(updated(StackedMuon, torch.float64, gradients)[i], exact, terms=5 * 700, what=f"matrix {i}")
        assert_same(stacked[i], exact, dtype=np.float32, terms=5 * 700, what=f"matrix {i}")
        in_bf16 = torch.from_numpy(torch_s[i]).bfloat16(), torch.from_numpy(exact).bfloat16()
        assert_same(*in_bf16, what=f"matrix {i} of torch")
