"""The atlas of a model's heads: layers down, heads across, a panel for each metric.

Layers may differ in their number of heads. A separate column shows, in the same colours, the metric's null value.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from headway.base.text import join
from headway.config.metrics import metric_name
from headway.heads.scores import DECLARED, HeadScores, head_names, over_others, row_labels
from headway.report.charts.figure import INK, QUIET, WIDTH, Datum, Figure, Hint, alt, charted, panel
from headway.report.charts.lines import Axis
from headway.report.charts.maps import colours, head_map, valued

LEFT_OUT = ("raw", "published")
"""Endings of metrics that no panel shows unless it is asked for: they grow with rows and widths."""

STRIPS = {"null": "null", "untrained": "random heads"}
"""The reference values of `HeadScores` in columns at the right of a panel, and their names beside the pointer."""

MARK = "#d55e00"
"""The colour of the frame of a head that a sentence names."""


def atlas(
    scores: Mapping[str, HeadScores],
    *,
    metrics: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    name: str = "atlas",
    part: str = "Heads",
    title: str = "Head atlas",
    caption: str = "",
    marked: Sequence[str] = (),
) -> Figure | None:
    """Draw every head under every metric; for a metric of pairs, the mean over a head's others.

    Args:
        scores: the scores of the heads by metric; metrics of layers are left out.
        metrics: the panels in their order; None: all that no width or number of rows drives.
        labels: the label of each attention's row, top to bottom; None: labels from the attentions' names, such as `L0`.
        name: the name of the figure's files.
        part: the part of the page that the figure stands in.
        title: the title of the figure.
        caption: the beginning of the caption, such as the run and its step.
        marked: names of heads that get a frame.

    Returns:
        None where there is nothing to draw.
    """
    heads = {metric: _filled(scores[metric].per_head()) for metric in _chosen(scores, metrics)}
    heads = {metric: found for metric, found in heads.items() if any(np.isfinite(v).any() for v in found.values())}
    if not heads:
        return None
    there = dict.fromkeys(attention for found in heads.values() for attention in found)
    labels = labels or row_labels(there)
    rows = [label for attention, label in labels.items() if attention in there]
    shown = [strip for strip in STRIPS if any(getattr(scores[metric], strip) for metric in heads)]
    size = _Size(widest=max(len(v) for found in heads.values() for v in found.values()), rows=rows, strips=shown)
    cells = charted(_table(heads, labels, scores))
    panels = []
    for at, (metric, found) in enumerate(heads.items()):
        nulls = [null for strip in shown for null in _nulls(scores[metric], found, labels, size, strip)]
        panels.append(_chart(scores[metric], at, found, nulls, cells, size, marked))
    # Given at once: each method of a chart of charts copies all of them.
    apart = {"scale": {"color": "independent"}}
    lines = [
        alt.hconcat(*panels[first : first + size.columns], spacing=20, resolve=apart)
        for first in range(0, len(panels), size.columns)
    ]
    said = join(
        caption,
        "Rows are layers, cells are heads, and white cells have no value.",
        _said_of_strips(shown),
    )
    chart = alt.vconcat(*lines, spacing=18, resolve=apart)
    return Figure(name=name, part=part, title=title, caption=said, chart=chart)


class _Size:
    """Columns of panels, and the pixels of a cell, so that a thousand heads are as legible as forty."""

    def __init__(self, *, widest: int, rows: Sequence[str], strips: Sequence[str]) -> None:
        self.widest, self.rows, self.strips = widest, list(rows), list(strips)
        self.columns = 3 if widest <= 6 else 2 if widest <= 96 else 1
        room = WIDTH / self.columns - 74 - 6.3 * max(map(len, rows))
        self.null = max(1.0, 10.0 / min(40.0, room / (widest + 2.0)))
        """Width of the null's column in cells; it is seen beside a thousand heads too."""
        self.end = widest + 0.6 + self.null * max(1, len(strips))
        self.cell = min(40.0, room / self.end)
        self.width = self.cell * self.end
        self.step = next(step for limit, step in ((8, 24), (16, 18), (32, 12), (10**9, 8)) if len(rows) <= limit)
        self.gap = 1.0 if self.cell >= 10 else 0.5 if self.cell >= 4 else 0.0


