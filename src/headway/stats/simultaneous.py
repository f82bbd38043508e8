"""Simultaneous bounds, which hold for all contrasts of a family at once.

The largest |T| of a family, T multivariate t with the correlation of its contrasts, has no closed form. Its normal part
is drawn once from a quasi-random sequence, and the chi-square part is integrated exactly. So probabilities are smooth
in the bound and the degrees of freedom, and the same at every call.

Sources: Dunnett 1955 for arms with one baseline; Genz and Bretz 2009 for the multivariate t. The correlation is
singular as soon as there are more contrasts than arms, where scipy's `multivariate_t.cdf` silently gives wrong numbers.

Two functions replace scipy's, which takes longer to load than everything else that a comparison does:

* `root` finds the zero of a function of one number. Paper: Ridders, IEEE Transactions on Circuits and Systems 26
  (1979), 979-980.
* `sobol_points` fills a cube evenly with scrambled Sobol points, with the bits of `scipy.stats`. They are made from Joe
  and Kuo's direction numbers, by a random lower triangular matrix and a random shift. Papers: Joe and Kuo, SIAM J. Sci.
  Comput. 30 (2008), 2635-2654; Matousek, J. Complexity 14 (1998), 527-556.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from jaxtyping import Float, UInt32

LEVEL = 0.05
"""The two-sided level of every test and of every family; intervals cover 1 minus it."""

POWER = 0.8
"""The chance with which a difference of the detectable size is found."""

_ROOTS_MOST = 200


def root(function: Callable[[float], float], low: float, high: float, *, within: float = 1e-10) -> float:
    """Return the zero of a function between two numbers at which it has different signs.

    Raises:
        ValueError: when it has the same sign at both.

    Examples:
        >>> round(root(lambda x: x**3 - 2, 0.0, 2.0), 9)
        1.25992105
    """
    at_low, at_high = function(low), function(high)
    if at_low * at_high > 0:
        raise ValueError("the function has one sign at both ends")
    estimate = low if at_low == 0 else high
    if at_low * at_high == 0:
        return estimate
    for _ in range(_ROOTS_MOST):
        middle, before = (low + high) / 2, estimate
        at_middle = function(middle)
        step = (middle - low) * math.copysign(1.0, at_low - at_high)
        estimate = middle + step * at_middle / math.sqrt(at_middle * at_middle - at_low * at_high)
        value = function(estimate)
        if value == 0 or abs(estimate - before) <= within:
            return estimate
        if at_middle * value < 0:
            low, high, at_low, at_high = middle, estimate, at_middle, value
        elif at_low * value < 0:
            high, at_high = estimate, value
        else:
            low, at_low = estimate, value
        if abs(high - low) <= within:
            return estimate
    return estimate


_BITS = 30
_NUMBERS = """
3,1 7,1,3 11,1,3,1 13,1,1,1 19,1,1,3,3 25,1,3,5,13 37,1,1,5,5,17 41,1,1,5,5,5 47,1,1,7,11,19 55,1,1,5,1,1
59,1,1,1,3,11 61,1,3,5,5,31 67,1,3,3,9,7,49 91,1,1,1,15,21,21 97,1,3,1,13,27,49 103,1,1,1,15,7,5
109,1,3,1,15,13,25 115,1,1,5,5,19,61 131,1,3,7,11,23,15,103 137,1,3,7,13,13,15,69 143,1,1,3,13,7,35,63
145,1,3,5,9,1,25,53 157,1,3,1,13,9,35,107 167,1,3,1,5,27,61,31 171,1,1,5,11,19,41,61 185,1,3,5,3,3,13,69
191,1,1,7,13,1,19,1 193,1,3,7,5,13,19,59 203,1,1,3,9,25,29,41 211,1,3,5,13,23,1,55 213,1,3,7,3,13,59,17
229,1,3,1,3,5,53,69 239,1,1,5,5,23,33,13 241,1,1,7,7,1,61,123 247,1,1,7,9,13,61,49 253,1,3,3,5,3,55,33
285,1,3,1,15,31,13,49,245 299,1,3,5,15,31,59,63,97 301,1,3,1,11,11,11,77,249 333,1,3,1,11,27,43,71,9
351,1,1,7,15,21,11,81,45 355,1,3,7,3,25,31,65,79 357,1,3,1,1,19,11,3,205 361,1,1,5,9,19,21,29,157
369,1,3,7,11,1,33,89,185 391,1,3,3,3,15,9,79,71 397,1,3,7,11,15,39,119,27
"""
"""The polynomial and the first odd numbers of each dimension but the first."""

_SOBOL_MOST = 48
"""Dimensions that are made here; more are left to scipy."""


def sobol_points(dimensions: int, power: int, seed: int) -> Float[np.ndarray, "point dimension"]:
    """The first 2^power scrambled points, in 0..1.

    Examples:
        >>> sobol_points(2, 3, seed=0).mean(0).round(1).tolist()
        [0.5, 0.5]
    """
    rng = np.random.default_rng(seed)
    if dimensions > _SOBOL_MOST:
        from scipy.stats import qmc

        return np.asarray(qmc.Sobol(dimensions, scramble=True, rng=rng).random_base2(power))
    rng = rng.spawn(1)[0]  # as scipy does
    shift = rng.integers(2, size=(dimensions, _BITS), dtype=np.uint32) @ (1 << np.arange(_BITS, dtype=np.uint32))
    matrix = np.tril(rng.integers(2, size=(dimensions, _BITS, _BITS), dtype=np.uint32))
    matrix[:, np.arange(_BITS), np.arange(_BITS)] = 1
    # As bits, the highest first: (dimension, direction, bit).
    falling = np.arange(_BITS - 1, -1, -1, dtype=np.uint32)
    bits = (_directions(dimensions)[:, :, None] >> falling) & 1
    scrambled = ((np.einsum("dpk,djk->djp", matrix, bits) & 1) << falling).sum(2, dtype=np.uint32)
    points = np.empty((1 << power, dimensions), np.uint32)
    points[0] = shift
    for bit in range(power):  # in the order of Gray's code, in which neighbours differ by one direction
        n = 1 << bit
        points[n : 2 * n] = points[:n][::-1] ^ scrambled[:, bit]
    return points * 2.0**-_BITS


def _directions(dimensions: int) -> UInt32[np.ndarray, "dimension direction"]:
    """Return the direction numbers: what each bit of a point's number adds to the point, before scrambling."""
    rows = [[1] * _BITS]
    for text in _NUMBERS.split()[: dimensions - 1]:
        polynomial, *row = map(int, text.split(","))
        degree = len(row)
        while len(row) < _BITS:
            new = row[-degree]
            for k in range(1, degree + 1):
                if polynomial >> (degree - k) & 1:
                    new ^= row[-k] << k
            row.append(new)
        rows.append(row)
    return (np.array(rows, np.uint64) << np.arange(_BITS - 1, -1, -1, dtype=np.uint64)).astype(np.uint32)


