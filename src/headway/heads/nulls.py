"""Heads: what metrics are when nothing is going on, so that layouts of other numbers and widths can be compared.

* of CKA: independent Gaussian heads of these widths and rows; with a known spectrum, independent heads of that one;
* of attention: Gaussian queries and keys of the same text, window and spread of logits, simulated. Given a query, its
  logits at independent Gaussian keys are independent normals; so sum p^2 depends only on the number of keys that the
  query sees, d_head and the spread, and one long row of normals serves all numbers of keys.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from headway.heads.diversity import centre
from headway.heads.looks import PER_QUERY, Looks
from headway.heads.subject import Subject
from headway.streams import generator

NULLS: dict[str, Callable[..., Any]] = {}
"""By metric: its null as a function of the sums that it names; metrics of patterns have that of even attention."""

SIMULATED = ("attention_variance_raw", "attention_diversity", "attention_excess")
"""Metrics whose null is that of Gaussian queries and keys."""

_QUERIES = 32
"""Queries of each text at which the spread of logits is measured."""
_DRAWS = 2**17
"""Normals of the simulation, for each fourfold number of keys; its error is about 2 %."""
_SPREADS = 2.0 ** np.arange(-7, 4.5, 0.5)
"""Standard deviations of logits that are simulated; between two of them the null is interpolated, beyond them held."""


def gaussian_heads(p_i: int, p_j: int, n: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """CKA of two independent Gaussian heads of p_i and p_j dimensions over n rows."""
    return (p_i * p_j / ((n + p_i + 1) * (n + p_j + 1))).sqrt()


def measured_spectra(gram: Float[Tensor, "head width head width"], n: Float[Tensor, ""]) -> Float[Tensor, "head head"]:
    """CKA of independent heads with these spectra over n rows: sqrt(R_i R_j) / n, R = (tr C)^2 / ||C||_F^2."""
    own = gram.diagonal(dim1=0, dim2=2)  # (width, width, head)
    size = own.square().sum((0, 1))
    R = torch.where(size > 0, own.diagonal(dim1=0, dim2=1).sum(1).square() / size, 0)
    return torch.outer(R, R).sqrt() / n


def _null(*metrics: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        NULLS.update(dict.fromkeys(metrics, function))
        return function

    return register


@_null("query_cka")
def _query_cka(query_total: Tensor, rows: Tensor) -> Tensor:
    return gaussian_heads(query_total.shape[1], query_total.shape[1], rows)


@_null("context_cka")
def _context_cka(context_total: Tensor, rows: Tensor) -> Tensor:
    return gaussian_heads(context_total.shape[1], context_total.shape[1], rows)


@_null("query_cka_centred")
def _query_cka_centred(query_gram: Tensor, query_total: Tensor, rows: Tensor) -> Tensor:
    return measured_spectra(centre(query_gram, query_total, rows), rows)


@_null("context_cka_centred")
def _context_cka_centred(context_gram: Tensor, context_total: Tensor, rows: Tensor) -> Tensor:
    return measured_spectra(centre(context_gram, context_total, rows), rows)


@_null("context_dissimilarity", "output_dissimilarity", "output_dissimilarity_published", "similarity_to_layer_0")
def _zero(rows: Tensor) -> Tensor:
    return torch.zeros_like(rows)


@_null("disagreement_subspace")
def _sharing(shared_values: Tensor, batches: Tensor) -> Tensor:
    return -shared_values / batches


@_null("disagreement_output")
def _own(context_cosines: Tensor) -> Tensor:
    return torch.full_like(context_cosines[0, 0], -1 / len(context_cosines))


@dataclass(frozen=True, kw_only=True)
class SimulatedLooks(Looks):
    """Queries with Gaussian logits: for each number of keys, and for each head with its spread."""

    squares: Float[Tensor, "1 head query"]

    @property
    def square(self) -> Float[Tensor, "1 head query"]:  # noqa: D102 - as in Looks
        return self.squares


def gaussian_attention(
    name: str, reach: dict[tuple[int, int], float], spread: Float[Tensor, " head"], d_head: int
) -> Float[Tensor, " head"]:
    """A metric of attention for Gaussian queries and keys.

    Args:
        name: one of `SIMULATED`.
        reach: how many queries see m of the T keys of their text, by (m, T).
        spread: standard deviation of each head's logits over the keys that a query sees.
        d_head: dimensions of a query.
    """
    m, T = (np.array(numbers) for numbers in zip(*reach, strict=True))
    at = np.log(spread.cpu().double().numpy().clip(_SPREADS[0], _SPREADS[-1]))
    grid = np.log(_SPREADS)
    right = np.clip(np.searchsorted(grid, at), 1, len(grid) - 1)
    near = {i: simulated_excess(_SPREADS[i], d_head, int(m.max()))[m - 1] for i in {*right, *(right - 1)}}
    share = (at - grid[right - 1]) / (grid[right] - grid[right - 1])
    between = [near[i - 1] ** (1 - w) * near[i] ** w for i, w in zip(right, share, strict=True)]
    looks = SimulatedLooks(
        counted=torch.ones(1, 1, len(m), dtype=torch.bool),
        n_keys=torch.from_numpy(m[None, None]).double(),
        text_keys=torch.from_numpy(T[None, None]).double(),
        squares=torch.from_numpy((np.stack(between)[None] + 1) / m),
    )
    weight = torch.tensor(list(reach.values()), dtype=torch.float64) * PER_QUERY[name].over(looks)[0, 0]
    values = torch.where(weight > 0, PER_QUERY[name].values(looks)[0], 0)
    return (values * weight).sum(1) / weight.sum()


@lru_cache(maxsize=1024)
def simulated_excess(spread: float, d_head: int, n_keys: int) -> Float64[np.ndarray, " keys"]:
    """The mean of m sum p^2 - 1 over Gaussian queries and keys for m = 1 ... n_keys, above 0 so that it has a log.

    A query's logits are normals times its length, a chi of d_head degrees of freedom, whose quantiles are taken evenly.
    Rows of normals are four times as long for every fourfold m, and as many fewer.

    Args:
        spread: standard deviation of the logits.
        d_head: dimensions of a query.
        n_keys: the largest m.
    """
    from scipy.special import gammaincinv

    found: list[float] = []
    longest = 16
    while len(found) < n_keys:
        random = generator(0, "Gaussian attention", longest)
        draws = max(64, _DRAWS // longest)
        lengths = np.sqrt(2 * gammaincinv(d_head / 2, (np.arange(draws) + 0.5) / draws) / d_head)
        logits = spread * lengths[:, None] * random.standard_normal((draws, longest))
        powers = np.exp(logits - logits.max(1, keepdims=True))
        total = np.square(powers.cumsum(1))
        # Where all but later keys are next to nothing, one key has it all.
        squares = np.divide(np.square(powers).cumsum(1), total, out=np.ones_like(total), where=total > 0)
        means = np.arange(1, longest + 1) * squares.mean(0) - 1
        found += list(means[len(found) :])
        longest *= 4
    return np.maximum(found[:n_keys], 1e-30)


def reach(of: Subject) -> dict[tuple[int, int], float]:
    """How many queries see m of the T keys of their text, by (m, T); heads that see different keys are averaged."""
    sees = of.attention.sees()
    m = sees.sum(3).expand(len(of.counted), -1, -1)
    T = of.keys_counted.sum(1)[:, None, None].expand_as(m)
    chosen = of.counted[:, None].expand_as(m) & (m > 0)
    pairs, counts = torch.stack((m[chosen], T[chosen])).unique(dim=1, return_counts=True)
    share = (counts / m.shape[1]).tolist()
    return {(m, T): count for (m, T), count in zip(pairs.T.tolist(), share, strict=True)}


def logit_variance(of: Subject) -> tuple[Float[Tensor, " head"], Float[Tensor, ""]]:
    """The variance over keys of a query's logits, summed over a few evenly spaced queries of a text; their number."""
    attention = of.attention
    n_queries = attention.q.shape[2]
    chosen = sorted({n_queries - 1 - i * n_queries // _QUERIES for i in range(_QUERIES)})
    total = torch.zeros(of.n_heads, dtype=torch.float64, device=attention.q.device)
    number = torch.zeros((), dtype=torch.float64, device=attention.q.device)
    for example in range(len(attention.q)):
        here = slice(example, example + 1)
        logits = attention.logits(batch=here, queries=chosen)[0]
        seen = attention.sees(here)[0][:, chosen]
        m = seen.sum(2)
        mean = torch.where(seen, logits, 0).sum(2) / m
        variance = torch.where(seen, logits - mean[:, :, None], 0).square().sum(2) / (m - 1)
        counts = (m > 1) & of.counted[example, chosen]
        total += torch.where(counts, variance, 0).sum(1, dtype=torch.float64)
        number += counts.sum() / len(counts)
    return total, number
