"""The answer as figures: differences seed by seed with their intervals, and the final metric of every arm.

* `drawn` draws rows of differences: points with intervals, beside their verdicts and costs.
* `differences` makes these rows from the comparisons and contrasts of a directory.
* `final_outcome` draws the final primary metric of every arm, beside references without training on the same task.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

from headway.base.text import brief, join
from headway.config.metrics import METRICS, Metric, metric_name
from headway.report.charts.figure import (
    ASKED,
    INK,
    QUIET,
    WIDTH,
    Figure,
    alt,
    colours_of_column,
    ends,
    grid,
    inline,
    panel,
)
from headway.report.charts.intervals import ENDS, SEEDS, arms_axis, over_seeds, points_with_intervals, strip
from headway.report.charts.lines import Axis, rule
from headway.report.experiment.data import ArmResults, ReportData
from headway.stats.cells import arm_seconds, matches_of, runs_of_arms
from headway.stats.contrasts import JudgedContrast
from headway.stats.evidence import Comparison, Difference
from headway.stats.learning_rates import rate_controls
from headway.stats.verdict_table import short_verdict
from headway.stats.verdicts import of_errors

WIDER = 3.0
"""Differences below a gap of this factor are drawn once more, larger."""

ROW, LABELS, BESIDE = 30, 260, 12
"""Pixels of a row, of its name at most, and beside the outermost points."""

VERDICT, TIME = 175, 120
"""Pixels of the columns of words."""

BAND = "#e9edf3"
"""The colour of what is the same."""


@dataclass(frozen=True, kw_only=True)
class DrawnDifference:
    """An arm against a baseline, or a contrast: the difference of each seed, in per cent or in units.

    `control` is what it is under; `panel` the title of what is drawn together; `verdict` how it reads, in a few words;
    `time` how long runs of either side take; `judged` the statistical result, drawn `in_per_cent` or in its unit.
    """

    name: str
    colour: str
    against: str
    control: str | None
    panel: str
    verdict: str
    time: str
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    mean: float
    low: float
    high: float
    judged: Comparison | JudgedContrast
    in_per_cent: bool

    @property
    def reach(self) -> float:
        """The largest distance from zero that the difference is drawn at."""
        return max(map(abs, (*self.values, self.low, self.high)))


def drawn(found: Sequence[DrawnDifference], metric: Metric, *, margin: float | None) -> tuple[Any, bool]:
    """A chart of differences, and whether the smaller ones are drawn once more, larger.

    Args:
        found: the differences; at least one.
        metric: the metric of the differences.
        margin: the margin of equivalence in per cent, drawn as a band; None for differences in units.
    """
    panels: dict[str, list[DrawnDifference]] = {}
    for one in sorted(found, key=lambda one: one.control or ""):
        panels.setdefault(one.panel, []).append(one)
    small = smaller(found, margin or 0.0)
    labels = min(LABELS, 7 * max(len(one.name) for one in found))
    timed = any(one.time for one in found)
    room = WIDTH - labels - VERDICT - timed * TIME
    width = min(520, (room - 30) // 2 if small else room)
    title = f"{metric_name(metric.name)} less the baseline's ({'% of it' if margin is not None else metric.unit})"
    # One scale of colours for all panels: of two, Vega-Lite would make a union.
    colour = colours_of_column("arm", {one.name: one.colour for one in found})
    rows: list[Any] = []
    for name, members in panels.items():
        arms = arms_axis(list(dict.fromkeys(one.name for one in members)), labelLimit=LABELS, minExtent=labels)
        beside = replace(arms, ticks=None)
        sides = [_panel_intervals(members, _reach(found, title, margin, width), arms, colour, margin, width, name)]
        if small:
            close, axis = [one for one in members if one in small], _reach(small, title, margin, width)
            blank = [replace(one, verdict="") for one in members]  # so that columns stand below each other
            larger = _panel_intervals(close, axis, beside, colour, margin, width, "drawn larger") if close else None
            sides.append(larger or _words(blank, "verdict", "", width, beside))
        sides.append(_words(members, "verdict", "", VERDICT, beside))
        if timed:
            sides.append(_words(members, "time", "time of a run", TIME, beside))
        rows.append(alt.hconcat(*sides, spacing=16))
    return alt.vconcat(*rows, spacing=16), bool(small)


def smaller(found: Sequence[DrawnDifference], margin: float) -> list[DrawnDifference]:
    """Return the differences below the widest gap, if the gap is wide enough for an axis of their own."""
    ordered = sorted(found, key=lambda one: one.reach)
    reaches = [max(one.reach, margin, 1e-300) for one in ordered]
    gaps = [larger / smaller for smaller, larger in pairwise(reaches)]
    widest = max(gaps, default=1.0)
    return ordered[: gaps.index(widest) + 1] if widest >= WIDER else []


def _reach(scaled: Sequence[DrawnDifference], title: str, margin: float | None, width: int) -> Axis:
    """Return an axis that holds some differences, and what is the same."""
    reached = [value for one in scaled for value in (*one.values, one.low, one.high)]
    domain = ends([-(margin or 0.0), margin or 0.0, *reached], beside=BESIDE / width)
    return Axis("difference", title, domain=domain, ticks={"tickCount": max(3, width // 80), "grid": True})


def _words(shown: Sequence[DrawnDifference], column: str, title: str, width: int, arms: Axis) -> Any:
    assert arms.order is not None
    text = alt.Chart(inline({"arm": one.name, column: getattr(one, column)} for one in shown))
    heading = alt.TitleParams(title, fontWeight="normal", fontSize=11, color=QUIET) if title else ""
    chart = text.mark_text(align="left", x=0, color=INK, fontSize=11).encode(y=arms.encoded("y"), text=f"{column}:N")
    return chart.properties(width=width, height=ROW * len(arms.order), title=heading)


def _panel_intervals(
    shown: Sequence[DrawnDifference], x: Axis, arms: Axis, colour: Any, margin: float | None, width: int, title: str
) -> Any:
    assert arms.order is not None
    means = [
        {"arm": one.name, "against": one.against, "difference": one.mean, "low": one.low, "high": one.high}
        for one in shown
    ]
    seeds = [
        {"arm": one.name, "difference": value, "seed": str(seed)}
        for one in shown
        for seed, value in zip(one.seeds, one.values, strict=True)
        if len(one.seeds) > 1
    ]
    layers = [rule([0.0], x=x, dash=(4, 3), width=1.2)]
    layers += points_with_intervals(
        means, x, arms, colour, across=ENDS, thick=2.5, size=110, stroke="white", strokeWidth=1,
        shown=["arm:N", "against:N", "difference:Q", "low:Q", "high:Q"],
    )  # fmt: skip
    if margin is not None:
        band = alt.Chart(inline([{"from": -margin, "to": margin}])).mark_rect(color=BAND)
        layers.insert(0, band.encode(x=x.encoded("x", "from"), x2="to:Q"))
    if seeds:
        layers.append(strip(seeds, x, arms, size=22, shown=["arm:N", "seed:N", "difference:Q"]))
    return panel(layers, width, ROW * len(arms.order), title)


def drawn_differences(material: ReportData) -> tuple[list[DrawnDifference], list[DrawnDifference], bool]:
    """Return the contrasts and the comparisons with a value, and whether they are drawn in per cent."""
    compared = [one for one in material.results.judged if one.n_pairs]
    # A share of seeds is told in its own unit: so many per cent of a share would go beyond all of them.
    shares = all(one.is_logarithmic for one in (*compared, *material.results.contrasts) if one.n_pairs)
    return list(_asked(material, shares=shares)), list(_found(material, shares=shares)), shares


def differences(material: ReportData) -> Iterator[Figure]:
    """Yield the contrasts, then the comparisons of arms, then, folded, the differences under controls."""
    asked, found, shares = drawn_differences(material)
    plain = [[one for one in some if one.control is None] for some in (asked, found)]
    first = [some for some in plain if some]
    titles = {0: "What is asked", 1: "What each arm changes"}
    for at, some in enumerate(first):
        kind = next(kind for kind, members in enumerate(plain) if members is some)
        name = "differences" if at == 0 else "differences-arms"
        yield _figure(material, name, titles[kind], some, shares=shares)
    rate_only = rate_controls(material.experiment)
    others = [one for one in (*asked, *found) if one.control not in (None, *rate_only)]
    if others:
        figure = _figure(
            material, "differences-controls", "What each arm changes under controls", others, shares=shares
        )
        yield replace(figure, folded=bool(first))


def _asked(material: ReportData, *, shares: bool) -> Iterator[DrawnDifference]:
    """The contrasts, less what is subtracted."""
    weights = {one.name: one.weights for one in material.experiment.contrasts}
    for one in material.results.contrasts:
        if one.estimate is None or not one.values:
            continue
        title = "what is asked"
        if one.control is not None:
            title = f"{material.experiment.control_label(one.control)}: {title}"
        sides: tuple[list[str], list[str]] = ([], [])
        for arm, weight in weights.get(one.name, {}).items():
            sides[weight < 0].append(f"{arm}+{one.control}" if one.control else arm)
        values = {seed: _shown(one, value, shares=shares) for seed, value in one.values.items()}
        what = {"name": one.label, "colour": ASKED, "against": "", "panel": title, "time": _time(material, *sides)}
        yield _difference(material, one, values, shares=shares, **what)


def _found(material: ReportData, *, shares: bool) -> Iterator[DrawnDifference]:
    """Yield each comparison by which one arm can be better than another, and that has a pair."""
    arms = {arm.name: arm for arm in material.arms}
    metric = material.results.primary
    fair = {
        (m.arm.full_name, m.baseline.full_name, m.group)
        for m in matches_of(material.experiment)
        if not m.no_merit(metric)
    }
    for c in material.results.judged:
        if c.arm not in arms or c.baseline not in arms or c.estimate is None:
            continue
        if (c.arm, c.baseline, c.group) not in fair:
            continue
        values = _by_seed(c, arms[c.arm].by_seed(metric), arms[c.baseline].by_seed(metric), shares=shares)
        if values:
            arm, baseline = arms[c.arm], arms[c.baseline]
            what = {"name": arm.label, "colour": arm.colour, "against": baseline.label}
            what |= {"panel": _title(material, arm, baseline, c), "time": _time(material, [c.arm], [c.baseline])}
            yield _difference(material, c, values, shares=shares, **what)


def _by_seed(
    one: Comparison, mine: Mapping[int, float], theirs: Mapping[int, float], *, shares: bool
) -> dict[int, float]:
    seeds = sorted(mine.keys() & theirs.keys() & set(one.seeds or mine))
    if one.of_errors:
        mine, theirs = ({seed: 1 - value for seed, value in side.items()} for side in (mine, theirs))
    if one.is_logarithmic:
        return {s: 100 * (mine[s] / theirs[s] - 1) for s in seeds if mine[s] > 0 and theirs[s] > 0}
    return {seed: _shown(one, mine[seed] - theirs[seed], shares=shares) for seed in seeds}


def _shown(one: Difference, value: float, *, shares: bool) -> float:
    """In per cent, or in the metric's unit."""
    share = one.as_share(value) if shares else None
    return value if share is None else 100 * share