_POINTS, _TOGETHER = 15, 16
"""2^15 points; neighbours among the sorted largest values are averaged by 16, which moves no bound by 1e-5."""
_NEGLIGIBLE = 1e-9
"""Eigenvalues of a correlation below this share of the largest are those of contrasts that follow from others."""


@dataclass(frozen=True)
class LargestT:
    """The distribution of the largest |T| of contrasts, known by the correlation of their estimates.

    Bounds are right to 3e-3.

    Examples:
        >>> star = LargestT.of(np.array([[1.0, 0.5], [0.5, 1.0]]))
        >>> round(star.bound(10, 0.05), 2), round(star.p(2.5683, 10), 3)
        (2.57, 0.05)
    """

    size: int
    correlation: bytes
    """(contrast, contrast) float64, rounded so that families which are alike share what was drawn for them."""

    @classmethod
    def of(cls, correlation: Float[np.ndarray, "contrast contrast"]) -> "LargestT":
        """The distribution for a correlation, 1 on its diagonal."""
        return cls(len(correlation), np.round(correlation, 12).tobytes())

    def p(self, t: float, freedom: float) -> float:
        """The chance that the largest |T| is at least |t|, if no contrast differs from 0.

        Never less than that of a single contrast, never more than that times their number.
        """
        if t == 0:
            return 1.0
        alone = 2 * float(special.stdtr(freedom, -abs(t)))
        joint = special.gammainc(freedom / 2, freedom * _drawn(self) ** 2 / (2 * t * t)).mean()
        return min(1.0, max(alone, min(float(joint), self.size * alone)))

    def bound(self, freedom: float, level: float) -> float:
        """Return the bound that the largest |T| exceeds with probability `level`."""
        return _bound(self, float(freedom), float(level))


