"""Heads: what a head attends to: numbers per query from its attention weights p, averaged over queries.

Their null is the same number for a head whose attention is even over what it sees.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.heads.query_blocks import PlacedLooks, every_query, per_query, two_keys

Values = Float[Tensor, "batch head query"]
Chosen = Bool[Tensor, "..."]


def with_predecessor(looks: PlacedLooks) -> Chosen:
    """Queries that a token of the same text stands before."""
    return every_query(looks) & (looks.places > looks.first)[:, None] & looks.one_text


def with_neighbours(looks: PlacedLooks) -> Chosen:
    """Queries that have a choice among keys of their own text."""
    return two_keys(looks) & looks.one_text


def on_repetition(looks: PlacedLooks) -> Chosen:
    """Queries on the second occurrence of a repeated token, or a later one, that see the occurrence before."""
    return _repeated(looks) & looks.sees_at(_same(looks))


def on_repetition_of_more(looks: PlacedLooks) -> Chosen:
    """Those that see what followed the occurrence before."""
    return _repeated(looks) & looks.sees_at(_same(looks) + 1)


@per_query("attention_entropy_nats", over=every_query)
def attention_entropy_nats(looks: PlacedLooks) -> Values:
    """- sum p ln p."""
    return looks.entropy


@per_query("attention_confidence", over=two_keys)
def attention_confidence(looks: PlacedLooks) -> Values:
    """The largest weight.

    Paper: Voita et al. 2019, arXiv 1905.09418.
    """
    return looks.largest


@per_query("sink_score", over=every_query)
def sink_score(looks: PlacedLooks) -> Values:
    """The weight on the first key of the text; 0 where a window hides it.

    Paper: Xiao et al. 2023, arXiv 2309.17453.
    """
    return looks.weight_at(looks.first.expand(-1, looks.counted.shape[2]))


@per_query("previous_token_score", over=with_predecessor)
def previous_token_score(looks: PlacedLooks) -> Values:
    """The weight on the token before."""
    return looks.weight_at(looks.places - 1)


@per_query("positional_score", over=with_neighbours)
def positional_score(looks: PlacedLooks) -> Float[Tensor, "2 batch head query"]:
    """Whether the largest weight is on the token before, and whether on the token after: the larger share is the score.

    Paper: Voita et al. 2019, arXiv 1905.09418, call a head positional from 90 % on.
    """
    return torch.stack((looks.largest_at(looks.places - 1), looks.largest_at(looks.places + 1)))


@per_query("duplicate_token_score", over=on_repetition)
def duplicate_token_score(looks: PlacedLooks) -> Values:
    """The weight on the same token one period before.

    Paper: Olsson et al. 2022, arXiv 2209.11895.
    """
    return looks.weight_at(_same(looks))


@per_query("induction_score", over=on_repetition_of_more)
def induction_score(looks: PlacedLooks) -> Values:
    """The weight on the token that followed one period before; one for each text, so that no fixed distance pays.

    Paper: Olsson et al. 2022, arXiv 2209.11895.
    """
    return looks.weight_at(_same(looks) + 1)


def _repeated(looks: PlacedLooks) -> Chosen:
    earliest = looks.first + looks.begins + _period(looks)
    return every_query(looks) & (looks.places >= earliest)[:, None] & looks.one_text


def _same(looks: PlacedLooks) -> Int[Tensor, "batch query"]:
    """The key one period before."""
    return (looks.places - _period(looks)).expand(len(looks.counted), -1)


def _period(looks: PlacedLooks) -> Int[Tensor, "#batch 1"]:
    assert looks.period is not None, "measured without a period"
    return looks.period
