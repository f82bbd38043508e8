"""The moderated block test: contrasts of arms over paired seeds, judged together.

Runs of one seed share their data and, as far as shapes agree, their initial weights. So a metric is arm + seed + rest
(a randomised block design). The spread of the rest is pooled over all arms of a family. Arms may have different
spreads, so each contrast's own spread counts too, by as much as spreads are seen to differ (Smyth 2004, `limma`). The
prior's location is not limma's, which makes false alarms of 10 to 17 in 100 when the noisiest of many comparisons
counts. With one contrast of two arms the test is the paired t test, to the last digit.

Values come as 100 ln(metric), so that a difference is in per cent, symmetric in arm and baseline.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from headway.stats.simultaneous import Family, detectable_ratio, root

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

LEVEL = 0.05
POWER = 0.8

_WILD = 100.0
"""An arm is judged by itself if its runs vary by this factor more than the other arms' (in variance)."""
OWN_SHARE = 4
"""A contrast's own spread never weighs less than one part in five."""


@dataclass(frozen=True, kw_only=True)
class ContrastEstimate:
    """The estimate of one contrast in a family; without an interval if seeds are too few or show no spread.

    Attributes:
        n_seeds: seeds of which every arm of the contrast has a value.
        estimate: the mean over them; NaN without any.
        variance: of a seed's contrast: moderated, or its own for a wild arm.
        se: standard error.
        freedom: degrees of freedom.
        bound: how many standard errors an interval reaches, so that all of the family's hold at once.
        p: of this contrast alone.
        p_family: corrected for the family.
        wild: whether one of its arms is wild, and it is judged by its own spread.
    """

    n_seeds: int
    estimate: float
    variance: float = math.nan
    se: float = math.nan
    freedom: float = math.nan
    bound: float = math.nan
    p: float = math.nan
    p_family: float = math.nan
    wild: bool = False

    @property
    def interval(self) -> tuple[float, float] | None:
        """The ends of the simultaneous interval."""
        if not math.isfinite(self.se):
            return None
        return self.estimate - self.bound * self.se, self.estimate + self.bound * self.se

    @property
    def detectable(self) -> float | None:
        """The true difference that this very verdict finds with 80 % power."""
        return self.se * detectable_ratio(self.freedom, self.bound, POWER) if math.isfinite(self.se) else None


@dataclass(frozen=True, kw_only=True)
class FamilyVerdict:
    """All contrasts of a family, and the values that they share.

    Attributes:
        contrasts: in the order in which they were asked.
        level: of the intervals and of p_family.
        residual_variance: of one run, beside its arm and its seed; NaN where nothing is pooled.
        freedom: of that.
        prior_freedom: how alike spreads are; infinite where they may all be one.
        pairing: the share of the variance of runs that their seeds explain; NaN where it is not known.
        wild: the arms, by place, that are judged by their own spread alone.
    """

    contrasts: tuple[ContrastEstimate, ...]
    level: float
    residual_variance: float
    freedom: float
    prior_freedom: float
    pairing: float
    wild: tuple[int, ...]
    correlation: Float[np.ndarray, "contrast contrast"]
    n_arms: int

    def seeds_for(self, margin: float, contrast: int) -> tuple[int, int, int] | None:
        """About how many seeds would tell a true difference of `margin`, and a range of 80 %; None without a spread.

        A single number from two or three pairs is too low in 60 of 100 cases.
        """
        one = self.contrasts[contrast]
        if not math.isfinite(one.se) or margin <= 0:
            return None
        family, n_arms = Family.of(self.correlation), self.n_arms

        def needed(variance: float) -> int:
            def detects(n: int) -> bool:
                freedom = float(min((OWN_SHARE + 1) * (n - 1), (n_arms - 1) * (n - 1)))
                ratio = detectable_ratio(freedom, family.bound(freedom, LEVEL), POWER)
                return ratio * math.sqrt(variance / n) <= margin

            return _smallest(detects)

        scaled = one.variance * one.freedom
        low, high = (scaled / float(special.chdtri(one.freedom, tail)) for tail in (0.1, 0.9))
        return needed(one.variance), needed(low), needed(high)


def judge(
    y: Float[np.ndarray, "arm seed"], weights: Float[np.ndarray, "contrast arm"], *, level: float = LEVEL
) -> FamilyVerdict:
    """Judge contrasts of arms together.

    Args:
        y: the metric of each arm and seed, in per cent; NaN where it is missing.
        weights: of each contrast; they add up to 0, and the positive ones to 1.
        level: that the intervals of the family hold with together.
    """
    known, used = np.isfinite(y), np.abs(weights).sum(0) > 0
    wild = _wild(y, known, used)
    asked = [_Contrast.of(y, known, row, bool((row[wild] != 0).any())) for row in weights]
    tested = [one for one in asked if one.has_spread]
    spread = _pooled(y, known, used & ~wild, [one for one in tested if not one.wild])
    correlation = _correlation(tested)
    family = Family.of(correlation)
    return FamilyVerdict(
        contrasts=tuple(spread.judged(one, family, level) for one in asked),
        level=level,
        residual_variance=spread.mean_square,
        freedom=spread.freedom,
        prior_freedom=spread.prior_freedom,
        pairing=_pairing(y, known, used & ~wild, spread.mean_square),
        wild=tuple(np.flatnonzero(wild).tolist()),
        correlation=correlation,
        n_arms=int((used & ~wild).sum()),
    )


