"""The questions of a plan of interim analyses, and the table of seeds that the plan reads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float

from headway.config.experiment import Experiment
from headway.config.metrics import METRICS
from headway.errors import UserError
from headway.stats.cells import Cells, matches_of, runs_of_arms
from headway.stats.contrasts import is_compared
from headway.stats.sequential import LOOKS
from headway.store.directory import Store
from headway.store.look_plans import Asked, StoredPlan

_MOST_ERROR = 0.2
"""A plan is not prolonged if chance alone would settle more than this share."""


def asked_of(experiment: Experiment, arms: Sequence[str]) -> tuple[Asked, bool]:
    """The questions of arms without a control: the contrasts of the document, or else comparisons with baselines.

    Args:
        experiment: that asks them.
        arms: names of the arms that may be run; a question that needs another one is left out.

    Returns:
        The weights of each question, and whether they are contrasts of the document.
    """
    declared = {one.name: dict(one.weights) for one in experiment.contrasts}
    pairs = [
        (match.arm.full_name, match.baseline.full_name)
        for match in matches_of(experiment)
        if match.control is None and is_compared(match, METRICS[experiment.primary])
    ]
    compared = {f"{arm} - {baseline}": {arm: 1.0, baseline: -1.0} for arm, baseline in pairs}
    asked = {name: weights for name, weights in (declared or compared).items() if weights.keys() <= set(arms)}
    return asked, bool(declared)


def extended(plan: StoredPlan, at_most: int) -> StoredPlan:
    """Return a plan prolonged beyond its end; its earlier verdicts stay.

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
    level = round(plan.level * at_most / plan.at_most, 12)
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
    """Return the table of values that the runs of a directory have so far.

    Args:
        store: the directory.
        metric: of the runs.
        seeds: in the order in which they are run.
        asked: questions about arms.
        arms: that the table has; by default those that are asked about.
    """
    names = [arm for weights in asked.values() for arm in weights] if arms is None else arms
    cells = Cells.of(names, metric, runs_of_arms(store.runs())).at(seeds)
    positive = np.where(cells.values > 0, cells.values, np.nan)
    return SeedTable(arms=cells.arms, y=100 * np.log(positive), ended=cells.ended, weights=cells.rows(asked.values()))
