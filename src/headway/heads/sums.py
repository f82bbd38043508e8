"""Sums over rows of which metrics of vectors are made, and the CKA that is made of them.

Sums hold all heads of an attention together. Sums of several batches are added, so a metric of them is measured over
all batches. A metric names the sums that it needs (`headway.config.head_metrics`).

A cosine with a vector of zeros is 0, with itself too; so a head that writes nothing makes no metric NaN.

CKA of many rows can be estimated from n of N rows, drawn evenly. ||X_i^T X_j||_F^2 is a sum over pairs of rows t and s
of the product of two kernels. Among n rows a row is paired with itself in one of n cases instead of one of N, and there
the product is largest: the fewer rows, the more alike all heads look. So both kinds of pairs are summed separately, and
each gets the weight that it has among N rows.

Papers: the article of May 2024, "x-raying heads", whose four metrics are the raw ones. Raw metrics follow its formulas;
metrics "as published" follow its code, defects included, to show what the defects do. CKA (Kornblith et al. 2019, arXiv
1905.00414), cosines of contributions and even attention as zero make metrics comparable across numbers, widths and
scales of heads. Li et al. 2018, arXiv 1810.10183, for the disagreement of heads in their values, their attended
positions and their contexts.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headway.heads.attention import MaskedAttention, Rows, rows_of
from headway.heads.patterns import blocks

Gram = Float[Tensor, "head width head width"]
Total = Float[Tensor, "head width"]
Pairs = Float[Tensor, "head head"]
Thirds = Float[Tensor, "head head width"]
Number = Float[Tensor, ""]

ROUNDING = 1e-6
"""The bound below which a contribution, relative to its context and weights, is rounding and counts as zero."""


def output_cosines(masked: MaskedAttention) -> Pairs:
    """Return cosines of what two heads add to the stream, z_i W_O^i and z_j W_O^j, summed over rows.

    With W_O^i = R_i^T B_i, B_i of orthonormal rows, a contribution has the coordinates z_i R_i^T in the directions B_i,
    so cosines need no (row, head, d_model): they are sum over entries of (B_i B_j^T) * (U_i^T U_j), U_i the coordinates
    at length 1.
    """
    W_O = masked.attention.W_O
    directions, R = torch.linalg.qr(W_O.mT)
    z = masked.contexts
    coordinates = torch.einsum("rhd,hed->rhe", z, R)
    possible = z.norm(dim=2) * torch.linalg.vector_norm(W_O, dim=(1, 2))
    written = coordinates.norm(dim=2, keepdim=True) > ROUNDING * possible[:, :, None]
    unit = units(torch.where(written, coordinates, 0)).flatten(1)
    return _products(directions, unit, unit.dtype)


def _products(directions: Tensor, coordinates: Float[Tensor, "rows entry"], dtype: torch.dtype) -> Pairs:
    """Return products of what two heads write, from coordinates in the directions of each, summed over rows.

    Entries are multiplied in a type of numbers, and summed in float64.
    """
    basis = directions.mT.flatten(0, 1)
    products = (basis @ basis.mT).to(dtype) * (coordinates.mT @ coordinates).to(dtype)
    of_heads = directions.shape[::2]
    return products.view(*of_heads, *of_heads).sum((1, 3), dtype=torch.float64)


def output_sizes(masked: MaskedAttention) -> Float[Tensor, " head"]:
    """Return the squared size of what each head adds to the stream, ||z_h W_O^h||^2 (gain included).

    It is summed over rows. A contribution is as long as its coordinates in the directions that W_O^h writes in, so no
    vector of d_model is needed. The square of those coordinates is never negative, however little W_O^h lets through.
    """
    R = torch.linalg.qr(masked.attention.W_O.mT, mode="r").R
    coordinates = torch.einsum("rhd,hed->rhe", _gained_contexts(masked), R)
    return coordinates.square().sum((0, 2), dtype=torch.float64)


def output_products(masked: MaskedAttention) -> Pairs:
    """Return scalar products of what two heads add to the stream (gain included), summed over rows."""
    directions, R = torch.linalg.qr(masked.attention.W_O.mT)
    written = torch.einsum("rhd,hed->rhe", _gained_contexts(masked), R).flatten(1)
    return _products(directions, written, torch.float64)


def output_totals(masked: MaskedAttention) -> Float[Tensor, "head d_model"]:
    """Return what each head adds to the stream (gain included), summed over rows."""
    total = _gained_contexts(masked).sum(0, dtype=torch.float64)
    return torch.einsum("hd,hdm->hm", total, masked.attention.W_O.double())


def _gained_contexts(masked: MaskedAttention) -> Rows:
    attention = masked.attention
    z = attention.z if attention.gain is None else attention.z * attention.gain[:, None, :, None]
    return rows_of(z, masked.counted)


def output_correlation(products: Pairs, totals: Float[Tensor, "head d_model"], rows: Number) -> Pairs:
    """Return the cosine of two heads' outputs less their means, over all rows at once; 0 with a constant head."""
    centred = products - totals @ totals.mT / rows
    constant = centred.diagonal() <= ROUNDING * products.diagonal()
    return _normalised(centred.masked_fill(constant[:, None] | constant, 0))


