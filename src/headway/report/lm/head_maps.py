"""Maps of the similar heads of a layer: all pairs of heads, for every layer, at every probed step.

One figure holds all arms, with a slider for the step; the same maps make a film. Each map is one list of numbers in the
page. It is spread into cells only while it is shown, so that sixty steps cost little.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.base.text import join, listed
from headway.config.head_metrics import HEAD_METRICS
from headway.config.metrics import metric_name
from headway.report.charts.animation import Frame, MapTile, film
from headway.report.charts.figure import INK, QUIET, WIDTH, Figure, alt
from headway.report.charts.lines import Axis
from headway.report.charts.maps import DIVERGING, about_zero, evenly, head_map, largest_side, valued
from headway.report.experiment.data import ArmResults, ReportData
from headway.report.lm.common import heads_of, measures
from headway.report.lm.heads import PART
from headway.stats.lm.diversity import attentions, scores_at

METRIC = "output_dissimilarity"
MOST_STEPS = 60
"""Maps of a slider."""
MOST_CELLS = 12_000
"""Cells that are shown at once; layers of many heads are thinned to it."""
MOST_NUMBERS = 300_000
"""Numbers of a figure; steps are thinned to it, but not below `FEWEST_STEPS`."""
FEWEST_STEPS = 12
FEWEST_HEADS = 8

NEEDS_TWO = "needs two heads"


@dataclass(frozen=True, kw_only=True)
class Maps:
    """The maps of one arm's shown run.

    `values` is (head, head) by layer, at each step; `kept` the heads of a layer that are drawn, where it has too many.
    """

    arm: ArmResults
    layers: tuple[int, ...]
    steps: tuple[int, ...]
    kept: tuple[np.ndarray, ...]
    values: tuple[tuple[np.ndarray, ...], ...]


def head_maps(material: ReportData, metric: str = METRIC) -> Figure | None:
    """The maps of every arm with a slider over the probed steps; None where no run was probed for it."""
    arms = [arm for arm in material.arms if measures(arm.shown, metric)]
    if not arms:
        return None
    n_steps, n_heads = _limits(arms)
    drawn = [_maps(arm, metric, n_steps, n_heads) for arm in arms]
    if not any((heads_of(one.arm.shown).mean[metric] == heads_of(one.arm.shown).mean[metric]).any() for one in drawn):
        return None
    largest = max(_largest(one) for one in drawn) or 1.0
    name = metric_name(metric)
    return Figure(
        name=f"maps-{metric.replace('_', '-')}",
        part=PART,
        title=f"{name[:1].upper()}{name[1:]} of every pair of heads",
        caption=_caption(drawn, metric, largest),
        chart=_chart(drawn, largest, name),
        animation=lambda: film(_frames(drawn), largest=largest, colours=DIVERGING, title=name),
    )


def _limits(arms: Sequence[ArmResults]) -> tuple[int, int]:
    """Steps of the slider, and heads of a layer that are drawn."""
    counts = [heads for arm in arms for heads in heads_of(arm.shown).n_heads]
    n_heads = largest_side(counts, max(counts), least=FEWEST_HEADS, cells=MOST_CELLS)
    cells = sum(min(heads, n_heads) ** 2 for heads in counts)
    return max(FEWEST_STEPS, min(MOST_STEPS, MOST_NUMBERS // max(cells, 1))), n_heads


def _maps(arm: ArmResults, metric: str, n_steps: int, n_heads: int) -> Maps:
    run, probed = arm.shown.run, heads_of(arm.shown)
    assert probed is not None
    steps = [int(probed.steps[at]) for at in evenly(len(probed.steps), n_steps)]
    kept = tuple(np.array(evenly(heads, n_heads)) for heads in probed.n_heads)
    names = attentions(run)
    values = []
    for step in steps:
        scores = scores_at(run, step)[metric].values
        maps = [np.array(scores[names[layer]], np.float64) for layer in probed.layers]
        for one in maps:
            np.fill_diagonal(one, np.nan)
        values.append(tuple(one[np.ix_(heads, heads)] for one, heads in zip(maps, kept, strict=True)))
    return Maps(arm=arm, layers=probed.layers, steps=tuple(steps), kept=kept, values=tuple(values))


def _largest(one: Maps) -> float:
    sizes = [np.nanmax(np.abs(found)) for maps in one.values for found in maps if np.isfinite(found).any()]
    return float(max(sizes, default=0.0))


def _places(one: Maps, drawn: Sequence[Maps]) -> list[int]:
    """Return the steps of an arm that the slider's places show: arms may have been probed differently often."""
    places = max(len(each.steps) for each in drawn)
    return [round(place * (len(one.steps) - 1) / max(places - 1, 1)) for place in range(places)]


def _records(drawn: Sequence[Maps], largest: float) -> Iterator[dict[str, Any]]:
    """A row per arm, layer and place of the slider, with its whole map as one list, in thousandths of the largest."""
    for one in drawn:
        for place, at in enumerate(_places(one, drawn)):
            for layer, heads, values in zip(one.layers, one.kept, one.values[at], strict=True):
                yield {
                    "arm": one.arm.label,
                    "layer": f"layer {layer}",
                    "at": place,
                    "step": one.steps[at],
                    "heads": heads.tolist(),
                    "shares": [None if np.isnan(v) else round(1000 * float(v) / largest) for v in values.ravel()],
                }


