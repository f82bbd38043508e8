"""Training of a transformer: optimizer, schedule, batch and length.

The optimizers follow torch.optim of the same name, term by term.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, WithJsonSchema

from headway.config.run import Training
from headway.config.spec import METRICS_ONCE, BelowOne, Betas, Spec, known_in, whole

Better = Literal["high", "low"]

REGULARIZED: dict[str, Better] = {
    "disagreement_subspace": "high",
    "disagreement_position": "high",
    "disagreement_output": "high",
    "orthogonality": "low",
    "output_dissimilarity": "high",
    "query_cka": "low",
    "context_cka": "low",
}
"""Differentiable measures of heads, and the direction of more difference; functions are in `heads.regularizers`."""
OWN_TERMS: dict[str, Callable[..., Any]] = {}
"""Functions of the measures that plugins register, by name."""


RegularizedMetric = Annotated[str, known_in(REGULARIZED), WithJsonSchema({"type": "string", "enum": list(REGULARIZED)})]


class Regularizer(Spec):
    """A loss term that increases differences between the heads of a layer; layers with one head have no term.

    The term of a model is the mean over its layers. It is weight times the measure, with the sign that makes heads
    different: Li et al. minimise NLL - weight D.

    Papers: Li et al. 2018, arXiv 1810.10183 (disagreement, weight 1 there); Lee et al. 2019, arXiv 1910.04500.
    """

    metric: RegularizedMetric
    """the metric that the term lowers (a similarity of heads) or raises (a difference between heads) in every layer"""
    weight: PositiveFloat = 1.0
    """factor of the term in the loss"""
    schedule: Literal["constant", "rising", "falling"] = "constant"
    """schedule of the factor: constant, rising linearly from 0, or falling linearly to 0"""

    def weight_at(self, step: int, steps: int) -> float:
        """Return the weight at a step (the first is 1) of a given number of steps.

        Examples:
            >>> rising = Regularizer(metric="query_cka", weight=2.0, schedule="rising")
            >>> [rising.weight_at(step, 4) for step in (1, 2, 3, 4)]
            [0.5, 1.0, 1.5, 2.0]
        """
        share = {"constant": 1.0, "rising": step / steps, "falling": (steps + 1 - step) / steps}
        return self.weight * share[self.schedule]


class DropHead(Spec):
    """DropHead: for each example, drop each head with probability p, and scale up the remaining heads.

    p falls linearly from `start` to 0 and then rises linearly to `end`.

    Paper: Zhou et al. 2020, arXiv 2004.13342.
    """

    start: BelowOne = 0.2
    """probability that a head is dropped at the first step"""
    end: BelowOne = 0.2
    """probability that a head is dropped at the last step"""
    turn: float = Field(0.5, gt=0, lt=1)
    """point of training, as a share of the steps, at which the probability has fallen to 0; afterwards the probability
    rises to `end`"""

    @whole
    def _check_whole(self) -> None:
        if self.start == self.end == 0:
            raise ValueError("start and end are 0, so no head would ever be dropped; raise one, or leave drophead out")

    def probability_at(self, step: int, steps: int) -> float:
        """Return the probability at a step (the first is 1) of a given number of steps.

        Examples:
            >>> drophead = DropHead(start=0.2, end=0.4, turn=0.5)
            >>> [round(drophead.probability_at(step, 5), 3) for step in (1, 2, 3, 4, 5)]
            [0.2, 0.1, 0.0, 0.2, 0.4]
        """
        done = (step - 1) / max(1, steps - 1)
        if done <= self.turn:
            return self.start * (1 - done / self.turn)
        return self.end * (done - self.turn) / (1 - self.turn)


class _TokensTraining(Training):
    """The settings that every language model's training has; its length is given in one of three units."""

    steps: NonNegativeInt | None = None
    """number of optimizer steps; give exactly one of `steps`, `tokens` and `epochs`. 0 is allowed only with
    `init_from`"""
    tokens: PositiveInt | None = None
    """number of training tokens, instead of `steps`"""
    epochs: PositiveFloat | None = None
    """number of passes over the corpus, instead of `steps`"""
    batch_size: PositiveInt
    """number of sequences per optimizer step"""
    grad_accumulation: PositiveInt = 1
    """number of equal parts into which a batch is split to save memory; the gradients of the parts are summed"""
    learning_rate: PositiveFloat
    """the peak learning rate"""
    warmup_steps: NonNegativeInt = 0
    """number of warm-up steps, during which the learning rate rises from 0"""
    lr_schedule: Literal["linear", "cosine", "constant"] = "linear"
    """schedule of the learning rate after warm-up; linear and cosine fall to 0 at the last step"""
    clip: float | None = Field(1.0, gt=0)
    """maximum gradient norm (gradient clipping); null: no clipping"""
    precision: Literal["fp32", "bf16"] = "fp32"
    """precision of matrix products; weights stay fp32"""
    betas: Betas = (0.9, 0.999)
    """decay rates of the running means of the gradient and of the squared gradient"""
    eps: PositiveFloat = 1e-8
    """epsilon: number added to the root of the mean squared gradient"""
    weight_decay: NonNegativeFloat = 0.0
    """decoupled weight decay: each step multiplies matrices by 1 - learning_rate * weight_decay"""
    regularizers: Annotated[tuple[Regularizer, ...], METRICS_ONCE] = ()
    """loss terms that increase differences between the heads of a layer"""
    drophead: DropHead | None = None
    """dropout of whole heads during training; null: none"""

    @whole
    def _check_whole(self) -> None:
        given = [name for name in ("steps", "tokens", "epochs") if getattr(self, name) is not None]
        if len(given) != 1:
            amount = "none was given" if not given else f"{' and '.join(given)} were given"
            raise ValueError(f"the length of training is given by one of steps, tokens and epochs; {amount}")
        if self.batch_size % self.grad_accumulation:
            raise ValueError(
                f"grad_accumulation {self.grad_accumulation} does not divide batch_size {self.batch_size}; "
                "the parts of a batch are equal"
            )


class TokensAdamW(_TokensTraining):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101)."""

    optimizer: Literal["adamw"]


class Muon(_TokensTraining):
    """Muon for the matrices of the layers, AdamW for all other parameters (Jordan et al. 2024)."""

    optimizer: Literal["muon"]
    momentum: BelowOne = 0.95
    """momentum of Muon: the share of the previous update that is kept"""
    adamw_learning_rate: PositiveFloat
    """the peak learning rate of AdamW"""


TokensTraining = Annotated[TokensAdamW | Muon, Field(discriminator="optimizer")]
