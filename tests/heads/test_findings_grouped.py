"""Metrics of pairs within and between groups of heads that share keys."""

import math

import numpy as np
from support.head_definitions import attention, causal, of

from headway.heads.findings import within_and_between
from headway.heads.measure import measure


def test_pairs_are_told_apart():
    pairs = np.array([[9, 1, 2, 3], [1, 9, 4, 5], [2, 4, 9, 6], [3, 5, 6, 9]], float)
    assert within_and_between(pairs, (0, 0, 1, 1)) == ((1 + 6) / 2, (2 + 3 + 4 + 5) / 4)


def test_without_groups_there_is_nothing_within_and_with_one_nothing_between():
    within, between = within_and_between(np.eye(2), (0, 1))
    assert math.isnan(within)
    assert between == 0
    assert math.isnan(within_and_between(np.eye(2), (0, 0))[1])


def test_heads_that_share_values_write_more_alike_contexts():
    kv_of = (0, 0, 0, 1, 1, 1)
    trace = attention(heads=6, kv_of=kv_of, mask=causal(), spread=0.3)
    pairs = measure(of(trace), ["context_dissimilarity"])["context_dissimilarity"].values["layers.0.attention"]
    within, between = within_and_between(pairs, kv_of)
    assert within < between - 0.2
