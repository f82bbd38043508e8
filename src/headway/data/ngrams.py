"""Unigram and bigram baselines: the loss of models with no context, or one token of it, on held-out text.

Unigram, with add-one smoothing over a vocabulary of V tokens, N of them counted:

    p(w) = (c(w) + 1) / (N + V)

Bigram, with absolute discounting, the rest going to the unigram:

    p(w | v) = (max(c(v, w) - D, 0) + D n(v) p(w)) / c(v),    p(w | v) = p(w) where c(v) = 0

Here n(v) counts the different tokens seen after v and D = n_1 / (n_1 + 2 n_2), the leave-one-out estimate from the
numbers of pairs that were seen once and twice. Both give every token a probability, and the probabilities sum to 1.

Paper: Ney, Essen, Kneser 1994, Computer Speech and Language 8 (the discount).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Integer

_AT_ONCE = 1 << 22

Pairs = Int64[np.ndarray, " pair"]
"""Whole numbers of pairs of neighbours: tokens, pairs or counts."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counts of each token and of each pair of neighbours; a pair is previous * V + next, in rising order."""

    tokens: Int64[np.ndarray, " vocab"]
    pairs: Pairs
    pair_counts: Pairs


def neighbours(
    tokens: Integer[np.ndarray, " token"],
    ends: Int64[np.ndarray, " document"],
    longest: int | None,
    at_once: int = _AT_ONCE,
) -> Iterator[tuple[Pairs, Pairs]]:
    """Yield predicted tokens and those before them, in blocks.

    Args:
        tokens: the tokens of the documents, each ended by its end-of-text token.
        ends: the position after the end-of-text token, for each document.
        longest: the number of tokens of a document whose pairs are counted, without its first token and its end, as in
            published batches. None: every token but the first of all is predicted.
        at_once: the number of tokens in a block; it bounds memory.
    """
    for first in range(1, len(tokens), at_once):
        positions = np.arange(first, min(first + at_once, len(tokens)))
        before = tokens[first - 1 : positions[-1]].astype(np.int64)
        asked = tokens[first : positions[-1] + 1].astype(np.int64)
        if longest is not None:
            document = np.searchsorted(ends, positions, side="right")
            within = positions - np.concatenate([np.zeros(1, np.int64), ends])[document]
            chosen = (within > 0) & (within < longest) & (positions != ends[document] - 1)
            before, asked = before[chosen], asked[chosen]
        yield before, asked


def count(blocks: Iterable[tuple[np.ndarray, np.ndarray]], vocab_size: int) -> Counts:
    """Count tokens and pairs, block by block: memory grows with the number of different pairs only."""
    tokens = np.zeros(vocab_size, np.int64)
    pairs, pair_counts = np.zeros((2, 0), np.int64)
    for before, asked in blocks:
        tokens += np.bincount(asked, minlength=vocab_size)
        new, new_counts = np.unique(before * vocab_size + asked, return_counts=True)
        pairs, place = np.unique(np.concatenate([pairs, new]), return_inverse=True)
        pair_counts = np.bincount(place, np.concatenate([pair_counts, new_counts]), len(pairs)).astype(np.int64)
    return Counts(tokens=tokens, pairs=pairs, pair_counts=pair_counts)


def unigram(counts: Counts) -> Float64[np.ndarray, " vocab"]:
    """Return the probability of each token."""
    return (counts.tokens + 1) / (counts.tokens.sum() + len(counts.tokens))


def bigram(counts: Counts, before: Pairs, asked: Pairs) -> Float64[np.ndarray, " pair"]:
    """Return the probability of each predicted token after the one before it."""
    vocab_size = len(counts.tokens)
    previous = counts.pairs // vocab_size
    seen = np.bincount(previous, counts.pair_counts, vocab_size)
    different = np.bincount(previous, minlength=vocab_size)
    once, twice = (int((counts.pair_counts == n).sum()) for n in (1, 2))
    discount = once / (once + 2 * twice) if once and twice else 0.5
    wanted = before * vocab_size + asked
    place = np.minimum(np.searchsorted(counts.pairs, wanted), max(len(counts.pairs) - 1, 0))
    of_pair = np.where(counts.pairs[place] == wanted, counts.pair_counts[place], 0) if len(counts.pairs) else 0
    rest = unigram(counts)[asked]
    total = np.maximum(seen[before], 1)
    return np.where(
        seen[before] > 0, (np.maximum(of_pair - discount, 0) + discount * different[before] * rest) / total, rest
    )


def losses_nats(counts: Counts, blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """Return the mean loss of the unigram and of the bigram model on held-out neighbours."""
    n, of_unigram, of_bigram = 0, 0.0, 0.0
    probability = unigram(counts)
    for before, asked in blocks:
        n += len(asked)
        of_unigram -= float(np.log(probability[asked]).sum())
        of_bigram -= float(np.log(bigram(counts, before, asked)).sum())
    return of_unigram / max(n, 1), of_bigram / max(n, 1)
