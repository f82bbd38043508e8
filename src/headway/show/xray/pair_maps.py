"""Show: how alike the heads of each layer are, pair by pair: a map of heads against heads for each layer."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.heads.names import metric_name, row_labels
from headway.heads.scores import HeadScores, of_pairs
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.shared.head_colours import colours
from headway.show.shared.theme import QUIET
from headway.words import counted, join, listed

CELLS = 20_000
"""At most so many cells in a figure: more are slow to draw and too small to see."""
SIDE = 64
"""At most so many heads on the side of a map."""

IN_PLACE, ALIKE = "in place", "alike ones together"


def pair_maps(
    score: HeadScores,
    *,
    labels: Mapping[str, str] | None = None,
    name: str | None = None,
    part: str = "Heads",
    title: str | None = None,
    caption: str = "",
) -> Figure | None:
    """A metric of pairs as one map a layer, all in one scale; large ones are thinned, and said so.

    Args:
        score: of a metric of pairs.
        labels: what each attention is called, in order; None: from the attentions' names.
        name: of its files; None: `pairs-METRIC`.
        part: of the page it stands in.
        title: of the figure; None: the metric's name.
        caption: said first.

    Returns:
        None where no layer has two heads.
    """
    import altair as alt

    called = metric_name(score.metric)
    labels = labels or row_labels(score.values)
    drawn = {
        attention: np.asarray(score.values[attention], np.float64) for attention in labels if attention in score.values
    }
    maps = {
        attention: value for attention, value in drawn.items() if len(value) > 1 and np.isfinite(of_pairs(value)).any()
    }
    if not maps:
        return None
    kept = _kept({attention: len(value) for attention, value in maps.items()})
    few_heads = max(map(len, maps.values())) <= 16
    columns = min(len(maps), 4 if 6 < len(maps) <= 12 or (len(maps) <= 6 and not few_heads) else 6)
    side = min(230, (WIDTH - 60) // columns - 34)
    colour = _colour(score, maps, called)
    panels = [_map(maps[attention], kept[attention], labels[attention], side, colour) for attention in maps]
    switch = alt.param(name="order", value=IN_PLACE, bind=alt.binding_radio(options=[IN_PLACE, ALIKE], name="heads: "))
    alone = [labels[attention] for attention, value in drawn.items() if len(value) == 1]
    said = join(
        caption,
        f"{score.declared.sentence[0].upper()}{score.declared.sentence[1:]}.",
        "A cell is a pair of heads of one layer; the diagonal, a head with itself, is left out.",
        _thinned(maps, kept, labels),
        f"{listed(alone)} {'has' if len(alone) == 1 else 'have'} one head: a pair needs two heads." if alone else "",
    )
    return Figure(
        name=name or f"pairs-{score.metric.replace('_', '-')}",
        part=part,
        title=title or f"{called[0].upper()}{called[1:]} of each pair of heads",
        caption=said,
        chart=alt.concat(*panels, columns=columns, spacing=14, params=[switch.param]),
    )


def alike_order(value: np.ndarray, *, high_is_alike: bool) -> list[int]:
    """Heads in an order that puts alike ones beside each other: the leaves of a tree of average similarity.

    Examples:
        >>> alike_order(np.array([[1, 0, 0.9], [0, 1, 0.1], [0.9, 0.1, 1]]), high_is_alike=True)
        [0, 2, 1]
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    distance = np.nan_to_num(-value if high_is_alike else value, nan=0.0)
    pairs = distance[np.triu_indices(len(value), k=1)]
    found = [int(head) for head in leaves_list(linkage(pairs - pairs.min(), "average", optimal_ordering=True))]
    return found if found[0] <= found[-1] else found[::-1]


def _kept(n_heads: Mapping[str, int]) -> dict[str, list[int]]:
    """The heads of each layer that are drawn: all, or evenly spaced ones where they are too many."""
    limit = SIDE
    while limit > 8 and sum(min(n, limit) ** 2 for n in n_heads.values()) > CELLS:
        limit -= 1
    return {
        name: sorted({int(head) for head in np.linspace(0, n - 1, min(n, limit)).round()})
        for name, n in n_heads.items()
    }


def _thinned(maps: Mapping[str, np.ndarray], kept: Mapping[str, list[int]], labels: Mapping[str, str]) -> str:
    cut = {labels[name]: (len(kept[name]), len(value)) for name, value in maps.items() if len(kept[name]) < len(value)}
    if not cut:
        return ""
    if len(set(cut.values())) == 1 and len(cut) > 2:
        (few, many), n = next(iter(cut.values())), len(cut)
        return f"Thinned: in {counted(n, 'layer')}, {few} of {many} heads are drawn, evenly spaced; means are over all."
    each = listed(f"{few} of {label}'s {many} heads" for label, (few, many) in cut.items())
    return f"Thinned: {each} are drawn, evenly spaced; means elsewhere are over all."


def _colour(score: HeadScores, maps: Mapping[str, np.ndarray], called: str) -> Any:
    import altair as alt

    scale, _ = colours(score.declared.unit, [of_pairs(value) for value in maps.values()])
    legend = alt.Legend(title=called, orient="bottom", gradientLength=260, tickCount=5, format=".2~g", titleLimit=300)
    return alt.Color("value:Q", scale=scale, legend=legend)


def _map(value: np.ndarray, kept: list[int], label: str, side: int, colour: Any) -> Any:
    import altair as alt

    shown = value[np.ix_(kept, kept)]
    n = len(kept)
    together = alike_order(shown, high_is_alike=bool(np.nanmean(np.diagonal(shown)) >= np.nanmean(of_pairs(shown))))
    place = {head: at for at, head in enumerate(together)}
    rows = [
        {"i": i, "j": j, "a": place[i], "b": place[j], "one": kept[i], "other": kept[j], "value": shown[i, j]}
        for i in range(n)
        for j in range(n)
        if i != j
    ]
    moved = f"order === {json.dumps(ALIKE)}"
    every = next(2**power for power in range(12) if 2**power * side / n >= 16)
    where = f"{moved} ? '' : {json.dumps(kept)}[datum.value - .5]"
    ticks: dict[str, Any] = {
        "values": [at + 0.5 for at in range(0, n, every)],
        "labelExpr": where,
        "labelOverlap": False,
    }
    axis = alt.Axis(ticks=False, domain=False, grid=False, labelFontSize=9, labelColor=QUIET, **ticks)
    across = alt.Scale(domain=[0, n], nice=False, zero=False)
    chart = alt.Chart(inline(rows)).transform_calculate(
        x=f"{moved} ? datum.b : datum.j",
        y=f"{moved} ? datum.a : datum.i",
        pair=f"{json.dumps(label + 'H')} + datum.one + ' and H' + datum.other",
    )
    chart = chart.transform_calculate(right="datum.x + 1", below="datum.y + 1")
    return (
        chart.mark_rect(stroke="white", strokeWidth=1 if side / n >= 10 else 0.4 if side / n >= 5 else 0)
        .encode(
            x=alt.X("x:Q", title=None, axis=axis, scale=across),
            x2="right:Q",
            y=alt.Y("y:Q", title=None, axis=axis, scale=alt.Scale(domain=[n, 0], nice=False, zero=False)),
            y2="below:Q",
            color=colour,
            tooltip=["pair:N", alt.Tooltip("value:Q", format=".3~g")],
        )
        .properties(width=side, height=side, title=alt.TitleParams(label, fontSize=12, offset=4))
    )
