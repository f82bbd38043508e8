"""Show: what an x-ray of a finished model found, as tables and figures."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from headway.declare.head_metrics import REPEATED
from headway.heads.findings import brief
from headway.heads.names import head_names, metric_name
from headway.heads.scores import HeadScores, of_pairs
from headway.heads.xray import XRay
from headway.show.shared.atlas import LEFT_OUT, atlas
from headway.show.shared.figure import Figure
from headway.show.shared.table import Row, Table
from headway.show.xray.composition_maps import composition_maps
from headway.show.xray.pair_maps import pair_maps
from headway.words import number

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


def figures(xray: XRay) -> tuple[Figure, ...]:
    """The atlas, maps of pairs, compositions, and the raw metrics."""
    raw = [metric for metric in xray.scores if metric.endswith("raw")]
    drawn = [
        atlas(xray.scores, labels=xray.labels, title="Every head under every metric"),
        *_pair_maps(xray, _PAIRS),
        *map(_folded, _pair_maps(xray, _FURTHER_PAIRS)),
        None if xray.composition is None else composition_maps(xray.composition, xray.labels),
        _folded(
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


def _pair_maps(xray: XRay, metrics: tuple[str, ...]) -> list[Figure | None]:
    return [
        pair_maps(xray.scores[metric], labels=xray.labels, part="Pairs of heads")
        for metric in metrics
        if metric in xray.scores
    ]


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


def _folded(figure: Figure | None) -> Figure | None:
    return None if figure is None else replace(figure, folded=True)


def _cell(values: Mapping[str, np.ndarray], name: str, head: int) -> str:
    return number(float(values[name][head]), 3) if name in values and np.isfinite(values[name][head]) else "–"
