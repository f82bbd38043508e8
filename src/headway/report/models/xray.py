"""The page of `headway xray`: the metrics of every head of a finished model, as tables and figures.

`composition_maps` draws how much of earlier heads' output later heads read, for all pairs of heads. `pair_maps` draws
how similar the heads of each layer are, a map of heads against heads for each layer.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.base.text import counted, join, listed, number
from headway.config.head_metrics import REPEATED
from headway.config.metrics import metric_name
from headway.heads.findings import COMPOSITIONS, brief
from headway.heads.results import XRay
from headway.heads.scores import Composition, HeadScores, head_names, of_pairs, row_labels
from headway.report.charts.atlas import LEFT_OUT, atlas
from headway.report.charts.figure import QUIET, WIDTH, Figure, alt, grid, inline, panel
from headway.report.charts.lines import Axis
from headway.report.charts.maps import colours, evenly, head_map, largest_side, valued
from headway.report.charts.page import Row, Table
from headway.report.models.look import linked
from headway.report.models.page import OPENING, ModelPage, folded

SIDE = 60
"""The largest number of heads on a side of a map."""


def composition_maps(found: Composition, labels: Mapping[str, str]) -> Figure | None:
    """A map for each of Q-, K- and V-composition; None for a model of one layer, or of one head."""
    tables = {kind: np.asarray(getattr(found, kind)) for kind in COMPOSITIONS}
    if not np.isfinite(tables["q"]).any():
        return None
    names = [f"{labels[attention]}H{head}" for attention, head in found.heads]
    kept = evenly(len(names), SIDE)
    side = (WIDTH - 60) // 3 - 60
    shown = {kind: table[np.ix_(kept, kept)] for kind, table in tables.items()}
    scale, _ = colours("0 to 1", list(shown.values()))
    colour = valued("value", scale, "composition")
    # The last layer writes to none, the first reads none.
    finite = np.isfinite(shown["q"])
    rows, columns = finite.any(1), finite.any(0)
    writers, readers = ([names[at] for at, some in zip(kept, which, strict=True) if some] for which in (rows, columns))
    panels = [
        _map_composition_maps(shown[kind][np.ix_(rows, columns)], writers, readers, said, side, colour)
        for kind, said in COMPOSITIONS.items()
    ]
    return Figure(
        name="composition",
        part="Composition",
        title="How heads compose",
        caption=join(
            "Rows: the earlier head, which writes; columns: the later head, which reads, into its queries, keys or "
            f"values. The Frobenius norm of the product over those of its factors: circuits at random to one another "
            f"have about {brief(found.null)}. Composition of weights alone is a number and no finding: a finding also "
            "needs a path that carries part of the later head's score or output on the text.",
            f"Thinned: {len(kept)} of {len(names)} heads are drawn, evenly spaced." if len(kept) < len(names) else "",
        ),
        chart=grid(panels, 3, (18, 18)),
    )


def _map_composition_maps(
    value: np.ndarray, writers: list[str], readers: list[str], title: str, side: int, colour: Any
) -> Any:
    cell = side / max(value.shape)
    rows = [
        {"writer": writer, "reader": reader, "pair": f"{writer} → {reader}", "value": value[i, j]}
        for i, writer in enumerate(writers)
        for j, reader in enumerate(readers)
        if np.isfinite(value[i, j])
    ]
    every = next(2**power for power in range(12) if 2**power * cell >= 13)
    x, y = (
        Axis(column, order=names, ticks={**_PLAIN, "labelAngle": angle, "values": names[::every]})
        for column, names, angle in (("reader", readers, -90), ("writer", writers, 0))
    )
    cells = head_map(rows, x, y, colour, gap=1 if cell >= 10 else 0.3, shown=["pair:N", ("value:Q", ".3f")])
    return panel([cells], cell * len(readers), cell * len(writers), title)


_PLAIN: dict[str, Any] = {
    "ticks": False, "domain": False, "grid": False, "labelFontSize": 9, "labelColor": QUIET, "labelOverlap": False,
}  # fmt: skip
"""Ticks of maps: labels alone."""

CELLS = 20_000
"""The largest number of cells in a figure: more are slow to draw and too small to see."""
PAIR_MAPS_SIDE = 64
"""The largest number of heads on the side of a map."""

IN_PLACE, ALIKE = "in place", "alike ones together"


def pair_maps(score: HeadScores, labels: Mapping[str, str] | None = None) -> Figure | None:
    """Draw a metric of pairs as one map per layer, on one scale; large maps are thinned, with a note.

    Args:
        score: the scores of a metric of pairs.
        labels: the label of each attention, in order; None: labels from the attentions' names.

    Returns:
        None where no layer has two heads.
    """
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
    limit = largest_side([len(value) for value in maps.values()], PAIR_MAPS_SIDE, least=8, cells=CELLS)
    kept = {attention: evenly(len(value), limit) for attention, value in maps.items()}
    few_heads = max(map(len, maps.values())) <= 16
    columns = min(len(maps), 4 if 6 < len(maps) <= 12 or (len(maps) <= 6 and not few_heads) else 6)
    side = min(230, (WIDTH - 60) // columns - 34)
    scale, _ = colours(score.declared.unit, [of_pairs(value) for value in maps.values()])
    colour = valued("value", scale, called, format=".2~g")
    panels = [_map_pair_maps(maps[attention], kept[attention], labels[attention], side, colour) for attention in maps]
    switch = alt.param(name="order", value=IN_PLACE, bind=alt.binding_radio(options=[IN_PLACE, ALIKE], name="heads: "))
    alone = [labels[attention] for attention, value in drawn.items() if len(value) == 1]
    caption = join(
        f"{score.declared.sentence[0].upper()}{score.declared.sentence[1:]}.",
        "A cell is a pair of heads of one layer; the diagonal, a head with itself, is left out.",
        _thinned(maps, kept, labels),
        f"{listed(alone)} {'has' if len(alone) == 1 else 'have'} one head: a pair needs two heads." if alone else "",
    )
    return Figure(
        name=f"pairs-{score.metric.replace('_', '-')}",
        part="Pairs of heads",
        title=f"{called[0].upper()}{called[1:]} of each pair of heads",
        caption=caption,
        chart=alt.concat(*panels, columns=columns, spacing=14, params=[switch.param]),
    )


def alike_order(value: np.ndarray, *, high_is_alike: bool) -> list[int]:
    """Heads in an order that puts alike ones beside each other: the leaves of a tree of average similarity.

    Examples:
        >>> alike_order(np.array([[1, 0, 0.9], [0, 1, 0.1], [0.9, 0.1, 1]]), high_is_alike=True)
        [0, 2, 1]
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    pairs = np.nan_to_num(-value if high_is_alike else value, nan=0.0)[np.triu_indices(len(value), k=1)]
    order = [int(head) for head in leaves_list(linkage(pairs - pairs.min(), "average", optimal_ordering=True))]
    return order if order[0] <= order[-1] else order[::-1]


