"""Show: a figure is a chart and its words; here are also the numbers that go into one."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.show.shared.theme import SOLID, config
from headway.words import plainly

if TYPE_CHECKING:
    import altair as alt

WIDTH = 1000
"""Width of a figure in pixels, axes and legends aside."""

Look = tuple[str, str, tuple[float, ...]]
"""A line in a legend: its name, colour and dashes."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart, the name of its files, its title, and a caption that says in plain words what is drawn.

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
    """The rows of a chart; only where one of their characters is told by its number may one of them be odd."""
    if not isinstance(rows, str):  # of a chart of the user's own
        return _plain(rows)
    values = json.loads(rows)
    return _plain(values) if "\\u" in rows else values


def _plain(value: Any) -> Any:
    """The same with every text as it is read; see `plainly`."""
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
    """How lines look by the names in a column: colour, dashes and width, with one legend below.

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