def _chart(drawn: Sequence[Maps], largest: float, name: str) -> Any:
    layers = sorted({layer for one in drawn for layer in one.layers})
    steps = max(drawn, key=lambda one: len(one.steps)).steps
    size = max(44, min(150, 900 // len(drawn), (WIDTH - 120) // len(layers) - 12))
    alone = (
        alt.Chart()
        .transform_filter("datum.at === probe && length(datum.heads) === 1")
        .mark_text(text=NEEDS_TWO.split(" ", 1), fontSize=10, color=QUIET, baseline="middle", dy=-5)
        .encode(x=alt.XDatum(0.5, scale=alt.Scale(domain=[0, 1], nice=False)), y=alt.YDatum(0.5))
    )
    header = alt.Header(title=None, labelAngle=0, labelAlign="left", labelLimit=170)
    shown = f"'step ' + format({json.dumps(list(steps))}[probe], ',')"
    rows = alt.InlineData(values=json.dumps(list(_records(drawn, largest))))
    slider = alt.binding_range(min=0, max=len(steps) - 1, step=1, name="probe ")
    return (
        alt.layer(*_cells(largest, name), alone, data=rows, width=size, height=size)
        .facet(
            row=alt.Row(
                "arm:N",
                sort=[one.arm.label for one in drawn],
                header=header if len(drawn) > 1 else alt.Header(title=None, labels=False),
            ),
            column=alt.Column(
                "layer:N", sort=[f"layer {layer}" for layer in layers], header=alt.Header(title=None, labelPadding=4)
            ),
            spacing=8,
            bounds="flush",
        )
        .add_params(alt.param(name="probe", value=len(steps) - 1, bind=slider))
        .properties(title=alt.TitleParams(text=alt.expr(shown), color=INK, anchor="start"))
    )


def _cells(largest: float, name: str) -> tuple[Any, Any]:
    """The maps' cells at the place of the slider: those without a value in grey, and the others."""
    cells = (
        alt.Chart()
        .transform_filter("datum.at === probe")
        .transform_flatten(["shares"], as_=["share"])
        .transform_calculate(value=f"isValid(datum.share) ? datum.share * {largest / 1000:.6g} : null")
        .transform_window(k="row_number()", groupby=["arm", "layer"])
        .transform_calculate(n="length(datum.heads)", i="floor((datum.k - 1) / datum.n)", j="(datum.k - 1) % datum.n")
        .transform_calculate(
            left="datum.j / datum.n",
            right="(datum.j + 1) / datum.n",
            top="datum.i / datum.n",
            bottom="(datum.i + 1) / datum.n",
            pair="'H' + datum.heads[datum.i] + ', H' + datum.heads[datum.j]",
        )
    )
    x, y = Axis("left", domain=[0, 1], ticks=None), Axis("top", domain=[1, 0], ticks=None)
    ends = ("right", "bottom")
    colour = valued("value", about_zero(largest), name, gradientLength=200, padding=12)
    shown = ["arm:N", "layer:N", "step:Q", "pair:N", ("value:Q", "", name)]
    return (
        head_map(cells.transform_filter("!isValid(datum.value) && datum.n > 1"), x, y, alt.value("#c3c8d0"), ends=ends),
        head_map(cells.transform_filter("isValid(datum.value)"), x, y, colour, ends=ends, shown=shown),
    )


def _frames(drawn: Sequence[Maps]) -> Iterator[Frame]:
    for place, step in enumerate(max(drawn, key=lambda one: len(one.steps)).steps):
        rows = []
        for one in drawn:
            at = _places(one, drawn)[place]
            tiles = [
                MapTile(title=f"layer {layer}", values=values, missing=NEEDS_TWO if len(values) == 1 else "")
                for layer, values in zip(one.layers, one.values[at], strict=True)
            ]
            rows.append((one.arm.label if len(drawn) > 1 else "", tuple(tiles)))
        yield Frame(title=f"step {step:,}", rows=tuple(rows))


def _caption(drawn: Sequence[Maps], metric: str, largest: float) -> str:
    declared = HEAD_METRICS[metric]
    probed = [heads_of(one.arm.shown) for one in drawn]
    thin_steps = any(one and len(one.steps) > len(maps.steps) for one, maps in zip(probed, drawn, strict=True))
    thin_heads = [
        f"{len(kept)} of the {heads} heads of layer {layer}" + (f" of {maps.arm.label}" if len(drawn) > 1 else "")
        for one, maps in zip(probed, drawn, strict=True)
        if one
        for layer, heads, kept in zip(one.layers, one.n_heads, maps.kept, strict=True)
        if len(kept) < heads
    ]
    shown = (
        listed(thin_heads)
        if 0 < len(thin_heads) < 4
        else f"{len(thin_heads)} layers are thinned to some of their heads"
    )
    seeds = sorted({maps.arm.shown.seed for maps in drawn})
    return join(
        f"Seed {listed(map(str, seeds))}. A map per layer, heads down and across: {declared.sentence}.",
        f"Red: {declared.high}; blue: the opposite; the scale ends at ±{largest:.2g}. A head with itself is grey.",
        "Below it, a slider goes through the probed steps.",
        f"It has {max(len(maps.steps) for maps in drawn)} of the {max(len(one.steps) for one in probed if one)} steps."
        if thin_steps
        else "",
        "A layer with one head needs two heads to have a map."
        if any(1 in one.n_heads for one in probed if one)
        else "",
        (f"Drawn are {shown}." if len(thin_heads) < 4 else f"{shown}.") if thin_heads else "",
    )
