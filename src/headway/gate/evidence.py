"""The evidence that paired differences have a positive mean, valid whenever one looks: an anytime-valid t test.

The evidence is an e-value: the likelihood ratio of the t statistics seen so far, between assumed effects and no effect.
For normal differences with mean 0 and any spread, this ratio is a test martingale. By Ville's inequality, the chance
that it ever exceeds 1 / level is at most `level`. A negative mean makes it smaller. Units do not matter: the ratio
depends on the sum of the differences over the root of the sum of their squares.

A useless change has runs like the champion's, so its differences scatter symmetrically about 0. Heavier tails than
normal ones make the evidence smaller. With lighter tails, a few differences may agree by luck. Two independent runs
differ by one given amount with a chance of at most 1/4, so nothing is decided before `fewest_pairs`. The tables of
`benchmarks/gate.py` show how often useless changes of many kinds are kept.

Papers: Lai 1976, and Wang and Ramdas 2025 (anytime-valid t tests by likelihood ratios of scale-invariant statistics).
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from headway.stats.simultaneous import root

Differences = Sequence[float] | np.ndarray

EFFECTS = ((0.7, 0.15), (1.3, 0.3), (2.2, 0.55))
"""Assumed means over the spread of the differences, with their weights: such effects can be found with 4 to 60 pairs.

Differences of independent runs vary by the root of 2 as much as runs. So these are changes worth 1.0, 1.8 and 3.1 times
a run's spread.
"""

FIRST_SHARE = 0.8
"""The share of the rate for the planned challengers. The next as many have this share of what is left, and so on."""

_POINTS = 2_000


def spent_rate(rate: float, number: int, planned: int) -> float:
    """Return the level at which a challenger is tested; the levels of all challengers add up to the rate.

    Args:
        rate: the chance that any useless change is ever kept.
        number: the number of the challenger, from 1.
        planned: the number of challengers that share `FIRST_SHARE` of the rate.

    Examples:
        >>> [round(spent_rate(0.05, number, 50), 7) for number in (1, 50, 51)]
        [0.0008, 0.0008, 0.00016]
    """
    block = (number - 1) // planned
    return rate * FIRST_SHARE * (1 - FIRST_SHARE) ** block / planned


def fewest_pairs(level: float) -> int:
    """Return the number of pairs before which nothing is decided at a level, however the runs are distributed.

    Examples:
        >>> fewest_pairs(0.0008), fewest_pairs(0.1)
        (6, 2)
    """
    return max(2, math.ceil(math.log(1 / level, 4)))


def log_evidence(differences: Differences) -> float:
    """Return the logarithm of the e-value against a mean of 0 or below.

    Examples:
        >>> round(log_evidence([1.0, 1.2, 0.9, 1.1, 1.0, 1.3]), 2)
        6.79
        >>> log_evidence([0.0, 0.0])
        0.0
    """
    values = np.asarray(differences, float)
    largest = np.abs(values).max(initial=0.0)
    if not largest:
        return 0.0
    scaled = values / largest
    length = np.sqrt(scaled @ scaled)
    return log_ratio(len(values), float(scaled.sum() / length))


def log_ratio(n: int, normed_sum: float) -> float:
    """Return the logarithm of the likelihood ratio of n differences.

    The density of a t statistic is an integral over the length of the sample. It is summed over points.

    Args:
        n: the number of differences.
        normed_sum: the sum of the differences over the root of the sum of their squares.
    """
    step = (2.6 * math.sqrt(n) + 10) / _POINTS
    length = step * (np.arange(_POINTS) + 0.5)
    without_effect = (n - 1) * np.log(length) - length**2 / 2
    with_effects = []
    for effect, weight in EFFECTS:
        constant = math.log(weight) - n * effect**2 / 2
        with_effect = without_effect + effect * normed_sum * length
        with_effects.append(constant + with_effect)
    return float(logsumexp(with_effects) - logsumexp(without_effect))


def is_positive(differences: Differences, level: float) -> bool:
    """Return whether the differences seen so far have a positive mean for certain, at a level."""
    if len(differences) < fewest_pairs(level):
        return False
    return log_evidence(differences) >= -math.log(level)


def is_hopeless(differences: Differences, budget: int, level: float) -> bool:
    """Return whether no pair of the rest of the budget decides, if all are better by a spread than the mean so far."""
    n = len(differences)
    if n < fewest_pairs(level):
        return False
    hoped = float(np.mean(differences) + np.std(differences, ddof=1))
    rest = [hoped] * (budget - n)
    return not is_positive([*differences, *rest], level)


def bound(n: int, level: float) -> float:
    """Return the sum of n differences over the root of the sum of their squares at which they decide at a level."""
    most = math.sqrt(n)

    def excess(normed_sum: float) -> float:
        return log_ratio(n, normed_sum) + math.log(level)

    if n < fewest_pairs(level) or excess(most) < 0:
        return math.inf
    return root(excess, -most, most)


def interval(differences: Differences, level: float = 0.05) -> tuple[float, float] | None:
    """Return the confidence interval of the mean, valid whenever one looks; None if there are too few pairs."""
    n = len(differences)
    normed_sum = bound(n, level / 2)
    if math.isinf(normed_sum):
        return None
    t = normed_sum * math.sqrt((n - 1) / (n - normed_sum**2))
    mean = float(np.mean(differences))
    half = t * float(np.std(differences, ddof=1)) / math.sqrt(n)
    return mean - half, mean + half
