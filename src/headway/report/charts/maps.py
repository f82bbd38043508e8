"""Maps: cells of layers, heads or tokens, in colours fitted to the visible values.

`head_map` draws the cells; `colours` is the one rule for the colours of metrics, in the atlas and in maps of pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headway.config.head_metrics import NATS
from headway.report.charts.figure import Hint, alt, charted, hints
from headway.report.charts.lines import Axis

SEQUENTIAL = ("#e6edf5", "#a5c8e1", "#4f97c7", "#1f639f", "#0b2f57")
"""Colours from the least to the greatest value."""
DIVERGING = ("#174a86", "#6ea6d0", "#f2f2f0", "#ef9a7e", "#a01528")
"""Colours from the most negative over zero to the most positive value; an absent head is white, zero is not."""
_DARK = 0.55
"""A number in a cell is white from this share of the range on."""
_LEAST = 0.1
"""A bounded metric's range is at least this wide: a score of 0.01 is not dark because no other is higher."""
_LEAST_SHARE = 0.05
"""The least range of a metric without bounds, as a share of its largest value: equal values look equal."""
_DECADES = 50.0
"""A metric without bounds whose values differ by more than this factor is drawn on a log scale."""


@dataclass(frozen=True, kw_only=True)
class ColourRange:
    """The ends of a metric's colours, and how they run between them: diverging about 0, evenly, or on a log scale."""

    kind: Literal["diverging", "linear", "log"]
    low: float
    high: float


def colour_range(unit: str, values: Sequence[np.ndarray]) -> ColourRange:
    """The range of a metric: diverging for one of -1 to 1 and for effects in nats, else from its least to its most.

    Args:
        unit: the unit of the metric, as declared.
        values: the values that are drawn in this scale; values that are not finite are left out.
    """
    seen = np.concatenate([np.ravel(value).astype(float) for value in values])
    seen = seen[np.isfinite(seen)]
    low, high = float(seen.min()), float(seen.max())
    if unit in ("-1 to 1", NATS):
        most = max(abs(low), abs(high), _LEAST if unit == "-1 to 1" else 1e-12)
        return ColourRange(kind="diverging", low=-most, high=most)
    few, many = np.quantile(seen, (0.05, 0.95))
    if unit == "1" and low > 0 and many > _DECADES * few:
        # Its lowest few are no reason to make all others alike.
        return ColourRange(kind="log", low=max(low, float(few) / 10), high=high)
    if 0 <= low < 0.5 * high:
        low = 0.0
    if unit == "0 to 1":
        high = max(high, low + _LEAST)
    if high - low < (least := _LEAST_SHARE * max(abs(low), abs(high)) or 1.0):
        low, high = (low + high - least) / 2, (low + high + least) / 2
    return ColourRange(kind="linear", low=low, high=high)


def head_map(
    cells: Any,
    x: Axis,
    y: Axis,
    colour: Any,
    *,
    end: str = "",
    gap: float = 0.0,
    stroke: str = "white",
    shown: Sequence[Hint] = (),
    **more: Any,
) -> Any:
    """A cell for each row.

    Args:
        cells: the data of the cells, as rows or as a chart whose data have been transformed.
        x: the horizontal axis, by name, or by the beginning of the cells.
        y: the vertical axis.
        colour: an encoding, as `valued` makes it.
        end: the column of where cells end across, on an axis of numbers.
        gap: pixels of a line around each cell.
        stroke: the colour of that line.
        shown: the columns of the tooltip.
        more: the further encodings.
    """
    chart = charted(cells) if isinstance(cells, Sequence) else cells
    line: dict[str, Any] = {"stroke": stroke, "strokeWidth": gap} if gap else {}
    if end:
        more["x2"] = f"{end}:Q"
    place = {"x": x.encoded("x"), "y": y.encoded("y"), "color": colour}
    return chart.mark_rect(**line).encode(**place, tooltip=hints(shown), **more)


def evenly(n: int, limit: int) -> list[int]:
    """At most so many of n places, evenly spaced, with the first and the last.

    Examples:
        >>> evenly(5, 3), evenly(2, 3)
        ([0, 2, 4], [0, 1])
    """
    return sorted({int(at) for at in np.linspace(0, n - 1, min(n, limit)).round()})


CELLS = 20_000
"""The largest number of cells in a figure: more are slow to draw and too small to see."""


def largest_side(counts: Sequence[int]) -> int:
    """The heads of a layer to draw at most, so that the maps of all layers together do not have too many cells."""
    most = 64
    while most > 8 and sum(min(n, most) ** 2 for n in counts) > CELLS:
        most -= 1
    return most


def valued(column: str, scale: Any, title: str | None = None, **legend: Any) -> Any:
    """The colours of numbers in a column, with their scale below, or elsewhere as the options of the legend say."""
    options = {"orient": "bottom", "gradientLength": 260, "tickCount": 5, "titleLimit": 300, **legend}
    return alt.Color(f"{column}:Q", scale=scale, legend={"title": title, **options})


def about_zero(largest: float, colours: Sequence[str] = DIVERGING) -> dict[str, Any]:
    """The scale of what may be below 0, as far as a number both ways.

    Colours are mixed as red, green and blue, since other colour spaces make values next to 0 look large.
    """
    return {**_scale(colours, [-largest, largest]), "domainMid": 0}


def _scale(colours: Sequence[str], domain: Sequence[float]) -> dict[str, Any]:
    return {"range": list(colours), "domain": domain, "interpolate": "rgb", "clamp": True}


def colours(unit: str, values: Sequence[np.ndarray]) -> tuple[dict[str, Any], str]:
    """The colour scale of a metric, and where on it a number must be white: an expression with {} for the value.

    Args:
        unit: the unit of the metric, as declared.
        values: the values that are drawn in this scale; values that are not finite are left out.
    """
    found = colour_range(unit, values)
    if found.kind == "diverging":
        return about_zero(found.high), f"abs({{}}) > {_DARK * found.high:.6g}"
    scale = {**_scale(SEQUENTIAL, [found.low, found.high]), "nice": False}
    if found.kind == "log":
        return {**scale, "type": "log"}, f"{{}} > {found.low * (found.high / found.low) ** _DARK:.6g}"
    return scale, f"{{}} > {found.low + _DARK * (found.high - found.low):.6g}"
