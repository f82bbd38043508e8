"""Compare: how much of one series others explain, and whether that is more than chance gives.

R^2 of ordinary least squares with an intercept. Two series that both move with time explain each other: of null
experiments with a trend or a random walk, shifts of one series against the other find 30 to 100 in 100, and their
changes from point to point 14 to 75. So seeds are swapped instead. From each series its mean over seeds is taken away:
what training does to all runs cancels, what each run does by itself stays. If that of the loss goes with that of the
heads, it does so within a seed, and not between the loss of one seed and the heads of another. The p is the share of
all permutations of the seeds whose R^2 is as large, and exact whatever the series remember; below .05 it takes four
seeds. The R^2 of swapped seeds is also what chance gives, so that what is beyond it is 0 where nothing goes together.

R^2 as it is published has no interval: moving blocks cover it in 63 to 90 of 100 cases at 15 to 40 points. The seeds'
own values stand in its place.

Paper: a permutation test of exchangeable pairs, after Pitman, Supplement to the J. of the Royal Statistical Society 4
(1937), 225-232, with whole series in place of numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from headway.compare.statistics import interval_of_mean

if TYPE_CHECKING:
    from jaxtyping import Float, Int

FEWEST = 12
"""Points below which nothing is said."""

FEWEST_SEEDS = 4
"""Of three there are 6 permutations, so that no p is below .05."""

_ALL = 7
"""Seeds up to which every permutation is made."""

_DRAWN = 5_000
"""Permutations that are drawn of more, beside the identity."""


@dataclass(frozen=True, kw_only=True)
class Association:
    """R^2 of a regression, the mean over one or more pairs of series (seeds).

    Attributes:
        r2: explained share of the variance, of series as they are: high wherever both move with time.
        r2_own: of what each seed does by itself, beside the mean over seeds; None for one seed or two, of which it
            says nothing, and where there is no such thing.
        r2_swapped: the same where one seed's series is explained by another seed's: what chance gives.
        beyond: how much of what chance leaves is explained, (r2_own - r2_swapped) / (1 - r2_swapped) of each seed; from
            four seeds on.
        beyond_interval: 95 % (t over seeds), of `beyond`.
        p: the share of permutations of seeds whose R^2 is as large as r2_own; None below four seeds.
        n: points that all series have.
        per_series: r2 of each.
        per_series_beyond: `beyond` of each.
    """

    r2: float
    r2_own: float | None = None
    r2_swapped: float | None = None
    beyond: float | None = None
    beyond_interval: tuple[float, float] | None = None
    p: float | None = None
    n: int
    per_series: tuple[float, ...]
    per_series_beyond: tuple[float, ...] | None = None


def associate(
    ys: Sequence[Float[np.ndarray, " point"]], xs: Sequence[Float[np.ndarray, "point _"]]
) -> Association | None:
    """How much of each y its regressors explain, and how much of that is more than chance.

    Args:
        ys: a series (point,) for each seed, all at the same points.
        xs: its regressors (point, regressor).

    Returns:
        None where a series is shorter than `FEWEST` or does not vary, or is not finite.

    Examples:
        >>> time, rng = np.linspace(0, 20, 60), np.random.default_rng(0)
        >>> wobbles = 0.1 * rng.normal(size=(5, 60))
        >>> together = associate([time + one for one in wobbles], [(time - one)[:, None] for one in wobbles])
        >>> apart = associate([time + one for one in wobbles], [(time - one)[:, None] for one in wobbles[::-1]])
        >>> [round(one.r2, 2) for one in (together, apart)], [round(one.p, 2) for one in (together, apart)]
        ([1.0, 1.0], [0.01, 0.27])
    """
    per_series = tuple(r_squared(y, x) for y, x in zip(ys, xs, strict=True))
    if not per_series or min(map(len, ys)) < FEWEST or not np.isfinite(per_series).all():
        return None
    r2, n = float(np.mean(per_series)), min(map(len, ys))
    shares = swapped_shares(np.array(ys), np.array(xs))
    if shares is None:
        return Association(r2=r2, n=n, per_series=per_series)
    own, others = np.diag(shares), _of_others(shares)
    own_and_swapped = float(own.mean()), float(others.mean())
    if len(shares) < FEWEST_SEEDS:
        return Association(r2=r2, r2_own=own_and_swapped[0], r2_swapped=own_and_swapped[1], n=n, per_series=per_series)
    beyond = (own - others) / np.maximum(1 - others, 1e-12)
    mean, interval = interval_of_mean(beyond)
    return Association(
        r2=r2,
        r2_own=own_and_swapped[0],
        r2_swapped=own_and_swapped[1],
        beyond=mean,
        beyond_interval=interval,
        p=p_of_swaps(shares),
        n=n,
        per_series=per_series,
        per_series_beyond=tuple(beyond.tolist()),
    )


def untested(n_seeds: int) -> str:
    """Why an association has no p, in words; empty where seeds are enough.

    Examples:
        >>> untested(3), untested(4)
        ('cannot be tested with 3 seeds: it takes 4', '')
    """
    if n_seeds >= FEWEST_SEEDS:
        return ""
    return f"cannot be tested with {'one seed' if n_seeds == 1 else f'{n_seeds} seeds'}: it takes {FEWEST_SEEDS}"


def r_squared(y: Float[np.ndarray, " point"], x: Float[np.ndarray, "point regressor"]) -> float:
    """R^2 of least squares of y on x and an intercept, in 0..1; NaN where y does not vary or points are too few.

    Examples:
        >>> round(r_squared(np.array([0.0, 1.0, 2.0, 3.0]), np.array([[0.0], [1.0], [2.0], [3.0]])), 9)
        1.0
    """
    if len(y) < x.shape[1] + 2 or not (np.isfinite(y).all() and np.isfinite(x).all()):
        return math.nan
    return float(_explained(y[None], x)[0])


def swapped_shares(
    ys: Float[np.ndarray, "seed point"], xs: Float[np.ndarray, "seed point regressor"]
) -> Float[np.ndarray, "seed seed"] | None:
    """R^2 of what seed i's y does by itself on what seed j's regressors do.

    None below three seeds, and where y does nothing by itself.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> np.diag(swapped_shares(y := rng.normal(size=(3, 20)), y[:, :, None])).round(6).tolist()
        [1.0, 1.0, 1.0]
    """
    if len(ys) < FEWEST_SEEDS - 1:
        return None  # of two seeds each deviates as the other does, turned round
    by_itself, of_heads = _deviations(ys), _deviations(xs)
    found = np.stack([_explained(by_itself, one) for one in of_heads], axis=1)
    return found if np.isfinite(found).all() else None


def p_of_swaps(shares: Float[np.ndarray, "seed seed"]) -> float:
    """The share of permutations of seeds whose mean R^2 is as large as that of seeds with themselves.

    Of the trace of any such table: a p below .05 comes in at most 5 of 100 experiments in which nothing goes together.

    Examples:
        >>> round(p_of_swaps(np.eye(4)), 4), round(p_of_swaps(np.eye(5)[::-1]), 4)
        (0.0417, 0.6333)
    """
    chosen = _permutations(len(shares))
    found = shares[np.arange(len(shares)), chosen].mean(1)
    return float((found >= found[0] - 1e-12).mean())


@lru_cache(maxsize=16)
def _permutations(n: int) -> Int[np.ndarray, "permutation seed"]:
    """All of few, the identity first; of many some that are drawn, the same every time."""
    if n <= _ALL:
        return np.array(list(itertools.permutations(range(n))))
    rng = np.random.default_rng(n)
    return np.stack([np.arange(n), *(rng.permutation(n) for _ in range(_DRAWN))])


def _of_others(shares: Float[np.ndarray, "seed seed"]) -> Float[np.ndarray, " seed"]:
    """The mean R^2 of each seed's y on the regressors of the other seeds."""
    return (shares.sum(1) - np.diag(shares)) / (len(shares) - 1)


