"""Declare: what every task of transformers on tokens says of itself."""

from abc import abstractmethod

from pydantic import Field, PositiveInt

from headway.declare.run import Task


class TokensTask(Task):
    """A task whose examples are sequences of tokens.

    The packages `data.tokens`, `train.tokens`, `compare.tokens` and `show.tokens` hold what they know of a kind of task
    in a module of its name.
    """

    n_ctx: PositiveInt = Field(description="tokens of a training sequence")

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Tokens of the vocabulary.

        Raises:
            DeclarationError: when it stands in a file that cannot be read.
        """

    @property
    def corpora(self) -> tuple[str, ...]:
        """What examples are made from; none where they are drawn."""
        return ()

    @property
    def expected_sequences(self) -> float | None:
        """About how many sequences an epoch has; None where that shows when the data are read."""
        return None

    def why_not_prompt(self, prompt: str) -> str | None:  # noqa: ARG002
        """Why a sample cannot begin with a prompt, and what to do, in a clause; None where it can."""
        return None
