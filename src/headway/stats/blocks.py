"""The moderated block test: contrasts of arms over paired seeds, judged together, once or by a plan.

Runs of one seed share their data and, as far as shapes agree, their initial weights. So a metric is arm + seed + rest
(a randomised block design). The spread of the rest is pooled over all arms of a family. Arms may have different
spreads, so each contrast's own spread counts too, by as much as spreads are seen to differ (Smyth 2004, `limma`). The
prior's location is not limma's, which makes false alarms of 10 to 17 in 100 when the noisiest of many comparisons
counts. With one contrast of two arms the test is the paired t test, to the last digit.

A baseline that several contrasts share makes them err together. So its spread is tested against that of the other arms,
and a baseline that varies more is judged by its own spread. An interim analysis of a plan, at its small level, trusts
least what is borrowed: there no interval is narrower than that of the paired t test. `RULES` has the versions.

Values come as 100 ln(metric), so that a difference is in per cent, symmetric in arm and baseline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from headway.stats.evidence import Difference, Outcome
from headway.stats.sequential import FEWEST, RULES, LookPlan
from headway.stats.simultaneous import (
    LEVEL,
    POWER,
    LargestT,
    chance_to_settle,
    detectable_ratio,
    median_widening,
    root,
)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

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
        freedom: the degrees of freedom of `mean_square`.
        location: the variance about which the contrasts' own variances scatter.
        prior_freedom: the similarity of the contrasts' own variances, in degrees of freedom; infinite if they may all
            be equal.
        pairing: the share of the variance of runs that their seeds explain; None where it is not known.
    """

    mean_square: float
    freedom: float
    location: float
    prior_freedom: float
    pairing: float | None


@dataclass(frozen=True, kw_only=True)
class BlockTest:
    """Contrasts that were judged together, and the values that they share.

    Attributes:
        contrasts: the judged contrasts, in the order of the questions.
        level: the simultaneous error level of the intervals and of `p_family`.
        spread: the spread that the contrasts share; None where nothing is pooled.
        wild: the arms, by place, that are judged by their own spread alone, as their runs vary ten times as much.
        odd: the baselines, by place, that are judged so, as their runs vary more than those of the other arms.
        baseline_seeds: the seeds from which on a baseline of three times the spread is seen; None without one to test.
        correlation: the correlation of the estimates of the tested contrasts.
        n_arms: the arms whose spread is pooled.
    """

    contrasts: tuple[Difference, ...]
    level: float
    spread: Spread | None
    wild: tuple[int, ...]
    odd: tuple[int, ...]
    baseline_seeds: int | None
    correlation: Float[np.ndarray, "contrast contrast"]
    n_arms: int

    def seeds_for(self, margin: float, contrast: int) -> tuple[int, int, int] | None:
        """About how many seeds would tell a true difference of `margin`, and a range of 80 %; None without a spread.

        A single number from two or three pairs is too low in 60 of 100 cases.
        """
        difference = self.contrasts[contrast]
        if difference.se is None or difference.freedom is None or margin <= 0:
            return None
        largest, variance = LargestT.of(self.correlation), difference.n_pairs * difference.se**2

        def needed(variance: float) -> int:
            def detects(n: int) -> bool:
                freedom = float(min((OWN_SHARE + 1) * (n - 1), (self.n_arms - 1) * (n - 1)))
                ratio = detectable_ratio(freedom, largest.bound(freedom, LEVEL))
                return ratio * math.sqrt(variance / n) <= margin

            return smallest(detects)

        scaled = variance * difference.freedom
        low, high = (scaled / float(special.chdtri(difference.freedom, tail)) for tail in (0.1, 0.9))
        return needed(variance), needed(low), needed(high)

    def settling(self, plan: LookPlan, contrast: int) -> tuple[int, float] | None:
        """Return how many more seeds settle a contrast in four of five cases, and their chance; None without a spread.

        The later test has the level of the plan's last interim analysis.
        """
        found, largest = self.contrasts[contrast], LargestT.of(self.correlation)
        if found.estimate is None or found.se is None or found.freedom is None:
            return None
        level, n = plan.level_at(len(plan.looks)), found.n_pairs
        known = found.estimate, n * found.se**2, found.freedom

        def chance(more: int) -> float:
            return chance_to_settle(*known, (n, n + more), largest, margin=plan.margin, level=level)

        more = 1 if chance(1) >= POWER else smallest(lambda more: chance(more) >= POWER, most=_FAR)
        return more, chance(more)


