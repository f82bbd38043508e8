"""Arms whose runs have no seed in common: Welch's t test, with Bonferroni's correction for all comparisons.

Papers: Welch, Biometrika 34 (1947), 28-35; Satterthwaite, Biometrics Bulletin 2 (1946), 110-114.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from headway.stats.blocks import reading, seeds_that_settle
from headway.stats.evidence import LOGARITHM, Difference, Family, tested
from headway.stats.sequential import FEWEST, LookPlan
from headway.stats.simultaneous import LEVEL, LargestT, bound_alone, chance_to_settle, p_alone


def compare_unpaired(
    values: Mapping[str, Sequence[float]],
    pairs: Sequence[tuple[str, str]],
    *,
    metric: str,
    unit: str,
    margin: float,
) -> tuple[Family, list[Difference]]:
    """Judge pairs of arms whose runs are independent.

    Differences are in 100 ln of the metric, or in its own unit if a value is 0 or below, as those of paired runs are.

    Args:
        values: the finite values of each arm.
        pairs: the arms that are compared, the baseline second.
        metric: the name of the metric.
        unit: its unit.
        margin: the difference that matters, in per cent.
    """
    known = [value for of_arm in values.values() for value in of_arm]
    is_positive = all(value > 0 for value in known)
    sizes = [float(np.abs(of_arm).mean()) for of_arm in values.values() if len(of_arm)]
    size = None if is_positive else float(np.median(sizes)) or 1.0
    n_runs = min((len(of_arm) for of_arm in values.values() if len(of_arm)), default=1)
    family = Family(
        of="comparisons",
        metric=metric,
        control=None,
        rule="unpaired",
        size=len(pairs),
        plan=LookPlan(looks=(max(1, n_runs),), margin=margin),
        look=1,
        level=LEVEL,
        size_of_values=size,
    )
    scaled = {arm: 100 * np.log(of_arm) if is_positive else np.array(of_arm) for arm, of_arm in values.items()}
    differences = []
    for arm, baseline in pairs:
        tested_alone = _compared(scaled[arm], scaled[baseline], n_pairs=len(pairs), margin=family.margin)
        difference = _with_means(tested_alone, values[arm], values[baseline])
        differences.append(
            replace(
                difference,
                metric=metric,
                rule="unpaired",
                look=1,
                unit=LOGARITHM if is_positive else unit,
            )
        )
    return family, differences


def _with_means(difference: Difference, first: Sequence[float], second: Sequence[float]) -> Difference:
    if not len(first) or not len(second):
        return difference
    mean = float(np.mean(first))
    subtracted = float(np.mean(second))
    return replace(
        difference,
        means=(mean, subtracted),
        difference=mean - subtracted,
        relative=(mean - subtracted) / abs(subtracted) if subtracted else None,
    )


def _compared(first: np.ndarray, second: np.ndarray, *, n_pairs: int, margin: float) -> Difference:
    n = min(len(first), len(second))
    estimate = float(first.mean() - second.mean()) if n else None
    if estimate is None or n < FEWEST:
        return Difference.partly_known(n_pairs=n, estimate=estimate, outcome="few" if n else "none")
    arms = (first, second)
    freedoms = np.array([len(arm) - 1 for arm in arms])
    variances = np.array([np.var(arm, ddof=1) / len(arm) for arm in arms])
    variance = float(variances.sum())
    largest = max(np.abs(arm).max() for arm in arms)
    rounding = 4 * np.finfo(float).eps * largest
    if variance <= rounding**2:
        return Difference.partly_known(n_pairs=n, estimate=estimate)
    freedom = variance**2 / float((variances**2 / freedoms).sum())
    se = math.sqrt(variance)
    p = p_alone(estimate / se, freedom)
    bound = bound_alone(freedom, LEVEL / n_pairs)
    difference = tested(n, estimate, se, freedom, bound, p=p, p_family=min(1.0, n_pairs * p))
    difference = replace(difference, outcome=reading(difference, margin))
    if difference.outcome != "open":
        return difference
    more, chance = _settling(estimate, n * variance, freedom, n, margin=margin, level=LEVEL / n_pairs)
    return replace(difference, seeds_to_settle=more, chance_to_settle=chance)


def _settling(
    estimate: float, variance: float, freedom: float, n: int, *, margin: float, level: float
) -> tuple[int, float]:
    """Return how many more runs of each arm settle a difference in four of five cases, and their chance."""
    alone = LargestT.of(np.ones((1, 1)))

    def chance(more: int) -> float:
        return chance_to_settle(estimate, variance, freedom, (n, n + more), alone, margin=margin, level=level)

    return seeds_that_settle(chance)
