"""Thousands of families at once: the numbers of `block_test` for complete data, and what plans say of them.

The bound of contrasts that share one baseline is found by quadrature: slow, and certainly right.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import special
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

from headway.stats.sequential import levels
from headway.stats.simultaneous import LEVEL, LargestT

LOOKS = (3, 4, 6, 8, 12)
_FREEDOMS = np.array([0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 16, 20, 30, 40, 60, 100, 400])
_LOGS = np.linspace(-14, 14, 20_001)
_TRIGAMMAS = special.polygamma(1, np.exp(_LOGS))


@lru_cache(maxsize=64)
def _bounds(correlation, size, level):
    largest = LargestT(size, correlation)
    known = [largest.bound(float(freedom), level) for freedom in _FREEDOMS]
    curve = CubicSpline(np.log(_FREEDOMS), np.log(known))
    return lambda freedom: np.exp(curve(np.log(np.clip(freedom, _FREEDOMS[0], _FREEDOMS[-1]))))


def judged(y, weights, level=LEVEL):
    """The estimates and the half widths of intervals, (family, contrast), of runs (family, arm, seed)."""
    n, squares = y.shape[2], (weights**2).sum(1)
    values = np.einsum("ca,fan->fcn", weights, y)
    estimate, own = values.mean(2), values.var(2, ddof=1)
    unit = weights / np.sqrt(squares)[:, None]
    bound = _bounds(np.round(unit @ unit.T, 12).tobytes(), len(weights), level)
    half = special.stdtrit(n - 1, 1 - level / 2) * np.sqrt(own / n)
    wild = _wild(y, weights)
    for mask in np.unique(wild, axis=0):
        rows = np.flatnonzero((wild == mask).all(1))
        by_itself, pool = (weights[:, mask] != 0).any(1), (weights != 0).any(0) & ~mask
        cells, calm = np.ix_(rows, by_itself), np.ix_(rows, ~by_itself)
        half[cells] = special.stdtrit(n - 1, 1 - level / 2 / len(weights)) * np.sqrt(own[cells] / n)
        if (~by_itself).any():
            variance, freedom = _moderated(y[rows][:, pool], own[calm] / squares[~by_itself])
            width = bound(freedom)[:, None] * np.sqrt(variance * squares[~by_itself] / n)
            half[calm] = np.maximum(half[calm], width)
    return estimate, half


def _wild(y, weights):
    used, n = (weights != 0).any(0), y.shape[2]
    if used.sum() < 3 or n < 3:
        return np.zeros(y.shape[:2], bool)
    rest = y - y.mean(2, keepdims=True)
    spread = ((rest - np.median(rest[:, used], 1, keepdims=True)) ** 2).sum(2)
    return used & (spread > 100 * np.median(spread[:, used], 1, keepdims=True))


def _moderated(y, alike):
    """The variance of a contrast of unit weights, and its degrees of freedom."""
    k, d = y.shape[1], y.shape[2] - 1.0
    rest = y - y.mean(2, keepdims=True) - y.mean(1, keepdims=True) + y.mean((1, 2), keepdims=True)
    covariance = rest @ rest.transpose(0, 2, 1)
    total = np.trace(covariance, axis1=1, axis2=2)
    location, prior = np.maximum(total / ((k - 1) * d), alike.mean(1)), np.full(len(y), np.inf)
    if alike.shape[1] > 1:
        raised = np.maximum(alike, 1e-5 * np.median(alike, 1, keepdims=True))
        excess = np.log(raised).var(1, ddof=1) - special.polygamma(1, d / 2)
        found = np.interp(-np.log(np.maximum(excess, 1e-300)), -np.log(_TRIGAMMAS), _LOGS)
        prior = np.where(excess > 0, 2 * np.exp(found), np.inf)
    prior = np.minimum(prior, 4 * d)
    share = (prior / (prior + d))[:, None]
    counted = total**2 / (covariance**2).sum((1, 2)) * d
    return share * location[:, None] + (1 - share) * alike, np.minimum(prior + d, counted)


def missed(y, weights):
    """The share of families of which an interval misses 0."""
    estimate, half = judged(y, weights)
    return float((np.abs(estimate) > half).any(1).mean())


def wrong_in_plans(y, weights, *, margin=math.inf, looks=LOOKS):
    """The share of plans with a wrong verdict, where nothing differs; what is the same within the margin is settled."""
    settled, wrong = np.zeros((len(y), len(weights)), bool), np.zeros(len(y), bool)
    for n, level in zip(looks, levels(looks), strict=True):
        estimate, half = judged(y[:, :, :n], weights, level)
        told = np.abs(estimate) > half
        wrong |= (told & ~settled).any(1)
        settled |= told | (np.abs(estimate) + half < margin)
    return float(wrong.mean())


ODD = ("normal", "odd arm", "odd arm 8x", "odd arm 30x", "odd baseline", "odd baseline 8x", "skewed odd baseline")


def of_odd_arms(kind, sweeps, arms, n, *, baseline=0, arm=-1, seed=0):
    """Runs that do not differ, of which one arm varies 3 times as much as the others, or as often as the kind says."""
    rng = np.random.default_rng(seed)
    y = rng.exponential(size=(sweeps, arms, n)) - 1 if "skewed" in kind else rng.normal(size=(sweeps, arms, n))
    if "odd" in kind:
        y[:, baseline if "baseline" in kind else arm] *= 30 if "30x" in kind else 8 if "8x" in kind else 3
    return y


def exact_star_p(q: float, n_contrasts: int, freedom: float) -> float:
    """The chance that the largest |T| of contrasts with one baseline (correlation .5) is at least q.

    Paper: Dunnett 1955; P(max |T| <= q) is an integral over the baseline and over the pooled spread.
    """

    def given_spread(s: float) -> float:
        def given_baseline(z: float) -> float:
            inside = special.ndtr(math.sqrt(2) * q * s + z) - special.ndtr(-math.sqrt(2) * q * s + z)
            return float(inside**n_contrasts * math.exp(-z * z / 2) / math.sqrt(2 * math.pi))

        return float(quad(given_baseline, -9, 9, epsabs=1e-11, limit=200)[0])

    def density(s: float) -> float:
        log = (freedom / 2) * math.log(freedom / 2) + math.log(2) - special.gammaln(freedom / 2)
        return math.exp(log + (freedom - 1) * math.log(s) - freedom * s * s / 2) if s > 0 else 0.0

    return 1 - float(quad(lambda s: density(s) * given_spread(s), 0, 6, epsabs=1e-9, limit=200)[0])


def exact_star_bound(n_contrasts: int, freedom: float, level: float = 0.05) -> float:
    """What the largest |T| exceeds with a chance of `level`."""
    return float(brentq(lambda q: exact_star_p(q, n_contrasts, freedom) - level, 1.5, 20, xtol=1e-8))


def head_progression():
    """Three groups of three arms and one more: each against its group's constant arm, all others against the middle."""
    rows = []
    for group in range(3):
        rows += [(3 * group, 3 * group + 1), (3 * group + 2, 3 * group + 1)]
    rows += [(arm, 4) for arm in (0, 1, 2, 6, 7, 8, 9)]
    weights = np.zeros((len(rows), 10))
    for contrast, (arm, baseline) in enumerate(rows):
        weights[contrast, [arm, baseline]] = 1, -1
    return weights


def order():
    """Descending and ascending less constant, over three groups."""
    ascending, constant, descending = np.hstack([np.tile(np.eye(3), 3), np.zeros((3, 1))]) / 3
    return np.stack([descending - constant, ascending - constant])


def three_orders():
    """The same, and descending less ascending: as head progression asks, of which the third follows from the others."""
    return np.vstack([order(), order()[0] - order()[1]])


def star(n):
    return np.hstack([-np.ones((n - 1, 1)), np.eye(n - 1)])


FAMILIES = {"13 comparisons": head_progression(), "order": order(), "three orders": three_orders(), "4 arms": star(4)}
