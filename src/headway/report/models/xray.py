"""The page of `headway xray`: the metrics of every head of a finished model, as tables and figures.

`composition_maps` draws how much of earlier heads' output later heads read, for all pairs of heads. `pair_maps` draws
how similar the heads of each layer are, a map of heads against heads for each layer.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.base.text import capital, decimal, join, number
from headway.config.head_metrics import REPEATED
from headway.config.metrics import metric_name
from headway.heads.findings import COMPOSITIONS
from headway.heads.results import AttentionHeads, XRay, attentions_by_label
from headway.heads.scores import Composition, HeadScores, head_names, of_pairs, row_labels
from headway.report.charts.atlas import LEFT_OUT, atlas
from headway.report.charts.figure import QUIET, WIDTH, Figure, grid, panel
from headway.report.charts.lines import Axis
from headway.report.charts.maps import colours, evenly, head_map, largest_side, valued
from headway.report.charts.page import Row, Table
from headway.report.models.page import OPENING, ModelPage

SIDE = 60
"""The largest number of heads on a side of a map."""


def composition_maps(found: Composition, labels: Mapping[str, str]) -> Figure | None:
    """A map for each of Q-, K- and V-composition; None for a model of one layer, or of one head."""
    tables = {kind: np.asarray(getattr(found, kind)) for kind in COMPOSITIONS}
    if not np.isfinite(tables["q"]).any():
        return None
    names = [f"{labels[attention]}H{head}" for attention, head in found.heads]
    scale, _ = colours("0 to 1", list(tables.values()))
    chart, thinned = draw_paths(tables, names, valued("value", scale, "composition"))
    return Figure(
        name="composition",
        part="Composition",
        title="How heads compose",
        caption=join(
            "Rows are earlier heads, and columns are later heads whose queries, keys or values read their output. "
            "The score is the norm of the product of the two circuits, divided by the product of their norms "
            f"(unrelated circuits: about {decimal(found.null)}).",
            thinned,
        ),
        chart=chart,
    )


def draw_paths(tables: Mapping[Any, np.ndarray], names: list[str], colour: Any) -> tuple[Any, str]:
    """Return maps of values from earlier to later heads, and a sentence if not all heads are drawn.

    Args:
        tables: the values, (writer, reader), by the input of the reader; NaN where the reader is not later.
        names: the names of the heads.
        colour: the colour of a value.
    """
    kept = evenly(len(names), SIDE)
    shown = {kind: table[np.ix_(kept, kept)] for kind, table in tables.items()}
    # The last layer writes to none, the first reads none.
    finite = np.isfinite(shown["q"])
    rows, columns = np.flatnonzero(finite.any(1)), np.flatnonzero(finite.any(0))
    writers, readers = ([names[kept[at]] for at in which] for which in (rows, columns))
    panels = [
        _map_of_paths(table[np.ix_(rows, columns)], writers, readers, COMPOSITIONS[kind], colour)
        for kind, table in shown.items()
    ]
    thinned = f"Thinned: {len(kept)} of {len(names)} heads are drawn, evenly spaced." if len(kept) < len(names) else ""
    return grid(panels, 3, (18, 18)), thinned


def _map_of_paths(value: np.ndarray, writers: list[str], readers: list[str], title: str, colour: Any) -> Any:
    cell = ((WIDTH - 60) // 3 - 60) / max(value.shape)
    rows = [
        {"writer": writer, "reader": reader, "pair": f"{writer} → {reader}", "value": value[i, j]}
        for i, writer in enumerate(writers)
        for j, reader in enumerate(readers)
        if np.isfinite(value[i, j])
    ]
    every = _every(13 / cell)
    x, y = (
        Axis(column, order=names, ticks={**_PLAIN, "labelAngle": angle, "values": names[::every]})
        for column, names, angle in (("reader", readers, -90), ("writer", writers, 0))
    )
    cells = head_map(rows, x, y, colour, gap=1 if cell >= 10 else 0.3, shown=["pair:N", ("value:Q", ".3~g")])
    return panel([cells], cell * len(readers), cell * len(writers), title)


_PLAIN: dict[str, Any] = {
    "ticks": False, "domain": False, "grid": False, "labelFontSize": 9, "labelColor": QUIET, "labelOverlap": False,
}  # fmt: skip
"""Ticks of maps: labels alone."""


def pair_maps(score: HeadScores, labels: Mapping[str, str] | None = None) -> Figure | None:
    """Draw a metric of pairs as one map per layer, on one scale; large maps are thinned, with a note.

    Args:
        score: the scores of a metric of pairs.
        labels: the label of each attention, in order; None: labels from the attentions' names.

    Returns:
        None where no layer has two heads.
    """
    name = metric_name(score.metric)
    labels = labels or row_labels(score.values)
    drawn = {
        attention: np.asarray(score.values[attention], np.float64) for attention in labels if attention in score.values
    }
    maps = {
        attention: value for attention, value in drawn.items() if len(value) > 1 and np.isfinite(of_pairs(value)).any()
    }
    if not maps:
        return None
    limit = largest_side([len(value) for value in maps.values()])
    kept = {attention: evenly(len(value), limit) for attention, value in maps.items()}
    columns = min(len(maps), 4)
    side = min(230, (WIDTH - 60) // columns - 34)
    scale, _ = colours(score.declared.unit, [of_pairs(value) for value in maps.values()])
    colour = valued("value", scale, name, format=".2~g")
    panels = [_map_of_layer(maps[attention], kept[attention], labels[attention], side, colour) for attention in maps]
    caption = f"{capital(score.declared.sentence)}."
    if any(len(value) > limit for value in maps.values()):
        caption += f" Thinned: at most {limit} heads of a layer are drawn, evenly spaced."
    if any(len(value) == 1 for value in drawn.values()):
        caption += " Layers with one head have no pairs."
    return Figure(
        name=f"pairs-{score.metric.replace('_', '-')}",
        part="Pairs of heads",
        title=f"{capital(name)} of each pair of heads",
        caption=caption,
        chart=grid(panels, columns, (14, 14)),
    )


def _map_of_layer(value: np.ndarray, kept: list[int], label: str, side: int, colour: Any) -> Any:
    rows = [
        {"one": i, "other": j, "pair": f"{label}H{i} and H{j}", "value": value[i, j]}
        for i in kept
        for j in kept
        if i != j
    ]
    every = _every(16 * len(kept) / side)
    ticks = {**_PLAIN, "values": kept[::every], "labelAngle": 0}
    x = Axis("other", order=kept, ticks=ticks)
    y = Axis("one", order=kept, ticks=ticks)
    gap = 1 if side / len(kept) >= 10 else 0.3
    cells = head_map(rows, x, y, colour, gap=gap, shown=["pair:N", ("value:Q", ".3~g")])
    return panel([cells], side, side, {"text": label, "fontSize": 12, "offset": 4})


def _every(least: float) -> int:
    """Return the power of two from some number on: the spacing of labels that do not touch."""
    return next(2**power for power in range(12) if 2**power >= least)


MEANS = {
    "output_dissimilarity": "output dissimilarity",
    "query_cka_centred": "centred query CKA",
    "attention_diversity": "attention diversity",
    "attention_entropy_nats": "entropy, nats",
}
"""Columns of the table of layers that are means over heads."""
TOPS = {
    "sink_score": "highest sink score",
    "previous_token_score": "highest previous-token score",
    "induction_score": "highest induction score",
}
"""Columns that name the layer's highest head."""
_PAIRS = ("output_dissimilarity", "query_cka_centred")