def _deviations(values: np.ndarray) -> np.ndarray:
    """What each seed does beside the mean over seeds; nothing, where that is but rounding."""
    rest = values - values.mean(0)
    shown = np.ptp(rest, axis=1, keepdims=True) > 1e-9 * np.abs(values).max(axis=(0, 1), keepdims=True)
    return np.where(shown, rest, 0.0)


def _explained(
    ys: Float[np.ndarray, "series point"], x: Float[np.ndarray, "point regressor"]
) -> Float[np.ndarray, " series"]:
    """R^2 of each of several series on the same regressors and an intercept; NaN where one does not vary."""
    centred, spread = x - x.mean(0), x.std(0)
    shown = spread > 1e-12 * np.abs(x).max(0)
    left, sizes, _ = np.linalg.svd(centred[:, shown] / spread[shown], full_matrices=False)
    # What does not vary is left out, and what says the same twice is said once.
    basis = left[:, sizes > 1e-9 * sizes.max(initial=0.0)]
    of_y = ys - ys.mean(1, keepdims=True)
    total = (of_y**2).sum(1)
    varies = total > 1e-24 * (ys**2).sum(1)
    share = np.divide(((of_y @ basis) ** 2).sum(1), total, out=np.full(len(ys), np.nan), where=varies)
    return np.clip(share, 0.0, 1.0)
