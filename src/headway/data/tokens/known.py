"""Data: the examples of tasks whose answer is known: all inputs once where they can be listed, or drawn."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from headway import streams
from headway.data.tokens.examples import MASKED, Batch, Examples
from headway.declare.tokens.known import KnownTask
from headway.identity import digest

JUDGED = 1_024
"""Sequences that a model is judged on where the evaluation does not say."""

_DRAWN_AT_ONCE = 32
"""Of the sequences that models are judged on. Arms that differ in their batch size are judged on the same ones."""

Draw = Callable[[np.random.Generator, int], Batch]
"""So many examples from a generator."""


class KnownExamples(Examples):
    """What is drawn for a step, or every input.

    Law: the batch of a step is a function of (task, seed, step, batch size); one as large as all inputs is all of them
    once, in one order, whatever the seed.
    """

    def __init__(self, task: KnownTask, *, every: Batch | None = None, draw: Draw | None = None):
        """Take one of two.

        Args:
            task: of which.
            every: all inputs once, where they can be listed.
            draw: what draws examples; rows of `every` if None.
        """
        self.task, self._every = task, every
        assert every is not None or draw is not None
        self._draw = draw or self._row

    def _row(self, random: np.random.Generator, n: int) -> Batch:
        assert self._every is not None
        return self._every.rows(random.integers(len(self._every.inputs), size=n))

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary, or numbers of an input."""
        return self.task.vocab_size

    @property
    def digest(self) -> str:
        """Of the declaration: nothing else makes the examples."""
        return digest(self.task.content())

    def training_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """All inputs once, or what the seed draws for the step."""
        if self._every is not None and batch_size == len(self._every.inputs):
            return self._every
        return self._draw(streams.generator(seed, "known task", self.task.kind, step), batch_size)

    def evaluation_batches(self, sequences: int | None, batch_size: int) -> Iterator[Batch]:
        """All inputs once; of drawn examples, the same for every seed, 1,024 if not said otherwise."""
        judged = self._every if self._every is not None else self._fixed(sequences or JUDGED)
        yield from _cut(judged, batch_size)

    def _fixed(self, n: int) -> Batch:
        """So many drawn examples; of more the first are these, and however they are cut, they are the same."""
        generators = (
            streams.generator(0, "known evaluation", self.task.kind, first) for first in range(0, n, _DRAWN_AT_ONCE)
        )
        return _joined([self._draw(random, _DRAWN_AT_ONCE) for random in generators]).rows(slice(n))

    def steps_per_epoch(self, batch_size: int) -> float:
        """Until every input was seen once; drawn ones never end."""
        return float("inf") if self._every is None else max(1.0, len(self._every.inputs) / batch_size)

    def targets_per_step(self, batch_size: int) -> float:
        """Answers that a step asks for, in the mean."""
        return batch_size * self._asked

    @cached_property
    def _asked(self) -> float:
        some = self._every or self._draw(streams.generator(0, "known task, counted", self.task.kind), 256)
        return float(some.asked.sum(1).mean())


def _joined(batches: Sequence[Batch]) -> Batch:
    """Batches as one."""
    kinds = [batch.kinds for batch in batches if batch.kinds is not None]
    return Batch(
        inputs=np.concatenate([batch.inputs for batch in batches]),
        targets=np.concatenate([batch.targets for batch in batches]),
        kinds=np.concatenate(kinds) if kinds else None,
    )


def _cut(batch: Batch, size: int) -> Iterator[Batch]:
    """A batch in batches of a size, the last filled up with what is masked."""
    total = len(batch.inputs)
    for first in range(0, total, size):
        at = np.arange(first, first + size)
        yield _masked_from(batch.rows(at % total), total - first)


def _masked_from(batch: Batch, first: int) -> Batch:
    """The same, asked for nothing from a row on."""
    if first >= len(batch.inputs):
        return batch
    targets: Any = batch.targets.copy()
    targets[first:] = np.nan if np.issubdtype(targets.dtype, np.floating) else MASKED
    return Batch(inputs=batch.inputs, targets=targets, kinds=batch.kinds)


def asked_last(inputs: np.ndarray, answers: np.ndarray, kinds: np.ndarray | None = None) -> Batch:
    """Sequences of which only the last position is asked, with its answers."""
    targets = np.full(inputs.shape, MASKED, np.int64)
    targets[:, -1] = answers
    return Batch(inputs=inputs, targets=targets, kinds=kinds)
