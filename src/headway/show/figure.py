"""Show: a figure is a chart and its words; here are also the numbers that go into one."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.show.theme import config

if TYPE_CHECKING:
    import altair as alt

WIDTH = 1000
"""Width of a figure in pixels, axes and legends aside."""

Look = tuple[str, str, tuple[float, ...]]
"""A line in a legend: its name, colour and dashes."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A chart, the name of its files, its title, and a caption that says in plain words what is drawn."""

    name: str
    part: str
    title: str
    caption: str
    chart: "alt.TopLevelMixin"

    def spec(self) -> dict[str, Any]:
        """The chart as a Vega-Lite specification, validated, with its data inside and no address in it.

        Raises:
            altair.utils.schemapi.SchemaValidationError: when the chart is not valid.
        """
        spec = self.chart.to_dict()
        spec.pop("$schema", None)
        spec["datasets"] = {name: json.loads(rows) for name, rows in spec["datasets"].items()}
        spec["config"] = config()
        return spec


def inline(rows: Iterable[dict[str, Any]]) -> "alt.InlineData":
    """Rows as the data of a chart, numbers cut to five significant digits; a non-finite number is null.

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
    return float(f"{number:.5g}") if np.isfinite(number) else None


def keyed(column: str, looks: Sequence[Look]) -> tuple["alt.Color", "alt.StrokeDash"]:
    """Colour and dashes of lines by the names in a column, with one legend below."""
    import altair as alt

    names = [name for name, _, _ in looks]
    legend = alt.Legend(title=None, orient="bottom", columns=4, columnPadding=18)
    colours = alt.Scale(domain=names, range=[colour for _, colour, _ in looks])
    dashes = alt.Scale(domain=names, range=[list(dash) for _, _, dash in looks])
    return alt.Color(f"{column}:N", scale=colours, legend=legend), alt.StrokeDash(
        f"{column}:N", scale=dashes, legend=legend
    )


def thinned(steps: Sequence[int], limit: int) -> list[int]:
    """Positions of at most `limit` of the steps, evenly on a log scale, the first and the last among them.

    Examples:
        >>> thinned([0, 10, 20], limit=5)
        [0, 1, 2]
        >>> [p + 1 for p in thinned(range(1, 1001), limit=4)]
        [1, 10, 100, 1000]
    """
    if len(steps) <= limit:
        return list(range(len(steps)))
    at = np.log(np.maximum(np.asarray(steps, dtype=float), 1.0))
    wanted = np.linspace(at[0], at[-1], limit)
    return sorted({int(np.abs(at - value).argmin()) for value in wanted})


def join(*sentences: str) -> str:
    """Sentences that are not empty, as one caption."""
    return " ".join(sentence for sentence in sentences if sentence)


def counted(n: int, noun: str) -> str:
    """A number and its noun.

    Examples:
        >>> counted(1, "seed"), counted(2, "seed")
        ('1 seed', '2 seeds')
    """
    return f"{n} {noun}" if n == 1 else f"{n:,} {noun}s"
