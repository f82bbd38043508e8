"""The first screen of a report: one sentence that answers the question, and the comparisons that it rests on.

`first_screen` makes it from the data of a report, for the page and for Markdown. The sentence names its
quantity. A comparison of arms that were not chosen is left out; the correction for it stays.

`shown_differences` gives the differences that a report shows: contrasts of the document, and arms against their
baselines, in per cent or in the unit of the primary metric.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePath

from headway.base.text import capital, counted, join, number
from headway.base.words import (
    DOUBTFUL,
    Verdict,
    about,
    missing_intervals,
    others_sentence,
    say,
    several_sentence,
    verdict_sentence,
    without_unit,
)
from headway.config.load import QUICK
from headway.config.metrics import METRICS
from headway.report.charts.intervals import SEEDS
from headway.report.experiment.data import ReportData
from headway.report.experiment.laboratory import time_taken
from headway.stats.cells import matches_of, why_no_verdict
from headway.stats.contrasts import JudgedContrast
from headway.stats.evidence import Comparison
from headway.stats.learning_rates import rate_controls
from headway.stats.results import Results
from headway.stats.verdict_table import short_verdict
from headway.stats.verdicts import POINTS, quantity, sides_of, verdict_of

MOST_ROWS = 8
"""Comparisons that stand open; the others are folded."""

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
class ForestRow:
    """A comparison as a row: names, number with its interval, a verdict, and where it is drawn, in per cent of an axis.

    `ends` is None without an interval; `seeds` has a place for each seed, if there are several; `beyond` is -1 or 1 if
    the difference lies left or right of the axis.
    """

    name: str
    number: str
    verdict: str
    kind: str
    middle: float
    ends: tuple[float, float] | None
    seeds: tuple[float, ...]
    beyond: int


@dataclass(frozen=True, kw_only=True)
class Forest:
    """Comparisons on one axis: their title, the head of their column, the band of the margin, and what is drawn."""

    title: str
    head: str
    rows: tuple[ForestRow, ...]
    band: tuple[float, float] | None
    legend: str


@dataclass(frozen=True, kw_only=True)
class FirstScreen:
    """The answer in a sentence, its setting, the open comparisons, the folded ones, what to be careful of, and facts.

    `care` is what its strip says first; `cautions` are the sentences below.
    """

    answer: str
    setting: str
    shown: Forest | None
    folded: tuple[Forest, ...]
    care: str
    cautions: tuple[str, ...]
    facts: tuple[str, ...]


def first_screen(
    material: ReportData, progress: str, statements: Sequence[str] = (), further: Sequence[str] = ()
) -> FirstScreen:
    """Make the first screen.

    Args:
        material: the data of the report.
        progress: the number of runs that have ended, in words.
        statements: the laboratory's sentences; the first is the answer where no arms are compared.
        further: warnings about the page itself.
    """
    differences = list(shown_differences(material))
    unfolded, rest = _standing_open(differences)
    doubts = material.results.doubts
    cautions = (*doubts, *(one for one in material.results.warnings if one not in doubts), *further)
    return FirstScreen(
        answer=_answer(material, differences, statements),
        setting=_setting(material),
        shown=_forest(material, "", unfolded) if unfolded else None,
        folded=tuple(_folded_rows(material, differences, unfolded, rest)),
        care=_care(material, len(cautions)),
        cautions=tuple(_sentence(one) for one in cautions),
        facts=(progress, *_cost(material)),
    )


def _answer(material: ReportData, differences: Sequence[ShownDifference], statements: Sequence[str]) -> str:
    if not material.arms:
        return say("no_run")
    plain = _without_control(differences)
    contrasts = _contrasts(plain)
    asks_statements = material.experiment.statements and not contrasts
    main = contrasts or plain
    if main and not (asks_statements and statements):
        return headline(material.results, main)
    if statements:
        return _sentence(statements[0])
    done = [(run.name, run.seed) for run in material.runs if run.status == "done"]
    return say("nothing_compared", reason=why_no_verdict(material.experiment, done) or say("no_value"))


def _without_control(differences: Sequence[ShownDifference]) -> list[ShownDifference]:
    return [difference for difference in differences if difference.control is None]


def _contrasts(differences: Sequence[ShownDifference]) -> list[ShownDifference]:
    return [difference for difference in differences if difference.judged.of == "contrasts"]


def headline(results: Results, main: Sequence[ShownDifference]) -> str:
    """Return one sentence on comparisons, at least one, that names the quantity; the strongest difference comes first.

    Further comparisons are counted in a second sentence.
    """
    lead = strongest_first(main)[0]
    if lead.judged.is_told or len(main) == 1:
        rest = [difference for difference in main if difference is not lead]
        said = f"{verdict_sentence(lead.verdict)}."
        return _doubted(said, [lead]) + _others(results, rest)
    known = [difference.verdict for difference in main if difference.has_interval]
    measured = quantity(METRICS[results.primary])
    if not known:
        return missing_intervals(measured, max(len(difference.values) for difference in main), len(main))
    all_same = all(difference.judged.outcome == "same" for difference in main)
    return _doubted(several_sentence(known, len(main), margin_of(results) if all_same else None), main)


def _doubted(said: str, differences: Sequence[ShownDifference]) -> str:
    return say("in_doubt", sentence=said) if any(one.judged.doubts for one in differences) else said


def _others(results: Results, rest: Sequence[ShownDifference]) -> str:
    if not rest:
        return ""
    kinds = {"apart": "clear", "small": "clear", "same": "same"}
    shown = ["doubted" if one.judged.doubts else kinds.get(one.judged.outcome, "open") for one in rest]
    outcomes = Counter(say(f"other_{kind}", margin=margin_of(results)) for kind in shown)
    return f" {others_sentence(outcomes)}"


def strongest_first(differences: Sequence[ShownDifference]) -> list[ShownDifference]:
    """Return clear differences before the others, and the largest first."""
    return sorted(differences, key=lambda difference: (not difference.judged.is_told, -abs(difference.mean)))


def _standing_open(
    differences: Sequence[ShownDifference],
) -> tuple[list[ShownDifference], list[ShownDifference]]:
    """Return the differences without a control that stand open, and those that are folded."""
    plain = _without_control(differences)
    asked = _contrasts(plain)
    drawn = {(*one.sides, one.mean) for one in asked}
    arms = [one for one in plain if (*one.sides, one.mean) not in drawn]
    if len(asked) + len(arms) <= MOST_ROWS:
        return [*asked, *arms], []
    first, rest = (asked, arms) if asked else (arms, [])
    if len(first) > MOST_ROWS:
        first = strongest_first(first)
    return first[:MOST_ROWS], [*first[MOST_ROWS:], *rest]


def _folded_rows(
    material: ReportData,
    differences: Sequence[ShownDifference],
    shown: Sequence[ShownDifference],
    rest: Sequence[ShownDifference],
) -> Iterator[Forest]:
    if rest:
        all_arms = not _contrasts(rest) and _contrasts(shown)
        title = "Each arm against its baseline" if all_arms else "Further comparisons"
        yield _forest(material, title, rest)
    rate_only = rate_controls(material.experiment)
    for control in material.controls:
        under = [difference for difference in differences if difference.control == control]
        if under and control is not None and control not in rate_only:
            yield _forest(material, f"Under {material.experiment.control_label(control)}", under)


def _forest(material: ReportData, title: str, shown: Sequence[ShownDifference]) -> Forest:
    finished = {arm.name for arm in material.arms}
    unfair = any({arm, baseline} <= finished for arm, baseline, _ in without_merit(material))
    left_out = "Not shown: comparisons across tasks, and comparisons with arms that see the answer." if unfair else ""
    return forest(material.results, title, shown, left_out)


def forest(results: Results, title: str, shown: Sequence[ShownDifference], left_out: str = "") -> Forest:
    """Return differences as rows on one axis.

    Args:
        results: the results that they are of.
        title: the title of the rows.
        shown: the differences, at least one; all in one unit.
        left_out: the sentence on comparisons that are not among them.
    """
    margin = margin_of(results) if shown[0].verdict.unit is None else 0.0
    on_axis = smaller(shown, margin) or shown
    reach = 1.1 * max([margin, *(difference.reach for difference in on_axis)]) or 1.0

    def place(value: float) -> float:
        return round(50 + 50 * max(-1.0, min(1.0, value / reach)), 2)

    def row(difference: ShownDifference) -> ForestRow:
        beyond = 1 if difference.mean > reach else -1 if difference.mean < -reach else 0
        return ForestRow(
            name=" vs ".join(difference.sides),
            number=_written(difference),
            verdict=short_verdict(difference.judged, results.family(difference.judged)),
            kind=_kind(results, difference),
            middle=place(difference.mean),
            ends=(place(difference.low), place(difference.high)) if difference.has_interval else None,
            seeds=tuple(map(place, difference.values)) if len(difference.values) > 1 and not beyond else (),
            beyond=beyond,
        )

    return Forest(
        title=title,
        head=_head(results, shown),
        rows=tuple(map(row, shown)),
        band=(place(-margin), place(margin)) if margin else None,
        legend=_legend(shown, margin, left_out),
    )


def _written(difference: ShownDifference) -> str:
    """Return a difference and its interval without the unit, which a column names."""
    change, interval = without_unit(difference.verdict)
    return f"{change} ({interval})" if interval else change


def _kind(results: Results, difference: ShownDifference) -> str:
    if difference.judged.doubts or not difference.judged.is_settled:
        return "open"
    if difference.judged.outcome == "same":
        return "same"
    better = METRICS[results.primary].better
    if better is None:
        return "open"
    return "same" if (difference.mean < 0) == (better == "lower") else "worse"


def _head(results: Results, shown: Sequence[ShownDifference]) -> str:
    """Return the head of a column of differences: unit, level, and whether intervals hold at once."""
    unit = shown[0].verdict.unit
    unit = "%" if unit is None else unit or METRICS[results.primary].unit
    head = "difference" if unit == "1" else f"difference, {unit}"
    known = [difference for difference in shown if difference.has_interval]
    if not known:
        return head
    families = filter(None, (results.family(difference.judged) for difference in known))
    sizes = {(family.of, family.size) for family in families if family.rule != "shares" and family.size > 1}
    of = f" for all {next(iter(sizes))[1]}" if len(sizes) == 1 else " in each family" if sizes else ""
    return f"{head} ({known[0].verdict.interval_name}{of})"


def _legend(shown: Sequence[ShownDifference], margin: float, left_out: str) -> str:
    several = any(len(difference.values) > 1 for difference in shown)
    return join(
        "Large points are means over seeds, small points are seeds, and bars are intervals." if several else "",
        f"Within the shaded margin of ± {margin:g} %, arms count as equally good." if margin else "",
        left_out,
    )


def _setting(material: ReportData) -> str:
    """Return what was measured, on what, with how many seeds, and which direction is better."""
    metric = METRICS[material.results.primary]
    name = quantity(metric)
    unit = "" if metric.unit in ("1", "ratio", *POINTS) else f" (unit: {metric.unit})"
    arms = [arm for arm in material.arms if arm.control is None] or list(material.arms)
    runs = [arm.shown.run.spec for arm in arms] or [material.run]
    sizes = sorted({int(size) for arm in arms for size in arm.final("n_parameters")})
    corpora = [[PurePath(text).name if text.startswith("/") else text for text in run.task.corpora] for run in runs]
    titles = [" and ".join(texts) or run.task.title for texts, run in zip(corpora, runs, strict=True)]
    tasks = list(dict.fromkeys(titles))
    on = f" on {tasks[0]}" if len(tasks) == 1 else f" on {len(tasks)} tasks"
    of = counted(len(arms) or len({run.name for run in material.runs if run.control is None}), "arm")
    if sizes:
        of += f" with {number(sizes[0])}{f' to {number(sizes[-1])}' if len(sizes) > 1 else ''} parameters"
    counts = sorted({len(arm.runs) for arm in arms})
    seeds = (
        f", {counts[0]}{f' to {counts[-1]}' if len(counts) > 1 else ''} seed{'s' * (counts[-1] > 1)}" if arms else ""
    )
    better = {"lower": " Lower is better.", "higher": " Higher is better.", None: ""}[metric.better]
    small = (
        " The models are small and the training is short (scale quick)." if material.experiment.scale == QUICK else ""
    )
    notes = [small, *(f" {_sentence(note)}" for note in material.experiment.compared().notes)]
    return f"{capital(name)}{unit}: {of}{on}{seeds}.{better}{''.join(notes)}"


def would_change(material: ReportData, cautions: Sequence[str]) -> Iterator[str]:
    """Yield what would change the answer: more seeds where a question is open, what was cautioned, another setting."""
    plain = [difference.judged for difference in shown_differences(material) if difference.control is None]
    undecided = [one for one in plain if not one.is_settled]
    if undecided:
        more = max((one.seeds_to_settle or 0 for one in undecided), default=0)
        kind = "more_seeds_settle" if more else "more_seeds"
        yield say(kind, n=len(undecided), all=len(plain), more=about(more))
    if any(one.outcome == "same" for one in plain):
        yield say("smaller_margin", margin=margin_of(material.results))
    yield from cautions
    yield say("elsewhere")


def _care(material: ReportData, n: int) -> str:
    """Return the heading of a list of so many notes, with the first reason for doubt; empty without any."""
    headings = [DOUBTFUL[caution.kind] for caution in material.results.cautions if caution.kind in DOUBTFUL]
    notes = counted(n, "note") if n else ""
    return f"{headings[0]} ({notes})" if headings else notes


def _cost(material: ReportData) -> Iterator[str]:
    """Yield the processor's time that the runs took, and the kind of machine."""
    if taken := time_taken(material.runs):
        yield taken
    executions = [run.execution or {} for run in material.runs]
    names = {str(known.get("processor") or known.get("device") or "") for known in executions} - {""}
    if names:
        yield next(iter(names)) if len(names) == 1 else f"{len(names)} kinds of machine"


