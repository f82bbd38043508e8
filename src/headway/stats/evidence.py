"""The statistical result of a difference, and of the family of differences in which it was judged.

One of three rules gives the numbers:

* `blocks`: all differences of a question are judged together. A difference and the ends of its interval are 100 ln of a
  ratio, and read as per cent. Of a metric with a value of 0 or below, they are in its own unit.
* `shares`: metrics that are yes or no per run. Each difference of two shares of seeds is judged by McNemar's test.
* `unpaired`: runs of a table that have no seed in common. Each difference is judged by Welch's t test.

Runs of one seed share their training data and, as far as shapes allow, their initial weights. So `paired` pairs the
values of an arm and a baseline by seed, and the unit of a test is the difference within a seed. `holm` corrects the p
values of a family.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np

from headway.stats.sequential import LookPlan
from headway.stats.simultaneous import LEVEL, bound_alone, detectable_ratio, median_widening

Rule = Literal["blocks", "paired", "shares", "unpaired"]
"""The rule by which a difference is judged; results of earlier versions may hold `paired`, which no longer exists."""

LOGARITHM = "100 ln"
"""The unit of a difference by the rule `blocks`: of 100 times the logarithm of the metric, near to per cent."""

Outcome = Literal["apart", "small", "same", "open", "few", "none"]
"""A clear difference; a clear difference below the margin; no difference beyond the margin; no verdict yet; too few
seeds; no seed at all, or no spread."""

SETTLED: tuple[Outcome, ...] = ("apart", "small", "same")
"""The outcomes that are verdicts."""

Doubt = Literal["untrained", "falling", "rates"]
"""Reasons why an answer is worth nothing: no arm of it is better than counting pairs of tokens; the metric still falls
by more than the answer's difference; the learning rate changes the metric by more."""

Kind = Literal["comparisons", "contrasts"]
"""Comparisons are of two single arms; contrasts are those that the document declares."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A difference between two sides, each an arm or a mean of arms.

    Law: swapping the sides negates `estimate` and `interval`, and leaves all that is about their size.

    Attributes:
        metric: the metric of the comparison.
        control: the control of the arms.
        rule: the rule by which the difference was judged.
        n_pairs: the number of seeds for which every arm has a value.
        means: the means of the two sides over those seeds, in the metric's unit.
        difference: the difference of the means.
        relative: `difference` over the size of the subtracted mean; None if that is 0.
        estimate: the mean over seeds, in 100 ln of the metric; in the metric's unit if it is not above 0 throughout, as
            all that follows.
        interval: 95 %; by the rule `blocks` simultaneous for a family. None before there is a verdict.
        se: the standard error.
        freedom: the degrees of freedom of `se`.
        bound: the number of standard errors that the interval reaches.
        p: the p of this difference alone.
        p_family: the p corrected for the other differences.
        outcome: a clear difference; a clear one below the margin; none beyond it; open; too few seeds (one or two);
            no answer (no seed, or no spread).
        detectable: the true difference that this very verdict finds with 80 % power: the median over what the spread
            may be.
        doubts: the reasons why `outcome` is worth nothing.
        seeds: the seeds of all these numbers.
        look: the interim analysis, from 1, that gave the outcome; a settled difference is analysed no more. None before
            the first.
        unit: the unit of `estimate`, `interval`, `se` and `detectable`: "100 ln" of a ratio, or the unit of the metric.
        seeds_to_settle: the number of further seeds that give an open difference a verdict in four of five cases.
        chance_to_settle: the chance that so many more seeds give a verdict.
        of_errors: True if all of these are about 1 less the metric, as they are near a ceiling.
    """

    of: ClassVar[Kind] = "comparisons"

    metric: str
    control: str | None
    rule: Rule
    n_pairs: int
    means: tuple[float, float] | None
    difference: float | None
    relative: float | None
    estimate: float | None
    interval: tuple[float, float] | None
    se: float | None
    freedom: float | None
    bound: float | None
    p: float | None
    p_family: float | None
    outcome: Outcome
    detectable: float | None
    doubts: tuple[Doubt, ...] = ()
    seeds: tuple[int, ...] = ()
    look: int | None = None
    unit: str = ""
    seeds_to_settle: int | None = None
    chance_to_settle: float | None = None
    of_errors: bool = False

    @classmethod
    def partly_known(cls, **known: Any) -> "Difference":
        """Return a difference with some values; the others are None, and there is no outcome.

        Examples:
            >>> Difference.partly_known(n_pairs=5, estimate=0.4, interval=(0.1, 0.7)).p is None
            True
        """
        unknown = dict.fromkeys(each.name for each in fields(cls) if each.default is MISSING)
        return cls(**{**unknown, "metric": "", "rule": "blocks", "n_pairs": 0, "outcome": "none", **known})

    @property
    def is_told(self) -> bool:
        """True if the two sides differ beyond chance."""
        return self.outcome in ("apart", "small")

    @property
    def is_settled(self) -> bool:
        """True if the difference has its verdict."""
        return self.outcome in SETTLED

    @property
    def is_open(self) -> bool:
        """True if more seeds could settle the difference, as where values are equal; no seed can if all runs fail."""
        return self.look is None or self.outcome in ("open", "few") or (self.outcome == "none" and self.n_pairs > 0)

    @property
    def is_logarithmic(self) -> bool:
        """True if `estimate` is in 100 ln; results of earlier versions have no unit."""
        return self.rule in ("blocks", "unpaired") and self.unit in ("", LOGARITHM)

    @property
    def share(self) -> float | None:
        """The difference as a share of what is subtracted."""
        return self.as_share(self.estimate)

    @property
    def share_interval(self) -> tuple[float, float] | None:
        """The interval of `share`."""
        known = sorted(end for end in map(self.as_share, self.interval or ()) if end is not None)
        return (known[0], known[1]) if len(known) == 2 else None

    def as_share(self, value: float | None) -> float | None:
        """Return a value on the scale of `estimate` as a share of the subtracted side; None if it has none."""
        if value is None:
            return None
        if self.is_logarithmic:
            return math.expm1(min(value / 100, _LARGEST))
        if self.relative is None or not self.difference:
            return None
        return max(-1.0, value * self.relative / self.difference)

    def times(self, factor: float) -> "Difference":
        """Return the difference in another unit: `estimate`, `interval`, `se` and `detectable` times a factor."""
        values = {name: getattr(self, name) for name in ("estimate", "se", "detectable")}
        scaled = {name: value * factor for name, value in values.items() if value is not None}
        interval = self.interval and (self.interval[0] * factor, self.interval[1] * factor)
        return replace(self, **scaled, interval=interval)


