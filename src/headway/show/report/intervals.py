"""Show: differences as points with their intervals, in rows, beside what they are said to be and what they cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from headway.declare.metrics import Metric, metric_name
from headway.show.shared.figure import WIDTH, ends, inline
from headway.show.shared.theme import INK, QUIET

WIDER = 3.0
"""Differences below a gap of this factor are drawn once more, larger."""

ROW, LABELS, BESIDE = 30, 260, 12
"""Pixels of a row, of its name at most, and beside the outermost points."""

VERDICT, TIME = 150, 120
"""Pixels of the columns of words."""

BAND = "#e9edf3"
"""The colour of what is the same."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """An arm against a baseline, or a contrast: the difference of each seed, in per cent or in units.

    `control` is what it is under; `panel` the title of what is drawn together; `verdict` how it reads, in a few words;
    `time` how long runs of either side take.
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

    @property
    def reach(self) -> float:
        """How far from zero something of it is drawn."""
        return max(map(abs, (*self.values, self.low, self.high)))


@dataclass(frozen=True, kw_only=True)
class _Frame:
    """What panels in a column share: an axis that holds all of `scaled`, its title, room for names, and colours."""

    scaled: Sequence[Difference]
    width: int
    labels: int
    axis: str
    colours: Mapping[str, str]
    margin: float | None


def drawn(found: Sequence[Difference], metric: Metric, *, margin: float | None) -> tuple[Any, bool]:
    """A chart of differences, and whether the smaller ones are drawn once more, larger.

    Args:
        found: at least one.
        metric: of which they are.
        margin: in per cent: a band of what is the same; None where differences are in units.
    """
    import altair as alt

    panels: dict[str, list[Difference]] = {}
    for one in sorted(found, key=lambda one: one.control or ""):
        panels.setdefault(one.panel, []).append(one)
    small = _small(found, margin or 0.0)
    zoomed = bool(small)
    labels = min(LABELS, 7 * max(len(one.name) for one in found))
    timed = any(one.time for one in found)
    room = WIDTH - labels - VERDICT - timed * TIME
    width = min(520, (room - 30) // 2 if zoomed else room)
    axis = f"{metric_name(metric.name)} less the baseline's ({'% of it' if margin is not None else metric.unit})"
    # One scale of colours for all panels: of two, Vega-Lite would make a union.
    colours = {one.name: one.colour for one in found}
    whole = _Frame(scaled=found, width=width, labels=labels, axis=axis, colours=colours, margin=margin)
    larger = replace(whole, scaled=small, labels=0)
    rows = []
    for title, members in panels.items():
        names = list(dict.fromkeys(one.name for one in members))
        sides = [_panel(members, whole, title, names)]
        if zoomed:
            close = [one for one in members if one in small]
            blank = [replace(one, verdict="") for one in members]  # so that columns stand below each other
            larger_panel = _panel(close, larger, "drawn larger", names) if close else None
            sides.append(larger_panel or _words(blank, "verdict", "", width, names))
        sides.append(_words(members, "verdict", "", VERDICT, names))
        if timed:
            sides.append(_words(members, "time", "time of a run", TIME, names))
        rows.append(alt.hconcat(*sides, spacing=16))
    return alt.vconcat(*rows, spacing=16), zoomed


def _small(found: Sequence[Difference], margin: float) -> list[Difference]:
    """Those below the widest gap between differences, where it is wide enough for an axis of their own."""
    ordered = sorted(found, key=lambda one: one.reach)
    reaches = [max(one.reach, margin, 1e-300) for one in ordered]
    gaps = [larger / smaller for smaller, larger in pairwise(reaches)]
    widest = max(gaps, default=1.0)
    return ordered[: gaps.index(widest) + 1] if widest >= WIDER else []


def _rows(names: Sequence[str], labels: int) -> Any:
    import altair as alt

    axis = alt.Axis(ticks=False, domain=False, labelLimit=LABELS, minExtent=labels) if labels else None
    return alt.Y("arm:N", sort=list(names), scale=alt.Scale(domain=list(names)), title=None, axis=axis)


def _words(shown: Sequence[Difference], column: str, title: str, width: int, names: Sequence[str]) -> Any:
    import altair as alt

    rows = [{"arm": one.name, column: getattr(one, column)} for one in shown]
    text = alt.Chart(inline(rows)).mark_text(align="left", x=0, color=INK, fontSize=11)
    heading = alt.TitleParams(title, fontWeight="normal", fontSize=11, color=QUIET) if title else ""
    chart = text.encode(y=_rows(names, 0), text=f"{column}:N")
    return chart.properties(width=width, height=ROW * len(names), title=heading)


def _panel(shown: Sequence[Difference], frame: _Frame, title: str, names: Sequence[str]) -> Any:
    import altair as alt

    reached = [value for one in frame.scaled for value in (*one.values, one.low, one.high)]
    margin = frame.margin or 0.0
    scale = alt.Scale(domain=ends([-margin, margin, *reached], beside=BESIDE / frame.width), nice=False)
    x = alt.X(
        "difference:Q", title=frame.axis, scale=scale, axis=alt.Axis(tickCount=max(3, frame.width // 80), grid=True)
    )
    y, colours = _rows(names, frame.labels), frame.colours
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
    if frame.margin is not None:
        band = alt.Chart(inline([{"from": -margin, "to": margin}])).mark_rect(color=BAND)
        layers.insert(0, band.encode(x=alt.X("from:Q", scale=scale), x2="to:Q"))
    if seeds:
        points = alt.Chart(inline(seeds)).mark_point(size=22, filled=True, opacity=0.9, color=INK)
        layers.append(points.encode(x=x, y=y, tooltip=["arm:N", "seed:N", "difference:Q"]))
    return alt.layer(*layers).properties(width=frame.width, height=ROW * len(names), title=title)
