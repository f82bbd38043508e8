"""Patterns to 8 bits: what is kept, how near it is, and how little room it takes."""

import numpy as np
import pytest

from headway.heads.results import STEPS, PackedPatterns


def causal(n_heads, n, seed=0, sharp=1.0):
    logits = sharp * np.random.default_rng(seed).normal(size=(n_heads, n, n)) + np.where(np.tri(n), 0, -np.inf)
    weights = np.exp(logits)
    return weights / weights.sum(2, keepdims=True)


@pytest.mark.parametrize("n", [1, 2, 17])
def test_weights_come_back_to_the_nearest_step(n):
    weights = causal(3, n)
    packed = PackedPatterns.of(weights, [0, 2, 5])
    assert packed.heads == (0, 2, 5)
    assert packed.lower == (n > 0)
    assert np.abs(packed.steps() / STEPS - weights).max() <= 0.5 / STEPS + 1e-9


@pytest.mark.parametrize("shape", [(2, 4, 4), (2, 3, 5), (1, 5, 3)])
def test_what_looks_ahead_or_elsewhere_is_kept_whole(shape):
    weights = np.random.default_rng(0).dirichlet(np.ones(shape[2]), shape[:2])
    packed = PackedPatterns.of(weights, range(shape[0]))
    assert not packed.lower
    assert packed.steps().shape == shape
    assert np.abs(packed.steps() / STEPS - weights).max() <= 0.5 / STEPS + 1e-9


def test_a_query_that_sees_nothing_and_one_that_is_no_number_are_zero():
    weights = causal(1, 4)
    weights[0, 2] = np.nan
    assert PackedPatterns.of(weights, [0]).steps()[0, 2].tolist() == [0, 0, 0, 0]


def test_sharp_and_even_patterns_take_little_room():
    sharp, even = causal(4, 128, sharp=6.0), causal(4, 128, sharp=0.0)
    whole = 4 * 128 * 129 // 2
    assert len(PackedPatterns.of(sharp, range(4)).data) < 0.35 * whole
    assert len(PackedPatterns.of(even, range(4)).data) < 0.1 * whole
