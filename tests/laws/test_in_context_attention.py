"""Laws of in-context models: the order of pairs, what the query sees, and the two ways to say "one layer"."""

import numpy as np
import pytest
import torch
from support.tolerance import assert_same

from headway.config.regression import OneLayer, RegressionTask, Stack
from headway.data.regression import draw
from headway.icl.attention import InContextAttention
from headway.icl.weights import initial_weights

TASK = RegressionTask(kind="regression", d_x=5, n_pairs=40)
ATTENTION = ["softmax", "linear-mean", "linear-sum"]


def prompts(n=16):
    drawn = draw(TASK, key=1, step=1, batch_size=n)
    return tuple(torch.from_numpy(getattr(drawn, name)).double() for name in ("x", "y", "x_query"))


def module_of(model, **changed):
    weights = initial_weights(model, TASK, seed=2)
    return InContextAttention(model, TASK, weights | changed).double()


@pytest.mark.parametrize("kind", ATTENTION)
@pytest.mark.parametrize("bias", [False, True])
def test_a_one_layer_stack_equals_the_one_layer_model(kind, bias):
    one = module_of(OneLayer(family="icl", n_heads=3, attention=kind, bias=bias))
    final = {"W_F": np.eye(6, dtype=np.float32)[-1:]} | ({"b_F": np.zeros(1, np.float32)} if bias else {})
    model = Stack(family="icl-stack", n_heads=3, n_layers=1, attention=kind, bias=bias, attend_self=False)
    stack = module_of(model, **{name: array.astype(np.float32) for name, array in one.weights().items()}, **final)
    assert_same(stack(*prompts()), one(*prompts()))


@pytest.mark.parametrize("attend_self", [False, True])
def test_a_stack_is_causal(attend_self):
    """What comes after a prefix of the pairs does not change the prediction from that prefix."""
    module = module_of(Stack(family="icl-stack", n_heads=2, n_layers=3, residual=True, attend_self=attend_self))
    x, y, x_query = prompts()
    before = module.at_lengths(x, y, x_query, (3, 20))
    x[:, 20:], y[:, 20:] = 9.0, -9.0
    assert_same(module.at_lengths(x, y, x_query, (3, 20)), before)
