"""Data: the examples of a task on tokens: what every kind of task supplies, and the one way to get at them.

Data, transformers on tokens: batches of sequences, as a pure function of task, seed and step.

* `examples`: what every kind of task supplies, and the one way to get at it;
* `text`: that of a corpus; `corpus_tokens` are its tokens, `packing` cuts them into batches, `ngrams` says what is
  to be beaten;
* `known`: examples that are drawn, or all inputs once: of `parity`, `endpoint`, `retrieval`, `hops`, `recall` and
  `induction`;
* `own_task`: those of a type of one's own, held to `own_laws`; `own_corpus`: documents that a function gives;
* `building` makes them: `corpus` finds documents, `documents` reads them from files, `hub` fetches them, `ids` takes
  tokens as they are, `one_document` parts a book, `tokenizer` makes tokens, `endless_tokenizer` without an end,
  `tokenizer_files` bounds what it may be, `text_kept` says how much of a text they give back, `token_cache` keeps them;
* `outlook`: what all this would say, before it is done;
* `stories`: a corpus of our own, written by `grammar` from `story_plots` and `story_words`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
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
"""The target of a position that nothing is asked at."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Sequences side by side, and the answer at each of their positions; -1, or NaN, where none is asked for.

    `kinds` tells sequences apart that ask different things, where metrics are told of each of them.
    """

    inputs: Int64[np.ndarray, "batch n_ctx"] | Float32[np.ndarray, "batch n_ctx numbers"]
    targets: Int64[np.ndarray, "batch n_ctx"] | Float32[np.ndarray, "batch place answers"]
    kinds: Int64[np.ndarray, " batch"] | None = None

    @property
    def asked(self) -> Bool[np.ndarray, "batch place"]:
        """Where an answer is asked for."""
        if np.issubdtype(self.targets.dtype, np.floating):
            return np.asarray(~np.isnan(self.targets).any(2))
        return np.asarray(self.targets >= 0)

    def rows(self, here: slice | np.ndarray) -> "Batch":
        """Some of its sequences."""
        kinds = None if self.kinds is None else self.kinds[here]
        return Batch(inputs=self.inputs[here], targets=self.targets[here], kinds=kinds)


class Examples(ABC):
    """What models are trained and judged on: pure functions of (task, seed, step, batch size)."""

    tokenizer: "Tokenizer | None" = None
    """None where tokens are no text."""
    files: Mapping[str, str] = {}
    """Texts that are kept in a run's folder, by name."""
    notes: tuple[str, ...] = ()
    """What was done with the data that one may not expect, in sentences."""

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Tokens of the vocabulary."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """A hash of what examples are made from: a run goes on only with what it began with."""

    @abstractmethod
    def training_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """The batch of a step, from 0; the same seed gives every model the same batches.

        Raises:
            UserError: when there are too few examples for a batch.
        """

    @abstractmethod
    def evaluation_batches(self, sequences: int | None, batch_size: int) -> Iterator[Batch]:
        """The sequences that a model is judged on, in batches of one shape, the last filled up with what is masked.

        They depend on the task alone; all for None.
        """

    @abstractmethod
    def steps_per_epoch(self, batch_size: int) -> float:
        """Training steps until every example was seen once.

        Raises:
            UserError: when there are too few for a batch, or for judging.
        """

    @abstractmethod
    def targets_per_step(self, batch_size: int) -> float:
        """Tokens that a training step predicts, in the mean."""


def expectations(task: TokensTask, batch_size: int) -> tuple[str, ...]:
    """What is to be said of the examples of a task before they are made; nothing of those that are drawn.

    Raises:
        UserError: what making them would raise, as far as it is looked at.
    """
    if not task.expectations:
        return ()
    found: Iterator[str] = imported(task.expectations)(task, batch_size)
    return tuple(found)


def open_examples(task: TokensTask) -> Examples:
    """The examples of a task, made by the function that it names.

    Raises:
        UserError: when what they are made from is missing or not fit.
    """
    found: Examples = imported(task.examples)(task)
    return found


def prepare(run: TokensRun) -> tuple[str, ...]:
    """Make what the examples of a run need, so that many workers then find it; what is to be said of it.

    Raises:
        UserError: when it is missing, not fit, or too little.
    """
    examples = open_examples(run.task)
    examples.steps_per_epoch(run.training.batch_size)
    return examples.notes


def foresee(run: TokensRun) -> tuple[str, ...]:
    """What `prepare` would say, as far as can be known without fetching, and with no more work than that takes.

    Raises:
        UserError: what `prepare` would raise, as far as it is looked at.
    """
    return expectations(run.task, run.training.batch_size)
