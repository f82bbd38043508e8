"""Values of an arm and a baseline paired by seed, the t interval of a difference, and Holm's correction.

Runs of one seed share their training data and, as far as shapes allow, their initial weights. So the unit is the
difference within a seed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.stats.evidence import Difference
from headway.stats.simultaneous import LEVEL, bound_alone, detectable_ratio, median_widening

_LARGEST = 1e150
"""Values from here on, whose squares overflow, count as not finite."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The values of an arm and a baseline at the seeds that both have."""

    seeds: tuple[int, ...]
    arm: np.ndarray
    baseline: np.ndarray


def paired(arm: Mapping[int, float | None], baseline: Mapping[int, float | None]) -> Pairs:
    """Pair the values of an arm and a baseline by seed; seeds of which one value is missing or not finite are dropped.

    Examples:
        >>> pairs = paired({0: 1.0, 1: 2.0, 2: None}, {1: 1.5, 2: 1.0, 3: 1.0})
        >>> pairs.seeds
        (1,)
    """
    common = sorted(arm.keys() & baseline.keys())
    both = {seed: (arm[seed], baseline[seed]) for seed in common}
    finite = {seed: values for seed, values in both.items() if all(map(is_finite, values))}
    values = np.array(list(finite.values()), dtype=float).reshape(-1, 2)
    return Pairs(seeds=tuple(finite), arm=values[:, 0], baseline=values[:, 1])


def untested_difference(pairs: Pairs, *, scale: float = 1.0) -> Difference:
    """Return how far the means of pairs are apart, before any test.

    Args:
        pairs: the values.
        scale: the factor that makes the difference relative to a mean of arms.
    """
    if not len(pairs.seeds):
        return Difference.partly_known(look=1)
    difference = float((pairs.arm - pairs.baseline).mean())
    subtracted = float(pairs.baseline.mean())
    return Difference.partly_known(
        n_pairs=len(pairs.seeds),
        means=(float(pairs.arm.mean()), subtracted),
        difference=difference,
        relative=scale * difference / abs(subtracted) if subtracted else None,
        estimate=difference,
        seeds=pairs.seeds,
        look=1,
    )


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction of a family of p values; None was no test and stays None.

    Paper: Holm, Scandinavian Journal of Statistics 6 (1979), 65-70; as corrected p values: the k-th smallest
    of m is multiplied by m - k + 1, and none is below its predecessor or above 1.

    Examples:
        >>> holm([0.01, None, 0.04, 0.03])
        [0.03, None, 0.06, 0.06]
    """
    ordered = sorted((value, index) for index, value in enumerate(p) if value is not None)
    corrected: list[float | None] = [None] * len(p)
    floor = 0.0
    for rank, (value, index) in enumerate(ordered):
        floor = corrected[index] = max(floor, min(1.0, (len(ordered) - rank) * value))
    return corrected


def tested(
    n: int, estimate: float, se: float, freedom: float, bound: float, *, p: float, p_family: float
) -> Difference:
    """Return a difference of n seeds with its t interval, `bound` standard errors wide, and what it can detect."""
    return Difference.partly_known(
        n_pairs=n,
        estimate=estimate,
        interval=(estimate - bound * se, estimate + bound * se),
        se=se,
        freedom=freedom,
        bound=bound,
        p=p,
        p_family=p_family,
        detectable=se * median_widening(freedom) * detectable_ratio(freedom, bound),
    )


def interval_of_mean(
    values: Sequence[float] | np.ndarray, level: float = LEVEL
) -> tuple[float, tuple[float, float] | None]:
    """Return the mean of independent values and its interval (t), None if they show no spread.

    Examples:
        >>> mean, (low, high) = interval_of_mean([0.9, 1.1, 0.8])
        >>> round(mean, 3), round(low, 3), round(high, 3)
        (0.933, 0.554, 1.313)
    """
    mean = float(np.mean(values))
    if len(values) < 2 or np.ptp(values) == 0:
        return mean, None
    n = len(values)
    standard_error = float(np.std(values, ddof=1)) / math.sqrt(n)
    half = bound_alone(n - 1, level) * standard_error
    return mean, (mean - half, mean + half)


def is_finite(value: float | None) -> bool:
    """Return whether a value is a finite number, small enough to compute with."""
    return value is not None and abs(value) < _LARGEST  # False for NaN too