def _thinned(maps: Mapping[str, np.ndarray], kept: Mapping[str, list[int]], labels: Mapping[str, str]) -> str:
    cut = {labels[name]: (len(kept[name]), len(value)) for name, value in maps.items() if len(kept[name]) < len(value)}
    if not cut:
        return ""
    if len(set(cut.values())) == 1 and len(cut) > 2:
        (few, many), n = next(iter(cut.values())), len(cut)
        return f"Thinned: in {counted(n, 'layer')}, {few} of {many} heads are drawn, evenly spaced; means are over all."
    each = listed(f"{few} of {label}'s {many} heads" for label, (few, many) in cut.items())
    return f"Thinned: {each} are drawn, evenly spaced; means elsewhere are over all."


def _map_pair_maps(value: np.ndarray, kept: list[int], label: str, side: int, colour: Any) -> Any:
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
    ticks = {**_PLAIN, "values": [at + 0.5 for at in range(0, n, every)], "labelExpr": where}
    chart = alt.Chart(inline(rows)).transform_calculate(
        x=f"{moved} ? datum.b : datum.j",
        y=f"{moved} ? datum.a : datum.i",
        pair=f"{json.dumps(label + 'H')} + datum.one + ' and H' + datum.other",
    )
    chart = chart.transform_calculate(right="datum.x + 1", below="datum.y + 1")
    x, y = (
        Axis(name, domain=ends, scale={"zero": False}, ticks=ticks) for name, ends in (("x", (0, n)), ("y", (n, 0)))
    )
    gap = 1 if side / n >= 10 else 0.4 if side / n >= 5 else 0
    cells = head_map(chart, x, y, colour, ends=("right", "below"), gap=gap, shown=["pair:N", ("value:Q", ".3~g")])
    return panel([cells], side, side, alt.TitleParams(label, fontSize=12, offset=4))


MEANS = {
    "output_dissimilarity": "output dissimilarity",
    "query_cka_centred": "query CKA, centred",
    "attention_diversity": "attention diversity",
    "attention_entropy_nats": "entropy, nats",
}
"""Columns of the table of layers that are means over heads."""
TOPS = {"sink_score": "most on first", "previous_token_score": "most on previous", "induction_score": "most induction"}
"""Columns that name the layer's highest head."""
_PAIRS = ("output_dissimilarity", "query_cka_centred")
_FURTHER_PAIRS = ("context_cka_centred", "query_cka", "context_cka", "context_dissimilarity")


