"""Declare: what a run of the in-context laboratory costs; see `budget.py`."""

from headway.declare.model import OneLayer
from headway.declare.run import RegressionRun


def parameters_by_part(run: RegressionRun) -> dict[str, int]:
    """How many numbers are trained: Q, K, V, O, and what else there is."""
    task, model, heads, width = run.task, run.model, run.model.n_heads, run.task.d_token
    one = isinstance(model, OneLayer)
    layers = 1 if isinstance(model, OneLayer) or model.tied else model.n_layers
    square = layers * heads * width * width
    parameters = {"Q": square, "K": square, "V": square, "O": layers * heads * _rows(run) * width}
    if not one:
        parameters["final map"] = task.d_y * width
    if model.bias:
        parameters["biases"] = layers * (3 * heads * width + _rows(run)) + (0 if one else task.d_y)
    return parameters


def forward_flops(run: RegressionRun) -> int:
    """Floating-point operations of a forward pass of one prompt.

    A head's work where a token looks: its row of QK, its OV, and two products of tokens per token that it sees. In
    the last layer only the query looks; below, every token does, at those before it.
    """
    task, model, width, length = run.task, run.model, run.task.d_token, run.task.n_pairs
    depth = 1 if isinstance(model, OneLayer) else model.n_layers
    looking = 1 + (depth - 1) * (length + 1)
    seen = length + (depth - 1) * (length + 1) * length // 2
    final = 0 if isinstance(model, OneLayer) else 2 * task.d_y * width
    return model.n_heads * (2 * width * (width + _rows(run)) * looking + 4 * width * seen) + final


def training_bytes(run: RegressionRun) -> int:
    """Weights, gradients and optimizer state, and one batch."""
    state = {"sgd": 2, "adam": 4, "adamw": 4}[run.training.optimizer]
    batch = run.training.batch_size * (run.task.n_pairs + 1) * run.task.d_token
    return 4 * (state * sum(parameters_by_part(run).values()) + batch)


def _rows(run: RegressionRun) -> int:
    """Rows of O: a whole token, or the outputs."""
    whole = not isinstance(run.model, OneLayer) or run.model.n_out is None
    return run.task.d_token if whole else run.task.d_y
