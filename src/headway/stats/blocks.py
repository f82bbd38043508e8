"""The moderated block test: contrasts of arms over paired seeds, judged together, once or by a plan.

Runs of one seed share their data and, as far as shapes agree, their initial weights. So a metric is arm + seed + rest
(a randomised block design). The spread of the rest is pooled over all arms of a family. Arms may have different
spreads, so each contrast's own spread counts too, by as much as spreads are seen to differ (Smyth 2004, `limma`). The
prior's location is not limma's, which makes false alarms of 10 to 17 in 100 when the noisiest of many comparisons
counts. Arms may also go with their seeds in different ways, such as one baseline that varies more. Then the residuals
have fewer degrees of freedom than cells, by Greenhouse and Geisser's factor (1959).

No interval is narrower than that of the paired t test. With one contrast of two arms the test is the paired t test, to
the last digit. `RULES` numbers the versions of these rules.

Values come as 100 ln(metric), so that a difference is in per cent, symmetric in arm and baseline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from headway.stats.evidence import Difference, Outcome, tested
from headway.stats.sequential import FEWEST, LookPlan
from headway.stats.simultaneous import (
    LEVEL,
    POWER,
    LargestT,
    bound_alone,
    chance_to_settle,
    p_alone,
    root,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

    Values = Float[np.ndarray, "arm seed"]
    IsKnown = Bool[np.ndarray, "arm seed"]
    IsChosen = Bool[np.ndarray, " arm"]
    Weights = Float[np.ndarray, "contrast arm"]

_WILD = 100.0
"""An arm is judged by itself if its runs vary by this factor more than the other arms' (in variance)."""
_FAR = 2048
"""Seeds from which on it does not matter how many settle a contrast."""
OWN_SHARE = 4
"""A contrast's own spread never weighs less than one part in five."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The spread of runs, pooled over the arms of a family.

    Attributes:
        mean_square: the variance of one run, beside its arm and its seed.
        freedom: the degrees of freedom of `mean_square`, if all arms vary alike.
        likeness: the share of `freedom` that counts; 1 if all arms vary alike and go alike with their seeds.
        location: the variance about which the contrasts' own variances scatter.
        prior_freedom: the similarity of the contrasts' own variances, in degrees of freedom; infinite if they may all
            be equal.
    """

    mean_square: float
    freedom: float
    likeness: float
    location: float
    prior_freedom: float

    def moderated(self, contrast: "_Contrast") -> tuple[float, float]:
        """Return the variance of a contrast in one seed, and its degrees of freedom."""
        own_freedom = contrast.n - 1.0
        prior = min(self.prior_freedom, OWN_SHARE * own_freedom)
        own_share = own_freedom / (prior + own_freedom)
        variance = own_share * contrast.own
        if prior:
            variance += (1 - own_share) * self.location * contrast.squares
        return variance, min(prior + own_freedom, self.likeness * self.freedom)


@dataclass(frozen=True, kw_only=True)
class BlockTest:
    """Contrasts that were judged together, and the values that they share.

    Attributes:
        contrasts: the judged contrasts, in the order of the questions.
        level: the simultaneous error level of the intervals and of `p_family`.
        spread: the spread that the contrasts share; None where nothing is pooled.
        wild: the arms, by place, that are judged by their own spread alone, as their runs vary ten times as much.
        correlation: the correlation of the estimates of the tested contrasts.
    """

    contrasts: tuple[Difference, ...]
    level: float
    spread: Spread | None
    wild: tuple[int, ...]
    correlation: Float[np.ndarray, "contrast contrast"]

    def settling(self, plan: LookPlan, contrast: int) -> tuple[int, float] | None:
        """Return how many more seeds settle a contrast in four of five cases, and their chance; None if unknown.

        A plan of several interim analyses answers with the first of them that has this chance, or with its last one.
        """
        known, largest = self.contrasts[contrast], LargestT.of(self.correlation)
        estimate, se, freedom, n = known.estimate, known.se, known.freedom, known.n_pairs
        if estimate is None or se is None or freedom is None:
            return None

        def chance(n_seeds: int, level: float) -> float:
            margin, variance = plan.margin, n * se**2
            return chance_to_settle(estimate, variance, freedom, (n, n_seeds), largest, margin=margin, level=level)

        if len(plan.looks) == 1:
            return seeds_that_settle(lambda more: chance(n + more, plan.level))
        answer = None
        for place, n_seeds in enumerate(plan.looks, start=1):
            if n_seeds > n and (answer is None or answer[1] < POWER):
                answer = n_seeds - n, chance(n_seeds, plan.level_at(place))
        return answer