def layers(xray: XRay) -> Table:
    """A row per attention: means over its heads, and its highest heads."""
    means = {metric: said for metric, said in MEANS.items() if metric in xray.scores}
    tops = {metric: said for metric, said in TOPS.items() if metric in xray.scores}
    of = {attention.name: attention for attention in xray.attentions}
    rows = []
    for name, label in xray.labels.items():
        here = of[name]
        kv = f":{here.n_kv_heads}" if here.n_kv_heads != here.n_heads else ""
        cells = [_mean(xray, metric, name) for metric in means] + [_top(xray, metric, name) for metric in tops]
        rows.append(Row(cells=(label, f"{here.n_heads}{kv}x{here.d_head}", *cells)))
    caption = (
        "Heads: query heads, over so many KV heads where there are fewer, x their width. Then means over heads, or "
        "over pairs of heads, beside them in parentheses those of untrained heads on the same stream, and the highest "
        "head of each layer."
    )
    return Table(columns=("", "heads", *means.values(), *tops.values()), rows=tuple(rows), caption=caption)


def heads(xray: XRay) -> Table:
    """A row per head, a column per metric; of a metric of pairs the mean over the head's others."""
    shown = {
        metric: score.per_head()
        for metric, score in xray.scores.items()
        if score.declared.of != "layer" and not metric.endswith(LEFT_OUT)
    }
    rows = [
        Row(cells=(called, *(_cell(values, name, head) for values in shown.values())))
        for name, label in xray.labels.items()
        for head, called in enumerate(head_names(label, _n_heads(xray, name)))
    ]
    hints = {metric_name(metric): xray.scores[metric].declared.sentence for metric in shown}
    return Table(columns=("", *map(metric_name, shown)), rows=tuple(rows), hints=hints)


def opening(xray: XRay) -> Figure | None:
    """Draw the grid of heads under the metric of the first finding, which says most, with its heads framed."""
    first = next((one for one in xray.findings if one.about in xray.scores), None)
    if first is None or xray.scores[first.about].declared.of == "layer":
        return None
    names = [called for name, label in xray.labels.items() for called in head_names(label, _n_heads(xray, name))]
    # Behind the semicolon stand heads that may be chance.
    marked = [
        head for _, head in linked(first.sentence.partition("; ")[0], xray.labels.values(), names) if head is not None
    ]
    return atlas(
        xray.scores,
        metrics=[first.about],
        labels=xray.labels,
        name="atlas-first",
        part=OPENING,
        title=f"Every head: {metric_name(first.about)}",
        caption="Framed: the heads that the sentence above names before its first semicolon." if marked else "",
        marked=marked,
    )


def figures(xray: XRay) -> tuple[Figure, ...]:
    """The atlas, maps of pairs, compositions, and the raw metrics."""
    raw = [metric for metric in xray.scores if metric.endswith("raw")]
    maps, further = (
        [pair_maps(xray.scores[metric], xray.labels) for metric in metrics if metric in xray.scores]
        for metrics in (_PAIRS, _FURTHER_PAIRS)
    )
    drawn = [
        opening(xray),
        atlas(xray.scores, labels=xray.labels, title="Every head under every metric"),
        *maps,
        *map(folded, further),
        None if xray.composition is None else composition_maps(xray.composition, xray.labels),
        folded(
            atlas(
                xray.scores,
                metrics=raw,
                labels=xray.labels,
                name="atlas-raw",
                title="Raw metrics, as published",
                caption=f"They grow with the {xray.n_tokens:,} positions counted, with widths and with scale.",
            )
        ),
    ]
    return tuple(figure for figure in drawn if figure is not None)


def _n_heads(xray: XRay, name: str) -> int:
    return next(attention.n_heads for attention in xray.attentions if attention.name == name)


def _mean(xray: XRay, metric: str, name: str) -> str:
    score = xray.scores[metric]
    if score.declared.of == "pair" and _n_heads(xray, name) == 1:
        return "needs two"
    value = score.per_layer().get(name, np.nan)
    if not np.isfinite(value):
        return "–"
    untrained = float(of_pairs(np.asarray(score.untrained.get(name, np.nan))).mean())
    beside = f" ({_number(score, untrained)})" if np.isfinite(untrained) else ""
    return _number(score, value) + beside


def _number(score: HeadScores, value: float) -> str:
    return f"{value:.3f}".replace("-", "−") if "to 1" in score.declared.unit else number(value, 3)


def _top(xray: XRay, metric: str, name: str) -> str:
    values = xray.scores[metric].values.get(name)
    if values is None or not np.isfinite(values).any():
        return "cannot be seen" if metric in REPEATED and values is not None else "–"
    head = int(np.nanargmax(values))
    return f"H{head} {brief(float(values[head]))}"


def _cell(values: Mapping[str, np.ndarray], name: str, head: int) -> str:
    return number(float(values[name][head]), 3) if name in values and np.isfinite(values[name][head]) else "–"


def xray_page(xray: XRay, look: str | None = None) -> ModelPage:
    """The page of an x-ray, drawn; `xray.html`, `xray.json` and their figures are its files.

    Args:
        xray: the result of the x-ray.
        look: the command that shows the same heads one by one (`look`).
    """
    return ModelPage(
        verb="xray",
        what="x-ray of a finished model",
        read=f"Measured on {xray.read}",
        found=xray,
        overview=layers(xray),
        heads=heads(xray),
        figures=figures(xray),
        look=look,
    )
