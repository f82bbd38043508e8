"""QK and OV circuits of the heads of an in-context model, and the two numbers read off them, w and mu.

A full-width head enters the model only through two matrices. QK_h = W_K^T W_Q / sqrt(D) scores pair i for the query as
z_i . QK_h z_q. OV_h = W_O W_V turns an attended token into outputs. Trained heads show QK_h = w_h I on the x block and
OV_h = mu_h in the y entry, so a head is the pair (w_h, mu_h). Biases are no part of a circuit.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734.
"""

import math

import numpy as np
from jaxtyping import Float

from headway.config.regression import IclModel, OneLayer, RegressionTask
from headway.icl.weights import Weights

PATTERN_FIT = ("diagonal_variance", "largest_off_diagonal", "largest_y_row", "largest_other_ov")
"""The columns of `head_table` that tell how far a head is from the pattern: all are 0 in it."""


def circuits(weights: Weights, model: IclModel, task: RegressionTask) -> dict[str, np.ndarray]:
    """Return the circuits of every layer and head, float64.

    Returns:
        `qk` (layers, H, D, D): row = the token that is seen, column = the token that looks.
        `ov` (layers, H, d_y, D): from a seen token to the outputs. In a stack every layer's is multiplied by the
        final map, as if that layer wrote to the outputs directly.

    Examples:
        >>> from headway.icl.weights import initial_weights
        >>> task = RegressionTask(kind="regression", d_x=2, n_pairs=8)
        >>> model = OneLayer(family="icl", n_heads=2, n_out=1, init="oppo_small_id")
        >>> qk = circuits(initial_weights(model, task, seed=0), model, task)["qk"]
        >>> [float(head[0, 0]) > 0 for head in qk[0]]
        [True, False]
    """
    W_Q, W_K, W_V, W_O = (weights[f"W_{name}"].astype(np.float64) for name in "QKVO")
    qk = np.einsum("lhnk,lhnq->lhkq", W_K, W_Q) / math.sqrt(task.d_token)
    ov = W_O @ W_V
    if not isinstance(model, OneLayer):
        ov = weights["W_F"].astype(np.float64) @ ov
    return {"qk": qk, "ov": ov[:, :, -task.d_y :]}


def head_scalars(
    qk: Float[np.ndarray, "head D D"], ov: Float[np.ndarray, "head d_y D"], task: RegressionTask
) -> tuple[np.ndarray, np.ndarray]:
    """Return the w and mu of each head of one layer: (H,), or (H, d_y) when there are several outputs.

    w is the mean of QK's diagonal over the coordinates of x that an output reads; mu is OV's entry from the y of an
    output to that output.
    """
    table = head_table(qk, ov, task)
    return table["w"], table["mu"]


def head_table(
    qk: Float[np.ndarray, "head D D"], ov: Float[np.ndarray, "head d_y D"], task: RegressionTask
) -> dict[str, np.ndarray]:
    """Return how well each head of one layer fits the pattern, in columns (H,), or (H, d_y) for several outputs.

    `w` and `mu` are those of `head_scalars`. `diagonal_variance` is the population variance of the diagonal that w
    averages. `largest_off_diagonal` is taken in the d_x by d_x block of QK. `largest_y_row` is taken among the entries
    of QK by which a pair's y moves its score (those in the query's y column multiply 0). `largest_other_ov` is taken in
    an output's row of OV, mu left out. The largest are absolute values, and 0 in the pattern.
    """
    d = task.d_x
    reads = task.read_mask()
    off_diagonal = np.where(np.eye(d, dtype=bool), 0.0, np.abs(qk[:, :d, :d])).max(axis=(1, 2))
    y_row = np.abs(qk[:, d:, :d]).max(axis=(1, 2))
    diagonal = np.diagonal(qk[:, :d, :d], axis1=1, axis2=2)
    read = [diagonal[:, mask] for mask in reads]
    is_mu = np.eye(task.d_y, task.d_token, k=d, dtype=bool)
    table = {
        "w": np.stack([entries.mean(axis=1) for entries in read], axis=1),
        "diagonal_variance": np.stack([entries.var(axis=1) for entries in read], axis=1),
        "largest_off_diagonal": np.repeat(off_diagonal[:, None], task.d_y, axis=1),
        "largest_y_row": np.repeat(y_row[:, None], task.d_y, axis=1),
        "mu": ov[:, is_mu],
        "largest_other_ov": np.where(is_mu, 0.0, np.abs(ov)).max(axis=2),
    }
    return {name: column[:, 0] if task.d_y == 1 else column for name, column in table.items()}
