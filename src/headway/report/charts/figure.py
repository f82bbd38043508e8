"""A figure: a chart, its words, and the theme that all figures share.

A colour means the same thing in every figure. Heads, arms and estimators have palettes of their own: a head or an arm
keeps its colour, and references without training are grey.

`over_seeds` makes a mean with its interval of a final metric. `text_layers` puts names beside points, each on a side
where it covers no other name and no point.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.base.text import plainly

if TYPE_CHECKING:
    import altair as alt


HEAD_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#7f3c8d",
    "#6b4c2a",
    "#8a8d91",
    "#a5aa00",
    "#e7298a",
    "#1b4f72",
    "#7a0019",
    "#00a3a3",
    "#4d7c0f",
    "#ff9da7",
)
"""Head h is drawn in colour h (mod 16)."""

ARM_COLOURS = (
    "#2f6db3",
    "#e4572e",
    "#2a9d5c",
    "#8e44ad",
    "#d4a017",
    "#17a2b8",
    "#c2185b",
    "#7c5c3b",
    "#5f6b7a",
    "#9acd32",
    "#1d3557",
    "#f4a6a0",
)
"""Arm i of the document is drawn in colour i (mod 12)."""

ESTIMATORS: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "gd_eta1": ("GD, step 1", "#b4b8bf", (1, 3)),
    "gd_best": ("GD, best step", "#7d838c", (6, 3)),
    "debiased_gd_best": ("debiased GD, best step", "#22262b", (4, 2)),
    "preconditioned_gd": ("preconditioned debiased GD", "#4c5561", (1, 1.5)),
    "ridge": ("ridge (Bayes)", "#a07d4b", (8, 3, 2, 3)),
    "least_squares": ("least squares", "#c9b492", (2, 2)),
}
"""The label, colour and dashes of each estimator."""

SCHEME_COLOURS: dict[str | None, str] = {
    "ascending": "#c2185b",
    "constant": "#5f6b7a",
    "descending": "#2f6db3",
    None: "#d4a017",
}
"""A scheme of head layouts keeps its colour; None is a layout that goes up and down."""

SOLID = (1, 0)
"""Dashes without gaps."""

GROUP_DASHES = (SOLID, (7, 3), (2, 2), (8, 3, 2, 3), (4, 4))
GROUP_SHAPES = ("circle", "square", "triangle-up", "triangle-down", "cross")
"""Group i of the document is drawn in dashes and shape i (mod 5)."""

NO_GROUP_DASH = (1, 3)

NGRAMS: dict[str, tuple[str, str, tuple[float, ...]]] = {
    "unigram": ("unigram model", "#b4b8bf", (1, 3)),
    "bigram": ("bigram model", "#22262b", (4, 2)),
    "entropy": ("entropy of the text", "#a07d4b", (8, 3, 2, 3)),
}
"""The label, colour and dashes of each reference that is not trained by gradient."""

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
INK = "#22262b"
QUIET = "#6b7280"


def head_domain(n_heads: int) -> list[str]:
    """The names under which figures colour heads: their numbers as text.

    Examples:
        >>> head_domain(3)
        ['0', '1', '2']
    """
    return [str(head) for head in range(n_heads)]


def head_range(n_heads: int) -> list[str]:
    """The colours that belong to `head_domain`."""
    return [HEAD_COLOURS[head % len(HEAD_COLOURS)] for head in range(n_heads)]


def arm_colour(position: int) -> str:
    """The colour of the arm at a position of the document."""
    return ARM_COLOURS[position % len(ARM_COLOURS)]


def config() -> dict[str, Any]:
    """The Vega-Lite configuration that every figure carries."""
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"}
    return {
        "font": FONT,
        "background": "white",
        "view": {"stroke": None},
        "axis": {
            **text,
            "domainColor": "#9aa0a8",
            "tickColor": "#9aa0a8",
            "gridColor": "#eceef1",
            "labelOverlap": True,
        },
        "axisX": {"grid": False},
        "legend": {
            **text,
            "symbolStrokeWidth": 2.5,
            "symbolType": "stroke",
            "symbolSize": 220,
            "symbolOpacity": 1,
            "labelLimit": 320,
            "titleFontWeight": "bold",
        },
        "header": {**text, "labelFontWeight": "bold", "titleFontWeight": "bold"},
        "title": {"color": INK, "fontSize": 13, "fontWeight": "bold", "anchor": "start"},
        "concat": {"spacing": 24},
        "facet": {"spacing": 12},
    }


ASKED = "#7f3c8d"
"""The colour of contrasts of several arms, which no arm has."""


WIDTH = 1000
"""Width of a figure in pixels, axes and legends aside."""

Look = tuple[str, str, tuple[float, ...]]
"""A line in a legend: its name, colour and dashes."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart, the name of its files, its title, and a caption in plain words.

    A folded one is drawn when the reader opens its part's further figures. `animation` makes the bytes of a GIF, which
    is written beside the other files.
    """

    name: str
    part: str
    title: str
    caption: str
    chart: "alt.TopLevelMixin"
    folded: bool = False
    animation: Callable[[], bytes] | None = None

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The chart as a Vega-Lite specification, validated, with its data inside and no address in it.

        Raises:
            altair.utils.schemapi.SchemaValidationError: when the chart is not valid.
        """
        spec = self.chart.to_dict()
        spec.pop("$schema", None)
        datasets = {name: _read(rows) for name, rows in spec.pop("datasets", {}).items()}
        return {**_plain(spec), "datasets": datasets, "config": config()}