def _difference(
    material: ReportData,
    one: Comparison | JudgedContrast,
    values: Mapping[int, float],
    *,
    shares: bool,
    **what: str,
) -> DrawnDifference:
    """Return the difference with its mean and its interval, if it has one."""
    assert one.estimate is not None
    mean = _shown(one, one.estimate, shares=shares)
    known = one.interval is not None and len(values) >= SEEDS
    low, high = (
        sorted(_shown(one, end, shares=shares) for end in one.interval) if known and one.interval else (mean,) * 2
    )
    return DrawnDifference(
        control=one.control,
        seeds=tuple(values),
        values=tuple(values.values()),
        mean=mean,
        low=low,
        high=high,
        verdict=short_verdict(one, material.results.family(one)),
        judged=one,
        in_per_cent=shares,
        **what,
    )


def _time(material: ReportData, first: Sequence[str], second: Sequence[str]) -> str:
    """Return how long a run of either side takes, by `arm_seconds`; empty if that is unknown."""
    runs = runs_of_arms(material.runs)
    means = []
    for side in (first, second):
        seconds = [found for arm in side if (found := arm_seconds(arm, runs)) is not None]
        if not seconds:
            return ""
        means.append(brief(fmean(seconds)))
    return " | ".join(means)


def _is_of_shares(material: ReportData) -> bool:
    """Return whether the drawn values are shares of seeds, each pair of arms with an interval of its own."""
    primary = material.results.primary
    return any(family.rule == "shares" for family in material.results.families if family.metric == primary)


