"""A figure: a chart, its words, and the theme that all figures share.

A colour means the same thing in every figure. Heads, arms and estimators have palettes of their own: a head or an arm
keeps its colour, and references without training are grey.

Charts are made of rows by `line_bands` (`lines`), `points_with_intervals` and `strip` (`intervals`) and `head_map`
(`maps`). They take an `Axis` for each direction and return layers. `panel` makes these one chart, and `grid` puts
panels beside each other.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headway.base.text import escape_controls

if TYPE_CHECKING:
    from altair import InlineData, TopLevelMixin


class _Altair:
    """Altair, imported at the first use of one of its names: that takes longer than a verb which draws nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("altair"), name)


alt: Any = _Altair()


HEAD_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#6b4c2a",
    "#8a8d91", "#a5aa00", "#e7298a", "#1b4f72", "#7a0019", "#00a3a3", "#4d7c0f", "#ff9da7",
)  # fmt: skip
"""Head h is drawn in colour h (mod 16)."""

ARM_COLOURS = (
    "#2f6db3", "#e4572e", "#2a9d5c", "#8e44ad", "#d4a017", "#17a2b8",
    "#c2185b", "#7c5c3b", "#5f6b7a", "#9acd32", "#1d3557", "#f4a6a0",
)  # fmt: skip
"""Arm i of the document is drawn in colour i (mod 12)."""

LineStyle = tuple[str, str, tuple[float, ...]]
"""A line in a legend: its name, colour and dashes."""

ESTIMATORS: dict[str, LineStyle] = {
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

NGRAMS: dict[str, LineStyle] = {
    "unigram": ("unigram model", "#b4b8bf", (1, 3)),
    "bigram": ("bigram model", "#22262b", (4, 2)),
    "entropy": ("entropy of the text", "#a07d4b", (8, 3, 2, 3)),
}
"""The label, colour and dashes of each reference that is not trained by gradient."""

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, sans-serif"
INK = "#22262b"
QUIET = "#6b7280"


def head_colours(n_heads: int) -> dict[str, str]:
    """The colours of heads, by their numbers as text.

    Examples:
        >>> head_colours(2)
        {'0': '#0072b2', '1': '#d55e00'}
    """
    return {str(head): HEAD_COLOURS[head % len(HEAD_COLOURS)] for head in range(n_heads)}


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


WIDTH = 1000
"""Width of a figure in pixels, axes and legends aside."""

Datum = dict[str, Any]
"""A row of a chart's data: values by column."""

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart, the name of its files, its title, and a caption in plain words.

    A folded one is drawn when the reader opens its part's further figures. `animation` makes a GIF, which is written
    beside the other files.
    """

    name: str
    part: str
    title: str
    caption: str
    chart: "TopLevelMixin"
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
    """Return a value with every text in it replaced by its readable form, as `escape_controls` makes it."""
    if isinstance(value, str):
        return escape_controls(value)
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def ends(values: Iterable[float], *, beside: float = 0.0) -> list[float]:
    """The ends of an axis that holds some values, a share of their range beside them on either side.

    Args:
        values: the values; at least one, all finite.
        beside: the share of the values' range that is added on either side.

    Examples:
        >>> ends([2.0, 4.0], beside=0.1)
        [1.8, 4.2]
        >>> ends([1.0, 1.0])
        [0.999, 1.001]
    """
    numbers = list(values)
    low, high = min(numbers), max(numbers)
    # Values that are nearly equal look nearly equal.
    shortest = 0.002 * max(abs(low), abs(high)) or 1.0
    if high - low < shortest:
        low, high = (low + high - shortest) / 2, (low + high + shortest) / 2
    return [low - beside * (high - low), high + beside * (high - low)]


def log_ends(values: Iterable[float]) -> list[float]:
    """The ends of a logarithmic axis, shares of the values' range beside them; of nearly equal ones, as of a tenth.

    To the right of the last point its name has to stand.

    Examples:
        >>> [round(end, 2) for end in log_ends([1.0, 100.0])]
        [0.83, 229.09]
    """
    numbers = list(values)
    ratio = max(max(numbers) / min(numbers), 1.1)
    return [min(numbers) / ratio**0.04, max(numbers) * ratio**0.18]


def inline(rows: Iterable[Mapping[str, Any]]) -> "InlineData":
    """Rows as the data of a chart, numbers cut to seven significant digits; a non-finite number is null.

    They are text until `Figure.spec` reads them: Altair copies what it is given at every turn, and text is free.
    """
    return alt.InlineData(values=json.dumps([{key: _short(value) for key, value in row.items()} for row in rows]))


def charted(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return a chart of rows, which has no mark yet."""
    return alt.Chart(inline(rows))


def _short(value: Any) -> Any:
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    number = float(value)
    return float(f"{number:.7g}") if np.isfinite(number) else None


Hint = str | Sequence[str]
"""A column that the pointer shows, such as `arm:N`; or with it, the format of its number, and its title."""


def hints(columns: Iterable[Hint]) -> Any:
    """Return what a chart shows beside the pointer, as an encoding."""
    tooltips = []
    for column in columns:
        shorthand, *more = (column,) if isinstance(column, str) else column
        options: dict[str, Any] = {key: part for key, part in zip(("format", "title"), more, strict=False) if part}
        tooltips.append(alt.Tooltip(shorthand, **options))
    return tooltips or alt.Undefined


_SYMBOLS: dict[str, dict[str, Any]] = {
    "circle": {"symbolType": "circle", "symbolStrokeWidth": 0, "symbolSize": 110},
    "square": {"symbolType": "square", "symbolSize": 60},
    "stroke": {},
}


def colours_of_column(
    column: str, colours: Mapping[str, str], symbol: Literal["circle", "square", "stroke"] | None = None, **legend: Any
) -> Any:
    """Return the colours of the names in a column.

    Args:
        column: the column that holds the names.
        colours: the colour of each name, in the order of the legend.
        symbol: the shape of the legend's symbols; None: no legend.
        legend: further options of Vega-Lite's legend.
    """
    scale = {"domain": list(colours), "range": list(colours.values())}
    shown = {"title": None, "orient": "bottom", **_SYMBOLS[symbol], **legend} if symbol else None
    return alt.Color(f"{column}:N", scale=scale, legend=shown)


def panel(layers: Sequence[Any], width: float, height: float, title: Any = None, rows: Rows | None = None) -> Any:
    """Layers as one chart; `rows` are the data of those layers that have none of their own."""
    options: dict[str, Any] = {} if title is None else {"title": title}
    options |= {} if rows is None else {"data": inline(rows)}
    return alt.layer(*layers, width=width, height=height, **options)


def grid(panels: Sequence[Any], columns: int, spacing: tuple[float, float] = (24, 24)) -> Any:
    """Panels in rows of so many, with the pixels between columns and between rows."""
    if columns == 1:
        return alt.vconcat(*panels, spacing=spacing[1])
    rows = [alt.hconcat(*panels[at : at + columns], spacing=spacing[0]) for at in range(0, len(panels), columns)]
    return rows[0] if len(rows) == 1 else alt.vconcat(*rows, spacing=spacing[1])
