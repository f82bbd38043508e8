"""Axes, and lines over them with their bands.

An `Axis` is a column of rows along one direction; `step_axis` is that of training steps. `line_bands` draws lines and
bands, `rule` a line at a value. `keyed` gives each line its colour, dashes and width by name.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headway.report.charts.figure import QUIET, SOLID, Hint, LineStyle, alt, charted, hints


@dataclass(frozen=True)
class Axis:
    """A column of rows along an axis, and its title.

    Attributes:
        order: names in their order, or None for numbers.
        domain: the two ends; None: those of the rows.
        log: True for a logarithmic axis.
        scale: further options of Vega-Lite's scale.
        ticks: options of Vega-Lite's axis; None draws no axis.
    """

    column: str
    title: str | None = None
    order: Sequence[Any] | None = None
    domain: Sequence[float] | None = None
    log: bool = False
    scale: Mapping[str, Any] = field(default_factory=dict)
    ticks: Mapping[str, Any] | None = field(default_factory=dict)

    def encoded(self, channel: str, column: str | None = None) -> Any:
        """The axis as an encoding of its column, or of another column in the same units."""
        scale: dict[str, Any] = {"type": "log"} if self.log else {}
        options: dict[str, Any] = {"title": self.title}
        kind = "Q"
        if self.order is not None:
            kind, options["sort"], scale["domain"] = "O", list(self.order), list(self.order)
        if self.domain is not None:
            scale["domain"] = list(self.domain)
        if self.log or self.domain is not None:
            scale["nice"] = False
        scale |= self.scale
        if scale:
            options["scale"] = scale
        if self.ticks != {}:
            options["axis"] = self.ticks
        encoding = alt.X if channel == "x" else alt.Y
        return encoding(f"{column or self.column}:{kind}", **options)

    def share(self, value: float) -> float:
        """The place of a value between the two ends, from 0 to 1."""
        assert self.domain is not None
        low, high = self.domain
        if self.log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)


def rule(
    values: Iterable[float], *, colour: str = QUIET, dash: Sequence[float] = SOLID, width: float = 1.0, **across: Axis
) -> Any:
    """A line across the panel at each value of one of its axes, `x` or `y`."""
    ((channel, axis),) = across.items()
    chart = charted({axis.column: value} for value in values)
    mark = chart.mark_rule(color=colour, strokeDash=list(dash), strokeWidth=width)
    return mark.encode(**{channel: axis.encoded(channel)})


def point_size(rows: Sequence[Mapping[str, Any]], column: str) -> float:
    """Return the size of points on lines through few measurements; 0 for lines through more.

    A line through two measurements without them would look like a course that somebody measured.
    """
    return 30.0 if len({row[column] for row in rows}) <= _FEW_POINTS else 0.0


_FEW_POINTS = 5


def line_bands(
    rows: Any,
    x: Axis,
    y: Axis,
    style: Any,
    *,
    spread: str | None = "band",
    shade: float = 0.18,
    points: float = 0.0,
    clip: bool = False,
    shown: Sequence[Hint] = (),
    **line: Any,
) -> list[Any]:
    """Lines, each with its band or its bars behind it and its points before it.

    Args:
        rows: a point of a line each, with its ends under `low` and `high`; or a chart, whose data may be transformed.
        x: the axis that the lines run along.
        y: the axis of the quantity that the lines show.
        style: the colour of all, an encoding of colours, or by channel what sets lines apart: `color`, `strokeDash`,
            `strokeWidth` and `detail`.
        spread: the drawing of the intervals: `band`, `bar`, or None for no drawing.
        shade: the opacity of bands.
        points: the size of points on the lines; 0 for none, where lines have more than a few points.
        clip: True to cut off marks beyond the axes, which takes seconds for each picture.
        shown: the columns of the tooltip.
        line: options of Vega-Lite's line.
    """
    if not isinstance(style, Mapping):
        style = {"color": alt.value(style) if isinstance(style, str) else style}
    base = rows
    if isinstance(rows, Sequence):
        base = charted(rows)
        points = points or point_size(rows, x.column)
    base = base.encode(x=x.encoded("x"), **{key: style[key] for key in ("color", "detail") if key in style})
    named = base.encode(y=y.encoded("y"), tooltip=hints(shown))
    ends = {"y": y.encoded("y", "low"), "y2": alt.Y2("high:Q")}
    layers = []
    if spread == "band":
        layers.append(base.mark_area(opacity=shade, clip=clip).encode(**ends))
    elif spread == "bar":
        layers.append(base.mark_rule(strokeWidth=1.5, opacity=0.7).encode(**ends))
    layers.append(named.mark_line(clip=clip, **line).encode(**style))
    if points:
        layers.append(named.mark_point(filled=True, size=points, opacity=1))
    return layers


def keyed_rules(values: Sequence[tuple[LineStyle, float]], y: Axis, style: Mapping[str, Any]) -> list[Any]:
    """A line across the panel for each reference, in its style of `keyed("what", ...)`."""
    if not values:
        return []
    chart = charted({"what": name, y.column: value} for (name, *_), value in values).mark_rule()
    return [chart.encode(y=y.encoded("y"), **style, tooltip=hints(["what:N", f"{y.column}:Q"]))]


def band_said(n_seeds: int) -> str:
    """Return the sentence on the lines of means over seeds and their bands; empty for one seed at most."""
    return f"Lines are means over seeds (up to {n_seeds}), and bands span the range over seeds." if n_seeds > 1 else ""


def keyed(column: str, styles: Sequence[LineStyle], *, nested: bool = True) -> dict[str, Any]:
    """Return the colour, dash and width of lines by the names in a column, with one legend below.

    Nested: solid lines are drawn in order, each thinner than the one before, so that where they coincide all can be
    seen.
    """
    names = [name for name, _, _ in styles]
    solid = [name for name, _, dash in styles if nested and dash == SOLID]
    wide = dict(zip(solid, np.linspace(min(1.8 + 0.8 * (len(solid) - 1), 5), 1.8, len(solid)), strict=True))
    # The other way round, or Vega-Lite takes it for part of the legend of colours and dashes, and warns.
    backwards = names[::-1]
    thick = [round(float(wide.get(name, 1.8)), 2) for name in backwards]
    widths = {"type": "ordinal", "domain": backwards, "range": thick}
    legend = {"title": None, "orient": "bottom", "columns": 4, "columnPadding": 18}
    colours = {"domain": names, "range": [colour for _, colour, _ in styles]}
    dashes = {"domain": names, "range": [list(dash) for _, _, dash in styles]}
    return {
        "color": alt.Color(f"{column}:N", scale=colours, legend=legend),
        "strokeDash": alt.StrokeDash(f"{column}:N", scale=dashes, legend=legend),
        "strokeWidth": alt.StrokeWidth(f"{column}:O", scale=widths, legend=None),
    }


STEP_LABEL = "datum.value ? format(datum.value, '~s') : '0'"
"""The label of a tick, in Vega's words: its format of 0 would be `0k`."""


def step_axis(first: int, last: int, *, titled: bool = True) -> Axis:
    """An axis of steps from 0: linear up to `first`, logarithmic beyond, so that the beginning is drawn too."""
    powers = [10**k for k in range(12) if first <= 10**k < last / 1.5]
    rounded = float(f"{last:.0e}")
    values = [0, *powers, int(rounded) if rounded <= last else last]
    ticks = {"values": values, "labelExpr": STEP_LABEL, "labelSeparation": 4}
    title = "training step (log scale)" if titled else None
    return Axis("step", title, domain=[0, last], scale={"type": "symlog", "constant": first}, ticks=ticks)
