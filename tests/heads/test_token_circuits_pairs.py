"""Which tokens look at which: against a slow definition, over batches, with hidden keys."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from support.tolerance import nearly

from headway.config.lm.model import GptNeo
from headway.heads.token_circuits import TOP_TOKENS, TokenPairs
from headway.models.transformer import Transformer

MODEL = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads="4-2", n_positions=16, windows=(None, 3))


def slow(tokens, attention):
    """By head and pair of tokens: the summed weight, the summed even weight, and how often."""
    sums = defaultdict(lambda: np.zeros(3))
    sees = attention.sees().expand(len(tokens), 1, -1, -1)[:, 0]
    for b, row in enumerate(tokens):
        weights = attention.patterns()[b]
        for q, looking in enumerate(row):
            for k, looked in enumerate(row):
                if sees[b, q, k] and q != k:
                    for head in range(len(weights)):
                        sums[head, looking, looked] += float(weights[head, q, k]), 1 / int(sees[b, q].sum()), 1
    return sums


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_most_attended_pairs_are_those_of_the_slow_definition(at_once):
    model = drawn()
    tokens = np.random.default_rng(0).integers(0, 7, (3, 12))
    pairs = TokenPairs(tokens, tokens, same=True)
    with torch.inference_mode():
        whole = model.trace(torch.from_numpy(tokens))
        for first in range(0, 3, at_once):
            for attention in model.trace(torch.from_numpy(tokens[first : first + at_once])).attentions:
                pairs.add(attention, first)
    for attention in whole.attentions:
        expected = slow(tokens, attention)
        for head, found in pairs.top(attention.name).items():
            mine = {key[1:]: value for key, value in expected.items() if key[0] == head}
            order = sorted(mine, key=lambda key: mine[key][1] - mine[key][0])[:TOP_TOKENS]
            assert [(pair.query, pair.key) for pair in found] == [key for key in order if mine[key][0] > mine[key][1]]
            for pair in found:
                weight, even, n = mine[pair.query, pair.key]
                assert (pair.weight, pair.even, pair.n) == (
                    nearly(weight / n, dtype=np.float32), nearly(even / n), n
                )  # fmt: skip


def drawn():
    from headway.models.weights import initial_weights

    weights = initial_weights(MODEL, 7, seed=0)
    louder = {name: 8 * weight if ".q." in name or ".k." in name else weight for name, weight in weights.items()}
    return Transformer(MODEL, 7, louder).eval()


def test_queries_may_be_other_tokens_than_keys():
    model = drawn()
    queries, keys = np.full((1, 5), 9), np.arange(5)[None]
    pairs = TokenPairs(queries, keys, same=False)
    with torch.inference_mode():
        attention = model.trace(torch.zeros(1, 5, dtype=torch.int64)).attentions[0]
    pairs.add(attention, 0)
    assert {pair.query for found in pairs.top(attention.name).values() for pair in found} <= {9}
