"""Declare: what every task of transformers on tokens says of itself.

Declare: tasks whose answer is known: theory, or a published table, says what a model needs for them.

They are small, so that an answer is a share of hundreds of seeds. What a model could express (`best_possible`) and what
training finds are two things; experiments show both.
"""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
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
    """The `Judge` that evaluates its models."""
    baselines: ClassVar[str]
    """The function that says what needs no training."""
    expectations: ClassVar[str] = ""
    """The function that says what is known of the examples before they are made; empty: there is nothing to say."""
    loss: ClassVar[str] = "loss_nats"
    """What is minimised: the mean cross-entropy of answers that are classes, or `mse` of answers that are numbers."""

    asked_last: ClassVar[int | None] = None
    """How many of the last positions are asked, where no others are; None: any may be."""

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
        """What a read-out needs to tell apart: classes, or the numbers of an answer."""
        return self.vocab_size

    def check_model(self, model: TransformerModel) -> None:
        """See that a model can read the inputs and give the answers.

        Raises:
            ValueError: saying what it cannot, and what to change.
        """
        for name, is_given in (("encoder", model.encoder is not None), ("class_token", model.class_token)):
            if is_given:
                raise ValueError(
                    f"model.{name} was given, but task.kind {self.kind} is sequences of tokens; leave it out"
                )
        if model.readout is not None and model.readout < self.n_answers:
            raise ValueError(
                f"model.readout {model.readout} is narrower than the {self.n_answers} answers of task.kind "
                f"{self.kind}; give {self.n_answers}"
            )

    def check_training(self, training: TokensTraining) -> None:
        """See that its examples can be trained on so.

        Raises:
            ValueError: saying what to change.
        """

    def best_possible(self, model: TransformerModel) -> Mapping[str, float]:  # noqa: ARG002
        """What no model of this shape gets beyond, by metric, as far as it is known."""
        return {}

    @property
    def corpora(self) -> tuple[str, ...]:
        """What examples are made from; none where they are drawn."""
        return ()

    @property
    def files(self) -> tuple[Path, ...]:
        """What of that, and of what reads it, are files and folders of the user's."""
        return ()

    @property
    def expected_sequences(self) -> float | None:
        """About how many sequences an epoch has; None where that shows when the data are read."""
        return None

    def why_not_prompt(self, prompt: str) -> str | None:  # noqa: ARG002
        """Why a sample cannot begin with a prompt, and what to do, in a clause; None where it can."""
        return None


MOST_INPUTS = 2**16
"""Of a task whose inputs are all listed."""


class KnownTask(TokensTask):
    """A task whose answer is known; its examples are drawn, or all of its inputs once."""

    primary: ClassVar[str] = "solved"
    judge: ClassVar[str] = "headway.train.lm.evaluate.KnownJudge"
    baselines: ClassVar[str] = "headway.stats.lm.summary.known_baselines"

    solved_above: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="a run has solved the task with a larger share of right answers than this; null: with all of them, "
        "and .99 where inputs cannot be listed",
    )

    @property
    def n_inputs(self) -> int | None:
        """How many inputs there are; a batch as large as that is all of them once. None where they are not listed."""
        return None

    @property
    def enough(self) -> float:
        """The least share of right answers of a run that has solved it, or what that share has to be above."""
        return self.solved_above if self.solved_above is not None else 1.0 if self.n_inputs is not None else 0.99

    def is_solved(self, accuracy: float) -> bool:
        """Whether a share of right answers is a solution."""
        return accuracy >= 1.0 or (self.enough < 1.0 and accuracy > self.enough)

    def best_possible(self, model: TransformerModel) -> Mapping[str, float]:  # noqa: ARG002
        """All right, or no error: more than that is a defect whatever the model."""
        return {"nmse": 0.0} if self.loss == "mse" else {"accuracy": 1.0}

    def by_chance(self) -> float | None:
        """The share that is right of a model that cannot look up what belongs to what; None where nobody says."""
        return None

    def check_training(self, training: TokensTraining) -> None:
        """See that there is a number of steps, and no larger batch than there are inputs.

        Raises:
            ValueError: saying what to give instead.
        """
        super().check_training(training)
        if self.n_inputs is None and training.epochs is not None:
            raise ValueError(f"training.epochs: examples of task.kind {self.kind} are drawn without end; give steps")
        if self.n_inputs is not None and training.batch_size > self.n_inputs:
            raise ValueError(
                f"training.batch_size {training.batch_size} is above the {self.n_inputs} inputs of {self.title}; give "
                f"{self.n_inputs} for all of them in every step, or fewer to draw them"
            )

    def why_not_prompt(self, prompt: str) -> str | None:  # noqa: ARG002
        """There is no text."""
        return f"task.kind {self.kind} has no text to go on with; leave samples out"


def is_one_attention(model: TransformerModel) -> bool:
    """Whether a model is one layer of softmax attention and nothing else, of which theorems speak."""
    return (
        model.n_layers == 1
        and model.attention == SOFTMAX
        and model.mlp == "none"
        and model.norm == "none"
        and not model.smeared_keys
        and not model.class_token
    )
