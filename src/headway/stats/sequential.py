"""Interim analyses: when they happen, and at which level.

Whoever adds seeds until something shows is fooled in 8 (two interim analyses) to 23 of 100 experiments without an
effect. A plan names the numbers of seeds of its analyses in advance. It spends the allowed error in proportion to the
seeds, so that all analyses together err as seldom as one. `blocks.run_plan` makes the analyses of a plan.

`Looking` tells how a results directory is analysed: by a plan that is stored there, or once, at the seeds it has.

Papers: Lan and DeMets 1983 (spending); Armitage, McPherson and Rowe 1969 (the recursion).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import special

from headway.stats.simultaneous import LEVEL, root
from headway.store.directory import Store
from headway.store.look_plans import Asked, StoredPlan, stored_plan

RULES = 3
"""The version of the rules by which differences are judged."""

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
def levels(looks: tuple[int, ...], level: float = LEVEL) -> tuple[float, ...]:
    """Return the two-sided level of each interim analysis at these numbers of seeds, of which the last ends the plan.

    Examples:
        >>> [round(nominal, 6) for nominal in levels((3, 6))]
        [0.025, 0.033577]
    """
    nominal, walk, spent = [], _Walk(), 0.0
    for n in looks:
        time = n / looks[-1]
        bound = walk.bound(time, level * time - spent)
        walk = walk.after(time, bound)
        spent = level * time
        nominal.append(2 * float(special.ndtr(-bound)))
    return tuple(nominal)


def error_of(looks: Sequence[int]) -> float:
    """Return the chance that one of several analyses, each at the full level, finds a difference that does not exist.

    Examples:
        >>> round(error_of((3, 5)), 3), round(error_of((3, 5, 10)), 3)
        (0.08, 0.11)
    """
    walk, bound, total = _Walk(), float(special.ndtri(1 - LEVEL / 2)), 0.0
    for n in looks:
        time = n / looks[-1]
        total += walk.crosses(time, bound)
        walk = walk.after(time, bound)
    return total


def error_of_growth(n_before: int, n_now: int) -> float:
    """Return the most that comparisons err which are tested again whenever an arm is added to a number of arms.

    A family of n comparisons tests each of them at about 1/n of the level.

    Examples:
        >>> round(error_of_growth(2, 3), 3), round(error_of_growth(2, 13), 3)
        (0.075, 0.155)
    """
    return LEVEL * (1 + math.fsum(1 / n for n in range(max(2, n_before), n_now)))


class _Walk(NamedTuple):
    """Brownian motion that has not crossed a bound yet: its density at the last look, on points for integration."""

    time: float = 0.0
    points: np.ndarray = np.zeros(1)
    mass: np.ndarray = np.ones(1)

    def crosses(self, time: float, z: float) -> float:
        """The chance to be beyond z standard deviations at a time, for the first time."""
        end = z * math.sqrt(time)
        sd = math.sqrt(time - self.time)
        out = special.ndtr((self.points - end) / sd) + special.ndtr((-end - self.points) / sd)
        return float(self.mass @ out)

    def bound(self, time: float, chance: float) -> float:
        """The standard deviations beyond which it is at a time, for the first time, with a chance."""
        return root(lambda z: self.crosses(time, z) - chance, 1e-6, 12.0)

    def after(self, time: float, z: float) -> "_Walk":
        """The walk that is inside z standard deviations at a time."""
        end, sd = z * math.sqrt(time), math.sqrt(time - self.time)
        nodes, weights = np.polynomial.legendre.leggauss(_ORDER)
        edges = np.linspace(-end, end, _PANELS + 1)
        half = np.diff(edges)[:, None] / 2
        points = ((edges[1:] + edges[:-1])[:, None] / 2 + half * nodes).ravel()
        steps = (points[:, None] - self.points) / sd
        density = np.exp(-(steps**2) / 2) @ self.mass / (sd * math.sqrt(2 * math.pi))
        return _Walk(time, points, density * (half * weights).ravel())


FEWEST = 3
"""Seeds below which nothing is settled: two seeds know no spread."""


@dataclass(frozen=True, kw_only=True)
class LookPlan:
    """A plan of interim analyses: their numbers of seeds, and the difference that matters.

    Attributes:
        looks: the numbers of seeds of the analyses, ascending; the last ends the plan.
        margin: the difference that matters, in per cent; a certainly smaller one counts as none.
        level: the error probability of all analyses together.
        rules: the version of the rules by which differences are judged.
    """

    looks: tuple[int, ...]
    margin: float
    level: float = LEVEL
    rules: int = RULES

    def level_at(self, look: int) -> float:
        """The level of an interim analysis, from 1."""
        return self.level if len(self.looks) == 1 else levels(self.looks, self.level)[look - 1]


@dataclass(frozen=True, kw_only=True)
class Looking:
    """The plan of a directory's interim analyses, and the seeds that they use.

    Attributes:
        margin: the margin of equivalence, in per cent.
        plan: the stored plan; None without one: a single analysis, once all runs that have a folder have ended.
        seeds: the seeds that verdicts rest on, in the order of their runs; empty: all. After a search these are the
            fresh seeds of the finalists: the seeds that chose a winner flatter it.
        asked: the questions that were planned; None without a plan.
        n_before: seeds that had been run before the plan was made.
        rules: the version of the rules under which the plan was made.
    """

    margin: float
    plan: LookPlan | None = None
    seeds: tuple[int, ...] = ()
    asked: Asked | None = None
    n_before: int = 0
    rules: int = RULES

    def plan_of(self, n_seeds: int) -> LookPlan:
        """The plan of a family whose arms have so many seeds between them."""
        return self.plan or LookPlan(looks=(max(1, n_seeds),), margin=self.margin)

    @property
    def awaits_what_has_no_folder(self) -> bool:
        """True if runs without a folder are still to come; without a plan, nobody asked for them."""
        return self.plan is not None


def looks_of(store: Store) -> Looking:
    """Return how a directory is analysed; no other function decides this.

    Raises:
        ResultsError: when the stored plan cannot be read.
    """
    stored = stored_plan(store.path)
    if stored is None:
        return Looking(margin=store.experiment.margin)
    return Looking(
        margin=stored.margin,
        plan=look_plan(stored),
        seeds=tuple(stored.seeds),
        asked=stored.asked,
        n_before=stored.n_before,
        rules=stored.rules,
    )


def look_plan(plan: StoredPlan) -> LookPlan:
    """A stored plan as it is followed."""
    return LookPlan(looks=plan.looks, margin=plan.margin, level=plan.level)
