"""Compare: a plan of looks followed over the seeds that are there: what was settled at which look, and what is open.

At a look the open contrasts are judged on as many seeds as the look has, at its level; one that is settled keeps its
verdict and asks for no more seeds, so that an arm is run on only while a contrast that needs it is open. Seeds between
two looks, and those that an arm has beyond what its contrasts asked for, count for no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from headway.compare.blocks import LEVEL, FamilyVerdict, Judged, judge
from headway.compare.look_levels import levels, looks_until

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

FEWEST = 3
"""Seeds below which nothing is settled: two seeds know no spread."""

Outcome = Literal["apart", "small", "same", "open", "few", "none"]
"""Told apart; told apart, by less than the margin; the same within it; none of these; too few seeds to say; no seed at
all, or no spread."""


@dataclass(frozen=True, kw_only=True)
class LookPlan:
    """When one looks, and what difference matters.

    Attributes:
        looks: numbers of seeds, ascending; the last ends the plan.
        margin: in per cent: what is certainly smaller is the same.
        level: of all looks together.
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
class Settled:
    """What is said of a contrast: as it was judged, how that reads, and at which look, by its place."""

    judged: Judged
    outcome: Outcome
    look: int | None = None

    @property
    def n_seeds(self) -> int:
        """Seeds of which every arm of it had a value."""
        return self.judged.n_seeds

    @property
    def is_settled(self) -> bool:
        """Whether it has its verdict."""
        return self.outcome in ("apart", "small", "same")

    @property
    def is_open(self) -> bool:
        """Whether more seeds could settle it: not where all runs of an arm fail."""
        return self.look is None or self.outcome in ("open", "few")


@dataclass(frozen=True, kw_only=True)
class Followed:
    """A plan as far as the seeds go.

    Attributes:
        contrasts: what is said of each.
        look: the place of the last look that was made; None before the first.
        family: as it was judged at that look, on all that was there; before the first, on what there is.
    """

    contrasts: tuple[Settled, ...]
    look: int | None
    family: FamilyVerdict

    @property
    def open(self) -> tuple[int, ...]:
        """The contrasts that need more seeds."""
        return tuple(at for at, one in enumerate(self.contrasts) if one.is_open)


def reading(judged: Judged, margin: float) -> Outcome:
    """What an interval says of a difference.

    Examples:
        >>> told = Judged(n_seeds=5, estimate=0.4, se=0.1, freedom=8.0, bound=3.0)
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
    """Every look of a plan that the seeds allow, as `follow` makes them, one after the other."""
    ended = np.isfinite(y) if finished is None else finished
    said: list[Settled | None] = [None] * len(weights)
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
            said[at] = Settled(judged=judged, outcome=reading(judged, plan.margin), look=place)
        yield Followed(contrasts=tuple(one for one in said if one), look=place, family=family)


def _before(plan: LookPlan, y: Float[np.ndarray, "arm seed"], weights: Float[np.ndarray, "contrast arm"]) -> Followed:
    """What there is before the first look: estimates, and nothing settled."""
    family = judge(y, weights, level=plan.level_at(0))
    return Followed(contrasts=tuple(_unsaid(judged) for judged in family.contrasts), look=None, family=family)


def _unsaid(judged: Judged) -> Settled:
    """Before a look: open, whatever an interval would say."""
    said = reading(judged, 0.0)
    return Settled(judged=judged, outcome=said if said in ("few", "none") else "open")


def needed_arms(weights: Float[np.ndarray, "contrast arm"], contrasts: Sequence[int]) -> tuple[int, ...]:
    """The arms, by place, that some contrasts need."""
    return tuple(np.flatnonzero(np.abs(weights[list(contrasts)]).sum(0) > 0).tolist())