def _compared(material: ReportData) -> Metric:
    """Return the primary metric, or that of errors near a ceiling."""
    metric = METRICS[material.results.primary]
    is_of_errors = any(family.of_errors for family in material.results.families if family.metric == metric.name)
    return of_errors(metric) if is_of_errors else metric


def margin_of(material: ReportData) -> float:
    """Return the margin in per cent: that of the plan that verdicts follow, else the document's."""
    families = [family for family in material.results.families if family.metric == material.results.primary]
    return families[0].plan.margin if families else material.experiment.margin


def _figure(material: ReportData, name: str, title: str, found: Sequence[DrawnDifference], *, shares: bool) -> Figure:
    metric, margin = _compared(material), margin_of(material) if shares else None
    chart, zoomed = drawn(found, metric, margin=margin)
    return Figure(
        name=name,
        part="Outcome",
        title=title,
        caption=_caption(material, found, margin=margin, zoomed=zoomed),
        chart=chart,
    )


def _caption(material: ReportData, found: Sequence[DrawnDifference], *, margin: float | None, zoomed: bool) -> str:
    metric = _compared(material)
    better = {"lower": "Left of the line is better.", "higher": "Right of the line is better.", None: ""}[metric.better]
    seeds = max(len(one.seeds) for one in found)
    if _is_of_shares(material):
        bar = (
            ", the bar its 95 % interval (Newcombe), which holds by itself; the words beside are McNemar's and Holm's."
        )
    else:
        bar = ", the bar its 95 % interval; those of a question hold at once."
    several = bar if any(one.low < one.high for one in found) else "; there is no interval yet."
    asked = any(not one.against for one in found)
    return join(
        f"{'Each side a mean over its arms' if asked else 'Each arm less its baseline'}: the {metric.sentence}.",
        better,
        "A small point per seed, of the difference at that seed; the large point is their mean" + several
        if seeds > 1
        else "One seed: a point per difference, and no interval.",
        f"The band is ± {margin:g} %: an arm is as good within {margin:g} % if its whole interval lies inside."
        if margin is not None
        else "",
        "Beside: how that reads, and how long a run takes where little else is done, of the first side | of the second."
        if any(one.time for one in found)
        else "",
        "Right: the smaller differences, drawn larger." if zoomed else "",
        "Left out: what is judged on different tasks, or sees what it is to predict." if _unfair(material) else "",
    )