def _sentence(text: str) -> str:
    return capital(text) + ("" if text.endswith(".") else ".")


def shown_differences(material: ReportData) -> Iterator[ShownDifference]:
    """Yield the contrasts, and then the comparisons of arms, that have a value."""
    results, experiment = material.results, material.experiment
    declared = {contrast.name: contrast for contrast in experiment.contrasts}
    for judged in results.contrasts:
        if judged.estimate is not None and judged.values:
            sides = sides_of(declared[judged.name], experiment) or (judged.label,)
            values = list(judged.values.values())
            yield _shown(results, judged, sides, values, in_per_cent=_are_in_per_cent(results))
    labels = {arm.name: arm.label for arm in material.arms}
    yield from compared_arms(results, labels, without_merit(material))


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


def compared_arms(
    results: Results, labels: Mapping[str, str], unfair: Collection[tuple[str, str, str | None]] = ()
) -> Iterator[ShownDifference]:
    """Yield the comparisons of the primary metric that have a value.

    Args:
        results: the results that they are of.
        labels: the labels of the arms that are compared.
        unfair: arm, baseline and group of the comparisons that are left out.
    """
    in_per_cent = _are_in_per_cent(results)
    for judged in results.judged:
        is_unfair = (judged.arm, judged.baseline, judged.group) in unfair
        if is_unfair or not {judged.arm, judged.baseline} <= labels.keys() or judged.estimate is None:
            continue
        values = _at_each_seed(judged, results)
        if values or judged.rule == "unpaired":
            sides = labels[judged.arm], labels[judged.baseline]
            yield _shown(results, judged, sides, values, in_per_cent=in_per_cent)


