"""Simultaneous bounds, which hold for all contrasts of a family at once.

The largest |T| of a family, T multivariate t with the correlation of its contrasts, has no closed form. Its normal part
is drawn once from a quasi-random sequence, and the chi-square part is integrated exactly. So probabilities are smooth
in the bound and the degrees of freedom, and the same at every call.

Sources: Dunnett 1955 for arms with one baseline; Genz and Bretz 2009 for the multivariate t. The correlation is
singular as soon as there are more contrasts than arms, where scipy's `multivariate_t.cdf` silently gives wrong numbers.

The points are scrambled Sobol points, with the bits of `scipy.stats.qmc.Sobol`: loading `scipy.stats` takes longer than
all else that a comparison does. Papers: Joe and Kuo, SIAM J. Sci. Comput. 30 (2008), 2635-2654; Matousek, J. Complexity
14 (1998), 527-556.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from itertools import pairwise
from operator import xor
from pathlib import Path

import numpy as np
import scipy
from scipy import special

LEVEL = 0.05
"""The two-sided level of every test and of every family; intervals cover 1 minus it."""

_WITHIN = 1e-12
"""The distance from the zero of a function at which its search ends."""

POWER = 0.8
"""The chance with which a difference of the detectable size is found."""

_BITS, _POINTS, _TOGETHER = 30, 15, 16
"""2^15 points; neighbours among the sorted largest values are averaged by 16, which moves no bound by 1e-5."""
_FALLING = np.arange(_BITS, dtype=np.uint32)[::-1]
"""The places of bits from the highest."""
_NEGLIGIBLE = 1e-9
"""Eigenvalues of a correlation below this share of the largest are those of contrasts that follow from others."""


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of a function between two numbers at which it has different signs.

    It replaces `scipy.optimize.brentq`, which takes longer to load than a comparison to make. Paper: Ridders, IEEE
    Transactions on Circuits and Systems 26 (1979), 979-980.

    Examples:
        >>> round(root(lambda x: x**3 - 2, 0.0, 2.0), 9)
        1.25992105
    """
    values = {low: function(low), high: function(high)}
    estimate, before = low, high
    while values[estimate] and abs(estimate - before) > _WITHIN:
        middle, before = (low + high) / 2, estimate
        at_middle = values[middle] = function(middle)
        curvature = math.sqrt(at_middle**2 - values[low] * values[high])
        step = math.copysign(middle - low, values[low] - values[high])
        estimate = middle + step * at_middle / curvature
        values[estimate] = function(estimate)
        low, high = next(ends for ends in pairwise(sorted(values)) if values[ends[0]] * values[ends[1]] <= 0)
    return estimate


def p_alone(t: float, freedom: float) -> float:
    """Return the two-sided p of a t statistic, as if it were asked alone."""
    return 2 * float(special.stdtr(freedom, -abs(t)))


def bound_alone(freedom: float, level: float) -> float:
    """Return the two-sided bound of a t statistic at a level, as if it were asked alone."""
    return float(special.stdtrit(freedom, 1 - level / 2))


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
    def of(cls, correlation: np.ndarray) -> "LargestT":
        """The distribution for a correlation, 1 on its diagonal."""
        return cls(len(correlation), np.round(correlation, 12).tobytes())

    def p(self, t: float, freedom: float) -> float:
        """The chance that the largest |T| is at least |t|, if no contrast differs from 0.

        Never less than that of a single contrast, never more than that times their number.
        """
        if t == 0:
            return 1.0
        alone = p_alone(t, freedom)
        scaled = (_drawn(self) / t) ** 2
        joint = float(special.gammainc(freedom / 2, freedom / 2 * scaled).mean())
        at_most = min(joint, self.size * alone, 1.0)
        return max(alone, at_most)

    def bound(self, freedom: float, level: float) -> float:
        """Return the bound that the largest |T| exceeds with probability `level`."""
        return _bound(self, float(freedom), float(level))


@lru_cache(maxsize=1024)
def _bound(largest: LargestT, freedom: float, level: float) -> float:
    low, high = bound_alone(freedom, level), bound_alone(freedom, level / largest.size)
    if largest.size == 1 or largest.p(low, freedom) <= level:
        return low
    return root(lambda q: largest.p(q, freedom) - level, low, 1.0001 * high)


@lru_cache(maxsize=32)
def _drawn(largest: LargestT) -> np.ndarray:
    """The largest |Z| of each of many points, ascending, Z normal with the correlation of the contrasts."""
    correlation = np.frombuffer(largest.correlation)
    values, vectors = np.linalg.eigh(correlation.reshape(largest.size, largest.size))
    kept = values > _NEGLIGIBLE * values.max()
    points = _sobol_points(int(kept.sum()))
    normal = special.ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    together = normal @ (vectors[:, kept] * np.sqrt(values[kept])).T
    maxima = np.sort(np.abs(together).max(1))
    return maxima.reshape(-1, _TOGETHER).mean(1)


def _sobol_points(dimensions: int) -> np.ndarray:
    """The first scrambled Sobol points of a fixed seed, in any order: (point, dimension) in 0..1."""
    draw = partial(np.random.default_rng(0).spawn(1)[0].integers, 2, dtype=np.uint32)  # spawned, as in scipy
    shift = draw(size=(dimensions, _BITS)) @ (1 << _FALLING[::-1])
    lower = np.tril(draw(size=(dimensions, _BITS, _BITS)))
    lower[:, _FALLING, _FALLING] = 1
    bits = _directions(dimensions)[:, :, None] >> _FALLING & 1
    scrambled = (bits @ lower.swapaxes(1, 2) & 1) @ (1 << _FALLING)
    points = shift[None]
    for direction in scrambled.T[:_POINTS]:
        points = np.concatenate([points, points ^ direction])
    return points / 2**_BITS


def _directions(dimensions: int) -> np.ndarray:
    """Return what each bit of a point's number adds to a coordinate, by the primitive polynomials that scipy holds."""
    joe_kuo = np.load(Path(scipy.__file__).parent / "stats/_sobol_direction_numbers.npz")
    rows = [[1] * _BITS]
    polynomials, starts = (joe_kuo[name][1:dimensions].tolist() for name in ("poly", "vinit"))
    for polynomial, start in zip(polynomials, starts, strict=True):
        degree = polynomial.bit_length() - 1
        row = start[:degree]
        while len(row) < _BITS:
            terms = (row[-k] << k for k in range(1, degree + 1) if polynomial >> (degree - k) & 1)
            row.append(reduce(xor, terms, row[-degree]))
        rows.append(row)
    return np.array(rows, np.uint32) << _FALLING


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


_FUTURES = (np.arange(24) + 0.5) / 24
"""Quantiles of a future's spread: a chance is right to 1e-2."""


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
    of_spread, of_new = np.meshgrid(_FUTURES, _FUTURES)
    true = variance * before / (2 * special.gammaincinv(before / 2, of_spread))
    new = true * 2 * special.gammaincinv((freedom - before) / 2, of_new)
    # Rounded, so that many differences share few bounds, each of which takes milliseconds.
    bound = largest.bound(round(freedom, 1), level)
    half = bound * np.sqrt((before * variance + new) / freedom / n_seeds)
    sd = np.sqrt(true * (n_seeds - n) / (n * n_seeds))
    inside = np.clip(margin - half, 0, half)

    def within(reach: np.ndarray) -> np.ndarray:
        below = special.ndtr((-reach - estimate) / sd)
        return special.ndtr((reach - estimate) / sd) - below

    chances = 1 - within(half) + within(inside)
    return float(chances.mean())