def _unfair(material: ReportData) -> bool:
    names = {arm.name for arm in material.arms}
    drawn = [m for m in matches_of(material.experiment) if {m.arm.full_name, m.baseline.full_name} <= names]
    return any(match.no_merit(material.results.primary) for match in drawn)


def _title(material: ReportData, arm: ArmResults, baseline: ArmResults, compared: Comparison) -> str:
    """Return a panel's title: a group under a control, arms against a baseline, or each against itself."""
    control, group, against = compared.control, compared.group, f"against {baseline.label}"
    if control is not None and arm.shown.run.arm == baseline.shown.run.arm:
        return f"{material.experiment.control_label(control)}: each against itself without it"
    return f"{group}: {against}" if group is not None and len(material.experiment.groups) > 1 else against


CLOSE = 0.1
"""Arms within this fraction of the best arm's error are drawn once more in a panel of their own."""


@dataclass(frozen=True, kw_only=True)
class OutcomeMeasure:
    """The metric by which arms are compared in the end, and its words."""

    name: str
    metric: str
    column: str
    """Its name in data and tooltips, and in what results.json holds of the references."""
    axis: str
    title: str
    sentence: str
    references: Mapping[str, tuple[str, str, tuple[float, ...]]]
    ticks: str
    one_seed: str
    label_width: int = 200
    """Pixels that the name of an arm may take."""
    row: int = 44
    """Pixels of an arm's row."""


