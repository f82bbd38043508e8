"""The differences that a report shows: contrasts of the document, and arms against their baselines.

`shown_differences` gives both from a results directory, in per cent or in the unit of the primary metric.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headway.base.words import Verdict
from headway.config.metrics import METRICS
from headway.report.charts.intervals import SEEDS
from headway.report.experiment.data import ReportData
from headway.stats.cells import matches_of
from headway.stats.contrasts import JudgedContrast
from headway.stats.evidence import Comparison, Difference
from headway.stats.results import Results
from headway.stats.verdicts import sides_of, verdict_of

WIDER = 3.0
"""Differences below a gap of this factor have an axis of their own."""


@dataclass(frozen=True, kw_only=True)
class ShownDifference:
    """A judged difference as a report shows it.

    Attributes:
        sides: the labels of an arm and its baseline, or of a contrast's two sides; one label if it has no sides.
        judged: the statistical result.
        verdict: the verdict on it.
        values: the difference at each seed.
        mean: their mean.
        low: the lower end of the interval; the mean without an interval.
        high: the upper end of the interval; the mean without an interval.
    """

    sides: tuple[str, ...]
    judged: Comparison | JudgedContrast
    verdict: Verdict
    values: tuple[float, ...]
    mean: float
    low: float
    high: float

    @property
    def control(self) -> str | None:
        """The control that both sides are under."""
        return self.judged.control

    @property
    def has_interval(self) -> bool:
        """True if there are enough seeds for an interval."""
        return self.low < self.high

    @property
    def reach(self) -> float:
        """The largest distance from zero."""
        return max(map(abs, (*self.values, self.low, self.high)))


@dataclass(frozen=True, kw_only=True)
class DifferenceLists:
    """All differences of a report that have a value, in per cent if `in_per_cent` and in the metric's unit if not."""

    contrasts: tuple[ShownDifference, ...]
    arms: tuple[ShownDifference, ...]
    in_per_cent: bool

    @property
    def all(self) -> tuple[ShownDifference, ...]:
        """Contrasts first."""
        return self.contrasts + self.arms


def shown_differences(material: ReportData) -> DifferenceLists:
    """Return the contrasts and the comparisons of arms that have a value."""
    compared = [one for one in material.results.judged if one.n_pairs]
    judged = (*compared, *material.results.contrasts)
    in_per_cent = all(one.is_logarithmic for one in judged if one.n_pairs)
    return DifferenceLists(
        contrasts=tuple(_contrasts(material, in_per_cent=in_per_cent)),
        arms=tuple(_comparisons(material, in_per_cent=in_per_cent)),
        in_per_cent=in_per_cent,
    )


def margin_of(results: Results) -> float:
    """Return the margin in per cent of the plan that verdicts follow; the usual one before there is a verdict."""
    families = [family for family in results.families if family.metric == results.primary]
    return families[0].plan.margin if families else 1.0


def smaller(differences: Sequence[ShownDifference], margin: float) -> list[ShownDifference]:
    """Return the differences below the widest gap, if the gap is wide enough for an axis of their own."""
    ordered = sorted(differences, key=lambda difference: difference.reach)
    reaches = [max(difference.reach, margin, 1e-300) for difference in ordered]
    gaps = [larger / smaller for smaller, larger in pairwise(reaches)]
    widest = max(gaps, default=1.0)
    return ordered[: gaps.index(widest) + 1] if widest >= WIDER else []


def without_merit(material: ReportData) -> set[tuple[str, str, str | None]]:
    """Return arm, baseline and group of comparisons in which neither can be better: other tasks, or a known answer."""
    matches = matches_of(material.experiment)
    unfair = [match for match in matches if match.no_merit(material.results.primary)]
    return {(match.arm.full_name, match.baseline.full_name, match.group) for match in unfair}


def _contrasts(material: ReportData, *, in_per_cent: bool) -> Iterator[ShownDifference]:
    declared = {contrast.name: contrast for contrast in material.experiment.contrasts}
    for judged in material.results.contrasts:
        if judged.estimate is not None and judged.values:
            contrast = declared.get(judged.name)
            sides = None if contrast is None else sides_of(contrast, material.experiment)
            values = [_in_unit(judged, value, in_per_cent=in_per_cent) for value in judged.values.values()]
            yield _shown(material.results, judged, sides or (judged.label,), values, in_per_cent=in_per_cent)


def _comparisons(material: ReportData, *, in_per_cent: bool) -> Iterator[ShownDifference]:
    labels = {arm.name: arm.label for arm in material.arms}
    unfair = without_merit(material)
    for shown in compared_arms(material.results, labels, in_per_cent=in_per_cent):
        judged = shown.judged
        assert isinstance(judged, Comparison)
        if (judged.arm, judged.baseline, judged.group) not in unfair:
            yield shown


def compared_arms(results: Results, labels: Mapping[str, str], *, in_per_cent: bool) -> Iterator[ShownDifference]:
    """Yield the comparisons of the primary metric that have a value, of the arms that have a label."""
    for judged in results.judged:
        if not {judged.arm, judged.baseline} <= labels.keys() or judged.estimate is None:
            continue
        values = _at_each_seed(judged, results, in_per_cent=in_per_cent)
        if values or judged.rule == "unpaired":
            sides = labels[judged.arm], labels[judged.baseline]
            yield _shown(results, judged, sides, values, in_per_cent=in_per_cent)


def _at_each_seed(judged: Comparison, results: Results, *, in_per_cent: bool) -> list[float]:
    if judged.rule == "unpaired":
        return []
    of_arm, of_baseline = (results.by_seed(arm) for arm in (judged.arm, judged.baseline))
    shared = sorted(of_arm.keys() & of_baseline.keys() & set(judged.seeds or of_arm))
    pairs = [(of_arm[seed], of_baseline[seed]) for seed in shared]
    if judged.of_errors:
        pairs = [(1 - first, 1 - second) for first, second in pairs]
    if judged.is_logarithmic:
        return [100 * (first / second - 1) for first, second in pairs if first > 0 and second > 0]
    return [_in_unit(judged, first - second, in_per_cent=in_per_cent) for first, second in pairs]


def _in_unit(judged: Difference, value: float, *, in_per_cent: bool) -> float:
    """Return a value in per cent, or in the metric's unit."""
    share = judged.as_share(value) if in_per_cent else None
    return value if share is None else 100 * share


def _shown(
    results: Results,
    judged: Comparison | JudgedContrast,
    sides: tuple[str, ...],
    values: Sequence[float],
    *,
    in_per_cent: bool,
) -> ShownDifference:
    assert judged.estimate is not None
    interval = judged.interval if len(values) >= SEEDS or judged.rule == "unpaired" else None
    ends = interval or (judged.estimate, judged.estimate)
    low, high = sorted(_in_unit(judged, end, in_per_cent=in_per_cent) for end in ends)
    metric, family = METRICS[results.primary], results.family(judged)
    return ShownDifference(
        sides=sides,
        judged=judged,
        verdict=verdict_of(judged, family, metric=metric, sides=sides, in_per_cent=in_per_cent),
        values=tuple(values),
        mean=_in_unit(judged, judged.estimate, in_per_cent=in_per_cent),
        low=low,
        high=high,
    )
