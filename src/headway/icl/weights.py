"""Named arrays of an in-context model's weights, and their initial values.

Every trainer, fused or not, starts from these arrays and returns them under the same names. So any trainer can read
what another trained. `q = W_Q z`, and every head is as wide as a token, D = d_x + d_y. The leading axis is the layer; a
one-layer model, and a stack that shares its weights, has one.

| name | shape | in |
|---|---|---|
| `W_Q` `W_K` `W_V` | (layers, H, D, D) | every model |
| `W_O` | (layers, H, n_out or D, D) | every model |
| `b_Q` `b_K` `b_V` | (layers, H, D) | models with biases |
| `b_O` | (layers, n_out or D), one for all heads | models with biases |
| `W_F` | (d_y, D) | stacks |
| `b_F` | (d_y,) | stacks with biases |
"""

import math

import numpy as np

from headway.base import rng
from headway.config.regression import IclModel, RegressionTask, Stack

Weights = dict[str, np.ndarray]


def weight_shapes(model: IclModel, task: RegressionTask) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array of a model, by name.

    Examples:
        >>> from headway.config.regression import OneLayer
        >>> task = RegressionTask(kind="regression", d_x=5, n_pairs=40)
        >>> weight_shapes(OneLayer(family="icl", n_heads=2, n_out=1), task)["W_O"]
        (1, 2, 1, 6)
    """
    width = task.d_token
    stack = isinstance(model, Stack)
    layers = 1 if model.tied else model.n_layers
    rows = model.n_out or width
    shapes: dict[str, tuple[int, ...]] = {f"W_{name}": (layers, model.n_heads, width, width) for name in "QKV"}
    shapes["W_O"] = (layers, model.n_heads, rows, width)
    if stack:
        shapes["W_F"] = (task.d_y, width)
    if model.bias:
        shapes |= {f"b_{name}": (layers, model.n_heads, width) for name in "QKV"} | {"b_O": (layers, rows)}
        if stack:
            shapes["b_F"] = (task.d_y,)
    return shapes


def initial_weights(model: IclModel, task: RegressionTask, seed: int) -> Weights:
    """Return the float32 weights that a run starts from.

    Each array has its own random stream, so models that differ in one part start alike in the others. `init` fixes
    the matrices that it names; all else is "random": uniform within 1/sqrt(fan-in) of zero, as torch.nn.Linear draws
    weights and biases, with fan-in D, and H D for O.

    * `small_id`: Q, K, V = 1e-6 I, and O = 1e-6 I where it is square because `n_out` is null.
    * `small_id_qk`: Q, K = 1e-4 I.
    * `oppo_small_id`: Q = 1e-6 I in the first half of the heads and -1e-6 I in the second, K = 1e-6 I.

    Paper: He et al. 2025, arXiv 2503.12734. Theirs starts one model from one global generator.
    """
    shapes = weight_shapes(model, task)
    width = task.d_token
    weights: Weights = {}
    for name, shape in shapes.items():
        fan_in = width * model.n_heads if name in ("W_O", "b_O") else width
        draw = rng.generator(seed, "initial weights", name).uniform(-1, 1, shape)
        weights[name] = (draw / math.sqrt(fan_in)).astype(np.float32)
    for name, factors in _identities(model).items():
        weights[name][:] = factors[:, None, None] * np.eye(width)
    return weights


def _identities(model: IclModel) -> dict[str, np.ndarray]:
    """Return the matrices that an init makes multiples of the identity, with the factor of each head."""
    ones = np.ones(model.n_heads)
    if model.init == "small_id":
        square = "O" if model.n_out is None else ""
        return {f"W_{name}": 1e-6 * ones for name in "QKV" + square}
    if model.init == "small_id_qk":
        return {"W_Q": 1e-4 * ones, "W_K": 1e-4 * ones}
    if model.init == "oppo_small_id":
        signs = np.where(np.arange(model.n_heads) < model.n_heads // 2, 1.0, -1.0)
        return {"W_Q": 1e-6 * signs, "W_K": 1e-6 * ones}
    return {}
