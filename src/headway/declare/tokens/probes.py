"""Declare: what is measured in the heads while a model trains."""

from collections import Counter
from typing import Annotated

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveInt, WithJsonSchema, field_validator

from headway.declare.head_metrics import HEAD_METRICS
from headway.declare.run import Training
from headway.declare.spec import Spec
from headway.errors import near
from headway.words import counted


def _known(metric: str) -> str:
    if metric not in HEAD_METRICS:
        raise ValueError(f"{metric!r} is no metric of heads; {near(metric, HEAD_METRICS)}")
    return metric


class HeadProbes(Spec):
    """What is measured in the heads while a language model trains: families of metrics, single ones, or nothing.

    The batch is a fixed one of held-out text, of random tokens for what needs repetition; measuring changes nothing in
    training.
    """

    every: PositiveInt = Field(500, description="steps between probes; the first and the last step are probed too")
    dense_until: NonNegativeInt = Field(0, description="every step up to this one is probed")
    sequences: PositiveInt = Field(8, description="held-out sequences, the same at every probe and for every seed")
    diversity: bool = Field(False, description="how alike a layer's heads are, raw and normalised")
    patterns: bool = Field(
        False, description="what heads attend to: entropy, sink, previous token, induction and others"
    )
    circuits: bool = Field(False, description="what the weights alone say: effective ranks and copying")
    published: bool = Field(False, description="metrics as a published code computes them, for comparison")
    outputs: bool = Field(False, description="how much each head adds to the stream: its share in its layer's heads")
    importance: bool = Field(
        False,
        description="how much the loss is sensitive to each head, by a gradient: a forward and a backward pass a probe",
    )
    metrics: tuple[
        Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": list(HEAD_METRICS)})], ...
    ] = Field((), description="single metrics by name, beside the families")

    @field_validator("metrics")
    @classmethod
    def _once(cls, metrics: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [metric for metric, count in Counter(metrics).items() if count > 1]:
            raise ValueError(f"{twice[0]} stands twice; keep one")
        return metrics

    @property
    def chosen(self) -> tuple[str, ...]:
        """The metrics that a plain pass shows, in their declared order; empty when none is asked for."""
        return tuple(
            metric.name
            for metric in HEAD_METRICS.values()
            if getattr(self, metric.family, False) or metric.name in self.metrics
        )


def about_importance(probes: HeadProbes, training: Training, steps: int | None) -> tuple[str, ...]:
    """What probes of importance cost, in a sentence; nothing where none are taken, or how many is not known."""
    if not (probes.importance and steps):
        return ()
    taken = 1 + probes.dense_until + steps // probes.every
    share = taken * probes.sequences / (steps * training.batch_size)
    return (
        f"probes.importance: a forward and a backward pass of {counted(probes.sequences, 'sequence')} every "
        f"{probes.every:,} steps, about {100 * share:.2g} % of what training takes",
    )