def block_test(y: Values, weights: Weights, *, level: float = LEVEL) -> BlockTest:
    """Judge contrasts of arms together.

    Args:
        y: the metric of each arm and seed, in per cent; NaN where it is missing.
        weights: the arms' weights in each contrast; they add up to 0, and the positive ones to 1.
        level: the simultaneous error level of all intervals.
    """
    known, used = np.isfinite(y), np.abs(weights).sum(0) > 0
    wild = _wild(y, known, used)
    is_apart = (weights[:, wild] != 0).any(1).tolist()
    contrasts = [_Contrast.of(y, known, row, apart) for row, apart in zip(weights, is_apart, strict=True)]
    tested = [contrast for contrast in contrasts if contrast.has_spread]
    calm = [contrast for contrast in tested if not contrast.is_apart]
    spread = _pooled(y, known, used & ~wild, calm) if calm else None
    correlation = _correlation(tested)
    largest = LargestT.of(correlation)
    return BlockTest(
        contrasts=tuple(_judged(contrast, spread, largest, level) for contrast in contrasts),
        level=level,
        spread=spread,
        wild=tuple(np.flatnonzero(wild).tolist()),
        correlation=correlation,
    )


@dataclass(frozen=True, kw_only=True)
class _Contrast:
    """A contrast's weights, its value in each seed that has all of its arms, and which seeds those are."""

    weights: Float[np.ndarray, " arm"]
    values: Float[np.ndarray, " shared"]
    seeds: Bool[np.ndarray, " seed"]
    has_spread: bool
    """Whether values vary by more than the rounding of a subtraction."""
    is_apart: bool
    """Whether one of its arms is judged by its own spread."""

    @classmethod
    def of(
        cls,
        y: Values,
        known: IsKnown,
        weights: Float[np.ndarray, " arm"],
        is_apart: bool,
    ) -> "_Contrast":
        arms = weights != 0
        seeds = known[arms].all(0)
        taken = y[arms][:, seeds]
        values = weights[arms] @ taken
        varies = False
        if len(values) > 1:
            rounding = 4 * np.finfo(float).eps * np.abs(taken).max()
            varies = bool(np.ptp(values) > rounding)
        return cls(weights=weights, values=values, seeds=seeds, has_spread=varies, is_apart=is_apart)

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def squares(self) -> float:
        return float((self.weights**2).sum())

    @property
    def own(self) -> float:
        return float(np.var(self.values, ddof=1))


def _judged(contrast: _Contrast, spread: Spread | None, largest: LargestT, level: float) -> Difference:
    """Judge a contrast by its moderated variance and by its own, and take the wider interval and the larger p."""
    estimate = float(contrast.values.mean()) if contrast.n else None
    if estimate is None or not contrast.has_spread:
        return Difference.partly_known(n_pairs=contrast.n, estimate=estimate)
    freedom, se = contrast.n - 1.0, math.sqrt(contrast.own / contrast.n)
    p = p_alone(estimate / se, freedom)
    if contrast.is_apart or spread is None:  # it shares no spread with the family: Bonferroni
        p_family = min(1.0, largest.size * p)
        bound = bound_alone(freedom, level / largest.size)
    else:
        bound = bound_alone(freedom, level)
        variance, pooled_freedom = spread.moderated(contrast)
        pooled_se = math.sqrt(variance / contrast.n)
        pooled_bound = largest.bound(pooled_freedom, level)
        p_family = max(p, largest.p(estimate / pooled_se, pooled_freedom))
        p = max(p, p_alone(estimate / pooled_se, pooled_freedom))
        if pooled_bound * pooled_se > bound * se:
            se, freedom, bound = pooled_se, pooled_freedom, pooled_bound
    return tested(contrast.n, estimate, se, freedom, bound, p=p, p_family=p_family)


