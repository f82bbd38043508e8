"""Unigram and bigram models: counts, probabilities and losses."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from support.tolerance import nearly

from headway.data import ngrams

V, END = 6, 5


def text(seed=0, n=400):
    tokens = np.random.default_rng(seed).choice(V, size=n, p=[0.4, 0.25, 0.15, 0.1, 0.0, 0.1]).astype(np.uint16)
    tokens[-1] = END
    return tokens, np.flatnonzero(tokens == END) + 1


def counted(longest=None, at_once=1 << 20, seed=0):
    return ngrams.count(ngrams.neighbours(*text(seed), longest, at_once), V)


@pytest.mark.parametrize("at_once", [1, 7, 1_000])
@pytest.mark.parametrize("longest", [None, 4])
def test_blocks_change_nothing(at_once, longest):
    a, b = counted(longest), counted(longest, at_once)
    for name in ("tokens", "pairs", "pair_counts"):
        assert np.array_equal(getattr(a, name), getattr(b, name))


def test_counts_are_those_of_a_counter():
    tokens = text()[0].tolist()
    counts = counted()
    pairs = Counter(itertools.pairwise(tokens))
    assert dict(zip(counts.pairs.tolist(), counts.pair_counts.tolist(), strict=True)) == {
        a * V + b: n for (a, b), n in pairs.items()
    }
    assert counts.tokens.tolist() == [Counter(tokens[1:])[w] for w in range(V)]


def test_published_neighbours_are_the_targets_of_published_batches():
    tokens, ends = text()
    wanted, first = [], 0
    for end in ends:
        story = tokens[first : min(end - 1, first + 4)].tolist()
        wanted += list(itertools.pairwise(story))
        first = end
    (block,) = ngrams.neighbours(tokens, ends, 4)
    assert list(zip(*(part.tolist() for part in block), strict=True)) == wanted


def test_probabilities_sum_to_one_and_none_is_zero():
    counts = counted()
    assert ngrams.unigram(counts).sum() == nearly(1)
    assert counts.tokens[4] == 0
    for before in range(V):  # 4 was never seen
        p = ngrams.bigram(counts, np.full(V, before), np.arange(V))
        assert p.sum() == nearly(1)
        assert p.min() > 0
    empty = ngrams.count([], V)
    assert ngrams.bigram(empty, np.zeros(V, int), np.arange(V)) == nearly(np.full(V, 1 / V))


def test_the_losses_are_those_of_the_formulas():
    tokens, (held_out, ends) = text()[0].tolist(), text(1)
    alone, pairs = Counter(tokens[1:]), Counter(itertools.pairwise(tokens))
    once, twice = (sum(n == k for n in pairs.values()) for k in (1, 2))
    discount = once / (once + 2 * twice) if once and twice else 0.5

    def unigram(w):
        return (alone[w] + 1) / (len(tokens) - 1 + V)

    def bigram(v, w):
        after = {b: n for (a, b), n in pairs.items() if a == v}
        if not after:
            return unigram(w)
        rest = discount * len(after) * unigram(w)
        return (max(after.get(w, 0) - discount, 0) + rest) / sum(after.values())

    asked = list(zip(held_out[:-1].tolist(), held_out[1:].tolist(), strict=True))
    expected = (
        -sum(math.log(unigram(w)) for _, w in asked) / len(asked),
        -sum(math.log(bigram(v, w)) for v, w in asked) / len(asked),
    )
    assert ngrams.losses_nats(counted(), ngrams.neighbours(held_out, ends, None)) == nearly(expected)
