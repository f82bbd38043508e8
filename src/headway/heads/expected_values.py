"""Expected values of metrics when nothing is going on, in closed form, for any number and width of heads.

Results show them beside the values. Findings compare heads with re-initialised heads instead (`untrained`).

* CKA: independent Gaussian heads of these widths and rows; with a known spectrum, independent heads of that spectrum;
* attention: Gaussian queries and keys of the same text, window and spread of logits. Given a query, its logits at
  independent Gaussian keys are independent normals with a standard deviation s in proportion to the query's length. So
  the mean of sum p^2 given s depends only on s and the number m of keys that the query sees. It is an integral,
  tabulated once for all heads and interpolated in s and m. It is then averaged over the lengths of queries of d_head
  dimensions, at each head's own spread.
"""

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from headway.config.head_metrics import PerQuery
from headway.heads.attention import MaskedAttention
from headway.heads.sums import Gram, Number, Pairs, Total, centre

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

ByKeys = Float64[np.ndarray, " keys"]
_QUERIES = 32
"""The queries of each text at which the spread of logits is measured."""
_SPREADS = 2.0 ** np.arange(-6, 7.25, 0.25)
"""The standard deviations of logits in the table; below, the excess grows as their square; above, it is held."""
_KEYS = 2.0 ** np.arange(1, 20.25, 0.25)
"""The numbers of keys in the table, which need not be whole there."""
_LENGTHS = 64
"""The number of query lengths, evenly spaced in their logarithm, over which the excess is averaged."""
_TAIL = 1e-7
"""The chance of a query shorter than the shortest of these lengths, and of one longer than the longest."""


def gaussian_cka(total: Total, rows: Number) -> Number:
    """Return the CKA of two independent Gaussian heads as wide as these, over as many rows."""
    p = total.shape[1]
    return (p * p / ((rows + p + 1) * (rows + p + 1))).sqrt()


def spectral_cka(gram: Gram, total: Total, rows: Number) -> Pairs:
    """Return the centred CKA of independent heads with the measured spectra, over n rows: sqrt(R_i R_j) / n.

    R = (tr C)^2 / ||C||_F^2 of the centred C = X^T X.
    """
    own = centre(gram, total, rows).diagonal(dim1=0, dim2=2)  # (width, width, head)
    size = own.square().sum((0, 1))
    R = torch.where(size > 0, own.diagonal(dim1=0, dim2=1).sum(1).square() / size, 0)
    return torch.outer(R, R).sqrt() / rows


@dataclass(frozen=True, kw_only=True)
class GaussianAttention:
    """Queries with Gaussian logits: for each number of keys, and for each head with its spread."""

    n_keys: Float[Tensor, "1 1 query"]
    text_keys: Float[Tensor, "1 1 query"]
    square: Float[Tensor, "1 head query"]


def gaussian_attention(
    value: PerQuery, reach: dict[tuple[int, int], float], spread: Float[Tensor, " head"], d_head: int
) -> Float[Tensor, " head"]:
    """Return a metric of attention for Gaussian queries and keys.

    Args:
        value: the metric, which may use only the numbers of keys and the sum of p^2.
        reach: the number of queries that see m of the T keys of their text, by (m, T).
        spread: the standard deviation of each head's logits over the keys that a query sees.
        d_head: the dimensions of a query.
    """
    m, T = map(np.array, zip(*reach, strict=True))
    excess = np.stack([gaussian_excess(of_head, d_head, m) for of_head in spread.tolist()])
    queries = GaussianAttention(
        n_keys=torch.from_numpy(m[None, None]).double(),
        text_keys=torch.from_numpy(T[None, None]).double(),
        square=torch.from_numpy((excess[None] + 1) / m),
    )
    weight = torch.tensor(list(reach.values()), dtype=torch.float64) * value.over(queries)[0, 0]
    values = torch.where(weight > 0, value.function(queries)[0], 0)
    return (values * weight).sum(1) / weight.sum()


def gaussian_excess(spread: float, d_head: int, m: Int[np.ndarray, " keys"]) -> ByKeys:
    """Return the mean of m sum p^2 - 1 over Gaussian queries and m Gaussian keys.

    It is accurate to 0.1 % for spreads up to 64.

    Args:
        spread: standard deviation of the logits, root mean square over queries.
        d_head: dimensions of a query.
        m: numbers of keys, a million at most.
    """
    if math.isnan(spread):  # overflowed logits have no null, and a spline would refuse NaN
        return np.full(m.shape, np.nan)
    return _share(spread, d_head)(np.log(m)) * (1 - 1 / m)


