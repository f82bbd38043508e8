"""Compare: bounds that hold for all contrasts of a family at once.

The largest |T| of a family, T multivariate t with the correlation of its contrasts, has no closed form. Its normal part
is drawn once from a quasi-random sequence, and the chi-square part is integrated exactly, so that probabilities are
smooth in the bound and the degrees of freedom, and the same at every call.

Sources: Dunnett 1955 for arms with one baseline; Genz and Bretz 2009 for the multivariate t. The correlation is
singular as soon as there are more contrasts than arms, where scipy's `multivariate_t.cdf` silently gives wrong numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from headway.compare.roots import root
from headway.compare.sobol import sobol_points

if TYPE_CHECKING:
    from jaxtyping import Float

_POINTS, _TOGETHER = 15, 16
"""2^15 points; neighbours among the sorted largest values are averaged by 16, which moves no bound by 1e-5."""
_NEGLIGIBLE = 1e-9
"""Eigenvalues of a correlation below this share of the largest are those of contrasts that follow from others."""


@dataclass(frozen=True)
class Family:
    """Contrasts that are judged together, known by the correlation of their estimates; bounds are right to 3e-3.

    Examples:
        >>> star = Family.of(np.array([[1.0, 0.5], [0.5, 1.0]]))
        >>> round(star.bound(10, 0.05), 2), round(star.p(2.5683, 10), 3)
        (2.57, 0.05)
    """

    size: int
    correlation: bytes
    """(contrast, contrast) float64, rounded so that families which are alike share what was drawn for them."""

    @classmethod
    def of(cls, correlation: Float[np.ndarray, "contrast contrast"]) -> "Family":
        """The family of a correlation, 1 on its diagonal."""
        return cls(len(correlation), np.round(correlation, 12).tobytes())

    def p(self, t: float, freedom: float) -> float:
        """The chance that the largest |T| is at least |t|, if no contrast differs from 0.

        Never less than that of a single contrast, never more than that times their number.
        """
        if t == 0:
            return 1.0
        alone = 2 * float(special.stdtr(freedom, -abs(t)))
        joint = special.gammainc(freedom / 2, freedom * _largest(self) ** 2 / (2 * t * t)).mean()
        return min(1.0, max(alone, min(float(joint), self.size * alone)))

    def bound(self, freedom: float, level: float) -> float:
        """What the largest |T| exceeds with a chance of `level`."""
        return _bound(self, float(freedom), float(level))


@lru_cache(maxsize=1024)
def _bound(family: Family, freedom: float, level: float) -> float:
    low, high = (float(special.stdtrit(freedom, 1 - level / 2 / n)) for n in (1, family.size))
    if family.size == 1 or family.p(low, freedom) <= level:
        return low
    return root(lambda q: family.p(q, freedom) - level, low, 1.0001 * high)


@lru_cache(maxsize=32)
def _largest(family: Family) -> Float[np.ndarray, " point"]:
    """The largest |Z| of each of many points, ascending, Z normal with the correlation of the family."""
    values, vectors = np.linalg.eigh(np.frombuffer(family.correlation).reshape(family.size, family.size))
    kept = values > _NEGLIGIBLE * values.max()
    points = sobol_points(int(kept.sum()), _POINTS, seed=0)
    normal = special.ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    largest = np.sort(np.abs(normal @ (vectors[:, kept] * np.sqrt(values[kept])).T).max(1))
    return largest.reshape(-1, _TOGETHER).mean(1)


def detectable_ratio(freedom: float, bound: float, power: float = 0.8) -> float:
    """The true difference, in standard errors, that exceeds a bound with this power."""
    return float(special.nctdtrinc(freedom, 1 - power, bound))
