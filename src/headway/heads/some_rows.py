"""Heads: CKA of many rows from some of them, drawn evenly: what a measurement of all of them would say.

||X_i^T X_j||_F^2 is a sum over pairs of rows t and s of the product of two kernels. Among n of N rows a row is paired
with itself in one of n cases instead of one of N, and there the product is largest: the fewer rows, the more alike all
heads look. So both kinds of pairs are summed apart, and each gets the weight that it has among N rows.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from headway.heads.diversity import centre
from headway.heads.subject import Subject, only
from headway.heads.sums import additive

Gram = Float[Tensor, "head width head width"]
Total = Float[Tensor, "head width"]
Pairs = Float[Tensor, "head head"]
Thirds = Float[Tensor, "head head width"]
Number = Float[Tensor, ""]


@additive
def whole_rows(of: Subject) -> Number:
    """Positions that those here stand for."""
    return of.counted.sum(dtype=torch.float64) / of.share


@additive
def query_fourths(of: Subject) -> Pairs:
    """The sum over rows of |q_i|^2 |q_j|^2."""
    return _fourths(only(of.counted, of.attention.q))


@additive
def query_thirds(of: Subject) -> Thirds:
    """The sum over rows of |q_i|^2 q_j."""
    return _thirds(only(of.counted, of.attention.q))


@additive
def context_fourths(of: Subject) -> Pairs:
    """The sum over rows of |z_i|^2 |z_j|^2."""
    return _fourths(only(of.counted, of.attention.z))


@additive
def context_thirds(of: Subject) -> Thirds:
    """The sum over rows of |z_i|^2 z_j."""
    return _thirds(only(of.counted, of.attention.z))


def query_cka(query_gram: Gram, query_fourths: Pairs, rows: Number, whole_rows: Number) -> Pairs:
    """As `diversity.query_cka`."""
    return _cka(query_gram, query_fourths, rows, whole_rows)


def context_cka(context_gram: Gram, context_fourths: Pairs, rows: Number, whole_rows: Number) -> Pairs:
    """As `diversity.context_cka`."""
    return _cka(context_gram, context_fourths, rows, whole_rows)


def query_cka_centred(
    query_gram: Gram, query_total: Total, query_thirds: Thirds, query_fourths: Pairs, rows: Number, whole_rows: Number
) -> Pairs:
    """As `diversity.query_cka_centred`."""
    return _cka_centred(query_gram, query_total, query_thirds, query_fourths, rows, whole_rows)


def context_cka_centred(
    context_gram: Gram,
    context_total: Total,
    context_thirds: Thirds,
    context_fourths: Pairs,
    rows: Number,
    whole_rows: Number,
) -> Pairs:
    """As `diversity.context_cka_centred`."""
    return _cka_centred(context_gram, context_total, context_thirds, context_fourths, rows, whole_rows)


OF_SOME = {function.__name__: function for function in (query_cka, context_cka, query_cka_centred, context_cka_centred)}
"""By metric: the function that takes some rows for all."""


def _fourths(x: Float[Tensor, "rows head width"]) -> Pairs:
    squares = x.square().sum(2)
    return (squares.mT @ squares).double()


def _thirds(x: Float[Tensor, "rows head width"]) -> Thirds:
    return (x.square().sum(2).mT @ x.flatten(1)).double().unflatten(1, x.shape[1:])


def _cka(gram: Gram, alone: Pairs, rows: Number, whole: Number) -> Pairs:
    """CKA of `whole` rows; `alone` is what the pairs of a row with itself add. NaN for a single row."""
    cross = gram.square().sum((1, 3))
    pairs = (cross - alone) / (rows * (rows - 1))
    mean = pairs * (1 - 1 / whole) + alone / (rows * whole)
    own = mean.diagonal()
    there = own > 0
    lengths = torch.where(there, own, 1).sqrt()
    found = torch.where(there[:, None] & there, mean / torch.outer(lengths, lengths), 0).clamp(min=0)
    return torch.where(rows > 1, found, torch.nan)


def _cka_centred(gram: Gram, total: Total, thirds: Thirds, fourths: Pairs, rows: Number, whole: Number) -> Pairs:
    """With |x - m|^2 = |x|^2 - 2 m x + |m|^2 for both heads, multiplied out."""
    mean = total / rows
    sizes, size = torch.einsum("iaia->i", gram), mean.square().sum(1)
    crossed = torch.einsum("ijb,jb->ij", thirds, mean)
    inner = torch.einsum("ia,iajb,jb->ij", mean, gram, mean)
    alone = fourths - 2 * (crossed + crossed.mT) + 4 * inner
    alone = alone + torch.outer(sizes, size) + torch.outer(size, sizes) - 3 * rows * torch.outer(size, size)
    return _cka(centre(gram, total, rows), alone, rows, whole)