def layers(xray: XRay) -> Table:
    """A row per attention: means over its heads, and its highest heads."""
    means = {metric: said for metric, said in MEANS.items() if metric in xray.scores}
    tops = {metric: said for metric, said in TOPS.items() if metric in xray.scores}
    rows = []
    for label, here in attentions_by_label(xray).items():
        kv = f":{here.n_kv_heads}" if here.n_kv_heads != here.n_heads else ""
        cells = [_mean(xray.scores[metric], here) for metric in means]
        cells += [_top(xray.scores[metric], here.name) for metric in tops]
        rows.append(Row(cells=(label, f"{here.n_heads}{kv}x{here.d_head}", *cells)))
    caption = (
        "The column “heads” gives the numbers of query heads and KV heads (if fewer), and the head dimension. Other "
        "columns give means over heads or pairs (in parentheses: random heads), or the head with the highest score."
    )
    return Table(columns=("", "heads", *means.values(), *tops.values()), rows=rows, caption=caption)


def heads(xray: XRay) -> Table:
    """A row per head, a column per metric; of a metric of pairs the mean over the head's others."""
    shown = {
        metric: score.per_head()
        for metric, score in xray.scores.items()
        if score.declared.of != "layer" and not metric.endswith(LEFT_OUT)
    }
    rows = [
        Row(
            cells=(
                called,
                *(number(float(of[here.name][head]), 3) if here.name in of else "–" for of in shown.values()),
            )
        )
        for label, here in attentions_by_label(xray).items()
        for head, called in enumerate(head_names(label, here.n_heads))
    ]
    hints = {metric_name(metric): xray.scores[metric].declared.sentence for metric in shown}
    return Table(columns=("", *map(metric_name, shown)), rows=rows, hints=hints)


