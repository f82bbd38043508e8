"""Heads: metrics as a published code computes them, defects included, so that one sees what the defects do.

Paper: article of May 2024, "x-raying heads". Its raw metrics, which follow the formulas, stand in `diversity`.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from headway.heads.query_blocks import blocks
from headway.heads.registry import metric
from headway.heads.subject import Subject, only
from headway.heads.sums import additive, cosines, rows


@metric("output_dissimilarity_published")
def output_dissimilarity_published(
    slice_cosines: Float[Tensor, "head head"], sliced_rows: Float[Tensor, ""]
) -> Float[Tensor, "head head"]:
    """- mean over rows of the cosine of two slices of the attention's output, which are no heads."""
    return -slice_cosines / sliced_rows


@metric("attention_variance_published")
def attention_variance_published(
    variances: Float[Tensor, " head"], texts_with_variance: Float[Tensor, ""]
) -> Float[Tensor, " head"]:
    """Unbiased variance over queries of each key's weight, then the mean over keys and texts."""
    return variances / texts_with_variance


@additive
def slice_cosines(of: Subject) -> Float[Tensor, "head head"]:
    """Cosines of slices of the attention's output, one as wide as another, summed over rows.

    Zero where d_model is no multiple of the number of heads, so that there are no such slices.
    """
    attention, n_heads = of.attention, of.n_heads
    written = only(of.counted, attention.z).flatten(1) @ attention.W_O.flatten(0, 1)
    if not _sliceable(of):
        return torch.zeros(n_heads, n_heads, dtype=torch.float64, device=written.device)
    if attention.b_O is not None:
        written = torch.where(of.counted.flatten()[:, None], written + attention.b_O, 0)
    return cosines(written.unflatten(1, (n_heads, -1)))


@additive
def sliced_rows(of: Subject) -> Float[Tensor, ""]:
    """Positions that count, where there are slices."""
    return rows(of) if _sliceable(of) else torch.zeros_like(rows(of))


@additive
def variances(of: Subject) -> Float[Tensor, " head"]:
    """Per text the unbiased variance over its queries of each key's weight, averaged over keys; summed over texts."""
    attention = of.attention
    shape = len(attention.q), of.n_heads, attention.k.shape[2]
    totals = torch.zeros(shape, dtype=torch.float64, device=attention.q.device)
    squares = torch.zeros(shape[:2], dtype=torch.float64, device=attention.q.device)
    for block in blocks(of):
        looks = block.measured
        weights = torch.where(looks.counted[..., None], looks.powers / looks.total[..., None], 0)
        totals[block.examples, :, block.keys] += weights.sum(2, dtype=torch.float64)
        squares[block.examples] += torch.where(looks.counted, looks.square, 0).sum(2, dtype=torch.float64)
    queries, keys = (x.sum(1)[:, None].double() for x in (of.counted, of.keys_counted))
    spread = (squares - totals.square().sum(2) / queries) / (queries - 1) / keys
    return torch.where(queries > 1, spread, 0).sum(0)


@additive
def texts_with_variance(of: Subject) -> Float[Tensor, ""]:
    """Texts with two queries or more."""
    return (of.counted.sum(1) > 1).sum(dtype=torch.float64)


def _sliceable(of: Subject) -> bool:
    return of.attention.W_O.shape[2] % of.n_heads == 0