def _said_of_strips(strips: Sequence[str]) -> str:
    if "untrained" not in strips:
        return "The column to the right of each panel gives the null value of each layer." if strips else ""
    independent = "column n gives each layer's null value and " if "null" in strips else ""
    return f"Right of each panel, {independent}column u gives the mean of random heads on the same text."


def _chosen(scores: Mapping[str, HeadScores], metrics: Sequence[str] | None) -> list[str]:
    if metrics is None:
        metrics = [metric for metric in DECLARED if not metric.endswith(LEFT_OUT)]
    return [metric for metric in metrics if metric in scores and scores[metric].declared.of != "layer"]


def _filled(found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {attention: np.asarray(value, np.float64) for attention, value in found.items() if np.size(value)}


def _table(
    heads: Mapping[str, Mapping[str, np.ndarray]], labels: Mapping[str, str], scores: Mapping[str, HeadScores]
) -> list[Datum]:
    """A row for each head, a column for each metric: `m0`, `m1`, ..., which all panels share; its nulls: `n0`, `u0`."""
    rows: dict[str, Datum] = {}
    for attention, label in labels.items():
        for at, (metric, found) in enumerate(heads.items()):
            value = found.get(attention, np.empty(0))
            own = {
                f"{strip[0]}{at}": of_heads(getattr(scores[metric], strip).get(attention), len(value))
                for strip in STRIPS
            }
            for head, (called, number) in enumerate(zip(head_names(label, len(value)), value, strict=True)):
                row = rows.setdefault(called, {"row": label, "slot": head, "end": head + 1, "name": called})
                row[f"m{at}"] = number
                row |= {column: null[head] for column, null in own.items() if np.isfinite(null[head])}
    return list(rows.values())


def of_heads(null: np.ndarray | None, n_heads: int) -> np.ndarray:
    """A null as one number for each head: of pairs the mean over a head's others."""
    values = np.asarray(np.nan if null is None else null, np.float64)
    if values.ndim == 2 and n_heads > 1:
        return over_others(np.broadcast_to(values, (n_heads, n_heads)))
    return np.broadcast_to(values.reshape(-1)[:n_heads], n_heads)


def _chart(
    score: HeadScores,
    at: int,
    found: Mapping[str, np.ndarray],
    nulls: Sequence[Mapping[str, Any]],
    cells: Any,
    size: _Size,
    marked: Sequence[str],
) -> Any:
    """Draw one metric: cells, the null at their right, and numbers if there is room for them."""
    column = f"m{at}"
    scale, light = colours(score.declared.unit, [*found.values(), np.array([row["null"] for row in nulls])])
    height = size.step * len(size.rows)
    length = max(48, min(120, height))
    colour = valued(column, scale, orient="right", gradientLength=length, tickCount=4, format=".3~g")
    x, y = _across(size, bool(nulls)), _down(size)
    known = cells.transform_filter(f"isDefined(datum.{column})")
    finite = known.transform_filter(f"isValid(datum.{column})")
    unknown = known.transform_filter(f"!isValid(datum.{column})")
    shown: list[Hint] = ["name:N", (f"{column}:Q", ".3~g", metric_name(score.metric))]
    shown += [(f"{strip[0]}{at}:Q", ".3~g", title) for strip, title in STRIPS.items() if getattr(score, strip)]
    layers = [
        head_map(unknown, x, y, alt.value("white"), end="end", gap=1, stroke="#c9ced6"),
        head_map(finite, x, y, colour, end="end", gap=size.gap, shown=shown),
    ]
    if marked:
        of_marked = finite.transform_filter(alt.FieldOneOfPredicate("name", oneOf=list(marked)))
        frame = {"gap": 2.5, "stroke": MARK, "fillOpacity": alt.value(0)}
        layers.append(head_map(of_marked, x, y, alt.value("white"), end="end", **frame))
    numbered = {column: finite}
    if nulls:
        numbered["null"] = charted(nulls)
        shown = ["row:N", "what:N", ("null:Q", ".3~g", "mean")]
        of_null = alt.Color("null:Q", scale=scale)
        layers.append(head_map(numbered["null"], x, y, of_null, end="end", gap=size.gap, shown=shown))
    written = _digits(found.values())
    if written is not None and size.cell >= 28 and size.step >= 18:
        layers += [_numbers(chart, field, x, y, written, light) for field, chart in numbered.items()]
    return panel(layers, size.width, height, _title(score))


def _title(score: HeadScores) -> Any:
    return {
        "text": metric_name(score.metric),
        "subtitle": f"high: {score.declared.high}",
        "subtitleColor": QUIET,
        "subtitleFontSize": 11,
        "frame": "group",
    }


def _numbers(cells: Any, column: str, x: Axis, y: Axis, written: str, light: str) -> Any:
    """The value of each cell in its middle, white on dark ones."""
    value = f"datum.{column}"
    middle = cells.transform_calculate(slot="(datum.slot + datum.end) / 2", digits=written.format(v=value))
    shade = alt.condition(light.format(value), alt.value("white"), alt.value(INK))
    place = {"x": x.encoded("x"), "y": y.encoded("y")}
    return middle.mark_text(fontSize=9.5).encode(**place, text=alt.Text("digits:N"), color=shade)


def _digits(values: Iterable[np.ndarray]) -> str | None:
    """Return the number format of a panel, as an expression of {v}; None if numbers would all be 0."""
    most = max(float(np.nanmax(np.abs(value))) for value in values if np.isfinite(value).any())
    if most >= 999.5:
        return "format({v}, abs({v}) >= 999.5 ? '.2~s' : '.0f')"
    if most >= 10:
        return "abs({v}) >= 99.95 ? format({v}, '.0f') : format({v}, '.1f')"
    if most < 0.005:
        return None
    return f"format({{v}}, '.{2 if most >= 0.095 else 3}f')"


def _down(size: _Size) -> Axis:
    ticks = {"ticks": False, "domain": False, "labelLimit": 200}
    return Axis("row", order=size.rows, scale={"paddingInner": 0, "paddingOuter": 0}, ticks=ticks)


def _across(size: _Size, has_null: bool) -> Axis:
    """Heads from the left, and after a gap the null."""
    digits = len(str(size.widest))
    every = next(2**power for power in range(64) if 2**power * size.cell >= 5 + 7 * digits)
    places = {size.end - size.null * (len(size.strips) - at - 0.5): strip for at, strip in enumerate(size.strips)}
    first = min(places, default=size.end)
    heads = [head + 0.5 for head in range(0, size.widest, every) if (first - head) * size.cell > 30]
    # Two names would not stand beside each other.
    written = {place: strip if len(places) == 1 else strip[0] for place, strip in places.items()}
    names = "".join(f"abs(datum.value - {place}) < 0.01 ? '{called}' : " for place, called in written.items())
    ticks = {
        "values": [*heads, *(places if has_null else [])],
        "labelExpr": f"{names}format(datum.value - 0.5, 'd')",
        **dict.fromkeys(("ticks", "domain", "grid", "labelOverlap"), False),
        "labelFontSize": 10,
        "labelColor": QUIET,
    }
    return Axis("slot", domain=[0, size.end], scale={"zero": False}, ticks=ticks)


def _nulls(
    score: HeadScores, found: Mapping[str, np.ndarray], labels: Mapping[str, str], size: _Size, strip: str
) -> list[Datum]:
    """A null of each row, its mean over heads or over pairs of different ones; where the metric has a value."""
    rows = []
    start = size.end - size.null * (len(size.strips) - size.strips.index(strip))
    place = {"slot": start, "end": start + size.null, "what": strip}
    for attention, label in labels.items():
        values = found.get(attention, np.empty(0))
        null = of_heads(getattr(score, strip).get(attention), len(values))
        if np.isfinite(values).any() and np.isfinite(null).all():
            rows.append({"row": label, "null": null.mean(), **place})
    return rows
