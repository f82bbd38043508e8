"""Show: values of heads with their intervals, side by side: a panel for each way, on one scale."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.show.shared.figure import inline
from headway.show.shared.theme import ARM_COLOURS, QUIET

_PANEL, _ROW = 272, 15
_ACROSS = 3
"""Panels beside one another: of more nothing is left on a narrow screen."""
Ends = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class IntervalPanel:
    """A value of each thing, with an interval of its own, and one that holds for all of them at once."""

    title: str
    mean: np.ndarray
    own: Ends
    all_at_once: Ends


def interval_panels(
    rows: Sequence[str],
    at: Sequence[int],
    panels: Sequence[IntervalPanel],
    *,
    unit: str,
    matters: float,
    number: str = "~r",
    said: str = "change",
) -> Any:
    """A panel for each way, all on one scale, names at the left.

    Args:
        rows: what is drawn, by name.
        at: where each of them stands in the panels' arrays.
        panels: the ways.
        unit: of the values.
        matters: from which value on, to either side, something is said to matter: a dotted line.
        number: how numbers of the axis are written.
        said: what a value is, where one points at it.
    """
    import altair as alt

    seen = [end[i] for each in panels for ends in (each.own, each.all_at_once) for end in ends for i in at]
    seen += [each.mean[i] for each in panels for i in at]
    known = [float(value) for value in seen if np.isfinite(value)]
    room = 0.03 * (max(known) - min(known)) or 0.01
    scale = alt.Scale(domain=[min(0.0, *known) - room, max(0.0, *known) + room], nice=False)
    drawn = []
    for place, each in enumerate(panels):
        table = [
            {
                "row": name,
                "value": each.mean[i],
                **{f"{end}{which}": ends[which][i] for end, ends in (("own", each.own), ("all", each.all_at_once))
                   for which in (0, 1)},
            }
            for name, i in zip(rows, at, strict=True)
        ]  # fmt: skip
        x = alt.X("value:Q", title=unit, scale=scale, axis=alt.Axis(format=number, tickCount=5, grid=True))
        drawn.append(_panel(table, rows, each.title, x, scale, matters, said, named=place % _ACROSS == 0))
    lines = [alt.hconcat(*drawn[i : i + _ACROSS], spacing=14) for i in range(0, len(drawn), _ACROSS)]
    return lines[0] if len(lines) == 1 else alt.vconcat(*lines, spacing=18)


def _panel(
    table: Sequence[dict[str, Any]],
    rows: Sequence[str],
    title: str,
    x: Any,
    scale: Any,
    matters: float,
    said: str,
    *,
    named: bool,
) -> Any:
    import altair as alt

    axis = alt.Axis(ticks=False, domain=False, labelLimit=160, grid=True, labelOverlap=False) if named else None
    y = alt.Y("row:N", sort=list(rows), title=None, scale=alt.Scale(domain=list(rows)), axis=axis)
    base = alt.Chart(inline(table)).encode(y=y)
    tooltip = [alt.Tooltip("row:N", title="head"), *(
        alt.Tooltip(f"{field}:Q", title=name, format=".3~g")
        for field, name in (("value", said), ("own0", "from"), ("own1", "to"))
    )]  # fmt: skip
    marks = [
        base.mark_rule(color=QUIET, strokeWidth=1).encode(x=alt.X("all0:Q", scale=scale, title=None), x2="all1:Q"),
        base.mark_rule(color=ARM_COLOURS[0], strokeWidth=3).encode(x=alt.X("own0:Q", scale=scale), x2="own1:Q"),
        base.mark_point(color=ARM_COLOURS[0], filled=True, opacity=1, size=42).encode(x=x, tooltip=tooltip),
    ]
    lines = [
        alt.Chart(inline([{"at": at}]))
        .mark_rule(color=QUIET, strokeDash=list(dash), strokeWidth=1)
        .encode(x=alt.X("at:Q", scale=scale))
        for at, dash in ((0.0, (1, 0)), (-matters, (2, 3)), (matters, (2, 3)))
    ]
    return alt.layer(*lines, *marks).properties(width=_PANEL, height=_ROW * len(rows), title=title)