def _read(rows: Any) -> Any:
    """Return the rows of a chart; odd characters are allowed only where a character is named by its number."""
    if not isinstance(rows, str):  # of a chart of the user's own
        return _plain(rows)
    values = json.loads(rows)
    return _plain(values) if "\\u" in rows else values


def _plain(value: Any) -> Any:
    """Return a value with every text in it replaced by its readable form, as `plainly` makes it."""
    if isinstance(value, str):
        return plainly(value)
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def ends(values: Iterable[float], *, beside: float = 0.0, least: float = 0.002) -> list[float]:
    """The ends of an axis that holds some values, a share of their range beside them on either side.

    Args:
        values: one or more, finite.
        beside: that share.
        least: of the largest value, how long the axis is at least: values that are nearly equal look nearly equal.

    Examples:
        >>> ends([2.0, 4.0], beside=0.1)
        [1.8, 4.2]
        >>> ends([1.0, 1.0], least=0.01)
        [0.995, 1.005]
    """
    known = list(values)
    low, high = min(known), max(known)
    shortest = least * max(abs(low), abs(high)) or 1.0
    if high - low < shortest:
        low, high = (low + high - shortest) / 2, (low + high + shortest) / 2
    return [low - beside * (high - low), high + beside * (high - low)]


def log_ends(values: Iterable[float], *, left: float = 0.05, right: float = 0.05) -> list[float]:
    """The ends of a logarithmic axis, shares of the values' range beside them; of nearly equal ones, as of a tenth.

    Examples:
        >>> log_ends([1.0, 100.0], left=0.0, right=0.5)
        [1.0, 1000.0]
    """
    known = list(values)
    ratio = max(max(known) / min(known), 1.1)
    return [min(known) / ratio**left, max(known) * ratio**right]


def inline(rows: Iterable[dict[str, Any]]) -> "alt.InlineData":
    """Rows as the data of a chart, numbers cut to seven significant digits; a non-finite number is null.

    They are text until `Figure.spec` reads them: Altair copies what it is given at every turn, and text is free.
    """
    import altair as alt

    return alt.InlineData(values=json.dumps([{key: _short(value) for key, value in row.items()} for row in rows]))


def _short(value: Any) -> Any:
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    number = float(value)
    return float(f"{number:.7g}") if np.isfinite(number) else None