def block_test(
    y: Float[np.ndarray, "arm seed"],
    weights: Float[np.ndarray, "contrast arm"],
    *,
    level: float = LEVEL,
    rules: int = RULES,
    is_interim: bool = False,
) -> BlockTest:
    """Judge contrasts of arms together.

    Args:
        y: the metric of each arm and seed, in per cent; NaN where it is missing.
        weights: the arms' weights in each contrast; they add up to 0, and the positive ones to 1.
        level: the simultaneous error level of all intervals.
        rules: the version of the rules.
        is_interim: True for one of several analyses of a plan.
    """
    known, used = np.isfinite(y), np.abs(weights).sum(0) > 0
    wild = _wild(y, known, used, fewest=4 if rules == 1 else 3)
    baselines = _shared_baselines(known, used & ~wild, weights) if rules > 1 else np.zeros_like(wild)
    odd = _odd(y, known, used & ~wild, baselines)
    pool = used & ~wild & ~odd
    contrasts = [_Contrast.of(y, known, row, bool((row[wild | odd] != 0).any())) for row in weights]
    tested = [contrast for contrast in contrasts if contrast.has_spread]
    calm = [contrast for contrast in tested if not contrast.is_apart]
    spread = _pooled(y, known, pool, calm, fewest=3 if rules == 1 else 2)
    correlation = _correlation(tested)
    largest = LargestT.of(correlation)
    return BlockTest(
        contrasts=tuple(_judged(contrast, spread, largest, level, rules > 1 and is_interim) for contrast in contrasts),
        level=level,
        spread=spread,
        wild=tuple(np.flatnonzero(wild).tolist()),
        odd=tuple(np.flatnonzero(odd).tolist()),
        baseline_seeds=_seeds_to_test(int((used & ~wild).sum()), int(baselines.sum())) if baselines.any() else None,
        correlation=correlation,
        n_arms=int(pool.sum()),
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
        y: Float[np.ndarray, "arm seed"],
        known: Bool[np.ndarray, "arm seed"],
        weights: Float[np.ndarray, " arm"],
        is_apart: bool,
    ) -> "_Contrast":
        arms = weights != 0
        seeds = known[arms].all(0)
        taken = y[arms][:, seeds]
        values = weights[arms] @ taken
        varies = len(values) > 1 and np.ptp(values) > 4 * np.finfo(float).eps * np.abs(taken).max()
        return cls(weights=weights, values=values, seeds=seeds, has_spread=bool(varies), is_apart=is_apart)

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def squares(self) -> float:
        return float((self.weights**2).sum())

    @property
    def own(self) -> float:
        return float(np.var(self.values, ddof=1))


def _judged(
    contrast: _Contrast, spread: Spread | None, largest: LargestT, level: float, is_floored: bool
) -> Difference:
    """Judge a contrast by its moderated variance, or by its own if one of its arms is judged apart.

    Where `is_floored`, by the paired t test where that gives the wider interval.
    """
    estimate = float(contrast.values.mean()) if contrast.n else None
    if estimate is None or not contrast.has_spread:
        return Difference.partly_known(n_pairs=contrast.n, estimate=estimate)
    variance, freedom = contrast.own, contrast.n - 1.0
    if spread is not None and not contrast.is_apart:
        prior = min(spread.prior_freedom, OWN_SHARE * freedom)
        share = prior / (prior + freedom)
        variance = (share * spread.location * contrast.squares if share else 0.0) + (1 - share) * contrast.own
        freedom = min(prior + freedom, spread.freedom)
    se = math.sqrt(variance / contrast.n)
    t = estimate / se
    p = 2 * float(special.stdtr(freedom, -abs(t)))
    if contrast.is_apart:  # it shares no spread with the family: Bonferroni
        p_family = min(1.0, largest.size * p)
        bound = float(special.stdtrit(freedom, 1 - level / 2 / largest.size))
    else:
        p_family, bound = largest.p(t, freedom), largest.bound(freedom, level)
    own_se, own_bound = math.sqrt(contrast.own / contrast.n), float(special.stdtrit(contrast.n - 1, 1 - level / 2))
    if is_floored:
        own_p = 2 * float(special.stdtr(contrast.n - 1, -abs(estimate) / own_se))
        p, p_family = max(p, own_p), max(p_family, own_p)
        if own_bound * own_se > bound * se:
            se, freedom, bound = own_se, contrast.n - 1.0, own_bound
    return Difference.partly_known(
        n_pairs=contrast.n,
        estimate=estimate,
        interval=(estimate - bound * se, estimate + bound * se),
        se=se,
        freedom=freedom,
        bound=bound,
        p=p,
        p_family=p_family,
        detectable=se * median_widening(freedom) * detectable_ratio(freedom, bound),
    )


