"""The rule `paired`: an arm and a baseline, compared over paired seeds by the t test.

Runs of one seed share their training data and, as far as shapes allow, their initial weights. So the unit is the
difference within a seed. The paired t test judges its mean, and the smallest detectable effect stands beside the
verdict. Holm's method corrects families. The rule `blocks` has more power, and is the usual one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from headway.stats.evidence import Comparison
from headway.stats.sequential import Outcome

if TYPE_CHECKING:
    from jaxtyping import Float

LEVEL = 0.05
"""Two-sided level of every test; intervals cover 1 minus it."""

POWER = 0.8
"""The chance with which an effect of the detectable size is found."""


_LARGEST = 1e150
"""Values from here on, whose squares overflow, count as not finite."""


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The values of an arm and a baseline at the seeds that both have."""

    seeds: tuple[int, ...]
    arm: Float[np.ndarray, " pair"]
    baseline: Float[np.ndarray, " pair"]
    excluded: tuple[int, ...]
    """Seeds that both have, left out because a value is missing or not finite."""


def paired(arm: Mapping[int, float | None], baseline: Mapping[int, float | None]) -> Pairs:
    """Pair the values of an arm and a baseline by seed; seeds that only one of them has are dropped.

    Examples:
        >>> pairs = paired({0: 1.0, 1: 2.0, 2: None}, {1: 1.5, 2: 1.0, 3: 1.0})
        >>> pairs.seeds, pairs.excluded
        ((1,), (2,))
    """
    common = sorted(arm.keys() & baseline.keys())
    kept = tuple(seed for seed in common if is_finite(arm[seed]) and is_finite(baseline[seed]))
    return Pairs(
        seeds=kept,
        arm=np.array([arm[seed] for seed in kept], dtype=float),
        baseline=np.array([baseline[seed] for seed in kept], dtype=float),
        excluded=tuple(seed for seed in common if seed not in kept),
    )


def compare(
    pairs: Pairs, *, metric: str, arm: str, baseline: str, control: str | None = None, group: str | None = None
) -> Comparison:
    """The paired t test of an arm against a baseline; `p_family` and `verdict` are still to be filled in.

    Examples:
        >>> pairs = paired({0: 0.9, 1: 1.1, 2: 0.8}, {0: 1.0, 1: 1.3, 2: 1.1})
        >>> c = compare(pairs, metric="eval_mse", arm="new", baseline="old")
        >>> round(c.difference, 3), [round(end, 3) for end in c.interval], round(c.p, 3)
        (-0.2, [-0.448, 0.048], 0.074)
    """
    n = len(pairs.seeds)
    differences = pairs.arm - pairs.baseline
    mean = float(differences.mean()) if n else None
    level = abs(float(pairs.baseline.mean())) if n else 0.0
    test = _t_test(differences) if _has_spread(pairs) else _NO_TEST
    return Comparison(
        metric=metric,
        arm=arm,
        baseline=baseline,
        control=control,
        group=group,
        rule="paired",
        n_pairs=n,
        means=(float(pairs.arm.mean()), float(pairs.baseline.mean())) if n else None,
        difference=mean,
        relative=mean / level if mean is not None and level > 0 else None,
        estimate=mean,
        interval=test.interval,
        se=None if test.deviation is None else test.deviation / math.sqrt(n),
        freedom=None if test.deviation is None else n - 1.0,
        bound=test.bound,
        p=test.p,
        p_family=None,
        outcome=_outcome(n, test.p),
        detectable=test.detectable,
        seeds_for_margin=_seeds_for(0.01 * level, test.deviation, n) if test.deviation and level > 0 else None,
        verdict="",
    )


def _outcome(n_pairs: int, p: float | None) -> Outcome:
    if p is None:
        return "few" if n_pairs == 1 else "none"
    return "apart" if p < LEVEL else "open"


def corrected(comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    """Return the comparisons with `p_family`, by Holm's method, and with the outcome by it.

    Those in one metric without a control are a family, and so are those under each control: a control that is run
    later is another question, and leaves the first answer as it was.
    """
    comparisons = tuple(comparisons)
    families: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for index, comparison in enumerate(comparisons):
        families[comparison.metric, comparison.control].append(index)
    p_holm: dict[int, float | None] = {}
    for indices in families.values():
        p_holm |= zip(indices, holm([comparisons[i].p for i in indices]), strict=True)
    return tuple(
        replace(comparison, p_family=p_holm[i], outcome=_outcome(comparison.n_pairs, p_holm[i]))
        for i, comparison in enumerate(comparisons)
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
    result: list[float | None] = [None] * len(p)
    floor = 0.0
    for rank, (value, index) in enumerate(ordered):
        floor = result[index] = max(floor, min(1.0, (len(ordered) - rank) * value))
    return result


def pairs_to_detect(effect: float) -> int:
    """The fewest pairs that find a true mean difference with 80 % power.

    Args:
        effect: the true mean difference in standard deviations of the differences, above 0.

    Examples:
        >>> pairs_to_detect(1.0), pairs_to_detect(0.5)
        (10, 34)
    """
    enough = 2
    while detectable_effect(enough) > effect:
        enough *= 2
    low = max(2, enough // 2)
    while low < enough:
        middle = (low + enough) // 2
        low, enough = (middle + 1, enough) if detectable_effect(middle) > effect else (low, middle)
    return enough


def _seeds_for(effect: float, deviation: float, n_pairs: int) -> tuple[int, int, int]:
    """Pairs that find an effect, and a range of 80 %: of two or three pairs the one number is too low in 60 of 100."""
    from scipy.special import chdtri

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
    from scipy.special import nctdtrinc, stdtrit

    freedom = n_pairs - 1
    bound = stdtrit(freedom, 1 - LEVEL / 2)
    return float(nctdtrinc(freedom, 1 - POWER, bound)) / math.sqrt(n_pairs)


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
    from scipy.special import stdtrit

    half = float(stdtrit(len(values) - 1, 1 - LEVEL / 2) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean, (mean - half, mean + half)


@dataclass(frozen=True)
class _Test:
    interval: tuple[float, float] | None
    p: float | None
    bound: float | None
    detectable: float | None
    deviation: float | None


_NO_TEST = _Test(None, None, None, None, None)


def _t_test(differences: Float[np.ndarray, " pair"]) -> _Test:
    from scipy.special import stdtr, stdtrit

    n = len(differences)
    mean, deviation = float(differences.mean()), float(differences.std(ddof=1))
    error = deviation / math.sqrt(n)
    bound = float(stdtrit(n - 1, 1 - LEVEL / 2))
    half = bound * error
    return _Test(
        interval=(mean - half, mean + half),
        bound=bound,
        p=float(2 * stdtr(n - 1, -abs(mean) / error)),
        detectable=detectable_effect(n) * deviation,
        deviation=deviation,
    )


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
