"""The rule `paired`: an arm and a baseline, compared over paired seeds by the t test.

Runs of one seed share their training data and, as far as shapes allow, their initial weights. So the unit is the
difference within a seed. The paired t test judges its mean, and the smallest detectable effect stands beside the
verdict. Holm's method corrects families. The rule `blocks` has more power, and judges all values that have a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri, stdtr, stdtrit

from headway.stats.blocks import smallest
from headway.stats.evidence import Difference, Outcome
from headway.stats.simultaneous import LEVEL, detectable_ratio, median_widening

if TYPE_CHECKING:
    from jaxtyping import Float

_LARGEST = 1e150
"""Values from here on, whose squares overflow, count as not finite."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The values of an arm and a baseline at the seeds that both have."""

    seeds: tuple[int, ...]
    arm: Float[np.ndarray, " pair"]
    baseline: Float[np.ndarray, " pair"]


def paired(arm: Mapping[int, float | None], baseline: Mapping[int, float | None]) -> Pairs:
    """Pair the values of an arm and a baseline by seed; seeds of which one value is missing or not finite are dropped.

    Examples:
        >>> pairs = paired({0: 1.0, 1: 2.0, 2: None}, {1: 1.5, 2: 1.0, 3: 1.0})
        >>> pairs.seeds
        (1,)
    """
    common = sorted(arm.keys() & baseline.keys())
    kept = tuple(seed for seed in common if is_finite(arm[seed]) and is_finite(baseline[seed]))
    return Pairs(
        seeds=kept,
        arm=np.array([arm[seed] for seed in kept], dtype=float),
        baseline=np.array([baseline[seed] for seed in kept], dtype=float),
    )


def untested_difference(pairs: Pairs, *, scale: float = 1.0) -> Difference:
    """Return how far the means of pairs are apart, before any test.

    Args:
        pairs: the values.
        scale: the factor that makes the difference relative to a mean of arms.
    """
    if not len(pairs.seeds):
        return Difference.partly_known(rule="paired", look=1)
    difference, subtracted = float((pairs.arm - pairs.baseline).mean()), float(pairs.baseline.mean())
    return Difference.partly_known(
        rule="paired",
        n_pairs=len(pairs.seeds),
        means=(float(pairs.arm.mean()), subtracted),
        difference=difference,
        relative=scale * difference / abs(subtracted) if subtracted else None,
        estimate=difference,
        seeds=pairs.seeds,
        look=1,
    )


def compare(pairs: Pairs, *, scale: float = 1.0) -> Difference:
    """Judge pairs by the paired t test; `p_family` is still to be filled in.

    Examples:
        >>> pairs = paired({0: 0.9, 1: 1.1, 2: 0.8}, {0: 1.0, 1: 1.3, 2: 1.1})
        >>> c = compare(pairs)
        >>> round(c.difference, 3), [round(end, 3) for end in c.interval], round(c.p, 3)
        (-0.2, [-0.448, 0.048], 0.074)
    """
    means, n = untested_difference(pairs, scale=scale), len(pairs.seeds)
    if means.difference is None or not _has_spread(pairs):
        return replace(means, outcome=outcome_of(n, None))
    deviation, bound = float((pairs.arm - pairs.baseline).std(ddof=1)), float(stdtrit(n - 1, 1 - LEVEL / 2))
    se = deviation / math.sqrt(n)
    p = float(2 * stdtr(n - 1, -abs(means.difference) / se))
    one_percent = 0.01 * abs(float(pairs.baseline.mean()))
    return replace(
        means,
        interval=(means.difference - bound * se, means.difference + bound * se),
        se=se,
        freedom=n - 1.0,
        bound=bound,
        p=p,
        outcome=outcome_of(n, p),
        detectable=detectable_effect(n) * median_widening(n - 1) * deviation,
        seeds_for_margin=_seeds_for(one_percent, deviation, n) if one_percent > 0 else None,
    )


def outcome_of(n_pairs: int, p: float | None) -> Outcome:
    """Return the outcome that a p means."""
    if p is None:
        return "few" if n_pairs == 1 else "none"
    return "apart" if p < LEVEL else "open"


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


def pairs_to_detect(effect: float) -> int:
    """The fewest pairs that find a true mean difference with 80 % power.

    Args:
        effect: the true mean difference in standard deviations of the differences, above 0.

    Examples:
        >>> pairs_to_detect(1.0), pairs_to_detect(0.5)
        (10, 34)
    """
    return smallest(lambda n: detectable_effect(n) <= effect, most=math.inf)


def _seeds_for(effect: float, deviation: float, n_pairs: int) -> tuple[int, int, int]:
    """Pairs that find an effect, and a range of 80 %: of two or three pairs the one number is too low in 60 of 100."""
    freedom = n_pairs - 1
    low, high = (deviation * math.sqrt(freedom / float(chdtri(freedom, tail))) for tail in (0.1, 0.9))
    likely, least, most = (pairs_to_detect(effect / spread) for spread in (deviation, low, high))
    return likely, least, most


@lru_cache(maxsize=1024)
def detectable_effect(n_pairs: int) -> float:
    """The true mean difference, in standard deviations of the differences, that `n_pairs` find with 80 % power.

    It solves P(T > t) = 0.8 for the noncentral t distribution with `n_pairs` - 1 degrees of freedom, with t the
    two-sided 5 % bound. A finding of the wrong sign does not count; it would add less than 1e-6 to the power.
    """
    bound = float(stdtrit(n_pairs - 1, 1 - LEVEL / 2))
    return detectable_ratio(n_pairs - 1, bound) / math.sqrt(n_pairs)


def interval_of_mean(values: Sequence[float] | Float[np.ndarray, " value"]) -> tuple[float, tuple[float, float] | None]:
    """Return the mean of independent values and its 95 % interval (t), None if they show no spread.

    Examples:
        >>> mean, (low, high) = interval_of_mean([0.9, 1.1, 0.8])
        >>> round(mean, 3), round(low, 3), round(high, 3)
        (0.933, 0.554, 1.313)
    """
    mean = float(np.mean(values))
    if len(values) < 2 or np.ptp(values) == 0:
        return mean, None
    half = float(stdtrit(len(values) - 1, 1 - LEVEL / 2) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean, (mean - half, mean + half)


def _has_spread(pairs: Pairs) -> bool:
    """Return whether the differences vary by more than the rounding of a subtraction.

    Equal differences would make every one of them certain (p = 0). With a handful of pairs they only mean that the
    spread is unknown.
    """
    if len(pairs.seeds) < 2:
        return False
    rounding = 4 * np.finfo(float).eps * max(np.abs(pairs.arm).max(), np.abs(pairs.baseline).max())
    return bool(np.ptp(pairs.arm - pairs.baseline) > rounding)


def is_finite(value: float | None) -> bool:
    """Return whether a value is a finite number, small enough to compute with."""
    return value is not None and abs(value) < _LARGEST  # False for NaN too