def _wild(y: Values, known: IsKnown, used: IsChosen) -> IsChosen:
    """The arms whose runs vary ten times as much as those of the others: stuck or diverging seeds."""
    if used.sum() < 3 or known[used].sum(1).min() < FEWEST:
        return np.zeros(len(y), bool)
    rest = y - np.nanmean(y, 1, keepdims=True)
    some = known[used].any(0)
    usual = np.nanmedian(rest[used][:, some], 0)
    squares = np.nansum((rest[:, some] - usual) ** 2, 1)
    freedom = np.maximum(known.sum(1) - 1, 1)
    spread = squares / freedom
    return used & (spread > _WILD * np.median(spread[used]))


def _pooled(
    y: Values,
    known: IsKnown,
    pool: IsChosen,
    calm: Sequence[_Contrast],
) -> Spread:
    rest, freedom = _residuals(np.where(known, y, 0)[pool], known[pool])
    covariance = rest @ rest.T
    total = float(np.trace(covariance))
    own = np.array([contrast.own / contrast.squares for contrast in calm])
    freedoms = np.array([contrast.n - 1.0 for contrast in calm])
    return Spread(
        mean_square=total / freedom,
        freedom=float(freedom),
        likeness=total**2 / (len(rest) - 1) / float((covariance**2).sum()),
        # The second term guards against a baseline that is not paired with the others as they are with each other.
        location=max(total / freedom, float(own.mean())),
        prior_freedom=prior_freedom(own, freedoms) if len(calm) > 1 else math.inf,
    )


def _residuals(y: Values, known: IsKnown) -> tuple[Float[np.ndarray, "arm some_seed"], int]:
    """The residuals of arm + seed, 0 where a cell is missing, and their degrees of freedom.

    Seeds, which may be thousands, are eliminated: the remaining system has the size of the arms.
    """
    cells = known[:, known.any(0)].astype(float)
    y = cells * (y[:, known.any(0)] - y[known].mean())
    share = cells / cells.sum(0)
    system = np.diag(cells.sum(1)) - share @ cells.T
    sums = y.sum(1) - share @ y.sum(0)
    effects, _, rank, _ = np.linalg.lstsq(system, sums, rcond=1e-10)
    rest = y - cells * effects[:, None]
    rest -= share * rest.sum(0)
    return rest, int(known.sum()) - cells.shape[1] - int(rank)


def prior_freedom(variances: Float[np.ndarray, " contrast"], freedom: Float[np.ndarray, " contrast"]) -> float:
    """Return how similar variances are: the degrees of freedom of the inverse chi-square about which they scatter.

    Infinite where they differ by no more than chance. Paper: Smyth 2004, section 6.2 (`limma`'s moment estimator).

    Examples:
        >>> round(prior_freedom(np.array([0.2, 0.5, 1.0, 4.0, 9.0]), np.full(5, 2.0)), 6)
        3.634225
    """
    raised = np.maximum(variances, 1e-5 * np.median(variances))
    logs = np.log(raised) - special.digamma(freedom / 2) + np.log(freedom / 2)
    excess = logs.var(ddof=1) - special.polygamma(1, freedom / 2).mean()
    if excess <= 0:
        return math.inf

    def beyond(log_half: float) -> float:
        return float(special.polygamma(1, math.exp(log_half))) - excess

    return 2 * math.exp(root(beyond, -20.0, 20.0))


def _correlation(tested: Sequence[_Contrast]) -> Float[np.ndarray, "contrast contrast"]:
    """Return the correlation of the estimates, from the arms and seeds that two contrasts share."""
    if not tested:
        return np.zeros((0, 0))
    seeds = np.array([contrast.seeds for contrast in tested], float)
    weights = np.array([contrast.weights for contrast in tested])
    unit = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    both = seeds @ seeds.T
    n = np.sqrt(np.diag(both))
    return both / np.outer(n, n) * (unit @ unit.T)


