"""Points with intervals, points of single runs, and names beside points.

`over_seeds` makes a mean with its interval of a final metric. `points_with_intervals` draws estimates, `strip` the runs
of every arm around them. `names_beside` puts names beside points, each on a side where it covers no other name and no
point.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headway.report.charts.figure import INK, QUIET, Hint, Rows, alt, charted, hints
from headway.report.charts.lines import Axis
from headway.stats.evidence import interval_of_mean

Interval = tuple[str, str]
"""The columns that hold the ends of an interval."""

ENDS: Interval = ("low", "high")


def points_with_intervals(
    rows: Rows,
    x: Axis,
    y: Axis,
    colour: Any,
    *,
    across: Interval | None = None,
    up: Interval | None = None,
    wider: Interval | None = None,
    thick: float = 1.8,
    size: float = 80.0,
    hollow: str = "",
    shown: Sequence[Hint] = (),
    **mark: Any,
) -> list[Any]:
    """A point for each row, over its intervals.

    Args:
        rows: an estimate each.
        x: the axis of the points' first coordinate.
        y: the axis of the points' second coordinate.
        colour: the colour of all points and intervals, or an encoding.
        across: the interval along x.
        up: the interval along y.
        wider: a second interval along x, drawn thin and grey.
        thick: pixels of an interval.
        size: the size of a point, in square pixels.
        hollow: the column of the rows whose points have a white middle; empty: none.
        shown: the columns of the tooltip.
        mark: options of Vega-Lite's points.
    """
    colour = alt.value(colour) if isinstance(colour, str) else colour
    base = charted(rows)
    middle = {"x": x.encoded("x"), "y": y.encoded("y"), "color": colour}
    layers = []
    for ends, channel, axis, width, shade in (
        (wider, "x", x, 1.0, alt.value(QUIET)),
        (across, "x", x, thick, colour),
        (up, "y", y, thick, colour),
    ):
        if ends is not None:
            line = {channel: axis.encoded(channel, ends[0]), f"{channel}2": f"{ends[1]}:Q", "color": shade}
            layers.append(base.mark_rule(strokeWidth=width).encode(**{**middle, **line}))
    for is_hollow in (False, True):
        members = [row for row in rows if bool(hollow and row[hollow]) == is_hollow]
        fill: dict[str, Any] = {"filled": False, "fill": "white"} if is_hollow else {"filled": True}
        if members:
            points = charted(members).mark_point(**{"size": size, "opacity": 1, **fill, **mark})
            layers.append(points.encode(**middle, tooltip=hints(shown)))
    return layers


def strip(
    runs: Rows,
    x: Axis,
    y: Axis,
    colour: Any = INK,
    *,
    kind: Literal["point", "tick"] = "point",
    shown: Sequence[Hint] = (),
    **mark: Any,
) -> Any:
    """A point or a tick of each run, in the rows of the arms.

    Args:
        runs: a run each.
        x: the axis of the drawn quantity.
        y: the axis of the arms, or of the quantity that x is drawn against.
        colour: the colour of all symbols, or an encoding.
        kind: the kind of symbol: a point or a tick.
        shown: the columns of the tooltip.
        mark: options of Vega-Lite's points or ticks.
    """
    chart = charted(runs).encode(x=x.encoded("x"), y=y.encoded("y"), tooltip=hints(shown))
    if isinstance(colour, str):
        mark["color"] = colour
    else:
        chart = chart.encode(color=colour)
    if kind == "tick":
        return chart.mark_tick(**{"thickness": 1.4, **mark})
    return chart.mark_point(**{"size": 26, "filled": True, "opacity": 0.9, **mark})


def arms_axis(names: Sequence[str], **ticks: Any) -> Axis:
    """The axis of names of arms, one below the other."""
    return Axis("arm", order=names, ticks={"ticks": False, "domain": False, **ticks})


SEEDS = 3
"""Seeds from which on an interval is drawn: that of two seeds is 13 standard errors wide on either side."""


def mean_said(n_seeds: int) -> str:
    """Return what a point is, in words: a mean over seeds, of which arms have so many at most, or one seed.

    Examples:
        >>> mean_said(1), mean_said(2), mean_said(3)
        ('one seed', 'the mean over up to 2 seeds', 'the mean over up to 3 seeds, with its 95 % CI (t distribution)')
    """
    if n_seeds < 2:
        return "one seed"
    interval = ", with its 95 % CI (t distribution)" if n_seeds >= SEEDS else ""
    return f"the mean over up to {n_seeds} seeds{interval}"


def over_seeds(values: Sequence[float] | np.ndarray, column: str = "value") -> dict[str, float]:
    """The mean of one value or more in a column, and the ends of its 95 % interval (t).

    If the seeds are too few for an interval, both ends are the mean.

    Examples:
        >>> over_seeds([1.0, 2.0])
        {'value': 1.5, 'low': 1.5, 'high': 1.5}
    """
    mean, interval = interval_of_mean(values)
    low, high = (mean, mean) if interval is None or len(values) < SEEDS else interval
    return {column: mean, "low": low, "high": high}


Side = tuple[float, float, str]
"""The position of a name relative to its point: pixels to the right, pixels down, and alignment."""

E, W, N, S = (10.0, 4.0, "left"), (-10.0, 4.0, "right"), (0.0, -11.0, "center"), (0.0, 19.0, "center")
NE, SE, NW, SW = (7.0, -9.0, "left"), (7.0, 17.0, "left"), (-7.0, -9.0, "right"), (-7.0, 17.0, "right")
FAR: tuple[Side, ...] = tuple(
    (dx, dy, align)
    for away in (28.0, 42.0, 56.0, 70.0)
    for dy in (-away + 4, away + 4)
    for dx, align in ((8.0, "left"), (-8.0, "right"))
)
SIDES: tuple[Side, ...] = (E, NE, SE, W, NW, SW, N, S, *FAR)

_CHARACTER, _LINE, _POINT = 6.3, 13.0, 6.0
"""Pixels of a character of the names' size, of a line, and from the middle of a point to its edge."""

