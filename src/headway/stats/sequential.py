"""Interim analyses: when they happen, at which level, and what they settle.

Whoever adds seeds until something shows is fooled in 8 (two interim analyses) to 23 of 100 experiments without an
effect. A plan names the numbers of seeds of its analyses in advance. It spends the allowed error in proportion to the
seeds, so that all analyses together err as seldom as one.

At an interim analysis, the open contrasts are judged on as many seeds as the analysis has, at its level. A settled
contrast keeps its verdict and asks for no more seeds. So an arm gets further seeds only while a contrast that needs it
is open. Seeds between two analyses, and seeds beyond what an arm's contrasts asked for, count for no verdict.

`Looking` tells how a results directory is analysed: by a plan that is stored there, or once, at the seeds it has.

Papers: Lan and DeMets 1983 (spending); Armitage, McPherson and Rowe 1969 (the recursion).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import special

from headway.stats.blocks import LEVEL, ContrastEstimate, FamilyVerdict, judge
from headway.stats.simultaneous import root
from headway.store.directory import Store
from headway.store.look_plans import Asked, StoredPlan, stored_plan

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


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
    """Return the two-sided level of each interim analysis at these numbers of seeds, of which the last ends the plan.

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
    """Return the chance that one of several analyses, each at the full level, finds a difference that does not exist.

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


FEWEST = 3
"""Seeds below which nothing is settled: two seeds know no spread."""

Outcome = Literal["apart", "small", "same", "open", "few", "none"]
"""A clear difference; a clear difference below the margin; no difference beyond the margin; no verdict yet; too few
seeds; no seed at all, or no spread."""


@dataclass(frozen=True, kw_only=True)
class LookPlan:
    """A plan of interim analyses: their numbers of seeds, and the difference that matters.

    Attributes:
        looks: the numbers of seeds of the analyses, ascending; the last ends the plan.
        margin: the difference that matters, in per cent; a certainly smaller one counts as none.
        level: the error probability of all analyses together.
    """

    looks: tuple[int, ...]
    margin: float
    level: float = LEVEL

    @classmethod
    def until(cls, at_most: int, margin: float) -> "LookPlan":
        """The usual looks up to so many seeds."""
        return cls(looks=looks_until(at_most), margin=margin)

    def level_at(self, look: int) -> float:
        """The level of a look, by its place."""
        return self.level if len(self.looks) == 1 else levels(self.looks, self.level)[look]


@dataclass(frozen=True, kw_only=True)
class InterimDecision:
    """The state of a contrast: its estimate, its outcome, and the index of the interim analysis that gave it."""

    judged: ContrastEstimate
    outcome: Outcome
    look: int | None = None

    @property
    def n_seeds(self) -> int:
        """Seeds of which every arm of it had a value."""
        return self.judged.n_seeds

    @property
    def is_settled(self) -> bool:
        """True if the contrast has its verdict."""
        return self.outcome in ("apart", "small", "same")

    @property
    def is_open(self) -> bool:
        """True if more seeds could settle the contrast, which they cannot if all runs of an arm fail."""
        return self.look is None or self.outcome in ("open", "few")


@dataclass(frozen=True, kw_only=True)
class Followed:
    """A plan as far as the seeds go.

    Attributes:
        contrasts: what is said of each.
        look: the place of the last look that was made; None before the first.
        family: as it was judged at that look, on all that was there; before the first, on what there is.
    """

    contrasts: tuple[InterimDecision, ...]
    look: int | None
    family: FamilyVerdict

    @property
    def open(self) -> tuple[int, ...]:
        """The contrasts that need more seeds."""
        return tuple(at for at, one in enumerate(self.contrasts) if one.is_open)


def reading(judged: ContrastEstimate, margin: float) -> Outcome:
    """Return the outcome that an interval means for a difference.

    Examples:
        >>> told = ContrastEstimate(n_seeds=5, estimate=0.4, se=0.1, freedom=8.0, bound=3.0)
        >>> reading(told, margin=1.0), reading(told, margin=0.2)
        ('small', 'apart')
    """
    if judged.interval is None or judged.n_seeds < FEWEST:
        return "few" if 0 < judged.n_seeds < FEWEST else "none"
    low, high = judged.interval
    inside = -margin < low and high < margin
    if low > 0 or high < 0:
        return "small" if inside else "apart"
    return "same" if inside else "open"


def follow(
    plan: LookPlan,
    y: Float[np.ndarray, "arm seed"],
    weights: Float[np.ndarray, "contrast arm"],
    finished: Bool[np.ndarray, "arm seed"] | None = None,
) -> Followed:
    """Make every look of a plan that the seeds allow.

    Args:
        plan: when one looks.
        y: the metric in per cent of every arm and seed, in the order in which seeds are run; NaN where missing.
        weights: of each contrast.
        finished: which runs have ended, with a value or without; by default those with a value.
    """
    *_, last = (_before(plan, y, weights), *followed(plan, y, weights, finished))
    return last


def followed(
    plan: LookPlan,
    y: Float[np.ndarray, "arm seed"],
    weights: Float[np.ndarray, "contrast arm"],
    finished: Bool[np.ndarray, "arm seed"] | None = None,
) -> Iterator[Followed]:
    """Yield the state after each interim analysis that the seeds allow, one after the other."""
    ended = np.isfinite(y) if finished is None else finished
    said: list[InterimDecision | None] = [None] * len(weights)
    counted = np.repeat(np.abs(weights).sum(0)[:, None] == 0, y.shape[1], axis=1)
    for place, n in enumerate(plan.looks):
        waiting = [at for at, one in enumerate(said) if one is None or one.is_open]
        needed = np.abs(weights[waiting]).sum(0) > 0
        if not waiting or n > y.shape[1] or not ended[needed, :n].all():
            return
        # An arm that nothing waits for has no seeds of this look by the plan: those that it has were added by hand.
        counted[needed, :n] = True
        family = judge(np.where(counted, y, np.nan)[:, :n], weights, level=plan.level_at(place))
        for at in waiting:
            judged = family.contrasts[at]
            said[at] = InterimDecision(judged=judged, outcome=reading(judged, plan.margin), look=place)
        yield Followed(contrasts=tuple(one for one in said if one), look=place, family=family)


def _before(plan: LookPlan, y: Float[np.ndarray, "arm seed"], weights: Float[np.ndarray, "contrast arm"]) -> Followed:
    """Return the state before the first interim analysis: estimates, and nothing settled."""
    family = judge(y, weights, level=plan.level_at(0))
    return Followed(contrasts=tuple(_unsaid(judged) for judged in family.contrasts), look=None, family=family)


def _unsaid(judged: ContrastEstimate) -> InterimDecision:
    """Return the state of a contrast before an interim analysis: open, whatever an interval would tell."""
    said = reading(judged, 0.0)
    return InterimDecision(judged=judged, outcome=said if said in ("few", "none") else "open")


def needed_arms(weights: Float[np.ndarray, "contrast arm"], contrasts: Sequence[int]) -> tuple[int, ...]:
    """The arms, by place, that some contrasts need."""
    return tuple(np.flatnonzero(np.abs(weights[list(contrasts)]).sum(0) > 0).tolist())


@dataclass(frozen=True, kw_only=True)
class Looking:
    """The plan of a directory's interim analyses, and the seeds that they use.

    Attributes:
        margin: in per cent: what is certainly smaller is the same.
        plan: that is stored; None where there is none: one look, once all runs that have a folder have ended.
        seeds: that verdicts rest on, in the order in which they are run; empty: all. After a search they are the fresh
            seeds of the finalists, for those that chose a winner flatter it.
        asked: the questions that were planned; None without a plan.
        n_before: seeds that had been run before the plan was made.
    """

    margin: float
    plan: LookPlan | None = None
    seeds: tuple[int, ...] = ()
    asked: Asked | None = None
    n_before: int = 0

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
    found = stored_plan(store.path)
    if found is None:
        return Looking(margin=store.experiment.margin)
    return Looking(
        margin=found.margin,
        plan=look_plan(found),
        seeds=tuple(found.seeds),
        asked=found.asked,
        n_before=found.n_before,
    )


def look_plan(plan: StoredPlan) -> LookPlan:
    """A stored plan as it is followed."""
    return LookPlan(looks=plan.looks, margin=plan.margin, level=plan.level)