def _wild(
    y: Float[np.ndarray, "arm seed"], known: Bool[np.ndarray, "arm seed"], used: Bool[np.ndarray, " arm"], fewest: int
) -> Bool[np.ndarray, " arm"]:
    """The arms whose runs vary ten times as much as those of the others: stuck or diverging seeds."""
    wild = np.zeros(len(y), bool)
    if used.sum() < fewest or known[used].sum(1).min() < 3:
        return wild
    rest = y - np.nanmean(y, 1, keepdims=True)
    some = known[used].any(0)
    rest = rest[:, some] - np.nanmedian(rest[used][:, some], 0)
    spread = np.nansum(rest**2, 1) / np.maximum(known.sum(1) - 1, 1)
    return used & (spread > _WILD * np.median(spread[used]))


def _shared_baselines(
    known: Bool[np.ndarray, "arm seed"], used: Bool[np.ndarray, " arm"], weights: Float[np.ndarray, "contrast arm"]
) -> Bool[np.ndarray, " arm"]:
    """Return the arms that two contrasts or more share, if there are enough arms and seeds to test their spread."""
    if used.sum() < 3 or known[used].sum(1).min() < FEWEST:
        return np.zeros_like(used)
    return used & ((weights != 0).sum(0) > 1)


def _odd(
    y: Float[np.ndarray, "arm seed"],
    known: Bool[np.ndarray, "arm seed"],
    used: Bool[np.ndarray, " arm"],
    baselines: Bool[np.ndarray, " arm"],
) -> Bool[np.ndarray, " arm"]:
    """Return the baseline, if any, whose runs vary most, and more than those of the other arms.

    The residual sum of squares of all arms, less that of the others, against that of the others: an F test, exact for
    normal runs, at .05 shared among the baselines.
    """
    odd, p = np.zeros_like(used), dict[int, float]()
    for arm in np.flatnonzero(baselines):
        others = used & (np.arange(len(used)) != arm)
        (of_all, f), (of_others, g) = (_residual(np.where(known, y, 0)[rows], known[rows]) for rows in (used, others))
        if g > 0 and f > g and of_others > 0:
            p[int(arm)] = float(special.fdtrc(f - g, g, (of_all - of_others) / (f - g) / (of_others / g)))
    least = min(p, key=lambda arm: p[arm], default=None)
    if least is not None and p[least] * len(p) < LEVEL:
        odd[least] = True
    return odd


_ODD = 9.0
"""The variance of a baseline, beside that of the other arms, that the test of baselines shall find."""


@lru_cache(maxsize=64)
def _seeds_to_test(n_arms: int, n_baselines: int) -> int:
    """Return the seeds with which the test finds a baseline of three times the others' spread with 80 % power.

    Examples:
        >>> _seeds_to_test(3, 1), _seeds_to_test(4, 1), _seeds_to_test(10, 1)
        (10, 7, 5)
    """
    ratio = (_ODD + 1 / (n_arms - 1)) / (1 + 1 / (n_arms - 1))

    def finds(n: int) -> bool:
        f, g = n - 1, (n_arms - 2) * (n - 1)
        return float(special.fdtrc(f, g, special.fdtri(f, g, 1 - LEVEL / n_baselines) / ratio)) >= POWER

    return smallest(finds)


def _pooled(
    y: Float[np.ndarray, "arm seed"],
    known: Bool[np.ndarray, "arm seed"],
    pool: Bool[np.ndarray, " arm"],
    calm: Sequence[_Contrast],
    fewest: int,
) -> Spread | None:
    if not calm:
        return None
    residual, freedom = _residual(np.where(known, y, 0)[pool], known[pool])
    own = np.array([contrast.own / contrast.squares for contrast in calm])
    freedoms = np.array([contrast.n - 1.0 for contrast in calm])
    mean_square = residual / freedom
    return Spread(
        mean_square=mean_square,
        freedom=float(freedom),
        # The second term guards against a baseline that is not paired with the others as they are with each other.
        location=max(mean_square, float(own.mean())),
        prior_freedom=prior_freedom(own, freedoms) if len(calm) >= fewest else math.inf,
        pairing=_pairing(y, known, pool, mean_square),
    )


