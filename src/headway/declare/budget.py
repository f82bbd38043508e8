"""Declare: parameters, arithmetic and memory, counted before a run.

Parameters are exact (a law: they equal the built model's). FLOPs count a multiplication and an addition as
two, and the forward pass only; training costs about three times as much.
"""

from pydantic import NonNegativeInt

from headway.declare.model import OneLayer
from headway.declare.run import RegressionRun
from headway.declare.spec import Spec


class Budget(Spec):
    """What a run costs."""

    parameters: dict[str, NonNegativeInt]
    """Parameters by part."""
    flops_per_example: NonNegativeInt
    """Floating-point operations of a forward pass of one example."""
    training_bytes: NonNegativeInt
    """Weights, gradients and optimizer state, and one batch."""

    @property
    def n_parameters(self) -> int:
        """All parameters."""
        return sum(self.parameters.values())


def budget(run: RegressionRun) -> Budget:
    """Count what a run of the in-context laboratory costs.

    Examples:
        >>> from headway.declare.experiment import load
        >>> budget(load("icl-heads").arm("h2").spec(0)).n_parameters
        228
    """
    task, model, heads = run.task, run.model, run.model.n_heads
    width, length = task.d_token, task.n_pairs
    stack = not isinstance(model, OneLayer)
    layers = 1 if isinstance(model, OneLayer) or model.tied else model.n_layers
    rows = width if (isinstance(model, OneLayer) and model.n_out is None) or stack else task.d_y
    square = layers * heads * width * width
    parameters = {"Q": square, "K": square, "V": square, "O": layers * heads * rows * width}
    if stack:
        parameters["final map"] = task.d_y * width
    if model.bias:
        parameters["biases"] = layers * (3 * heads * width + rows) + (task.d_y if stack else 0)
    depth = 1 if isinstance(model, OneLayer) else model.n_layers
    # A head's work where a token looks: its row of QK, its OV, and two products of tokens per token that it sees. In
    # the last layer only the query looks; below, every token does, at those before it.
    looking = 1 + (depth - 1) * (length + 1)
    seen = length + (depth - 1) * (length + 1) * length // 2
    flops = heads * (2 * width * (width + rows) * looking + 4 * width * seen) + (2 * task.d_y * width if stack else 0)
    state = {"sgd": 2, "adam": 4, "adamw": 4}[run.training.optimizer]
    numbers = state * sum(parameters.values()) + run.training.batch_size * (length + 1) * width
    return Budget(parameters=parameters, flops_per_example=flops, training_bytes=4 * numbers)
