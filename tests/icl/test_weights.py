"""Initial weights are those that their name says, and arms of an experiment start alike where they can."""

import math

import numpy as np
import pytest
from support.tolerance import assert_same

from headway.config.regression import OneLayer, RegressionTask, Stack
from headway.icl.weights import initial_weights

TASK = RegressionTask(kind="regression", d_x=5, n_pairs=40)
WIDE = RegressionTask(kind="regression", d_x=5, d_y=2, n_pairs=40)


def one(init="random", n_heads=4, task=TASK, **fields):
    model = OneLayer(family="icl", n_heads=n_heads, init=init, **fields)
    return initial_weights(model, task, seed=1)


def within(array, bound):
    """Uniform within the bound: never outside, and close to it."""
    assert np.abs(array).max() <= bound
    assert np.abs(array).max() > 0.9 * bound
    assert abs(array.mean()) < bound / 3


@pytest.mark.parametrize("task", [TASK, WIDE])
def test_random_is_uniform_by_fan_in(task):
    weights = one(task=task, n_heads=8, bias=True)
    width = task.d_token
    for name in ("W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V"):
        within(weights[name], 1 / math.sqrt(width))
    within(weights["W_O"], 1 / math.sqrt(8 * width))
    assert all(array.dtype == np.float32 for array in weights.values())


def test_small_id():
    identity = np.broadcast_to(np.float32(1e-6) * np.eye(6, dtype=np.float32), (1, 4, 6, 6))
    whole, read_out = one("small_id"), one("small_id", n_out=1)
    for name in ("W_Q", "W_K", "W_V"):
        np.testing.assert_array_equal(whole[name], identity)
        np.testing.assert_array_equal(read_out[name], identity)
    np.testing.assert_array_equal(whole["W_O"], identity)
    np.testing.assert_array_equal(read_out["W_O"], one("random", n_out=1)["W_O"])


def test_small_id_qk():
    weights, random = one("small_id_qk"), one("random")
    for name in ("W_Q", "W_K"):
        assert_same(weights[name], np.broadcast_to(1e-4 * np.eye(6), (1, 4, 6, 6)), dtype=np.float32)
    for name in ("W_V", "W_O"):
        np.testing.assert_array_equal(weights[name], random[name])


def test_oppo_small_id():
    weights, random = one("oppo_small_id"), one("random")
    signs = np.array([1, 1, -1, -1])[:, None, None]
    assert_same(weights["W_Q"][0], 1e-6 * signs * np.eye(6), dtype=np.float32)
    assert_same(weights["W_K"][0], np.broadcast_to(1e-6 * np.eye(6), (4, 6, 6)), dtype=np.float32)
    for name in ("W_V", "W_O"):
        np.testing.assert_array_equal(weights[name], random[name])


def test_arms_that_share_a_part_start_alike_in_it():
    plain, tied, deep = (
        initial_weights(Stack(family="icl-stack", n_heads=2, **fields), TASK, seed=1)
        for fields in ({"n_layers": 2, "residual": True}, {"n_layers": 3, "tied": True}, {"n_layers": 3})
    )
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        np.testing.assert_array_equal(plain[name], deep[name][:2])
        np.testing.assert_array_equal(tied[name], deep[name][:1])
    np.testing.assert_array_equal(plain["W_F"], deep["W_F"])
    np.testing.assert_array_equal(one(n_heads=2)["W_Q"], one(n_heads=4)["W_Q"][:, :2])


def test_seeds_and_parts_differ():
    model = OneLayer(family="icl", n_heads=4)
    first, second = initial_weights(model, TASK, seed=0), initial_weights(model, TASK, seed=1)
    assert not np.array_equal(first["W_Q"], second["W_Q"])
    assert not np.array_equal(first["W_Q"], first["W_K"])