_LARGEST = 700.0
"""The logarithm of the largest ratio."""


@dataclass(frozen=True, kw_only=True)
class Comparison(Difference):
    """An arm against a baseline in one metric."""

    arm: str
    baseline: str
    group: str | None
    verdict: str

    @property
    def sentence(self) -> str:
        """The verdict in words, by the name that contrasts have for it."""
        return self.verdict


@dataclass(frozen=True, kw_only=True)
class Family:
    """The shared values of differences that are judged together: all of one metric without a control, or under one.

    Attributes:
        of: `comparisons` of single arms, or `contrasts` of the document.
        metric: the metric of the differences.
        control: the control of the arms.
        rule: the rule by which the differences are judged.
        size: the number of differences.
        plan: the interim analyses, and the margin.
        look: the last interim analysis, from 1; None before the first.
        level: the error probability of all intervals of that analysis together.
        residual_sd: the standard deviation of a run beside its arm and its seed, in 100 ln of the metric.
        freedom: the degrees of freedom of `residual_sd`.
        wild: arms with ten times the spread of the others, which are judged by their own spread.
        of_errors: True if 1 less the metric is compared, since more than half of its values are above 0.9.
        size_of_values: the median over arms of their mean absolute values, if a value is 0 or below; else None. The
            margin is a share of it.
    """

    of: Kind
    metric: str
    control: str | None
    rule: Rule
    size: int
    plan: LookPlan
    look: int | None = None
    level: float
    residual_sd: float | None = None
    freedom: float | None = None
    wild: tuple[str, ...] = ()
    of_errors: bool = False
    size_of_values: float | None = None

    @property
    def margin(self) -> float:
        """The equivalence margin, in per cent or in the metric's unit."""
        return self.plan.margin * (1.0 if self.size_of_values is None else self.size_of_values / 100)

    @property
    def awaited(self) -> int:
        """Seeds of the look that was made last, or of the first, where none was made."""
        return self.plan.looks[(self.look or 1) - 1]


def family_of(judged: Difference, families: Iterable[Family]) -> Family | None:
    """Return the family in which a comparison or a contrast was judged, or None if it is not among these."""
    asked = judged.of, judged.metric, judged.control
    return next((f for f in families if (f.of, f.metric, f.control) == asked), None)


_LARGEST_FINITE = 1e150
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
    return value is not None and abs(value) < _LARGEST_FINITE  # False for NaN too
