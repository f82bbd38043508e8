"""Data: the text of a task, in sequences."""

from collections.abc import Iterator

import numpy as np

from headway.data.tokens import packing
from headway.data.tokens.corpus_tokens import Tokens, open_corpus
from headway.data.tokens.examples import Batch, Examples
from headway.data.tokens.outlook import outlook
from headway.declare.tokens.text import TextTask


class TextExamples(Examples):
    """The text of a task, in sequences; the law of which token stands where is that of `packing`."""

    def __init__(self, task: TextTask, tokens: Tokens):
        self.task, self.tokens = task, tokens
        self.tokenizer = tokens.tokenizer
        self.files = {"tokenizer.json": tokens.tokenizer.inner.to_str()}
        self.notes = (tokens.note,) if tokens.note else ()

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary."""
        return self.tokens.vocab_size

    @property
    def digest(self) -> str:
        """A hash of the tokens and of the tokenizer."""
        return self.tokens.digest

    def training_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """As `packing.training_batch`."""
        return packing.training_batch(self.tokens, self.task, seed, step, batch_size)

    def evaluation_batches(self, sequences: int | None, batch_size: int) -> Iterator[Batch]:
        """As `packing.evaluation_batches`."""
        return packing.evaluation_batches(self.tokens, self.task, sequences, batch_size)

    def steps_per_epoch(self, batch_size: int) -> float:
        """As `packing.steps_per_epoch`."""
        return packing.steps_per_epoch(self.tokens, self.task, batch_size)

    def targets_per_step(self, batch_size: int) -> float:
        """Every position; with padding the mean over the documents."""
        if self.task.padding == "packed":
            return float(batch_size * self.task.n_ctx)
        lengths = np.diff(self.tokens.train_ends, prepend=0) - 1
        return batch_size * float((np.minimum(lengths, self.task.n_ctx) - 1).clip(0).mean())


def expectations(task: TextTask, batch_size: int) -> Iterator[str]:
    """What is to be said of a text before its tokens are made.

    Raises:
        UserError: what making them would raise, as far as it is looked at.
    """
    return outlook(task, batch_size)


def open_examples(task: TextTask) -> TextExamples:
    """The text of a task; its tokens are made where the cache has none.

    Raises:
        UserError: as `open_corpus`.
    """
    return TextExamples(task, open_corpus(task))
