"""Heads: the CKA of the queries (or keys, or values) of untrained heads, by a formula, from the stream that they read.

Heads of a layer read the same rows x_t. Let the queries of head i be q_t = R_t W_i^T x_t with independent entries of
W_i, of d_model x p, and R_t the rotary turn at position t. The mean over W of a head's kernel k_ts = q_t . q_s is, but
for the scale, K_ts = (x_t . x_s) c(t - s) with c(t - s) = tr(R_t^T R_s). CKA is sum k_i k_j over the product of the
norms of two kernels, and two heads are independent, so

    mean of sum_ts k_i k_j = sum_ts K_ts^2,
    mean of sum_ts k_i^2   = sum_ts K_ts^2 + sum_ts (x_t . x_s)^2 c(2 (t - s)) + p (sum_t |x_t|^2)^2;

the last two are the variance of a quadratic form w^T A w, |A|_F^2 + tr A^2, with A the Kronecker product of x_t x_s^T
and R_t^T R_s. Their ratio is what two untrained heads show. Where nothing turns, c is p, and with C the covariance of
the rows and R = (tr C)^2 / |C|_F^2 all three are multiples of |C|_F^2: p^2, p and p R. So the null is p / (p + R + 1):
two heads look alike as soon as the stream has few directions beside d_head, whatever they have learnt. Keys and values
are maps of the same rows, and have the same null (values never turn).

Centred, K has the means of its rows and columns taken out; that the variance's parts are then (tr K)^2 / p and as
before is an approximation, within .01 where queries turn and exact where they do not.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class StreamNull:
    """What CKA of two untrained heads is on one stream; NaN on one of zeros."""

    uncentred: float
    centred: float


def stream_null(
    x: Float[Tensor, "batch pos d_model"],
    counted: Bool[Tensor, "batch pos"],
    turn: Float[Tensor, " distance"],
    n_rows: int | None = None,
) -> StreamNull:
    """The CKA of two untrained heads.

    Args:
        x: what queries are made of: the normed stream, some rows of it; memory is that of rows x rows.
        counted: which rows count.
        turn: tr(R_t^T R_s) by the distance of two positions; all of them d_head where nothing turns.
        n_rows: of how many rows CKA is measured, where these are some of them; None: these.
    """
    position = torch.arange(x.shape[1], device=x.device).expand(counted.shape)[counted]
    rows = x[counted].double()
    products = rows @ rows.T
    distance = (position[:, None] - position).abs()
    p, c = float(turn[0]), turn.double().to(x.device)
    kernel = products * c[distance]
    doubled = c[(2 * distance).clamp(max=len(c) - 1)]
    found = []
    for about in (kernel, _centred(kernel)):
        turned = products if about is kernel else _centred(products)
        size = about.diagonal()
        cross = _mean_of_pairs(about.square(), n_rows)
        own = cross + _mean_of_pairs(turned.square() * doubled, n_rows) + float(size.mean()) ** 2 / p
        found.append(cross / own if own else math.nan)  # a stream of zeros has no directions
    return StreamNull(uncentred=found[0], centred=found[1])


def _centred(kernel: Float[Tensor, "row row"]) -> Float[Tensor, "row row"]:
    mean = kernel.mean(0)
    return kernel - mean - mean[:, None] + mean.mean()


def _mean_of_pairs(squares: Float[Tensor, "row row"], n_rows: int | None) -> float:
    """The mean over pairs of n_rows rows, of which the pairs of a row with itself are a smaller share."""
    n = len(squares)
    alone = float(squares.diagonal().mean())
    others = (float(squares.sum()) / n - alone) / max(1, n - 1)
    share = 1 / (n_rows or n)
    return share * alone + (1 - share) * others
