"""Declare: parameters, arithmetic and memory, counted before a run.

Parameters are exact (a law: they equal the built model's). FLOPs count a multiplication and an addition as
two, of the products of matrices in a forward pass; training costs about three times as much.
"""

from pydantic import NonNegativeInt, PositiveInt

from headway.declare.spec import Spec


class Budget(Spec):
    """What a run costs. An example is a prompt, or a sequence of tokens.

    Examples:
        >>> from headway.declare.loading import load
        >>> load("icl-heads").arm("h2").spec(0).budget.n_parameters
        228
        >>> load("head-progression", scale="paper").arm("descending-low").spec(0).budget.n_parameters
        68514048
    """

    parameters: dict[str, NonNegativeInt]
    """Parameters by part."""
    flops_per_example: NonNegativeInt
    """Floating-point operations of a forward pass of one example."""
    tokens_per_example: PositiveInt
    """Tokens of an example."""
    training_bytes: NonNegativeInt
    """Weights, gradients, optimizer state and what a batch keeps for the backward pass; an estimate."""
    judging_bytes: NonNegativeInt = 0
    """What it is judged on, where that is in memory at once; an estimate."""

    @property
    def peak_bytes(self) -> int:
        """The most that it needs at any time: while it trains, or while it is judged."""
        return max(self.training_bytes, self.judging_bytes)

    @property
    def n_parameters(self) -> int:
        """All parameters."""
        return sum(self.parameters.values())

    @property
    def flops_per_token(self) -> float:
        """Floating-point operations of a forward pass, for each token of an example."""
        return self.flops_per_example / self.tokens_per_example
