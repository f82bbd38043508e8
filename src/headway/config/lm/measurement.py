"""Probes of heads during training, evaluation, text samples, and measurements of the trained model."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, WithJsonSchema

from headway.base.text import counted
from headway.config.head_metrics import HEAD_METRICS
from headway.config.run import Training
from headway.config.spec import ONCE, Spec, known_in

MetricName = Annotated[
    str,
    known_in(HEAD_METRICS, "is not a metric of heads"),
    WithJsonSchema({"type": "string", "enum": list(HEAD_METRICS)}),
]


class HeadProbes(Spec):
    """The head metrics to measure during training: families such as `patterns`, or individual metrics.

    The batch is fixed held-out text, or random tokens for metrics that need repetition. Measuring changes nothing in
    training.
    """

    every: PositiveInt = 500
    """steps between measurements; the first and the last step are always measured"""
    dense_until: NonNegativeInt = 0
    """step up to which metrics are measured at every step"""
    sequences: PositiveInt = 8
    """number of held-out sequences; all steps and seeds share the same sequences"""
    diversity: bool = False
    """whether to measure the similarity of the heads in a layer, with raw and normalised metrics"""
    patterns: bool = False
    """whether to measure attention patterns: entropy, attention to a sink or the previous token, induction and
    others"""
    circuits: bool = False
    """whether to measure each head's QK and OV matrices: effective ranks and copying"""
    published: bool = False
    """whether to measure some metrics as published code computes them, for comparison"""
    outputs: bool = False
    """whether to measure each head's output: its share of the layer's output, its constant part, and its correlation
    with the outputs of other heads"""
    importance: bool = False
    """whether to measure the sensitivity of the loss to each head, by gradients; each measurement needs one more
    forward and backward pass"""
    metrics: Annotated[tuple[MetricName, ...], ONCE] = ()
    """names of individual metrics to measure in addition to the families above"""

    @property
    def chosen(self) -> tuple[str, ...]:
        """The metrics that a plain forward pass shows, in their declared order."""
        return tuple(
            metric.name
            for metric in HEAD_METRICS.values()
            if getattr(self, metric.family, False) or metric.name in self.metrics
        )


def about_importance(probes: HeadProbes, training: Training, steps: int | None) -> tuple[str, ...]:
    """Return a sentence on the cost of importance probes; nothing if there are none or their number is unknown."""
    if not (probes.importance and steps):
        return ()
    share = (1 + probes.dense_until + steps // probes.every) * probes.sequences / (steps * training.batch_size)
    return (
        f"probes.importance: a forward and a backward pass of {counted(probes.sequences, 'sequence')} every "
        f"{probes.every:,} steps, about {100 * share:.2g} % of what training takes",
    )


PROMPT = "Once upon a time there was"
"""The default prompt; a tokenizer that makes no tokens of it begins a text with none."""


class TokensEvaluation(Spec):
    """The held-out sequences on which models are evaluated; all runs of a task share these sequences."""

    every: PositiveInt = 1_000
    """steps between evaluations during training"""
    sequences_during: PositiveInt = 64
    """number of sequences in each evaluation during training"""
    sequences: PositiveInt | None = None
    """number of sequences in the final evaluation; null: all held-out sequences"""


class Samples(Spec):
    """The texts that a model generates before and after training."""

    prompt: str = PROMPT
    """the text to continue; for a corpus of token ids, the default is no prompt"""
    tokens: PositiveInt = 500
    """number of tokens to generate, limited by the longest context"""
    temperature: NonNegativeFloat = 0.9
    """sampling temperature; 0: always the likeliest token"""
    top_k: PositiveInt | None = None
    """sample only from the k likeliest tokens; null: from all tokens"""
    top_p: float | None = Field(None, gt=0, le=1)
    """sample only from the likeliest tokens up to this cumulative probability"""
    count: PositiveInt = 1
    """number of texts to generate"""


class AblateHeads(Spec):
    """Zero, mean and resample ablation of every head of the trained model.

    The effects are final metrics, and metrics of an atlas.
    """

    sequences: int = Field(32, ge=2)
    """number of held-out sequences for the loss; as many others supply outputs for mean and resample ablation"""
    mean: Literal["positions", "per-position"] = "positions"
    """the mean for mean ablation: over sequences and positions (positions), or over sequences at each position
    (per-position)"""


class AfterTraining(Spec):
    """The measurements of the trained model; none by default."""

    ablate: AblateHeads | None = None
    """ablation of each head; null: none"""