@lru_cache(maxsize=1024)
def _share(spread: float, d_head: int) -> "CubicSpline":
    """Return the excess over 1 - 1/m, to which it is proportional for small spreads, by ln m.

    It is kept for several metrics.
    """
    from scipy.interpolate import CubicSpline

    lengths, weights = _lengths(d_head)
    s = spread * lengths
    known = s.clip(_SPREADS[0], _SPREADS[-1])
    shares = np.exp(_table()(np.log(known))) * np.minimum(s / known, 1)[:, None] ** 2
    return CubicSpline(np.log(_KEYS), weights @ shares)


def _lengths(d_head: int) -> tuple[Float64[np.ndarray, " length"], Float64[np.ndarray, " length"]]:
    """Return lengths of Gaussian queries with a mean square of 1, and their weights.

    Half the squared length of d_head standard normals has a gamma distribution, whose logarithm has a smooth density
    with thin tails, so that even spacing is accurate. Gauss-Laguerre nodes miss the short queries that matter where
    d_head is small and the spread large, and overflow where d_head is large.
    """
    from scipy.special import gammainccinv, gammaincinv

    shape = d_head / 2
    half_square = np.geomspace(gammaincinv(shape, _TAIL), gammainccinv(shape, _TAIL), _LENGTHS)
    log_density = shape * np.log(half_square) - half_square
    weights = np.exp(log_density - log_density.max())
    return np.sqrt(half_square / shape), weights / weights.sum()


@cache
def _table() -> "CubicSpline":
    """Return the logarithm of the excess over 1 - 1/m, for each of `_KEYS`, by the logarithm of the logits' spread."""
    from scipy.interpolate import CubicSpline

    return CubicSpline(np.log(_SPREADS), np.log([normal_excess(s, _KEYS) / (1 - 1 / _KEYS) for s in _SPREADS]))


def normal_excess(s: float, m: ByKeys) -> ByKeys:
    """Return the mean of m sum p^2 - 1 for a softmax p of m independent normal logits of standard deviation s.

    With X = exp(logit), 1 / (sum X)^2 is the integral of t exp(-t sum X) over t > 0. So for phi(t) = E exp(-t X), the
    mean of sum p^2 is that of m t phi''(t) phi(t)^(m-1). Over u = ln t it is so smooth that even steps, and even steps
    of a standard normal z for the logit s z, are exact to a millionth.

    Args:
        s: standard deviation of the logits.
        m: numbers of keys, ascending, 1 at least.
    """
    z = np.arange(-9, 9, min(0.5, 0.25 / s))
    density = np.exp(-np.square(z) / 2)
    density /= density.sum()
    step = max(0.25, s / 8)
    u = np.arange(-np.log(m[-1]) - 16 - 8 * s, 5 + 8 * s, step)
    tX = np.exp(np.minimum(u[:, None] + s * z, 7))  # exp(-exp(7)) is 0 already
    powers = np.exp(-tX)
    phi, curvature = powers @ density, (np.square(tX) * powers) @ density  # the latter is t^2 phi''
    return np.square(m) * step * (curvature @ np.exp(np.outer(np.log(phi), m - 1))) - 1


def reach(masked: MaskedAttention) -> dict[tuple[int, int], float]:
    """Return how many queries see m of the T keys of their text, by (m, T).

    Heads that see different keys are averaged.
    """
    sees = masked.attention.sees()
    m = sees.sum(3).expand(len(masked.counted), -1, -1)
    T = masked.keys_counted.sum(1)[:, None, None].expand_as(m)
    chosen = masked.counted[:, None].expand_as(m) & (m > 0)
    pairs, counts = torch.stack((m[chosen], T[chosen])).unique(dim=1, return_counts=True)
    share = (counts / m.shape[1]).tolist()
    return {(m, T): count for (m, T), count in zip(pairs.T.tolist(), share, strict=True)}


def logit_variance(masked: MaskedAttention) -> tuple[Float[Tensor, " head"], Float[Tensor, ""]]:
    """Return the sum of the variance over keys of queries' logits, and the number of queries.

    The queries are a few of each text, evenly spaced.
    """
    attention = masked.attention
    n_queries = attention.q.shape[2]
    chosen = sorted({n_queries - 1 - i * n_queries // _QUERIES for i in range(_QUERIES)})
    total = torch.zeros(masked.n_heads, dtype=torch.float64, device=attention.q.device)
    number = torch.zeros((), dtype=torch.float64, device=attention.q.device)
    if attention.scores is not None or attention.sinks is not None:  # the null is that of a plain softmax
        return total, number
    for example in range(len(attention.q)):
        here = slice(example, example + 1)
        logits = attention.logits(batch=here, queries=chosen)[0]
        seen = attention.sees(here)[0][:, chosen]
        m = seen.sum(2)
        mean = torch.where(seen, logits, 0).sum(2) / m
        variance = torch.where(seen, logits - mean[:, :, None], 0).square().sum(2) / (m - 1)
        counts = (m > 1) & masked.counted[example, chosen]
        total += torch.where(counts, variance, 0).sum(1, dtype=torch.float64)
        number += counts.sum() / len(counts)
    return total, number