def final_outcome(material: ReportData, measure: OutcomeMeasure) -> Figure | None:
    """A row per arm: a point per seed, the mean with its interval, a tick per estimator; None without any error."""
    arms = [arm for arm in material.arms if len(arm.final(measure.metric))]
    if not arms:
        return None
    best = min(arm.final(measure.metric).mean() for arm in arms)
    close = [arm for arm in arms if arm.final(measure.metric).mean() <= best * (1 + CLOSE)]
    reach = max(arm.final(measure.metric).max() for arm in arms) - best
    zoomed = 1 < len(close) < len(arms) and reach > WIDER * (
        max(arm.final(measure.metric).max() for arm in close) - best
    )
    labels = min(measure.label_width, 8 * max(len(arm.label) for arm in arms))
    width = (WIDTH - 40) // 2 - labels if zoomed else WIDTH - labels
    panels = [_panel_outcome(material, measure, arms, width, "all arms" if zoomed else "")]
    if zoomed:
        title = f"arms within {100 * CLOSE:.0f} % of the best"
        panels.append(_panel_outcome(material, measure, close, width, title, legend=False))
    several = material.n_seeds > 1
    return Figure(
        name=measure.name,
        part="Outcome",
        title=measure.title,
        caption=join(
            measure.sentence,
            "A small point per seed; the large point is their mean"
            + (
                ", the bar its 95 % interval over seeds (t)."
                if material.n_seeds >= SEEDS
                else "; too few seeds for an interval."
            )
            if several
            else measure.one_seed,
            measure.ticks,
            "They are left out where they lie far from every arm." if _far(material, measure, arms) else "",
            "Right: the same, drawn larger." if zoomed else "",
        ),
        chart=grid(panels, 2, (30, 0)),
    )


def _panel_outcome(
    material: ReportData,
    measure: OutcomeMeasure,
    arms: Sequence[ArmResults],
    width: int,
    title: str,
    *,
    legend: bool = True,
) -> Any:
    one_seed = material.n_seeds == 1
    summary, ticks = [_summary(arm, measure, one_seed=one_seed) for arm in arms], list(_ticks(material, measure, arms))
    seeds = [
        {"arm": arm.label, measure.column: run.metrics[measure.metric], "seed": str(run.seed)}
        for arm in arms
        for run in arm.runs
        if run.metrics.get(measure.metric) is not None
    ]
    value, column = f"{measure.column}:Q", measure.column
    y = arms_axis([arm.label for arm in arms], labelLimit=measure.label_width, labelFontSize=12)
    values = [row[column] for row in (*seeds, *ticks)] + [row[end] for row in summary for end in ENDS]
    x = Axis(column, measure.axis, domain=ends(values, beside=14 / width), ticks={"tickCount": max(3, width // 80)})
    layers = points_with_intervals(
        summary, x, y, colours_of_column("arm", {arm.label: arm.colour for arm in arms}), across=ENDS, thick=2.5,
        size=110, stroke="white", strokeWidth=1, shown=["arm:N", value, "low:Q", "high:Q"],
    )  # fmt: skip
    if ticks:
        names = colours_of_column(
            "what", {row["what"]: row["colour"] for row in ticks}, "square" if legend else None, columns=3
        )
        mark = {"thickness": 2.5, "size": 26}
        layers.insert(0, strip(ticks, x, y, names, kind="tick", shown=["what:N", value], **mark))
    if material.n_seeds > 1:
        layers.append(strip(seeds, x, y, shown=["arm:N", "seed:N", value]))
    return panel(layers, width, measure.row * len(arms), title).resolve_scale(color="independent")


def _summary(arm: ArmResults, measure: OutcomeMeasure, *, one_seed: bool) -> dict[str, Any]:
    values = arm.final(measure.metric)
    mean = over_seeds(values)
    # Where all have one seed, there is the interval over prompts, as far as runs report its standard error.
    half = 1.96 * float(arm.shown.metrics.get(f"{measure.metric}_se") or 0.0) if one_seed else 0.0
    return {"arm": arm.label, measure.column: mean.mean, "low": mean.low - half, "high": mean.high + half}


def _ticks(material: ReportData, measure: OutcomeMeasure, arms: Sequence[ArmResults]) -> Iterator[dict[str, Any]]:
    low, high = _near(measure, arms)
    for arm in arms:
        for name, (label, colour, _) in measure.references.items():
            error = material.baselines(arm).get(name, {}).get(measure.column)
            if error is not None and low <= error <= high:
                yield {"arm": arm.label, "what": label, measure.column: error, "colour": colour}


def _near(measure: OutcomeMeasure, arms: Sequence[ArmResults]) -> tuple[float, float]:
    values = [value for arm in arms for value in arm.final(measure.metric)]
    low, high = min(values), max(values)
    margin = max((high - low) * 0.5, low * 0.05)
    return low - margin, high + margin


def _far(material: ReportData, measure: OutcomeMeasure, arms: Sequence[ArmResults]) -> bool:
    low, high = _near(measure, arms)
    found = [b for arm in arms for name, b in material.baselines(arm).items() if name in measure.references]
    errors = [b.get(measure.column) for b in found]
    return any(error is not None and not low <= error <= high for error in errors)