Box = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Named:
    """A point in pixels from the upper left, its name, and the sides to try first."""

    x: float
    y: float
    name: str
    first: tuple[Side, ...] = ()


def sides(points: Sequence[Named], *, width: float, height: float) -> list[Side]:
    """A side for each name, taken in turn: the first that is free and inside the panel, or else the first.

    Examples:
        >>> sides([Named(x=50, y=50, name="one"), Named(x=70, y=50, name="two")], width=300, height=100)
        [(7.0, -9.0, 'left'), (10.0, 4.0, 'left')]
    """
    marks: list[Box] = [(p.x - _POINT, p.y - _POINT, p.x + _POINT, p.y + _POINT) for p in points]
    chosen, names = list[Side](), list[Box]()
    for at, point in enumerate(points):
        others = [*marks[:at], *marks[at + 1 :], *names]
        tried = [*point.first, *SIDES]
        free = (
            side
            for side in tried
            if _inside(box := _box(point, side), width, height) and not any(_overlap(box, other) for other in others)
        )
        side = next(free, tried[0])
        names.append(_box(point, side))
        chosen.append(side)
    return chosen


def names_beside(
    rows: Rows,
    x: Axis,
    y: Axis,
    colour: Any,
    *,
    size: tuple[float, float],
    first: Callable[[Mapping[str, Any]], tuple[Side, ...]] | None = None,
) -> list[Any]:
    """The names of points as layers; a white outline keeps them readable where a line passes under them.

    Args:
        rows: a point each, with its name under `label`.
        x: the axis of the points' first coordinate; both axes have ends.
        y: the axis of the points' second coordinate.
        colour: the colour of the names.
        size: width and height of the panel in pixels.
        first: the sides to try first for a row.
    """
    width, height = size
    named = [
        Named(
            x=width * x.share(row[x.column]),
            y=height * (1 - y.share(row[y.column])),
            name=row["label"],
            first=first(row) if first else (),
        )
        for row in rows
    ]
    chosen, layers = sides(named, width=width, height=height), []
    for side in dict.fromkeys(chosen):
        members = [row for row, place in zip(rows, chosen, strict=True) if place == side]
        chart = charted(members).encode(text="label:N", x=x.encoded("x"), y=y.encoded("y"))
        place: dict[str, Any] = {"dx": side[0], "dy": side[1], "align": side[2], "fontSize": 11.5}
        layers.append(chart.mark_text(stroke="white", strokeWidth=3.5, strokeJoin="round", color="white", **place))
        layers.append(chart.mark_text(**place).encode(color=colour))
    return layers


def _box(point: Named, side: Side) -> Box:
    dx, dy, align = side
    length = _CHARACTER * len(point.name)
    left = point.x + dx - {"left": 0.0, "center": length / 2, "right": length}[align]
    return (left, point.y + dy - _LINE + 3, left + length, point.y + dy + 3)


def _inside(box: Box, width: float, height: float) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
