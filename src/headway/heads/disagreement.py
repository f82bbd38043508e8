"""Heads: how much a layer's heads disagree in their values, in where they look and in their contexts.

Paper: Li et al. 2018, arXiv 1810.10183.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from headway.heads.query_blocks import PlacedLooks, per_query, some_head_sees
from headway.heads.registry import metric
from headway.heads.subject import Subject
from headway.heads.sums import additive

Number = Float[Tensor, ""]
Pairs = Float[Tensor, "head head"]


@metric("disagreement_subspace")
def disagreement_subspace(value_cosines: Pairs, value_rows: Number) -> Number:
    """- 1/H^2 sum over i, j of the mean cosine of V_i and V_j, i = j included."""
    return -value_cosines.mean() / value_rows


@metric("disagreement_output")
def disagreement_output(context_cosines: Pairs, rows: Number) -> Number:
    """- 1/H^2 sum over i, j of the mean cosine of the contexts, i = j included."""
    return -context_cosines.mean() / rows


@per_query("disagreement_position", over=some_head_sees, per="text")
def disagreement_position(looks: PlacedLooks) -> Float[Tensor, "batch 1 query"]:
    """- 1/H^2 sum over i, j and keys of A_i * A_j, i = j included; summed over the queries of a text."""
    return -looks.overlap


@additive
def shared_values(of: Subject) -> Number:
    """The share of pairs of heads, a head with itself included, that have the same values."""
    kv_of = torch.tensor(of.attention.kv_of, device=of.attention.q.device)
    return (kv_of[:, None] == kv_of).double().mean()


@additive
def batches(of: Subject) -> Number:
    """How many batches were added."""
    return torch.ones((), dtype=torch.float64, device=of.attention.q.device)
