"""Compare: the plan of looks that a directory is judged by, and the table of seeds that it is followed over."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from headway.compare.comparisons import values_of
from headway.compare.look_levels import LOOKS
from headway.compare.look_plan import LookPlan
from headway.compare.matches import matches_of
from headway.declare.experiment import Experiment
from headway.errors import UserError
from headway.runs.planned_looks import Asked, StoredPlan, stored_plan
from headway.runs.store import Store

MARGIN = 1.0
"""Per cent: what matters where nobody says what does."""

_MOST_ERROR = 0.2
"""A plan does not go on where chance alone would settle more than this."""


def plan_of(store: Store) -> LookPlan:
    """The plan of a directory; without one, a single look at all seeds that were asked for.

    Raises:
        ResultsError: when the stored plan cannot be read.
    """
    if found := stored_plan(store.path):
        return look_plan(found)
    return LookPlan(looks=(max(1, len(seeds_of_plan(store))),), margin=MARGIN)


def seeds_of_plan(store: Store) -> tuple[int, ...]:
    """The seeds that verdicts rest on, in the order in which they are run: those of the plan, else all that there are.

    After a search they are the fresh seeds of the finalists: those that chose a winner flatter it.

    Raises:
        ResultsError: when the stored plan cannot be read.
    """
    if found := stored_plan(store.path):
        return tuple(found.seeds)
    return tuple(sorted({run.seed for run in store.runs()}))


def look_plan(plan: StoredPlan) -> LookPlan:
    """A stored plan as it is followed."""
    return LookPlan(looks=plan.looks, margin=plan.margin, level=plan.level)


def asked_of(experiment: Experiment, arms: Sequence[str]) -> tuple[Asked, bool]:
    """The questions of arms without a control: the contrasts of the document, or else comparisons with baselines.

    Args:
        experiment: that asks them.
        arms: names of the arms that may be run; a question that needs another one is left out.

    Returns:
        The weights of each question, and whether they are contrasts of the document.
    """
    declared = {one.name: dict(one.weights) for one in experiment.contrasts}
    compared = {
        f"{match.arm.full_name} - {match.baseline.full_name}": {
            match.arm.full_name: 1.0,
            match.baseline.full_name: -1.0,
        }
        for match in matches_of(experiment)
        if match.control is None and not match.no_merit(experiment.primary)
    }
    asked = {name: weights for name, weights in (declared or compared).items() if weights.keys() <= set(arms)}
    return asked, bool(declared)


def extended(plan: StoredPlan, at_most: int) -> StoredPlan:
    """A plan that goes on beyond its end; what it has said so far stays.

    Error is spent on at the same rate, so that the looks that were made keep their levels, and all looks together err
    more often: `level` says how often.

    Raises:
        UserError: when chance alone would settle too much.

    Examples:
        >>> short = StoredPlan(looks=(3, 6), margin=1.0, level=0.05, metric="", asked={}, are_declared=True)
        >>> long = extended(short, 12)
        >>> long.looks, long.level
        ((3, 6, 8, 12), 0.1)
    """
    level = plan.level * at_most / plan.at_most
    if level > _MOST_ERROR:
        raise UserError(
            f"at most {at_most} seeds: the plan of this directory ends at {plan.at_most}, and going on so far chance "
            f"alone would tell apart {100 * level:.0f} of 100; choose another directory"
        )
    further = (look for look in (*LOOKS, at_most) if plan.at_most < look <= at_most)
    return replace(plan, looks=(*plan.looks, *dict.fromkeys(sorted(further))), level=level)


@dataclass(frozen=True, kw_only=True)
class SeedTable:
    """A metric of arms and seeds, and questions about it.

    Attributes:
        arms: names, in the order of rows.
        y: in per cent: 100 ln of the metric; NaN where it is missing, not finite or not positive.
        ended: which runs came to an end, with a value or without.
        weights: of each question.
    """

    arms: tuple[str, ...]
    y: Float[np.ndarray, "arm seed"]
    ended: Bool[np.ndarray, "arm seed"]
    weights: Float[np.ndarray, "question arm"]


def seed_table(
    store: Store, *, metric: str, seeds: Sequence[int], asked: Asked, arms: Sequence[str] | None = None
) -> SeedTable:
    """What the runs of a directory say by now.

    Args:
        store: the directory.
        metric: of the runs.
        seeds: in the order in which they are run.
        asked: questions about arms.
        arms: that the table has; by default those that are asked about.
    """
    names = tuple(dict.fromkeys(arm for weights in asked.values() for arm in weights)) if arms is None else tuple(arms)
    runs, column = store.runs(), {seed: at for at, seed in enumerate(seeds)}
    y, ended = np.full((len(names), len(column)), np.nan), np.zeros((len(names), len(column)), bool)
    for row, name in enumerate(names):
        for seed, value in values_of(store.experiment.arm(name), metric, runs).items():
            if seed in column and value is not None and 0 < value < np.inf:
                y[row, column[seed]] = 100 * np.log(value)
    for run in runs:
        if run.name in names and run.seed in column:
            ended[names.index(run.name), column[run.seed]] = run.status in ("done", "failed", "damaged")
    weights = np.array([[of_arm.get(name, 0.0) for name in names] for of_arm in asked.values()])
    return SeedTable(arms=names, y=y, ended=ended, weights=weights.reshape(len(asked), len(names)))
