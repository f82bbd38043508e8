"""Declare: one training run, whole: everything that can change its result, and nothing else.

A run is known by its content. Names, scales, workers and logging are not part of it; where and how it was
executed is recorded beside it, not in it.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, NonNegativeInt, model_validator

from headway.declare.head_metrics import REPEATED
from headway.declare.model import OneLayer, RegressionModel
from headway.declare.spec import Locate, Spec, parse
from headway.declare.task import CircuitProbes, PromptEvaluation, RegressionTask
from headway.declare.text import Samples, TextEvaluation, TextProbes, TextTask
from headway.declare.training import TextTraining, TrainingSpec
from headway.declare.transformer import LanguageModel
from headway.errors import DeclarationError, near
from headway.identity import digest


class RunSpec(Spec):
    """What every kind of run has: a seed, and an id by content."""

    seed: NonNegativeInt = Field(description="seeds the initial weights and the training data")

    @property
    def id(self) -> str:
        """`run1-` and a hash of everything that can change the result, defaults left out."""
        return "run1-" + digest(self.content())


class RegressionRun(RunSpec):
    """A run of the in-context laboratory."""

    task: RegressionTask
    model: RegressionModel
    training: TrainingSpec
    evaluation: PromptEvaluation = Field(PromptEvaluation(), description="on what the run is judged")
    probes: CircuitProbes = Field(CircuitProbes(), description="what is measured in the heads")

    @model_validator(mode="after")
    def _outputs(self) -> "RegressionRun":
        n_out = self.model.n_out if isinstance(self.model, OneLayer) else None
        if n_out not in (None, self.task.d_y):
            raise ValueError(f"model.n_out is {n_out} but task.d_y is {self.task.d_y}; make them equal, or n_out null")
        return self


class TextRun(RunSpec):
    """A run of the language-model laboratory."""

    task: TextTask
    model: LanguageModel
    training: TextTraining
    evaluation: TextEvaluation = Field(TextEvaluation(), description="on what the run is judged")
    probes: TextProbes = Field(TextProbes(), description="what is measured in the heads")
    samples: Samples | None = Field(Samples(), description="what the model writes before and after; null: nothing")

    @model_validator(mode="after")
    def _context(self) -> "TextRun":
        if self.task.n_ctx > self.model.n_positions:
            raise ValueError(
                f"task.n_ctx {self.task.n_ctx} is longer than the model's {self.model.n_positions} positions; "
                "shorten it, or raise model.n_positions"
            )
        if self.model.attends == "future" and self.samples is not None:
            raise ValueError(
                "model.attends is future, and such a model cannot write: the text that it would look at is not there "
                "yet; set samples to null"
            )
        return self

    @model_validator(mode="after")
    def _heads_to_measure(self) -> "TextRun":
        chosen, most = self.probes.chosen, max(self.model.layout.n_heads)
        repeated = [metric for metric in chosen if metric in REPEATED]
        if repeated and self.task.n_ctx < 4:
            raise ValueError(
                f"probes: {repeated[0]} repeats random tokens, and task.n_ctx {self.task.n_ctx} has no room for two "
                "of them twice; raise task.n_ctx to 4 or more, or leave the metric out"
            )
        if chosen and most == 0:
            raise ValueError(f"probes: {chosen[0]} measures heads, but the model has none; leave probes out")
        pairs = [f"regularizers: {term.metric}" for term in self.training.regularizers]
        pairs += [] if self.training.drophead is None else ["drophead"]
        if pairs and most < 2:
            raise ValueError(
                f"training.{pairs[0]} needs a layer with two heads or more, but the heads are {self.model.layout}; "
                "raise model.n_heads, or leave it out"
            )
        return self


RUN_KINDS: dict[str, type[RunSpec]] = {"regression": RegressionRun, "text": TextRun}
"""The type of a run for each `task.kind`."""


def parse_run(content: Mapping[str, Any], locate: Locate = str) -> RunSpec:
    """Validate the whole content of a run; its type is that of its `task.kind`.

    Raises:
        DeclarationError: with one line per wrong key or value.
    """
    task = content.get("task")
    kind = task.get("kind") if isinstance(task, Mapping) else None
    if kind not in RUN_KINDS:
        raise DeclarationError(f"{locate('task.kind')}: {kind!r} is not known; {near(str(kind), RUN_KINDS)}")
    return parse(RUN_KINDS[kind], content, locate)
