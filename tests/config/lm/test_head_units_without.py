"""A declared transformer without some heads: what is left, and what to expect before it is known."""

import pytest

from headway.config.lm.head_units import spread_evenly, without_heads
from headway.config.lm.model import GptNeo
from headway.config.spec import parse

NEO = {"family": "gpt-neo", "d_model": 48, "n_layers": 2}


def neo(**changes):
    return parse(GptNeo, {**NEO, **changes})


def test_a_kv_head_goes_with_its_last_query_head():
    model = neo(n_heads="4:2-4:2")
    left = without_heads(model, [[True, False, False, False], [True, False, True, True]])
    assert str(left.layout) == "1x12-1+2x12"
    assert left.layout.n_heads == (1, 3)
    assert [layer.queries for layer in left.layout.layers] == [(1,), (1, 2)]


def test_a_layer_that_loses_all_is_emptied_and_one_that_had_none_is_not():
    model = neo(n_heads="0-4")
    assert without_heads(model, [[], [False] * 4]).emptied == (1,)


def test_a_rank_above_the_new_width_is_a_whole_matrix():
    model = neo(n_heads=4, ranks={"q": 20, "v": 12})
    left = without_heads(model, [[True, False, False, False], [True] * 4])
    assert (left.ranks.q, left.ranks.v, left.ranks.k) == ((None, 20), (12, 12), None)


@pytest.mark.parametrize(("heads", "number", "expected"), [(8, 8, "4-4"), ("8-4", 6, "4-2"), ("4:2-4:2", 4, "2-2")])
def test_heads_are_expected_to_go_from_all_layers_alike(heads, number, expected):
    found = spread_evenly(neo(n_heads=heads), number)
    assert found.layout.total == number
    assert "-".join(map(str, found.layout.n_heads)) == expected