def seeds_that_settle(chance: Callable[[int], float]) -> tuple[int, float]:
    """Return how many more seeds settle a difference in four of five cases, and their chance; a far number if none.

    Args:
        chance: the chance that so many more seeds settle it.
    """
    low, high = 1, 1
    while high < _FAR and chance(high) < POWER:
        low, high = high + 1, 2 * high
    while low < high:
        middle = (low + high) // 2
        if chance(middle) >= POWER:
            high = middle
        else:
            low = middle + 1
    return low, chance(low)


def reading(difference: Difference, margin: float) -> Outcome:
    """Return the outcome that an interval means for a difference.

    Examples:
        >>> difference = Difference.partly_known(n_pairs=5, interval=(0.1, 0.7))
        >>> reading(difference, margin=1.0), reading(difference, margin=0.2)
        ('small', 'apart')
    """
    if difference.interval is None or difference.n_pairs < FEWEST:
        return "few" if 0 < difference.n_pairs < FEWEST else "none"
    low, high = difference.interval
    inside = -margin < low and high < margin
    if low > 0 or high < 0:
        return "small" if inside else "apart"
    return "same" if inside else "open"


@dataclass(frozen=True, kw_only=True)
class PlanState:
    """A plan as far as the seeds go.

    Attributes:
        contrasts: the contrasts, each as judged at the interim analysis that gave its outcome.
        look: the last interim analysis, from 1; None before the first.
        test: the block test at that analysis; before the first analysis, the test on the seeds that exist.
    """

    contrasts: tuple[Difference, ...]
    look: int | None
    test: BlockTest

    @property
    def open(self) -> tuple[int, ...]:
        """The contrasts that need more seeds."""
        return tuple(index for index, contrast in enumerate(self.contrasts) if contrast.is_open)


def run_plan(
    plan: LookPlan,
    y: Values,
    weights: Weights,
    finished: IsKnown | None = None,
) -> Iterator[PlanState]:
    """Yield the state before the first interim analysis, and after each that the seeds allow.

    At an interim analysis, the open contrasts are judged on as many seeds as the analysis has, at its level. A settled
    contrast keeps its verdict and asks for no more seeds. So an arm gets further seeds only while a contrast that needs
    it is open. Seeds between two analyses, and seeds beyond what an arm's contrasts asked for, count for no verdict.

    Args:
        plan: the interim analyses.
        y: the metric in per cent of every arm and seed, in the order in which seeds are run; NaN where missing.
        weights: the arms' weights in each contrast.
        finished: True for each run that has ended, with a value or without; by default, each run with a value.
    """
    ended = np.isfinite(y) if finished is None else finished
    test = block_test(y, weights, level=plan.level_at(1))
    contrasts = list[Difference]()
    for contrast in test.contrasts:
        # Before an interim analysis a difference is open, whatever an interval would tell.
        outcome = reading(contrast, 0.0)
        contrasts.append(replace(contrast, outcome=outcome if outcome in ("few", "none") else "open"))
    yield PlanState(contrasts=tuple(contrasts), look=None, test=test)
    is_unused = (weights == 0).all(0)
    counted = np.repeat(is_unused[:, None], y.shape[1], axis=1)
    for look, n in enumerate(plan.looks, start=1):
        waiting = [index for index, contrast in enumerate(contrasts) if contrast.is_open]
        needed = np.abs(weights[waiting]).sum(0) > 0
        if not waiting or n > y.shape[1] or not ended[needed, :n].all():
            return
        # An arm that nothing waits for has no seeds of this look by the plan: those that it has were added by hand.
        counted[needed, :n] = True
        shown = np.where(counted, y, np.nan)[:, :n]
        test = block_test(shown, weights, level=plan.level_at(look))
        for index in waiting:
            outcome = reading(test.contrasts[index], plan.margin)
            contrasts[index] = replace(test.contrasts[index], outcome=outcome, look=look)
        yield PlanState(contrasts=tuple(contrasts), look=look, test=test)


def needed_arms(weights: Weights, contrasts: Sequence[int]) -> tuple[int, ...]:
    """Return the arms, by place, that some contrasts need."""
    is_needed = (weights[list(contrasts)] != 0).any(0)
    return tuple(np.flatnonzero(is_needed).tolist())