def constant_share(products: Pairs, totals: Float[Tensor, "head d_model"], rows: Number) -> Float[Tensor, " head"]:
    """Return the share of the mean output in a head's squared output; 0 for a head that adds nothing."""
    sizes = products.diagonal()
    return torch.where(sizes > 0, totals.square().sum(1) / rows / sizes, 0).clamp(max=1)


def value_cosines(masked: MaskedAttention) -> Pairs:
    """Return cosines of two query heads' values, summed over the keys that count; 1 where heads share values."""
    kv_of = list(masked.attention.kv_of)
    return cosines(masked.values)[kv_of][:, kv_of]


def shared_values(masked: MaskedAttention) -> Number:
    """Return the share of pairs of heads, a head with itself included, that have the same values."""
    kv_of = torch.tensor(masked.attention.kv_of, device=masked.attention.q.device)
    return (kv_of[:, None] == kv_of).double().mean()


def stream_cosines(masked: MaskedAttention) -> Number:
    """Return cosines of each token's stream before layer 0 and after this layer, summed over rows."""
    assert masked.before is not None
    assert masked.after is not None
    pair = torch.stack((masked.before, masked.after), dim=1).to(masked.attention.q.dtype)
    return cosines(rows_of(pair, masked.counted))[0, 1]


def slice_cosines(masked: MaskedAttention) -> Pairs:
    """Return cosines of slices of the attention's output, one as wide as another, summed over rows.

    They are zero if d_model is no multiple of the number of heads, so that there are no such slices.
    """
    attention, n_heads = masked.attention, masked.n_heads
    written = masked.contexts.flatten(1) @ attention.W_O.flatten(0, 1)
    if not _sliceable(masked):
        return torch.zeros(n_heads, n_heads, dtype=torch.float64, device=written.device)
    if attention.b_O is not None:
        written = torch.where(masked.counted.flatten()[:, None], written + attention.b_O, 0)
    return cosines(written.unflatten(1, (n_heads, -1)))


def variances(masked: MaskedAttention) -> Float[Tensor, " head"]:
    """Return per text the unbiased variance over queries of each key's weight, averaged over keys.

    It is summed over texts.
    """
    attention = masked.attention
    shape = len(attention.q), masked.n_heads, attention.k.shape[2]
    totals = torch.zeros(shape, dtype=torch.float64, device=attention.q.device)
    squares = torch.zeros(shape[:2], dtype=torch.float64, device=attention.q.device)
    for block in blocks(masked):
        queries = block.measured
        weights = torch.where(queries.counted[..., None], queries.powers / queries.total[..., None], 0)
        totals[block.examples, :, block.keys] += weights.sum(2, dtype=torch.float64)
        squares[block.examples] += torch.where(queries.counted, queries.square, 0).sum(2, dtype=torch.float64)
    n_queries, n_keys = (x.sum(1)[:, None].double() for x in (masked.counted, masked.keys_counted))
    spread = (squares - totals.square().sum(2) / n_queries) / (n_queries - 1) / n_keys
    return torch.where(n_queries > 1, spread, 0).sum(0)


def _sliceable(masked: MaskedAttention) -> bool:
    return masked.attention.W_O.shape[2] % masked.n_heads == 0


def gram(x: Rows, counted: Bool[Tensor, " rows"]) -> Gram:
    """Return X^T X of all heads side by side, in float64 but at float32's cost.

    The mean is taken out before the product and put back in float64, so that centring later cancels no digits.
    """
    flat = x.flatten(1)
    total = flat.sum(0, dtype=torch.float64)
    about = (total / counted.sum().clamp(min=1)).to(x.dtype)
    centred = torch.where(counted[:, None], flat - about, 0)
    shift = about.double()
    crossed = torch.outer(total, shift)
    whole = (centred.mT @ centred).double() + crossed + crossed.mT - counted.sum() * torch.outer(shift, shift)
    return whole.view(*x.shape[1:], *x.shape[1:])


def cosines(x: Rows) -> Pairs:
    """Return cosines of the vectors of two heads in the same row, summed over rows; rows of zeros add nothing."""
    by_head = units(x).transpose(0, 1).flatten(1)
    return (by_head @ by_head.mT).double()


def units(x: Rows) -> Rows:
    """Return vectors at length 1, zeros left as they are."""
    return torch.nn.functional.normalize(x, dim=2, eps=torch.finfo(x.dtype).tiny ** 0.5)


