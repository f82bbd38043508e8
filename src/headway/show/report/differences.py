"""Show: the answer as a figure: how far each arm is from its baseline, seed by seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from headway.compare.matches import matches_of
from headway.compare.rates import rate_controls
from headway.compare.statistics import Comparison
from headway.declare.metrics import METRICS, metric_name
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import WIDTH, Figure, ends, inline
from headway.show.shared.summary import SEEDS
from headway.show.shared.theme import ASKED, INK, QUIET
from headway.words import join

WIDER = 3.0
"""Differences below a gap of this factor are drawn once more, larger."""

ROW, LABELS, BESIDE = 30, 260, 12
"""Pixels of an arm's row, of its name at most, and beside the outermost points."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """An arm against a baseline, or a contrast: the difference of each seed, in per cent or in units.

    `control` is what it is under; `panel` the title of what is drawn together.
    """

    name: str
    colour: str
    against: str
    control: str | None
    panel: str
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    mean: float
    low: float
    high: float

    @property
    def reach(self) -> float:
        """How far from zero something of it is drawn."""
        return max(map(abs, (*self.values, self.low, self.high)))


def differences(material: ReportData) -> Iterator[Figure]:
    """Of the arms without a control; of those under controls a folded one, open where there is no other."""
    shares = all(c.relative is not None for c in material.results.judged if c.n_pairs)
    found = [*_asked(material, shares=shares), *_found(material, shares=shares)]
    plain = [one for one in found if one.control is None]
    if plain:
        yield _figure(material, "differences", "What each arm changes", plain, shares=shares)
    rate_only = rate_controls(material.experiment)
    others = [one for one in found if one.control not in (None, *rate_only)]
    if others:
        figure = _figure(
            material, "differences-controls", "What each arm changes under controls", others, shares=shares
        )
        yield Figure(**{**vars(figure), "folded": bool(plain)})


def _asked(material: ReportData, *, shares: bool) -> Iterator[Difference]:
    """The contrasts that the document asks, less what is subtracted."""
    for one in material.results.contrasts:
        if one.estimate is None or not one.values:
            continue
        factor = 100 * one.relative / one.estimate if shares and one.relative and one.estimate else 1.0
        panel = "what is asked"
        if one.control is not None:
            panel = f"{material.experiment.control_label(one.control)}: {panel}"
        values = {seed: factor * value for seed, value in one.values.items()}
        yield _difference(
            values, one.interval, factor, name=one.label, colour=ASKED, against="", control=one.control, panel=panel
        )


def _found(material: ReportData, *, shares: bool) -> Iterator[Difference]:
    """Each comparison by which one arm can be better than another, and that has a pair."""
    arms = {arm.name: arm for arm in material.arms}
    fair = {
        (m.arm.full_name, m.baseline.full_name, m.group)
        for m in matches_of(material.experiment)
        if not m.no_merit(material.results.primary)
    }
    metric = material.results.primary
    for c in material.results.judged:
        if c.arm not in arms or c.baseline not in arms or c.difference is None:
            continue
        if (c.arm, c.baseline, c.group) not in fair:
            continue
        mine, theirs = arms[c.arm].by_seed(metric), arms[c.baseline].by_seed(metric)
        seeds = sorted(mine.keys() & theirs.keys())
        factor = 100 * len(seeds) / abs(sum(theirs[seed] for seed in seeds)) if seeds and shares else 1.0
        values = {seed: factor * (mine[seed] - theirs[seed]) for seed in seeds}
        if values:
            arm, baseline = arms[c.arm], arms[c.baseline]
            panel = _title(material, arm, baseline, c)
            look = {"name": arm.label, "colour": arm.colour, "against": baseline.label}
            yield _difference(values, c.interval, factor, **look, control=c.control, panel=panel)


def _difference(
    values: Mapping[int, float], interval: tuple[float, float] | None, factor: float, **what: Any
) -> Difference:
    """With its mean and, of seeds enough, its interval."""
    mean = sum(values.values()) / len(values)
    known = interval is not None and len(values) >= SEEDS
    low, high = sorted(factor * end for end in interval) if known and interval else (mean, mean)
    return Difference(seeds=tuple(values), values=tuple(values.values()), mean=mean, low=low, high=high, **what)


def _figure(material: ReportData, name: str, title: str, found: Sequence[Difference], *, shares: bool) -> Figure:
    import altair as alt

    metric = METRICS[material.results.primary]
    panels: dict[str, list[Difference]] = {}
    for one in sorted(found, key=lambda one: one.control or ""):
        panels.setdefault(one.panel, []).append(one)
    small = _small(found)
    zoomed = bool(small)
    labels = min(LABELS, 7 * max(len(one.name) for one in found))
    width = min(620, (WIDTH - 60) // 2 - labels if zoomed else WIDTH - labels)
    axis = f"{metric_name(metric.name)} less the baseline's ({'% of it' if shares else metric.unit})"
    # One scale of colours for all panels: of two, Vega-Lite would make a union.
    colours = {one.name: one.colour for one in found}
    whole = _Frame(scaled=found, width=width, labels=labels, axis=axis, colours=colours)
    larger = replace(whole, scaled=small)
    rows = []
    for title_of_panel, members in panels.items():
        sides = [_panel(members, whole, title_of_panel)]
        if zoomed and (close := [one for one in members if one in small]):
            sides.append(_panel(close, larger, "drawn larger"))
        rows.append(alt.hconcat(*sides, spacing=30))
    return Figure(
        name=name,
        part="Outcome",
        title=title,
        caption=_caption(material, found, zoomed=zoomed),
        chart=alt.vconcat(*rows, spacing=16),
    )


def _small(found: Sequence[Difference]) -> list[Difference]:
    """Those below the widest gap between differences, where it is wide enough for an axis of their own."""
    ordered = sorted(found, key=lambda one: one.reach)
    gaps = [larger.reach / max(one.reach, 1e-300) for one, larger in pairwise(ordered)]
    widest = max(gaps, default=1.0)
    return ordered[: gaps.index(widest) + 1] if widest >= WIDER else []


def _caption(material: ReportData, found: Sequence[Difference], *, zoomed: bool) -> str:
    metric = METRICS[material.results.primary]
    better = {"lower": "Left of the line is better.", "higher": "Right of the line is better.", None: ""}[metric.better]
    seeds = max(len(one.seeds) for one in found)
    return join(
        f"Each arm less its baseline: the {metric.sentence}.",
        "Above: what is asked, each side a mean over its arms." if material.results.contrasts else "",
        better,
        "A small point per seed, of the arm less its baseline at the same seed; the large point is their mean"
        + (", the bar its 95 % interval (t)." if seeds >= SEEDS else "; too few seeds for an interval.")
        if seeds > 1
        else "One seed: a point per arm, and no interval.",
        "Right: the smaller differences, drawn larger." if zoomed else "",
        "Left out: what is judged on different tasks, or sees what it is to predict." if _unfair(material) else "",
    )


def _unfair(material: ReportData) -> bool:
    names = {arm.name for arm in material.arms}
    drawn = [m for m in matches_of(material.experiment) if {m.arm.full_name, m.baseline.full_name} <= names]
    return any(match.no_merit(material.results.primary) for match in drawn)


def _title(material: ReportData, arm: ArmResults, baseline: ArmResults, compared: Comparison) -> str:
    """Of a panel: under a control a group, arms against one baseline, or each against itself without the control."""
    control, group, against = compared.control, compared.group, f"against {baseline.label}"
    if control is not None and arm.shown.run.arm == baseline.shown.run.arm:
        return f"{material.experiment.control_label(control)}: each against itself without it"
    return f"{group}: {against}" if group is not None and len(material.experiment.groups) > 1 else against


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """What panels in a column share: an axis that holds all of `scaled`, its title, room for names, and colours."""

    scaled: Sequence[Difference]
    width: int
    labels: int
    axis: str
    colours: Mapping[str, str]


def _panel(shown: Sequence[Difference], frame: _Frame, title: str) -> Any:
    import altair as alt

    reached = [value for one in frame.scaled for value in (*one.values, one.low, one.high)]
    scale = alt.Scale(domain=ends([0.0, *reached], beside=BESIDE / frame.width), nice=False)
    x = alt.X(
        "difference:Q", title=frame.axis, scale=scale, axis=alt.Axis(tickCount=max(3, frame.width // 80), grid=True)
    )
    names = list(dict.fromkeys(one.name for one in shown))
    y = alt.Y(
        "arm:N",
        sort=names,
        title=None,
        axis=alt.Axis(ticks=False, domain=False, labelLimit=LABELS, minExtent=frame.labels),
    )
    colours = frame.colours
    colour = alt.Color("arm:N", legend=None, scale=alt.Scale(domain=list(colours), range=list(colours.values())))
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
    zero = alt.Chart(inline([{"difference": 0.0}])).mark_rule(color=QUIET, strokeDash=[4, 3], strokeWidth=1.2)
    mean = alt.Chart(inline(means)).encode(y=y, color=colour)
    tooltip = ["arm:N", "against:N", "difference:Q", "low:Q", "high:Q"]
    layers = [
        zero.encode(x=x),
        mean.mark_rule(strokeWidth=2.5).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        mean.mark_point(size=110, filled=True, opacity=1, stroke="white", strokeWidth=1).encode(x=x, tooltip=tooltip),
    ]
    if seeds:
        points = alt.Chart(inline(seeds)).mark_point(size=22, filled=True, opacity=0.9, color=INK)
        layers.append(points.encode(x=x, y=y, tooltip=["arm:N", "seed:N", "difference:Q"]))
    return alt.layer(*layers).properties(width=frame.width, height=ROW * len(names), title=title)