@dataclass(frozen=True, kw_only=True)
class _Contrast:
    """A contrast's weights, its value in each seed that has all of its arms, and which seeds those are."""

    weights: Float[np.ndarray, " arm"]
    values: Float[np.ndarray, " shared"]
    seeds: Bool[np.ndarray, " seed"]
    has_spread: bool
    """Whether values vary by more than the rounding of a subtraction."""
    wild: bool

    @classmethod
    def of(
        cls,
        y: Float[np.ndarray, "arm seed"],
        known: Bool[np.ndarray, "arm seed"],
        weights: Float[np.ndarray, " arm"],
        wild: bool,
    ) -> "_Contrast":
        arms = weights != 0
        seeds = known[arms].all(0)
        taken = y[arms][:, seeds]
        values = weights[arms] @ taken
        varies = len(values) > 1 and np.ptp(values) > 4 * np.finfo(float).eps * np.abs(taken).max()
        return cls(weights=weights, values=values, seeds=seeds, has_spread=bool(varies), wild=wild)

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def squares(self) -> float:
        return float((self.weights**2).sum())

    @property
    def own(self) -> float:
        return float(np.var(self.values, ddof=1))


@dataclass(frozen=True, kw_only=True)
class _Spread:
    """The pooled mean square of a family, where own variances scatter about it, and how closely."""

    mean_square: float
    freedom: float
    location: float
    prior_freedom: float

    def judged(self, one: _Contrast, family: Family, level: float) -> ContrastEstimate:
        """A contrast by its moderated variance, or where an arm of it is wild, by its own."""
        estimate = float(one.values.mean()) if one.n else math.nan
        if not one.has_spread:
            return ContrastEstimate(n_seeds=one.n, estimate=estimate)
        own_freedom = one.n - 1.0
        prior = 0.0 if one.wild else min(self.prior_freedom, OWN_SHARE * own_freedom)
        share = prior / (prior + own_freedom)
        variance = (share * self.location * one.squares if share else 0.0) + (1 - share) * one.own
        freedom = own_freedom if one.wild else min(prior + own_freedom, self.freedom)
        se = math.sqrt(variance / one.n)
        t = estimate / se
        p = 2 * float(special.stdtr(freedom, -abs(t)))
        return ContrastEstimate(
            n_seeds=one.n,
            estimate=estimate,
            variance=variance,
            se=se,
            freedom=freedom,
            # A wild arm shares no spread with the family: Bonferroni.
            bound=float(special.stdtrit(freedom, 1 - level / 2 / family.size))
            if one.wild
            else family.bound(freedom, level),
            p=p,
            p_family=min(1.0, family.size * p) if one.wild else family.p(t, freedom),
            wild=one.wild,
        )


def _wild(
    y: Float[np.ndarray, "arm seed"], known: Bool[np.ndarray, "arm seed"], used: Bool[np.ndarray, " arm"]
) -> Bool[np.ndarray, " arm"]:
    """The arms whose runs vary ten times as much as those of the others: stuck or diverging seeds."""
    wild = np.zeros(len(y), bool)
    if used.sum() < 4 or known[used].sum(1).min() < 3:
        return wild
    rest = y - np.nanmean(y, 1, keepdims=True)
    some = known[used].any(0)
    rest = rest[:, some] - np.nanmedian(rest[used][:, some], 0)
    spread = np.nansum(rest**2, 1) / np.maximum(known.sum(1) - 1, 1)
    return used & (spread > _WILD * np.median(spread[used]))


def _pooled(
    y: Float[np.ndarray, "arm seed"],
    known: Bool[np.ndarray, "arm seed"],
    pool: Bool[np.ndarray, " arm"],
    calm: Sequence[_Contrast],
) -> _Spread:
    if not calm:
        return _Spread(mean_square=math.nan, freedom=math.nan, location=math.nan, prior_freedom=math.nan)
    residual, freedom = _residual(np.where(known, y, 0)[pool], known[pool])
    own = np.array([one.own / one.squares for one in calm])
    return _Spread(
        mean_square=residual / freedom,
        freedom=float(freedom),
        # The second term guards against a baseline that is not paired with the others as they are with each other.
        location=max(residual / freedom, float(own.mean())),
        prior_freedom=prior_freedom(own, np.array([one.n - 1.0 for one in calm])) if len(calm) > 2 else math.inf,
    )


def _residual(y: Float[np.ndarray, "arm seed"], known: Bool[np.ndarray, "arm seed"]) -> tuple[float, int]:
    """The residual sum of squares of arm + seed over the known cells, and its degrees of freedom.

    Seeds, of which there may be thousands, are eliminated: what is left to solve has the size of the arms.
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
    seeds = np.array([one.seeds for one in tested], float)
    weights = np.array([one.weights for one in tested])
    unit, both = weights / np.linalg.norm(weights, axis=1, keepdims=True), seeds @ seeds.T
    n = np.sqrt(np.diag(both))
    return both / np.outer(n, n) * (unit @ unit.T)


def _pairing(
    y: Float[np.ndarray, "arm seed"],
    known: Bool[np.ndarray, "arm seed"],
    pool: Bool[np.ndarray, " arm"],
    mean_square: float,
) -> float:
    """Return the gain of pairing: the share of the runs' variance that their seeds explain."""
    chosen = pool & (known.sum(1) > 1)
    if not chosen.any() or not math.isfinite(mean_square):
        return math.nan
    return 1 - mean_square / float(np.nanvar(y[chosen], axis=1, ddof=1).mean())


def _smallest(enough: Callable[[int], bool], least: int = 2, most: int = 100_000) -> int:
    """The smallest number from `least` on that is enough."""
    high = least
    while high < most and not enough(high):
        high *= 2
    low = max(least, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