def _residual(y: Float[np.ndarray, "arm seed"], known: Bool[np.ndarray, "arm seed"]) -> tuple[float, int]:
    """The residual sum of squares of arm + seed over the known cells, and its degrees of freedom.

    Seeds, which may be thousands, are eliminated: the remaining system has the size of the arms.
    """
    cells = known[:, known.any(0)].astype(float)
    y = cells * (y[:, known.any(0)] - y[known].mean())
    share = cells / cells.sum(0)
    effects, _, rank, _ = np.linalg.lstsq(
        np.diag(cells.sum(1)) - share @ cells.T, y.sum(1) - share @ y.sum(0), rcond=1e-10
    )
    rest = y - cells * effects[:, None]
    rest -= share * rest.sum(0)
    return float((rest**2).sum()), int(known.sum()) - cells.shape[1] - int(rank)


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
    return 2 * math.exp(root(lambda u: float(special.polygamma(1, math.exp(u))) - excess, -20.0, 20.0, within=1e-14))


def _correlation(tested: Sequence[_Contrast]) -> Float[np.ndarray, "contrast contrast"]:
    """Return the correlation of the estimates, from the arms and seeds that two contrasts share."""
    if not tested:
        return np.zeros((0, 0))
    seeds = np.array([contrast.seeds for contrast in tested], float)
    weights = np.array([contrast.weights for contrast in tested])
    unit, both = weights / np.linalg.norm(weights, axis=1, keepdims=True), seeds @ seeds.T
    n = np.sqrt(np.diag(both))
    return both / np.outer(n, n) * (unit @ unit.T)


def _pairing(
    y: Float[np.ndarray, "arm seed"],
    known: Bool[np.ndarray, "arm seed"],
    pool: Bool[np.ndarray, " arm"],
    mean_square: float,
) -> float | None:
    """Return the gain of pairing: the share of the runs' variance that their seeds explain."""
    chosen = pool & (known.sum(1) > 1)
    if not chosen.any():
        return None
    return 1 - mean_square / float(np.nanvar(y[chosen], axis=1, ddof=1).mean())


def smallest(enough: Callable[[int], bool], most: float = 100_000) -> int:
    """Return the smallest number from 2 on that is enough."""
    high = 2
    while high < most and not enough(high):
        high *= 2
    low = max(2, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


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
    y: Float[np.ndarray, "arm seed"],
    weights: Float[np.ndarray, "contrast arm"],
    finished: Bool[np.ndarray, "arm seed"] | None = None,
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
    test = block_test(y, weights, level=plan.level_at(1), rules=plan.rules)
    contrasts = [replace(contrast, outcome=_outcome_before(contrast)) for contrast in test.contrasts]
    yield PlanState(contrasts=tuple(contrasts), look=None, test=test)
    counted = np.repeat(np.abs(weights).sum(0)[:, None] == 0, y.shape[1], axis=1)
    for look, n in enumerate(plan.looks, start=1):
        waiting = [index for index, contrast in enumerate(contrasts) if contrast.is_open]
        needed = np.abs(weights[waiting]).sum(0) > 0
        if not waiting or n > y.shape[1] or not ended[needed, :n].all():
            return
        # An arm that nothing waits for has no seeds of this look by the plan: those that it has were added by hand.
        counted[needed, :n] = True
        shown, is_interim = np.where(counted, y, np.nan)[:, :n], len(plan.looks) > 1
        level = plan.level_at(look)
        test = block_test(shown, weights, level=level, rules=plan.rules, is_interim=is_interim)
        for index in waiting:
            outcome = reading(test.contrasts[index], plan.margin)
            contrasts[index] = replace(test.contrasts[index], outcome=outcome, look=look)
        yield PlanState(contrasts=tuple(contrasts), look=look, test=test)


def _outcome_before(contrast: Difference) -> Outcome:
    """Return the outcome before an interim analysis: open, whatever an interval would tell."""
    outcome = reading(contrast, 0.0)
    return outcome if outcome in ("few", "none") else "open"


def needed_arms(weights: Float[np.ndarray, "contrast arm"], contrasts: Sequence[int]) -> tuple[int, ...]:
    """Return the arms, by place, that some contrasts need."""
    return tuple(np.flatnonzero(np.abs(weights[list(contrasts)]).sum(0) > 0).tolist())