@lru_cache(maxsize=1024)
def _bound(largest: LargestT, freedom: float, level: float) -> float:
    low, high = (float(special.stdtrit(freedom, 1 - level / 2 / n)) for n in (1, largest.size))
    if largest.size == 1 or largest.p(low, freedom) <= level:
        return low
    return root(lambda q: largest.p(q, freedom) - level, low, 1.0001 * high)


@lru_cache(maxsize=32)
def _drawn(largest: LargestT) -> Float[np.ndarray, " point"]:
    """The largest |Z| of each of many points, ascending, Z normal with the correlation of the contrasts."""
    values, vectors = np.linalg.eigh(np.frombuffer(largest.correlation).reshape(largest.size, largest.size))
    kept = values > _NEGLIGIBLE * values.max()
    points = sobol_points(int(kept.sum()), _POINTS, seed=0)
    normal = special.ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    maxima = np.sort(np.abs(normal @ (vectors[:, kept] * np.sqrt(values[kept])).T).max(1))
    return maxima.reshape(-1, _TOGETHER).mean(1)


def detectable_ratio(freedom: float, bound: float) -> float:
    """The true difference, in standard errors, that exceeds a bound with 80 % power."""
    return float(special.nctdtrinc(freedom, 1 - POWER, bound))


def median_widening(freedom: float) -> float:
    """Return the factor from an estimated spread to the median of what the spread may be.

    Spreads of few degrees of freedom are more often too small than too large.

    Examples:
        >>> round(median_widening(2), 3), round(median_widening(20), 3)
        (1.201, 1.017)
    """
    return math.sqrt(freedom / float(special.chdtri(freedom, 0.5)))


_FUTURES = 9
"""2^9 points: a chance is right to 1e-3."""


def chance_to_settle(
    estimate: float,
    variance: float,
    before: float,
    seeds: tuple[int, int],
    largest: LargestT,
    *,
    margin: float,
    level: float = LEVEL,
) -> float:
    """Return the chance that a difference has a verdict at a larger number of seeds.

    The true difference and the true spread may be any that agree with the estimate and its error. So chances are right
    in the mean over many differences, and too high by up to 0.2 for differences of about half the margin.

    Args:
        estimate: the estimate of the difference.
        variance: the estimated variance of one seed's difference.
        before: the degrees of freedom of `variance`.
        seeds: the number of seeds of the estimate, and the number of seeds of the later test.
        largest: the contrasts that are tested together.
        margin: the verdicts are: the interval excludes 0, or lies within the margin.
        level: the simultaneous error level of the later test.
    """
    n, n_seeds = seeds
    freedom = before * (n_seeds - 1) / (n - 1)
    of_spread, of_new = sobol_points(2, _FUTURES, seed=0).T
    true = variance * before / (2 * special.gammaincinv(before / 2, of_spread))
    new = true * 2 * special.gammaincinv((freedom - before) / 2, of_new)
    half = largest.bound(freedom, level) * np.sqrt((before * variance + new) / freedom / n_seeds)
    sd, inside = np.sqrt(true * (n_seeds - n) / (n * n_seeds)), np.clip(margin - half, 0, half)

    def within(reach: Float[np.ndarray, " future"]) -> Float[np.ndarray, " future"]:
        below, above = ((end - estimate) / sd for end in (-reach, reach))
        return special.ndtr(above) - special.ndtr(below)

    return float((1 - within(half) + within(inside)).mean())
