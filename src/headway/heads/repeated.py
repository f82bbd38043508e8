"""Heads: random tokens, repeated: the text on which duplicate-token and induction heads show.

Nothing but repetition helps to predict them, so what a head attends to on the second occurrence is its own rule.

Paper: Olsson et al. 2022, arXiv 2209.11895.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from headway.errors import UserError
from headway.streams import generator


def repeated_tokens(vocab_size: int, period: int, batch: int, seed: int) -> Int64[np.ndarray, "batch length"]:
    """Texts of `period` random tokens, then the same again.

    A token stands once in a period where the vocabulary is large enough, so that there is one earlier occurrence.

    Raises:
        UserError: for a period below 2, or no vocabulary or batch.

    Examples:
        >>> tokens = repeated_tokens(vocab_size=50, period=4, batch=2, seed=0)
        >>> tokens.shape, bool((tokens[:, :4] == tokens[:, 4:]).all())
        ((2, 8), True)
    """
    for name, given, least in (("vocab_size", vocab_size, 1), ("period", period, 2), ("batch", batch, 1)):
        if given < least:
            raise UserError(f"repeated tokens with {name} {given} were asked for; {name} must be at least {least}")
    random = generator(seed, "repeated tokens", vocab_size, period)
    once = vocab_size >= period
    half = np.stack([random.choice(vocab_size, period, replace=not once) for _ in range(batch)]).astype(np.int64)
    return np.concatenate((half, half), axis=1)


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """Sequences that begin with random tokens and end with others, which stand there twice."""

    tokens: Int64[np.ndarray, "batch length"]
    periods: Int64[np.ndarray, " batch"]
    """After how many tokens those of a sequence are repeated."""
    begins: Int64[np.ndarray, " batch"]
    """The first token that is repeated."""


def drawn_repeats(vocab_size: int, longest: int, batch: int, seed: int) -> Repeats:
    """Sequences of twice `longest`, each with a period and a beginning of its own, so that no fixed distance pays.

    Periods are different ones between a quarter of the longest and the longest (from 2 on where that is short), as far
    as there are so many; one of them is the longest. What is repeated stands at the end, and there twice only: a head
    that finds more occurrences shares its attention among them.

    Raises:
        UserError: for a period below 2, or no vocabulary or batch.

    Examples:
        >>> found = drawn_repeats(vocab_size=50, longest=8, batch=3, seed=0)
        >>> [bool((row[at : at + p] == row[at + p : at + 2 * p]).all()) for row, at, p in
        ...  zip(found.tokens, found.begins, found.periods)]
        [True, True, True]
    """
    for name, given, least in (("vocab_size", vocab_size, 1), ("longest", longest, 2), ("batch", batch, 1)):
        if given < least:
            raise UserError(f"repeated tokens with {name} {given} were asked for; {name} must be at least {least}")
    random = generator(seed, "drawn repeats", vocab_size, longest)
    shortest = max(2, longest // 4) if longest >= 16 else 2
    possible = np.linspace(longest, shortest, min(batch, longest - shortest + 1)).round().astype(np.int64)
    periods = np.resize(possible, batch)
    begins = 2 * (longest - periods)
    tokens = [_at_the_end(vocab_size, int(period), int(at), random) for period, at in zip(periods, begins, strict=True)]
    return Repeats(tokens=np.stack(tokens), periods=periods, begins=begins)


def _at_the_end(vocab_size: int, period: int, begins: int, random: np.random.Generator) -> Int64[np.ndarray, " length"]:
    """What comes before has other tokens than what is repeated, where the vocabulary is large enough."""
    block = random.choice(vocab_size, period, replace=vocab_size < period)
    others = np.setdiff1d(np.arange(vocab_size), block)
    before = random.choice(others if len(others) else vocab_size, begins)
    return np.concatenate((before, block, block)).astype(np.int64)
