"""Compare: when to look, and how sure to be at each look, so that all looks together err as seldom as one.

Whoever adds seeds until something shows is fooled in 8 (two looks) to 23 of 100 experiments without an effect. A plan
says beforehand at how many seeds it is looked; the error that may be made is spent in proportion to seeds.

Papers: Lan and DeMets 1983 (spending); Armitage, McPherson and Rowe 1969 (the recursion).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from headway.compare.roots import root

if TYPE_CHECKING:
    from jaxtyping import Float

LOOKS = (3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of seeds at which one looks, up to the last of a plan."""

_PANELS, _ORDER = 64, 12


def looks_until(at_most: int) -> tuple[int, ...]:
    """The looks of a plan that ends with so many seeds.

    Examples:
        >>> looks_until(12), looks_until(10)
        ((3, 4, 6, 8, 12), (3, 4, 6, 8, 10))
    """
    return (*(look for look in LOOKS if look < at_most), at_most)


@lru_cache(maxsize=64)
def levels(looks: tuple[int, ...], level: float = 0.05) -> tuple[float, ...]:
    """The two-sided level of each look at so many seeds, of which the last ends the plan.

    Examples:
        >>> [round(one, 6) for one in levels((3, 6))]
        [0.025, 0.033577]
    """
    found, walk, spent = [], _Walk(), 0.0
    for n in looks:
        time = n / looks[-1]
        bound = walk.bound(time, level * time - spent)
        walk, spent = walk.after(time, bound), level * time
        found.append(2 * float(special.ndtr(-bound)))
    return tuple(found)


def error_of(looks: Sequence[int], level: float = 0.05) -> float:
    """The chance that one of several looks, each at the full level, tells apart what is alike.

    Examples:
        >>> round(error_of((3, 5)), 3), round(error_of((3, 5, 10)), 3)
        (0.08, 0.11)
    """
    walk, bound, total = _Walk(), float(special.ndtri(1 - level / 2)), 0.0
    for n in looks:
        time = n / looks[-1]
        total += walk.crosses(time, bound)
        walk = walk.after(time, bound)
    return total


class _Walk:
    """Brownian motion that has not crossed a bound yet: its density at the last look, on points for integration."""

    def __init__(
        self,
        time: float = 0.0,
        points: Float[np.ndarray, " point"] | None = None,
        mass: Float[np.ndarray, " point"] | None = None,
    ):
        self._time = time
        self._points = np.zeros(1) if points is None else points
        self._mass = np.ones(1) if mass is None else mass

    def crosses(self, time: float, z: float) -> float:
        """The chance to be beyond z standard deviations at a time, for the first time."""
        end, sd = z * math.sqrt(time), math.sqrt(time - self._time)
        out = special.ndtr((self._points - end) / sd) + special.ndtr((-end - self._points) / sd)
        return float(self._mass @ out)

    def bound(self, time: float, chance: float) -> float:
        """The standard deviations beyond which it is at a time, for the first time, with a chance."""
        return root(lambda z: self.crosses(time, z) - chance, 1e-6, 12.0, within=1e-12)

    def after(self, time: float, z: float) -> "_Walk":
        """The walk that is inside z standard deviations at a time."""
        end, sd = z * math.sqrt(time), math.sqrt(time - self._time)
        nodes, weights = np.polynomial.legendre.leggauss(_ORDER)
        edges = np.linspace(-end, end, _PANELS + 1)
        half = np.diff(edges)[:, None] / 2
        points = ((edges[1:] + edges[:-1])[:, None] / 2 + half * nodes).ravel()
        steps = (points[:, None] - self._points) / sd
        density = np.exp(-(steps**2) / 2) @ self._mass / (sd * math.sqrt(2 * math.pi))
        return _Walk(time, points, density * (half * weights).ravel())
