"""Tasks of transformers on tokens, and the base of tasks whose answer is known.

Theory, or a published table, says what a model needs to solve a task with a known answer. These tasks are small, so
that an answer is a share of hundreds of seeds. `best_possible` is what a model could express, which may differ from
what training finds; experiments show both.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from headway.config.lm.model import SOFTMAX, TransformerModel
from headway.config.lm.training import TokensTraining
from headway.config.run import Task


class TokensTask(Task):
    """A task whose examples are sequences of tokens.

    A type names its parts in other rooms: a dotted name each, imported when it is used.
    """

    examples: ClassVar[str]
    """The function that makes the examples of a task."""
    judge: ClassVar[str]
    """The name of the `Judge` that evaluates its models."""
    baselines: ClassVar[str]
    """The function that gives its baselines, which need no training."""
    preflight: ClassVar[str] = ""
    """The function that gives messages about the examples before they are made; empty if there are none."""
    loss: ClassVar[str] = "loss_nats"
    """The training loss: the mean cross-entropy of answers that are classes, or `mse` of answers that are numbers."""

    asked_last: ClassVar[int | None] = None
    """The number of last positions that are asked, if no others are; None if any position may be."""

    if TYPE_CHECKING:  # a field, or a property where other fields decide it

        @property
        def n_ctx(self) -> int:
            """Tokens of a training sequence."""

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Tokens of the vocabulary.

        Raises:
            DeclarationError: when it stands in a file that cannot be read.
        """

    @property
    def n_answers(self) -> int:
        """The number of classes, or of numbers in an answer, that the read-out distinguishes."""
        return self.vocab_size

    def check_model(self, model: TransformerModel) -> None:
        """Raise an error if a model cannot read the inputs or give the answers.

        Raises:
            ValueError: saying what it cannot, and what to change.
        """
        for name in ("encoder", "class_token"):
            if getattr(model, name):
                raise ValueError(
                    f"model.{name} was given, but task.kind {self.kind} is sequences of tokens; leave it out"
                )
        if model.readout is not None and model.readout < self.n_answers:
            raise ValueError(
                f"model.readout {model.readout} is narrower than the {self.n_answers} answers of task.kind "
                f"{self.kind}; give {self.n_answers}"
            )

    def check_training(self, training: TokensTraining) -> None:
        """Raise an error if the training settings do not fit the examples.

        Raises:
            ValueError: saying what to change.
        """

    @property
    def expected_sequences(self) -> float | None:
        """The approximate number of sequences of an epoch; None if only the data can tell."""
        return None

    def why_not_prompt(self, prompt: str) -> str | None:  # noqa: ARG002
        """Return why a sample cannot begin with a prompt, and what to do, in a clause; None if it can."""
        return None


class SyntheticTask(TokensTask):
    """A task whose answer is known; its examples are drawn, or all of its inputs once."""

    primary: ClassVar[str] = "solved"
    judge: ClassVar[str] = "headway.train.lm.evaluate.SyntheticJudge"
    baselines: ClassVar[str] = "headway.stats.lm.summary.known_baselines"

    solved_above: float | None = Field(None, gt=0, lt=1)
    """accuracy above which a run solves the task; null: every answer must be correct, or more than 99 % of the answers
    if there are too many inputs to list"""

    @property
    def n_inputs(self) -> int | None:
        """The number of inputs, if they are listed, so that a batch of that size is all of them once; else None."""
        return None

    @property
    def enough(self) -> float:
        """The share of right answers that a run needs, or has to exceed, to have solved the task."""
        return self.solved_above if self.solved_above is not None else 1.0 if self.n_inputs is not None else 0.99

    def is_solved(self, accuracy: float) -> bool:
        """Return whether a share of right answers counts as a solution."""
        return accuracy >= 1.0 or (self.enough < 1.0 and accuracy > self.enough)

    def best_possible(self, model: TransformerModel) -> Mapping[str, float]:  # noqa: ARG002
        """Return full accuracy or no error: exceeding either is a defect whatever the model."""
        return {"nmse": 0.0} if self.loss == "mse" else {"accuracy": 1.0}

    def by_chance(self) -> float | None:
        """Return the accuracy of a model that cannot look up which tokens belong together; None if it is unknown."""
        return None

    def check_training(self, training: TokensTraining) -> None:
        """Raise an error if there is no number of steps, or if a batch is larger than the number of inputs.

        Raises:
            ValueError: saying what to give instead.
        """
        super().check_training(training)
        if self.n_inputs is None and training.epochs is not None:
            raise ValueError(f"training.epochs: examples of task.kind {self.kind} have no epochs; give steps")
        if self.n_inputs is not None and training.batch_size > self.n_inputs:
            raise ValueError(
                f"training.batch_size {training.batch_size} is above the {self.n_inputs} inputs of {self.title}; give "
                f"{self.n_inputs} for all of them in every step, or fewer to draw them"
            )

    def why_not_prompt(self, prompt: str) -> str | None:  # noqa: ARG002
        """Return why no sample is possible: the task has no text."""
        return f"task.kind {self.kind} has no text to continue; leave samples out"


def is_one_attention(model: TransformerModel) -> bool:
    """Return whether a model is one layer of softmax attention and nothing else, as the theorems assume."""
    return (
        model.n_layers == 1
        and model.attention == SOFTMAX
        and model.mlp == "none"
        and model.norm == "none"
        and not model.smeared_keys
        and not model.class_token
    )
