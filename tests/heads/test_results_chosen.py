"""Which heads somebody asks for, and what is said of those that are not there."""

import pytest

from headway.errors import UserError
from headway.heads.results import chosen_heads

LABELS = {"a": "L0", "b": "L1"}
N_HEADS = {"a": 3, "b": 1}


def test_nobody_asks_and_all_are_meant():
    assert chosen_heads(None, LABELS, N_HEADS) == {"a": [0, 1, 2], "b": [0]}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("L0H2", {"a": [2]}),
        ("L1,L0H0", {"a": [0], "b": [0]}),
        ("L0,L0H1", {"a": [0, 1, 2]}),
        (" L0H2 , L0H0", {"a": [0, 2]}),
    ],
)
def test_heads_and_layers(asked, found):
    assert chosen_heads(asked, LABELS, N_HEADS) == found


def test_attentions_of_several_kinds():
    labels = {"e": "encoder L0", "x": "cross L0"}
    assert chosen_heads("cross L0H1", labels, {"e": 2, "x": 2}) == {"x": [1]}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("L9H9", "heads 'L9H9': there is no such layer; the model has L0, L1"),
        ("L0H3", "heads 'L0H3': layer L0 has the heads L0H0 to L0H2"),
        ("L0H0,tall", "heads 'tall': it is no head and no layer of the model; give, for example, L1H0 or L0"),
        ("", "heads '': no head and no layer is named; give, for example, L1H0 or L0"),
    ],
)
def test_what_is_no_head_is_named(asked, said):
    with pytest.raises(UserError, match=said):
        chosen_heads(asked, LABELS, N_HEADS)