def headline(xray: XRay) -> str:
    """Return the answer of the page: the special heads of the first finding that has some, or the first finding."""
    for finding in xray.findings:
        if finding.heads:
            return finding.statements[0].sentence
    return xray.findings[0].sentence if xray.findings else xray.nothing


def opening(xray: XRay) -> Figure | None:
    """Draw the grid of heads under the metric of the headline, with its heads framed; entropy if nothing stands out."""
    findings = [finding for finding in xray.findings if finding.heads] or list(xray.findings)
    metric = findings[0].about if findings else ""
    if metric not in xray.scores or xray.scores[metric].declared.of == "layer":
        metric = next((metric for metric in SHOWN_FIRST if metric in xray.scores), "")
    if not metric:
        return None
    marked = next((finding.heads for finding in findings if finding.about == metric), ())
    return atlas(
        xray.scores,
        metrics=[metric],
        labels=xray.labels,
        name="atlas-first",
        part=OPENING,
        title=f"Every head: {metric_name(metric)}",
        caption="Orange frames are the heads named above." if marked else "",
        marked=marked,
    )


SHOWN_FIRST = ("attention_entropy_nats", "previous_token_score", "output_share")
"""Metrics of the opening picture where no finding has one."""


def figures(xray: XRay) -> tuple[Figure, ...]:
    """The grid of the headline, the atlas, maps of pairs, and compositions."""
    every = [
        opening(xray),
        atlas(xray.scores, labels=xray.labels, title="Every head under every metric"),
        *(pair_maps(xray.scores[metric], xray.labels) for metric in _PAIRS if metric in xray.scores),
        None if xray.composition is None else composition_maps(xray.composition, xray.labels),
    ]
    return tuple(filter(None, every))


def _mean(score: HeadScores, here: AttentionHeads) -> str:
    if score.declared.of == "pair" and here.n_heads == 1:
        return "one head only"
    value = score.per_layer().get(here.name, np.nan)
    if not np.isfinite(value):
        return "–"
    untrained = float(of_pairs(np.asarray(score.untrained.get(here.name, np.nan))).mean())
    beside = f" ({_number(score, untrained)})" if np.isfinite(untrained) else ""
    return _number(score, value) + beside


def _number(score: HeadScores, value: float) -> str:
    return f"{value:.3f}".replace("-", "−") if "to 1" in score.declared.unit else number(value, 3)


def _top(score: HeadScores, name: str) -> str:
    values = score.values.get(name)
    if values is None or not np.isfinite(values).any():
        return "window too short" if score.metric in REPEATED and values is not None else "–"
    head = int(np.nanargmax(values))
    return f"H{head} {decimal(float(values[head]))}"


def xray_page(xray: XRay, look: str | None = None) -> ModelPage:
    """The page of an x-ray, drawn; `xray.html`, `xray.json` and their figures are its files.

    Args:
        xray: the result of the x-ray.
        look: the command that shows the same heads one by one (`look`).
    """
    special = [finding for finding in xray.findings if finding.heads]
    return ModelPage(
        verb="xray",
        title=f"Attention heads: {xray.name}",
        headline=headline(xray),
        second=" ".join(finding.statements[0].sentence for finding in special[1:]),
        read=f"Measured on {xray.read}",
        found=xray,
        overview=layers(xray),
        heads=heads(xray),
        figures=figures(xray),
        look=look,
    )
