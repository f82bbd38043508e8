"""Metrics that are yes or no per run: shares of seeds, with Wilson's intervals and McNemar's test of pairs.

`share_finding` tells in one plain sentence how two shares compare, and what is possible at all.

Papers: Wilson 1927 (the interval of a share); McNemar 1947, exact, by its mid-p (Fagerland, Lydersen and Laake 2013);
Newcombe 1998, method 10, for the interval of the difference of two shares of the same seeds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.base.text import counted, is_plural
from headway.stats.evidence import Comparison, JudgedDifference
from headway.stats.paired import LEVEL, paired

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
    arm: Mapping[int, float | None], baseline: Mapping[int, float | None], *, metric: str, control: str | None
) -> Comparison:
    """McNemar's test of an arm against a baseline in what is yes or no; `p_family` and `verdict` are to be filled in.

    Examples:
        >>> found = compare_shares({0: 1.0, 1: 1.0, 2: 0.0}, {0: 0.0, 1: 1.0, 2: 0.0}, metric="solved", control=None)
        >>> [round(mean, 2) for mean in found.means], round(found.p, 2)
        ([0.67, 0.33], 0.5)
    """
    pairs = paired(arm, baseline)
    n = len(pairs.seeds)
    both = int(((pairs.arm > 0) & (pairs.baseline > 0)).sum())
    yes = int((pairs.arm > 0).sum()), int((pairs.baseline > 0).sum())
    first_only, second_only = yes[0] - both, yes[1] - both
    means = (yes[0] / n, yes[1] / n) if n else None
    difference = means[0] - means[1] if means else None
    p = mid_p(first_only, second_only) if n > 1 else None
    return Comparison(
        metric=metric,
        arm="first",
        baseline="second",
        control=control,
        group=None,
        rule="shares",
        n_pairs=n,
        means=means,
        difference=difference,
        relative=difference / means[1] if means and difference is not None and means[1] else None,
        estimate=difference,
        interval=difference_interval(both, first_only, second_only, n - yes[0] - second_only) if n > 1 else None,
        se=None,
        freedom=None,
        bound=None,
        p=p,
        p_family=None,
        outcome=("few" if n == 1 else "none") if p is None else "apart" if p < LEVEL else "open",
        detectable=None,
        seeds_for_margin=None,
        verdict="",
    )


def is_pair(weights: Mapping[str, float]) -> bool:
    """Return whether a difference is between one arm and one other, as differences of shares are."""
    return sorted(weight for weight in weights.values() if weight) == [-1.0, 1.0]


def all_pairs(differences: Sequence[Mapping[str, float]]) -> bool:
    """Return whether every difference is between one arm and one other."""
    return all(is_pair(weights) for weights in differences)


_MOST_DIGITS = 9


@dataclass(frozen=True, kw_only=True)
class Solver:
    """A side of a comparison: its name, and whether such a model can solve the task; None if that is unknown.

    `task` is what it is asked, where the two sides are asked different things.
    """

    label: str
    possible: bool | None = None
    task: str = ""


def share_finding(c: JudgedDifference, first: Solver, second: Solver, *, task: str) -> str:
    """Return the sentence that compares two shares of paired seeds.

    Examples:
        >>> from headway.stats.shares import compare_shares
        >>> found = compare_shares({s: float(s < 41) for s in range(64)}, dict.fromkeys(range(64), 0.0),
        ...     metric="solved", control=None)
        >>> share_finding(found, Solver(label="3 heads", possible=True), Solver(label="2 heads", possible=False),
        ...     task="3-bit parity")
        '3 heads solve 3-bit parity in .64 of 64 seeds (.52 to .75); 2 heads in 0 of 64 (at most .06), and none can'
    """
    if c.n_pairs == 0 or c.means is None:
        return f"{first.label} and {second.label} cannot be compared: no seed gave a result for both"
    sides = [Share(yes=round(mean * c.n_pairs), n=c.n_pairs) for mean in c.means]
    verb = "solve" if is_plural(first.label) else "solves"
    said = f"{first.label} {verb} {task} in {_told(sides[0], unit=True)}{_cannot(first)}"
    other = f" {second.task}" if second.task and second.task != task else ""
    said += f"; {second.label}{other} in {_told(sides[1], unit=False)}{_cannot(second)}"
    if c.is_told or c.p is None or _is_settled(first, second, c.means):
        return said
    return f"{said}; not told apart, p = {f'{c.p_family if c.p_family is not None else c.p:.2f}'.removeprefix('0')}"


def _is_settled(first: Solver, second: Solver, shares: tuple[float, float]) -> bool:
    """Return whether theory decides: neither side can solve the task, or one cannot and the other does in some seed."""
    cannot = first.possible is False, second.possible is False
    return all(cannot) or (cannot[0] and shares[1] > 0) or (cannot[1] and shares[0] > 0)


def _told(share: Share, *, unit: bool) -> str:
    of = counted(share.n, "seed") if unit else f"{share.n}"
    low, high = share.interval
    if share.yes == 0:
        return f"0 of {of} (at most {decimal(high)})"
    if share.yes == share.n:
        return f"all of {of} (at least {decimal(low)})"
    return f"{decimal(share.value)} of {of} ({decimal(low)} to {decimal(high)})"


def _cannot(side: Solver) -> str:
    return ", and none can" if side.possible is False else ""


def decimal(value: float) -> str:
    """A share in two digits; one that is neither none nor all in as many as tell it from them.

    Examples:
        >>> decimal(0.64), decimal(1.0), decimal(0.0)
        ('.64', '1.00', '0')
        >>> decimal(299 / 300), decimal(1 / 300)
        ('.997', '.003')
    """
    if value in (0.0, 1.0):
        return "1.00" if value else "0"
    digits = 2
    while digits < _MOST_DIGITS and round(value, digits) in (0.0, 1.0):
        digits += 1
    return f"{value:.{digits}f}".removeprefix("0")
