"""Data: letters of which none follows itself, and where hops from each of them end."""

from functools import lru_cache

import numpy as np
from jaxtyping import Int64

from headway import streams
from headway.data.tokens.examples import MASKED, Batch
from headway.data.tokens.known import KnownExamples
from headway.declare.tokens.hops import HopsTask

_GUESSED = 4_000
"""Sequences that guesses are counted in."""


def letters_without_repeats(
    random: np.random.Generator, n: int, length: int, letters: int
) -> Int64[np.ndarray, "n length"]:
    """Sequences of letters, each other than the one before it, all such alike."""
    steps = random.integers(1, letters, size=(n, length))
    steps[:, 0] = random.integers(letters, size=n)
    found: np.ndarray = steps.cumsum(1) % letters
    return found


def hop(sequences: Int64[np.ndarray, "n length"]) -> Int64[np.ndarray, "n length"]:
    """The position after the latest earlier occurrence of each position's letter; -1 where there is none.

    Examples:
        >>> hop(np.array([[0, 1, 0, 2, 1]])).tolist()
        [[-1, -1, 1, -1, 2]]
    """
    n, length = sequences.shape
    latest = np.full((n, int(sequences.max()) + 1), -1)
    found, rows = np.empty_like(sequences), np.arange(n)
    for at in range(length):
        before = latest[rows, sequences[:, at]]
        found[:, at] = np.where(before < 0, -1, before + 1)
        latest[rows, sequences[:, at]] = at
    return found


def hopped(sequences: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Where k hops from every position end, k by sequence; -1 where one of them finds nothing."""
    n, length = sequences.shape
    once, rows = hop(sequences), np.arange(n)[:, None]
    at = np.broadcast_to(np.arange(length), (n, length)).copy()
    for done in range(int(k.max(initial=0))):
        further = np.where(at < 0, -1, once[rows, at])
        at = np.where((k > done)[:, None], further, at)
    return at


@lru_cache(maxsize=16)
def guessed(task: HopsTask) -> tuple[float, ...]:
    """The share that is right, by k, of a model that knows k, the position and its letter, and looks nothing up.

    It says what is right there most often, none or a letter so much further on in the alphabet; the longer the
    sequence and the fewer the hops, the rarer none is.
    """
    random = streams.generator(0, "hops guessed")
    sequences = letters_without_repeats(random, _GUESSED, task.length, task.letters)
    shares = []
    for k in range(task.hops + 1):
        at = hopped(sequences, np.full(_GUESSED, k))
        answers = np.take_along_axis(sequences, at.clip(0), axis=1)
        further = np.where(at < 0, task.letters, (answers - sequences) % task.letters)
        counts = np.stack([(further == answer).sum(0) for answer in range(task.letters + 1)])
        shares.append(float(counts.max(0).mean() / _GUESSED))
    return tuple(shares)


def open_examples(task: HopsTask) -> KnownExamples:
    """Fresh letters for every step; sequences are told apart by k."""

    def draw(random: np.random.Generator, n: int) -> Batch:
        k = random.integers(task.hops + 1, size=n)
        sequences = letters_without_repeats(random, n, task.length, task.letters)
        at = hopped(sequences, k)
        answers = np.where(at < 0, task.letters, np.take_along_axis(sequences, at.clip(0), axis=1))
        inputs = np.concatenate(((task.letters + k)[:, None], sequences), axis=1)
        targets = np.concatenate((np.full((n, 1), MASKED), answers), axis=1)
        return Batch(inputs=inputs, targets=targets, kinds=k)

    return KnownExamples(task, draw=draw)