def keyed(column: str, looks: Sequence[Look], *, nested: bool = True) -> dict[str, Any]:
    """Return the colour, dash and width of lines by the names in a column, with one legend below.

    Nested: solid lines are drawn in order, each thinner than the one before, so that where they coincide all can be
    seen.
    """
    import altair as alt

    names = [name for name, _, _ in looks]
    solid = [name for name, _, dash in looks if nested and dash == SOLID]
    wide = dict(zip(solid, np.linspace(min(1.8 + 0.8 * (len(solid) - 1), 5), 1.8, len(solid)), strict=True))
    # The other way round, or Vega-Lite takes it for part of the legend of colours and dashes, and warns.
    backwards = names[::-1]
    thick = [round(float(wide.get(name, 1.8)), 2) for name in backwards]
    widths = alt.Scale(type="ordinal", domain=backwards, range=thick)
    legend = alt.Legend(title=None, orient="bottom", columns=4, columnPadding=18)
    colours = alt.Scale(domain=names, range=[colour for _, colour, _ in looks])
    dashes = alt.Scale(domain=names, range=[list(dash) for _, _, dash in looks])
    return {
        "color": alt.Color(f"{column}:N", scale=colours, legend=legend),
        "strokeDash": alt.StrokeDash(f"{column}:N", scale=dashes, legend=legend),
        "strokeWidth": alt.StrokeWidth(f"{column}:O", scale=widths, legend=None),
    }


def step_axis(first: int, last: int, *, title: str | None = "training step") -> "alt.X":
    """An axis of steps from 0: linear up to `first`, logarithmic beyond, so that the beginning is drawn too."""
    import altair as alt

    powers = [10**k for k in range(12) if first <= 10**k < last / 1.5]
    values = [0, *powers, int(float(f"{last:.0e}")) if float(f"{last:.0e}") <= last else last]
    scale = alt.Scale(type="symlog", constant=first, domain=[0, last], nice=False)
    axis = alt.Axis(values=values, labelExpr="datum.value ? format(datum.value, '~s') : '0'")
    return alt.X("step:Q", title=title, scale=scale, axis=axis)


SEEDS = 3
"""Seeds from which on an interval is drawn: that of two seeds is 13 standard errors wide on either side."""


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over seeds and the ends of its 95 % interval (t); the mean itself where the seeds are too few for one."""

    mean: float
    low: float
    high: float


def over_seeds(values: Sequence[float] | np.ndarray) -> Mean:
    """The mean of one value or more, with its interval.

    Examples:
        >>> over_seeds([1.0, 2.0])
        Mean(mean=1.5, low=1.5, high=1.5)
    """
    values = np.asarray(values, dtype=float)
    mean, half = float(values.mean()), 0.0
    if len(values) >= SEEDS:
        from scipy.stats import t

        half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Mean(mean=mean, low=mean - half, high=mean + half)


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
    taken: list[Box] = [(p.x - _POINT, p.y - _POINT, p.x + _POINT, p.y + _POINT) for p in points]
    own = list(taken)
    chosen = []
    for point, mark in zip(points, own, strict=True):
        others = [box for box in taken if box is not mark]
        tried = [*point.first, *SIDES]
        free = (
            side
            for side in tried
            if _inside(box := _box(point, side), width, height) and not any(_overlap(box, other) for other in others)
        )
        side = next(free, tried[0])
        taken.append(_box(point, side))
        chosen.append(side)
    return chosen


def text_layers(rows: Sequence[dict[str, Any]], chosen: Sequence[Side], encoding: dict[str, Any]) -> Iterator[Any]:
    """The names as layers; a white outline keeps them readable where a line passes under them.

    Args:
        rows: with the name under `label`.
        chosen: a side for each row.
        encoding: `x`, `y` and `color`.
    """
    import altair as alt

    plain = {key: value for key, value in encoding.items() if key != "color"}
    for side in dict.fromkeys(chosen):
        members = [row for row, place in zip(rows, chosen, strict=True) if place == side]
        chart = alt.Chart(inline(members)).encode(text="label:N", **plain)
        place: dict[str, Any] = {"dx": side[0], "dy": side[1], "align": side[2], "fontSize": 11.5}
        yield chart.mark_text(stroke="white", strokeWidth=3.5, strokeJoin="round", color="white", **place)
        yield chart.mark_text(**place).encode(color=encoding["color"])


def _box(point: Named, side: Side) -> Box:
    dx, dy, align = side
    length = _CHARACTER * len(point.name)
    left = point.x + dx - {"left": 0.0, "center": length / 2, "right": length}[align]
    return (left, point.y + dy - _LINE + 3, left + length, point.y + dy + 3)


def _inside(box: Box, width: float, height: float) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