def _at_each_seed(judged: Comparison, results: Results) -> list[float]:
    """Return the difference of each seed, on the scale of the estimate."""
    if judged.rule == "unpaired":
        return []
    of_arm, of_baseline = (results.by_seed(arm) for arm in (judged.arm, judged.baseline))
    shared = sorted(of_arm.keys() & of_baseline.keys() & set(judged.seeds or of_arm))
    pairs = [(of_arm[seed], of_baseline[seed]) for seed in shared]
    if judged.of_errors:
        pairs = [(1 - first, 1 - second) for first, second in pairs]
    if judged.is_logarithmic:
        return [100 * math.log(first / second) for first, second in pairs if first > 0 and second > 0]
    return [first - second for first, second in pairs]


def _are_in_per_cent(results: Results) -> bool:
    return all(one.is_logarithmic for one in (*results.judged, *results.contrasts) if one.n_pairs)


def _shown(
    results: Results,
    judged: Comparison | JudgedContrast,
    sides: tuple[str, ...],
    values: Sequence[float],
    *,
    in_per_cent: bool,
) -> ShownDifference:
    assert judged.estimate is not None

    def in_unit(value: float) -> float:
        share = judged.as_share(value) if in_per_cent else None
        return value if share is None else 100 * share

    interval = judged.interval if len(values) >= SEEDS or judged.rule == "unpaired" else None
    ends = interval or (judged.estimate, judged.estimate)
    low, high = sorted(map(in_unit, ends))
    metric, family = METRICS[results.primary], results.family(judged)
    return ShownDifference(
        sides=sides,
        judged=judged,
        verdict=verdict_of(judged, family, metric=metric, sides=sides, in_per_cent=in_per_cent),
        values=tuple(map(in_unit, values)),
        mean=in_unit(judged.estimate),
        low=low,
        high=high,
    )
