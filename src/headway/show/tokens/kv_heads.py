"""Show: how alike heads are when they share their keys and values: diversity by the number of KV heads."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from headway.compare.tokens.head_progress import attentions, scores_at
from headway.declare.head_metrics import HEAD_METRICS
from headway.declare.metrics import metric_name
from headway.show.report.report_data import ArmResults, Finished, ReportData
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.shared.summary import over_seeds
from headway.show.tokens.finished_run import declared, heads_of, is_probed, measures
from headway.show.tokens.head_training import PART
from headway.words import counted, join

METRICS = ("output_dissimilarity", "context_cka", "query_cka", "attention_diversity")
COLOURS = {"share keys": "#d55e00", "do not": "#0072b2", "heads": "#5f6b7a"}
"""Pairs of heads that share keys, pairs that do not, and metrics of single heads."""


def by_kv_heads(material: ReportData) -> Figure | None:
    """Pairs that share keys against pairs that do not, by KV heads; None unless arms differ in nothing but those."""
    import altair as alt

    arms = [arm for arm in material.arms if is_probed(arm.shown) and kv_heads(arm) is not None]
    if len({kv_heads(arm) for arm in arms}) < 2 or len({declared(arm.shown).model.layout.n_heads for arm in arms}) > 1:
        return None
    rows = [row for metric in METRICS for arm in arms for row in _rows(arm, metric)]
    if not rows:
        return None
    order = sorted({row["kv_heads"] for row in rows})
    shown = [name for name in COLOURS if any(row["pairs"] == name for row in rows)]
    colour = alt.Color(
        "pairs:N",
        scale=alt.Scale(domain=shown, range=[COLOURS[name] for name in shown]),
        legend=alt.Legend(title=None, orient="bottom"),
    )
    x = alt.X("kv_heads:O", sort=order, title="KV heads of a layer", axis=alt.Axis(labelAngle=0))
    charts = []
    for metric in METRICS:
        found = [row for row in rows if row["metric"] == metric]
        if found:
            y = alt.Y("value:Q", title=metric_name(metric), scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
            base = alt.Chart(inline(found)).encode(x=x, color=colour)
            tooltip = ["what:N", "pairs:N", "value:Q", "low:Q", "high:Q"]
            layers = [
                base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q"),
                base.mark_line().encode(y=y),
                base.mark_point(filled=True, size=60, opacity=1).encode(y=y, tooltip=tooltip),
            ]
            charts.append(alt.layer(*layers).properties(width=(WIDTH - 140) // 2, height=190))
    grid = alt.vconcat(*[alt.hconcat(*charts[i : i + 2], spacing=40) for i in range(0, len(charts), 2)], spacing=20)
    n_heads = declared(arms[0].shown).model.layout.n_heads
    return Figure(
        name="kv-heads",
        part=PART,
        title="Diversity by the number of KV heads",
        caption=join(
            f"At the last probed step, the mean over all layers of {n_heads[0]} query heads."
            if len(set(n_heads)) == 1
            else "At the last probed step, the mean over all layers.",
            "Pairs of heads that share their keys and values apart from pairs that do not.",
            " ".join(
                f"High {metric_name(metric)}: {HEAD_METRICS[metric].high}."
                for metric in METRICS
                if any(row["metric"] == metric for row in rows)
            ),
            f"Means over {counted(material.n_seeds, 'seed')}"
            + (" with 95 % intervals." if material.n_seeds > 2 else ".")
            if material.n_seeds > 1
            else "One seed.",
        ),
        chart=grid,
    )


def kv_heads(arm: ArmResults) -> int | None:
    """The KV heads of every layer; None where layers differ in them, or one has no attention."""
    found = {layer.n_kv_heads for layer in declared(arm.shown).model.layout.layers}
    return found.pop() if len(found) == 1 and 0 not in found else None


def _rows(arm: ArmResults, metric: str) -> Iterator[dict[str, Any]]:
    per_seed: dict[str, list[float]] = {}
    for run in arm.runs:
        for pairs, value in _by_sharing(run, metric).items():
            per_seed.setdefault(pairs, []).append(value)
    for pairs, values in per_seed.items():
        mean = over_seeds(values)
        shown = {"value": mean.mean, "low": mean.low, "high": mean.high}
        yield {"what": arm.label, "metric": metric, "kv_heads": kv_heads(arm), "pairs": pairs, **shown}


def _by_sharing(run: Finished, metric: str) -> dict[str, float]:
    """The mean over the pairs of all layers that share keys, and over those that do not; of heads, over all."""
    if not measures(run, metric):
        return {}
    found: dict[str, list[np.ndarray]] = {}
    values = scores_at(run.run, int(heads_of(run).steps[-1]))[metric].values
    layout = declared(run).model.layout
    for layer, name in attentions(run.run).items():
        value = np.asarray(values[name], np.float64)
        if value.ndim == 2:
            kv_of = np.repeat(np.arange(layout.layers[layer].n_kv_heads), layout.layers[layer].queries)
            upper = np.triu(np.ones(value.shape, bool), k=1)
            share = kv_of[:, None] == kv_of[None, :]
            found.setdefault("share keys", []).append(value[upper & share])
            found.setdefault("do not", []).append(value[upper & ~share])
        else:
            found.setdefault("heads", []).append(np.atleast_1d(value))
    joined = {name: np.concatenate(parts) for name, parts in found.items()}
    return {name: float(value.mean()) for name, value in joined.items() if len(value) and np.isfinite(value).all()}
