"""Metrics that are yes or no per run: shares of seeds, with Wilson's intervals and McNemar's test of pairs.

Papers: Wilson 1927 (the interval of a share); McNemar 1947, exact, by its mid-p (Fagerland, Lydersen and Laake 2013);
Newcombe 1998, method 10, for the interval of the difference of two shares of the same seeds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headway.stats.evidence import Difference, Outcome, paired, untested_difference
from headway.stats.sequential import FEWEST
from headway.stats.simultaneous import LEVEL

_Z = 1.959963984540054
"""The quantile of the normal distribution for a 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """The share of seeds that say yes."""

    yes: int
    n: int

    @property
    def value(self) -> float:
        """The share."""
        return self.yes / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval.

        Examples:
            >>> low, high = Share(yes=41, n=64).interval
            >>> f"{low:.2f} to {high:.2f}"
            '0.52 to 0.75'
        """
        p, n, z = self.value, self.n, _Z
        middle = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        # At 0 and 1 the formula is exact, and its rounding is not.
        return (0.0 if self.yes == 0 else middle - half, 1.0 if self.yes == n else middle + half)

    def interval_among(self, n_shares: int) -> tuple[float, float]:
        """Return an interval that holds in 95 % together with those of all shares.

        It is Clopper and Pearson's (1934), which covers whatever the true share is, at Bonferroni's level.

        Examples:
            >>> low, high = Share(yes=8, n=8).interval_among(24)
            >>> f"{low:.2f} to {high:.2f}"
            '0.42 to 1.00'
        """
        from scipy.special import betaincinv

        tail, no = LEVEL / 2 / n_shares, self.n - self.yes
        low = float(betaincinv(self.yes, no + 1, tail)) if self.yes else 0.0
        return low, float(betaincinv(self.yes + 1, no, 1 - tail)) if no else 1.0


def mid_p(first_only: int, second_only: int) -> float:
    """Return the two-sided mid-p of McNemar's exact test, from the seeds in which only one side says yes.

    Examples:
        >>> round(mid_p(6, 0), 6), mid_p(3, 3)
        (0.015625, 1.0)
    """
    from scipy.stats import binom

    n, k = first_only + second_only, min(first_only, second_only)
    if n == 0:
        return 1.0
    return float(min(1.0, 2 * binom.cdf(k, n, 0.5) - binom.pmf(k, n, 0.5)))


def difference_interval(both: int, first_only: int, second_only: int, neither: int) -> tuple[float, float]:
    """Return the 95 % interval of the difference of two shares of paired seeds, within -1 and 1.

    Examples:
        >>> [round(end, 4) for end in difference_interval(36, 12, 2, 0)]
        [0.0569, 0.3404]
    """
    n = both + first_only + second_only + neither
    first, second = Share(yes=both + first_only, n=n), Share(yes=both + second_only, n=n)
    (low1, high1), (low2, high2) = first.interval, second.interval
    product = first.yes * (n - first.yes) * second.yes * (n - second.yes)
    cross = float(both * neither - first_only * second_only)
    cross = max(0.0, cross - n / 2) if cross > 0 else cross
    phi = cross / math.sqrt(product) if product else 0.0

    def reach(a: float, b: float) -> float:
        return math.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b))

    d = first.value - second.value
    below = reach(first.value - low1, high2 - second.value)
    above = reach(high1 - first.value, second.value - low2)
    return d - below, d + above


def compare_shares(
    arm: Mapping[int, float | None], baseline: Mapping[int, float | None], *, look: int | None = 1
) -> Difference:
    """Judge what is yes or no by McNemar's test, as if it were asked alone.

    Args:
        arm: the answer of each seed of the arm.
        baseline: the answer of each seed of the baseline.
        look: the interim analysis; None before the first, when nothing is tested.

    Examples:
        >>> difference = compare_shares({0: 1.0, 1: 1.0, 2: 0.0}, {0: 0.0, 1: 1.0, 2: 0.0})
        >>> [round(mean, 2) for mean in difference.means], round(difference.p, 2)
        ([0.67, 0.33], 0.5)
    """
    pairs = paired(arm, baseline)
    n = len(pairs.seeds)
    outcome: Outcome = "none" if n == 0 else "few" if n < FEWEST else "open"
    untested = replace(untested_difference(pairs), rule="shares", look=look, outcome=outcome)
    if n < FEWEST or look is None:
        return untested
    both = int(((pairs.arm > 0) & (pairs.baseline > 0)).sum())
    first_only, second_only = int((pairs.arm > 0).sum()) - both, int((pairs.baseline > 0).sum()) - both
    interval = difference_interval(both, first_only, second_only, n - both - first_only - second_only)
    p = mid_p(first_only, second_only)
    return replace(untested, interval=interval, p=p, outcome="apart" if p < LEVEL else "open")


def all_pairs(differences: Sequence[Mapping[str, float]]) -> bool:
    """Return whether every difference is between one arm and one other, as differences of shares are."""
    return all(sorted(filter(None, weights.values())) == [-1.0, 1.0] for weights in differences)