def _fourths(x: Rows) -> Pairs:
    """Return the sum over rows of |x_i|^2 |x_j|^2."""
    squares = x.square().sum(2)
    return (squares.mT @ squares).double()


def _thirds(x: Rows) -> Thirds:
    """Return the sum over rows of |x_i|^2 x_j."""
    return (x.square().sum(2).mT @ x.flatten(1)).double().unflatten(1, x.shape[1:])


def n_rows(masked: MaskedAttention) -> Number:
    """Return the number of positions that count."""
    return masked.counted.sum(dtype=torch.float64)


def _moments(name: str, vectors: Callable[[MaskedAttention], Rows]) -> dict[str, Any]:
    """Return the sums of which CKA is made and estimated, for the heads' queries or contexts."""
    return {
        f"{name}_gram": lambda masked: gram(vectors(masked), masked.counted.flatten()),
        f"{name}_total": lambda masked: vectors(masked).sum(0, dtype=torch.float64),
        f"{name}_thirds": lambda masked: _thirds(vectors(masked)),
        f"{name}_fourths": lambda masked: _fourths(vectors(masked)),
    }


SUMS: dict[Any, Any] = {
    # Positions that count, and those that they stand for.
    "rows": n_rows,
    "whole_rows": lambda masked: n_rows(masked) / masked.share,
    # Texts with a counting position; a partly present text counts by its present share.
    "texts": lambda masked: masked.counted.any(1).sum(dtype=torch.float64) * masked.share,
    "texts_with_variance": lambda masked: (masked.counted.sum(1) > 1).sum(dtype=torch.float64),
    "batches": lambda masked: torch.ones((), dtype=torch.float64, device=masked.attention.q.device),
    **_moments("query", attrgetter("queries")),
    **_moments("context", attrgetter("contexts")),
    "context_cosines": lambda masked: cosines(masked.contexts),
    "value_cosines": value_cosines,
    "value_rows": lambda masked: masked.keys_counted.sum(dtype=torch.float64),
    "shared_values": shared_values,
    "output_cosines": output_cosines,
    "output_sizes": output_sizes,
    "output_products": output_products,
    "output_totals": output_totals,
    "stream_cosines": stream_cosines,
    "slice_cosines": slice_cosines,
    "sliced_rows": lambda masked: n_rows(masked) * _sliceable(masked),
    "variances": variances,
}
"""Sums over batches by name; a `_gram` is X_i^T X_j and a `_total` the sum of X_i, for every pair of heads."""


def cka(gram: Gram) -> Pairs:
    """Return linear CKA of every pair of heads, ||X_i^T X_j||_F^2 / (||X_i^T X_i||_F ||X_j^T X_j||_F), from X^T X.

    It is 0 with a head of zeros.
    """
    return _normalised(gram.square().sum((1, 3)))


def _normalised(cross: Pairs) -> Pairs:
    own = cross.diagonal()
    there = own > 0
    lengths = torch.where(there, own, 1).sqrt()  # a root has no slope at 0
    return torch.where(there[:, None] & there, cross / torch.outer(lengths, lengths), 0)


def centre(gram: Gram, total: Total, rows: Number) -> Gram:
    """Return X^T X of rows less their mean."""
    return gram - torch.einsum("ia,jb->iajb", total, total) / rows


def centred_cka(gram: Gram, total: Total, rows: Number) -> Pairs:
    """Return the CKA of rows less their mean; NaN for a single row, of which centring leaves nothing."""
    return torch.where(rows > 1, cka(centre(gram, total, rows)), torch.nan)


def estimated_cka(gram: Gram, fourths: Pairs, rows: Number, whole_rows: Number) -> Pairs:
    """Return the CKA of all rows, estimated from some; `fourths` is the part of a row's pairs with itself.

    It is NaN for a single row.
    """
    pairs = (gram.square().sum((1, 3)) - fourths) / (rows * (rows - 1))
    mean = pairs * (1 - 1 / whole_rows) + fourths / (rows * whole_rows)
    return torch.where(rows > 1, _normalised(mean).clamp(min=0), torch.nan)


def estimated_centred_cka(
    gram: Gram, total: Total, thirds: Thirds, fourths: Pairs, rows: Number, whole_rows: Number
) -> Pairs:
    """Return the centred CKA of all rows, with |x - m|^2 = |x|^2 - 2 m x + |m|^2 for both heads, multiplied out."""
    mean = total / rows
    sizes, size = torch.einsum("iaia->i", gram), mean.square().sum(1)
    crossed = torch.einsum("ijb,jb->ij", thirds, mean)
    inner = torch.einsum("ia,iajb,jb->ij", mean, gram, mean)
    alone = fourths - 2 * (crossed + crossed.mT) + 4 * inner
    alone = alone + torch.outer(sizes, size) + torch.outer(size, sizes) - 3 * rows * torch.outer(size, size)
    return estimated_cka(centre(gram, total, rows), alone, rows, whole_rows)
