"""Data: keys with values, then the keys again among fillers; asked are their values."""

import numpy as np

from headway.data.tokens.examples import MASKED, Batch
from headway.data.tokens.known import KnownExamples
from headway.declare.tokens.recall import RecallTask


def open_examples(task: RecallTask) -> KnownExamples:
    """Fresh pairs for every step."""
    half, given = task.vocabulary // 2, 2 * task.pairs

    def draw(random: np.random.Generator, n: int) -> Batch:
        keys = 1 + _distinct(random, n, half - 1, task.pairs)
        values = random.integers(half, task.vocabulary, size=(n, task.pairs))
        inputs = np.zeros((n, task.length), np.int64)
        inputs[:, 0:given:2], inputs[:, 1:given:2] = keys, values
        targets = np.full((n, task.length), MASKED)
        at = given + _distinct(random, n, task.length - given, task.pairs)
        np.put_along_axis(inputs, at, keys, axis=1)
        np.put_along_axis(targets, at, values, axis=1)
        return Batch(inputs=inputs, targets=targets)

    return KnownExamples(task, draw=draw)


def _distinct(random: np.random.Generator, n: int, below: int, count: int) -> np.ndarray:
    """Rows of distinct numbers: of few those that come first in a random order, of many drawn again where alike."""
    if below <= 64 * count:
        found: np.ndarray = random.random((n, below)).argpartition(count - 1, axis=1)[:, :count]
        return random.permuted(found, axis=1)
    found = random.integers(below, size=(n, count))
    while (again := (np.diff(np.sort(found, axis=1), axis=1) == 0).any(1)).any():
        found[again] = random.integers(below, size=(int(again.sum()), count))
    return found
