"""The interface of tasks on tokens: batches of examples, and the functions that find a task's examples.

`open_examples` and `prepare` call the functions that the type of a task names: for a text, those in `text`.

Every batch is a pure function of task, seed and step. `text` supplies batches of a corpus, `synthetic` examples that
are drawn or listed, including those of the user's own types.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float32, Int64

from headway.config.lm.run import TokensRun
from headway.config.lm.task import TokensTask
from headway.config.run import imported

if TYPE_CHECKING:
    from headway.data.tokenizer import Tokenizer


MASKED = -1
"""The target of a position whose answer is not asked for."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Sequences side by side, with the answer at each position; -1, or NaN, where none is asked for.

    `kinds` distinguishes sequences that ask different things, if metrics are reported for each kind.
    """

    inputs: Int64[np.ndarray, "batch n_ctx"] | Float32[np.ndarray, "batch n_ctx numbers"]
    targets: Int64[np.ndarray, "batch n_ctx"] | Float32[np.ndarray, "batch place answers"]
    kinds: Int64[np.ndarray, " batch"] | None = None

    @property
    def asked(self) -> Bool[np.ndarray, "batch place"]:
        """True at each position whose answer is asked for."""
        if np.issubdtype(self.targets.dtype, np.floating):
            return np.asarray(~np.isnan(self.targets).any(2))
        return np.asarray(self.targets >= 0)

    def rows(self, here: slice | np.ndarray) -> "Batch":
        """Return some of the sequences."""
        kinds = None if self.kinds is None else self.kinds[here]
        return Batch(inputs=self.inputs[here], targets=self.targets[here], kinds=kinds)


def joined_batches(batches: Sequence[Batch]) -> Batch:
    """Return several batches as one."""
    kinds = [batch.kinds for batch in batches if batch.kinds is not None]
    return Batch(
        inputs=np.concatenate([batch.inputs for batch in batches]),
        targets=np.concatenate([batch.targets for batch in batches]),
        kinds=np.concatenate(kinds) if kinds else None,
    )


class Examples(ABC):
    """The examples that models train and are evaluated on: pure functions of (task, seed, step, batch size)."""

    vocab_size: int
    """Tokens of the vocabulary, or numbers of an input."""
    digest: str
    """A hash of the data that examples are made from: a run resumes only with its first data."""
    tokenizer: "Tokenizer | None" = None
    """The tokenizer; None if tokens are no text."""
    files: Mapping[str, str] = {}
    """Texts that are kept in a run's folder, by name."""
    notes: tuple[str, ...] = ()
    """Sentences about treatments of the data that a user may not expect."""

    @abstractmethod
    def training_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """Return the batch of a step, from 0; one seed gives every model one sequence of batches.

        Raises:
            UserError: when there are too few examples for a batch.
        """

    @abstractmethod
    def evaluation_batches(self, sequences: int | None, batch_size: int) -> Iterator[Batch]:
        """Yield evaluation sequences in batches of one shape, the last filled up with masked ones.

        They depend on the task alone; None takes all.
        """

    @abstractmethod
    def steps_per_epoch(self, batch_size: int) -> float:
        """Return the training steps until every example was seen once.

        Raises:
            UserError: when there are too few for a batch, or for judging.
        """

    @abstractmethod
    def targets_per_step(self, batch_size: int) -> float:
        """Return the mean number of tokens that a training step predicts."""


def open_examples(task: TokensTask) -> Examples:
    """Return the examples of a task, made by the function that it names.

    Raises:
        UserError: when what they are made from is missing or not fit.
    """
    examples: Examples = imported(task.examples)(task)
    return examples


def prepare(run: TokensRun) -> tuple[str, ...]:
    """Make the cached data of a run's examples once for many workers, and return notes for the user.

    Raises:
        UserError: when it is missing, not fit, or too little.
    """
    examples = open_examples(run.task)
    examples.steps_per_epoch(run.training.batch_size)
    return examples.notes


def preflight(run: TokensRun) -> tuple[str, ...]:
    """Return messages that `prepare` would give, as far as they can be known cheaply and without fetching.

    Drawn examples have none.

    Raises:
        UserError: if `prepare` would raise it, as far as the check is cheap.
    """
    if not run.task.preflight:
        return ()
    notes: Iterator[str] = imported(run.task.preflight)(run.task, run.training.batch_size)
    return tuple(notes)
