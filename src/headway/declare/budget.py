"""Declare: parameters, arithmetic and memory, counted before a run.

Parameters are exact (a law: they equal the built model's). FLOPs count a multiplication and an addition as
two, of the products of matrices in a forward pass; training costs about three times as much.
"""

from pydantic import NonNegativeInt, PositiveInt

from headway.declare import regression_budget, text_budget
from headway.declare.run import RegressionRun, RunSpec, TextRun
from headway.declare.spec import Spec


class Budget(Spec):
    """What a run costs. An example is a prompt, or a sequence of tokens."""

    parameters: dict[str, NonNegativeInt]
    """Parameters by part."""
    flops_per_example: NonNegativeInt
    """Floating-point operations of a forward pass of one example."""
    tokens_per_example: PositiveInt
    """Tokens of an example."""
    training_bytes: NonNegativeInt
    """Weights, gradients, optimizer state and what a batch keeps for the backward pass; an estimate."""

    @property
    def n_parameters(self) -> int:
        """All parameters."""
        return sum(self.parameters.values())

    @property
    def flops_per_token(self) -> float:
        """Floating-point operations of a forward pass, for each token of an example."""
        return self.flops_per_example / self.tokens_per_example


def budget(run: RunSpec) -> Budget:
    """Count what a run costs.

    Raises:
        DeclarationError: when the size of a vocabulary stands in a tokenizer's folder that cannot be read.

    Examples:
        >>> from headway.declare.experiment import load
        >>> budget(load("icl-heads").arm("h2").spec(0)).n_parameters
        228
        >>> budget(load("head-progression", scale="paper").arm("descending-low").spec(0)).n_parameters
        68514048
    """
    if isinstance(run, TextRun):
        return Budget(
            parameters=text_budget.parameters_by_part(run.model, run.task.vocab_size),
            flops_per_example=text_budget.forward_flops(run.model, run.task.vocab_size, run.task.n_ctx),
            tokens_per_example=run.task.n_ctx,
            training_bytes=text_budget.training_bytes(run),
        )
    assert isinstance(run, RegressionRun)
    return Budget(
        parameters=regression_budget.parameters_by_part(run),
        flops_per_example=regression_budget.forward_flops(run),
        tokens_per_example=run.task.n_pairs + 1,
        training_bytes=regression_budget.training_bytes(run),
    )
