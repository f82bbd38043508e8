"""Circuits are the products that the definitions say, and the table finds what was planted in them."""

import math

import numpy as np
import pytest
from support.tolerance import assert_same, nearly

from headway.config.regression import OneLayer, RegressionTask, Stack
from headway.icl.circuits import circuits, head_scalars, head_table
from headway.icl.weights import initial_weights

TASK = RegressionTask(kind="regression", d_x=3, n_pairs=8)
TWO = RegressionTask(kind="regression", d_x=4, d_y=2, n_pairs=8, reads=((0, 1), (1, 2, 3)))


@pytest.mark.parametrize("n_out", [None, 1])
def test_the_score_of_a_pair_is_the_product_of_its_key_and_the_query(n_out):
    model = OneLayer(family="icl", n_heads=2, n_out=n_out)
    weights = initial_weights(model, TASK, seed=0)
    found = circuits(weights, model, TASK)
    assert found["qk"].shape == (1, 2, 4, 4)
    assert found["ov"].shape == (1, 2, 1, 4)
    pair, query = np.random.default_rng(0).normal(size=(2, 4))
    for head in range(2):
        key, asked = weights["W_K"][0, head] @ pair, weights["W_Q"][0, head] @ query
        assert pair @ found["qk"][0, head] @ query == nearly(key @ asked / math.sqrt(4), dtype=np.float32)
        written = weights["W_O"][0, head] @ weights["W_V"][0, head] @ pair
        assert found["ov"][0, head] @ pair == nearly(written[-1:], dtype=np.float32)


def test_a_stacks_ov_goes_through_the_final_map():
    model = Stack(family="icl-stack", n_heads=2, n_layers=3)
    weights = initial_weights(model, TWO, seed=0)
    found = circuits(weights, model, TWO)
    assert found["qk"].shape == (3, 2, 6, 6)
    expected = weights["W_F"] @ weights["W_O"][1, 0] @ weights["W_V"][1, 0]
    assert_same(found["ov"][1, 0], expected, dtype=np.float32)


def test_a_planted_pattern_is_read_off():
    qk, ov = np.zeros((2, 4, 4)), np.zeros((2, 1, 4))
    qk[0, :3, :3], qk[1, :3, :3] = 0.14 * np.eye(3), np.diag([-0.1, -0.2, -0.3])
    ov[:, 0, 3] = 3.0, -3.0
    w, mu = head_scalars(qk, ov, TASK)
    assert_same(w, [0.14, -0.2])
    assert_same(mu, [3.0, -3.0])
    table = head_table(qk, ov, TASK)
    assert_same(table["diagonal_variance"], [0, 0.02 / 3])
    for name in ("largest_off_diagonal", "largest_y_row", "largest_other_ov"):
        np.testing.assert_array_equal(table[name], [0, 0])


def test_what_leaves_the_pattern_has_a_column_each():
    qk, ov = np.zeros((2, 4, 4)), np.zeros((2, 1, 4))
    qk[0, 0, 2], qk[0, 3, 1], qk[1, 1, 3], ov[1, 0, 0] = -0.5, -0.4, 9.0, -0.3
    table = head_table(qk, ov, TASK)
    np.testing.assert_array_equal(table["largest_off_diagonal"], [0.5, 0])
    np.testing.assert_array_equal(table["largest_y_row"], [0.4, 0])  # the query's y is 0: its column does nothing
    np.testing.assert_array_equal(table["largest_other_ov"], [0, 0.3])


def test_each_output_has_the_w_of_the_coordinates_it_reads():
    qk, ov = np.zeros((1, 6, 6)), np.zeros((1, 2, 6))
    qk[0, :4, :4] = np.diag([1.0, 3.0, 5.0, 4.0])
    ov[0, 0, 4], ov[0, 1, 5], ov[0, 1, 4] = 2.0, -2.0, 0.5
    table = head_table(qk, ov, TWO)
    np.testing.assert_array_equal(table["w"], [[2.0, 4.0]])
    np.testing.assert_array_equal(table["mu"], [[2.0, -2.0]])
    np.testing.assert_array_equal(table["largest_other_ov"], [[0.0, 0.5]])
