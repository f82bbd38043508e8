"""Declare: what every task of transformers on tokens says of itself."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headway.declare.run import Task
from headway.declare.tokens.training import TokensTraining
from headway.declare.tokens.transformer import TransformerModel


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
