"""Figures of head metrics: over training, against depth, and by the number of KV heads.

* `progress`: a line per layer, a panel per arm, a figure per metric;
* `at_end`: a metric against depth, a line per arm;
* `kv_heads`: how similar heads are when they share their keys and values.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from headway.base.text import counted, join, listed
from headway.config.head_metrics import HEAD_METRICS
from headway.config.metrics import metric_name
from headway.config.spec import thinned
from headway.report.charts.figure import QUIET, WIDTH, Figure, inline, keyed, over_seeds, step_axis
from headway.report.experiment.data import ArmResults, Finished, ReportData
from headway.report.lm.common import declared, heads_of, is_probed, measures
from headway.stats.lm.diversity import attentions, scores_at

PART = "Heads during training"
COLUMNS = 4
MOST_LINES = 12
"""Layers that a legend names one by one."""
ROWS = 2_500
"""Numbers of a figure, about; points are thinned to it, but not below `FEWEST_POINTS`."""
FEWEST_POINTS = 40

HEADLINE = ("query_cka", "context_cka", "output_dissimilarity", "attention_diversity")
"""The four metrics of the article, normalised."""

Statistic = Literal["mean", "variance"]
SPREAD = ("query_orthogonality_raw", "query_cka", "output_dissimilarity", "output_dissimilarity_published")
"""Metrics whose variance over pairs is drawn too, as published."""


def progress(material: ReportData, *, every: bool = True) -> Iterator[Figure]:
    """Yield a figure per probed metric, and of some the variance over pairs; only the headline is unfolded.

    Not `every`: the headline and what was measured as published alone, so that many controls make no endless page.
    """
    measured = {metric for arm in material.arms for run in arm.runs if is_probed(run) for metric in heads_of(run).mean}
    for metric in [*HEADLINE, *(name for name in HEAD_METRICS if name not in HEADLINE)]:
        family = HEAD_METRICS[metric].family
        if family in ("circuits", "outputs"):  # figures of their own; shares of a layer add up to 1 whatever they are
            continue
        if metric in measured and (every or metric in HEADLINE or family == "published"):
            yield from _drawn(material, metric, "mean", folded=metric not in HEADLINE)
            if metric in SPREAD:
                yield from _drawn(material, metric, "variance", folded=metric not in ("query_cka", *HEADLINE))


def _drawn(material: ReportData, metric: str, statistic: Statistic, *, folded: bool) -> Iterator[Figure]:
    import altair as alt

    points = _points(material)
    rows = [row for arm in material.arms for row in _rows_head_training(arm, metric, statistic, points)]
    logarithmic = is_logarithmic(metric)
    rows = [row for row in rows if row["value"] > 0 and row["low"] > 0] if logarithmic else rows
    if not rows:
        return
    arms = [arm for arm in material.arms if any(row["what"] == arm.label for row in rows)]
    n_layers = max(row["layer"] for row in rows) + 1
    first = min((row["step"] for row in rows if row["step"]), default=1)
    last = max([row["step"] for row in rows] + [2])
    scale = alt.Scale(type="log", nice=False) if logarithmic else alt.Scale(zero=False)
    axis = alt.Axis(tickCount=5, minExtent=34, format=("~s" if rows[0]["low"] >= 1 else "~e") if logarithmic else "~r")
    name = metric_name(metric)
    y = alt.Y("value:Q", title=name if statistic == "mean" else "variance over pairs", scale=scale, axis=axis)
    colour = layer_colour(n_layers)
    base = alt.Chart().encode(x=step_axis(first, last), color=colour, detail="layer:O")
    layers = [base.mark_line(strokeWidth=1.8).encode(y=y, tooltip=["what:N", "layer:O", "step:Q", "value:Q"])]
    if material.n_seeds > 1:
        layers.insert(0, base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q"))
    has_null = any(row["null"] is not None and np.isfinite(row["null"]) for row in rows)
    if has_null:
        null = base.transform_filter("isValid(datum.null)").mark_line(strokeDash=[2, 3], strokeWidth=1.2)
        layers.append(null.encode(y=alt.Y("null:Q", scale=scale, axis=axis)))
    yield Figure(
        name=f"heads-{metric.replace('_', '-')}" + ("-variance" if statistic == "variance" else ""),
        part=PART,
        title=name[:1].upper() + name[1:] + (": variance over pairs" if statistic == "variance" else ""),
        caption=_caption(material, arms, metric, statistic, has_null, logarithmic, first, points),
        chart=panels(alt.layer(*layers, data=inline(rows)), arms),
        folded=folded,
    )


def is_logarithmic(metric: str) -> bool:
    """Return whether a metric is drawn on a log axis, as raw metrics are, which grow with the rows."""
    return metric.endswith("_raw") or metric == "attention_variance_published"


def layer_colour(n_layers: int) -> Any:
    """Return colours of layers from dark to light by depth, named one by one if layers are few."""
    import altair as alt

    if n_layers > MOST_LINES:
        scale = alt.Scale(scheme=alt.SchemeParams(name="viridis", extent=[0, 0.92]), domain=[0, n_layers - 1])
        return alt.Color("layer:Q", scale=scale, legend=alt.Legend(title="layer", orient="bottom", gradientLength=200))
    stops = alt.SchemeParams(name="viridis", extent=[0, 0.92])
    legend = alt.Legend(title="layer", orient="bottom", direction="horizontal", titleOrient="left", columns=MOST_LINES)
    return alt.Color("layer:O", scale=alt.Scale(scheme=stops, domain=list(range(n_layers))), legend=legend)


def panels(chart: Any, arms: Sequence[ArmResults], *, height: int = 150) -> Any:
    """Split a layered chart, whose rows name their arm as `what`, into one panel per arm with equal axes."""
    import altair as alt

    if len(arms) == 1:
        return chart.properties(width=(WIDTH - 60) * 2 // 3, height=2 * height - 20)
    columns = min(COLUMNS, len(arms))
    if len(arms) in (5, 6):
        columns = 3
    header = alt.Header(title=None, labelPadding=4, labelFontSize=12, labelLimit=(WIDTH - 60) // columns - 20)
    facet = alt.Facet("what:N", sort=[arm.label for arm in arms], header=header)
    sized = chart.properties(width=(WIDTH - 80) // columns - 22, height=height)
    return sized.facet(facet=facet, columns=columns, spacing=14)


def _points(material: ReportData) -> int:
    lines = sum(len(heads_of(arm.shown).layers) for arm in material.arms if is_probed(arm.shown))
    return max(FEWEST_POINTS, min(150, ROWS // max(lines, 1)))


def _rows_head_training(arm: ArmResults, metric: str, statistic: Statistic, points: int) -> Iterator[dict[str, Any]]:
    probed = [heads_of(run) for run in arm.runs if measures(run, metric)]
    if not probed:
        return
    shared = sorted(set.intersection(*(set(one.steps.tolist()) for one in probed)))
    at = [shared[i] for i in thinned(shared, points)]
    found = np.stack([getattr(one, statistic)[metric][np.isin(one.steps, at)] for one in probed])
    nulls = probed[0].null.get(metric) if statistic == "mean" else None
    null = None if nulls is None else nulls[np.isin(probed[0].steps, at)]
    for i, step in enumerate(at):
        for j, layer in enumerate(probed[0].layers):
            values = found[:, i, j]
            lone = statistic == "variance" and probed[0].n_heads[j] < 3  # one pair has no variance
            if np.isfinite(values).all() and not lone:
                yield {
                    "what": arm.label,
                    "layer": layer,
                    "step": step,
                    "value": values.mean(),
                    "low": values.min(),
                    "high": values.max(),
                    "null": None if null is None else null[i, j],
                }


def _caption(
    material: ReportData,
    arms: Sequence[ArmResults],
    metric: str,
    statistic: Statistic,
    has_null: bool,
    logarithmic: bool,
    first: int,
    points: int,
) -> str:
    declared = HEAD_METRICS[metric]
    over = {"pair": "pairs of different heads", "head": "heads", "layer": ""}[declared.of]
    what = "variance" if statistic == "variance" else "mean"
    runs = [run for arm in arms for run in arm.runs if measures(run, metric)]
    rows = sorted({heads_of(run).n_rows[metric] for run in runs if is_probed(run)})
    thin = any(len(heads_of(run).steps) > points for run in runs if is_probed(run))
    alone = _alone(arms) if declared.of == "pair" else ""
    return join(
        f"{declared.sentence[:1].upper()}{declared.sentence[1:]}.",
        f"High: {declared.high}.",
        f"A line per layer, the {what} over its {over}." if over else "A line per layer.",
        f"Measured on one fixed batch of held-out text ({listed([f'{n:,}' for n in rows])} positions counted).",
        f"Mean over {counted(material.n_seeds, 'seed')}; bands reach from the smallest to the largest seed."
        if material.n_seeds > 1
        else "One seed, so no band.",
        f"Dotted, what it would be if nothing were going on: {declared.null.sentence}." if has_null else "",
        alone,
        "The metric is on a logarithmic axis." if logarithmic else "",
        "Steps are on a logarithmic axis." if first == 1 else f"Steps beyond {first:,} are on a logarithmic axis.",
        f"Curves are thinned to at most {points} points." if thin else "",
    )


def _alone(arms: Sequence[ArmResults]) -> str:
    """Return a sentence on layers with one head only, which have no metric of pairs."""
    found = [
        f"layer {layer} of {arm.label}"
        for arm in arms
        if is_probed(arm.shown)
        for layer, n_heads in zip(heads_of(arm.shown).layers, heads_of(arm.shown).n_heads, strict=True)
        if n_heads == 1
    ]
    if not found:
        return ""
    named = listed(found) if len(found) <= 4 else f"{', '.join(found[:3])} and {len(found) - 3} more"
    return f"No line for {named}: it needs two heads."


END = 0.9
"""The end of training is from this share of its steps on."""


def by_layer(material: ReportData, metric: str = "output_dissimilarity") -> Figure | None:
    """The mean of a metric in each layer: over the whole training, and at its end."""
    import altair as alt

    arms = [arm for arm in material.arms if measures(arm.shown, metric)]
    rows = [row for arm in arms for row in _layers(arm, metric)]
    if not rows:
        return None
    name = metric_name(metric)
    look = keyed(
        "what", [(arm.label, arm.colour, arm.look.dash) for arm in arms if any(r["what"] == arm.label for r in rows)]
    )
    low, high = min([0.0, *(row["low"] for row in rows)]), max([0.0, *(row["high"] for row in rows)])
    margin = 0.06 * (high - low)
    y = alt.Y("value:Q", title=name, scale=alt.Scale(domain=[low - margin, high + margin], nice=False))
    charts = []
    for when in ("over the whole training", "at the end of training"):
        found = [row for row in rows if row["when"] == when]
        base = alt.Chart(inline(found)).encode(x=alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0)))
        rule = (
            alt.Chart(inline([{"y": 0.0}])).mark_rule(color=QUIET, strokeDash=[2, 3]).encode(y=alt.Y("y:Q", title=name))
        )
        layers = [
            rule,
            base.mark_rule(opacity=0.6).encode(y=alt.Y("low:Q"), y2="high:Q", color=look["color"]),
            base.mark_line().encode(y=y, **look),
            base.mark_point(filled=True, size=40, opacity=1).encode(
                y=y, color=look["color"], tooltip=["what:N", "layer:O", "value:Q", "low:Q", "high:Q"]
            ),
        ]
        charts.append(alt.layer(*layers).properties(width=WIDTH // 2 - 60, height=260, title=when))
    return Figure(
        name=f"layers-{metric.replace('_', '-')}",
        part=PART,
        title=f"{name[:1].upper()}{name[1:]} of each layer",
        caption=join(
            f"{HEAD_METRICS[metric].sentence[:1].upper()}{HEAD_METRICS[metric].sentence[1:]}; the mean over the pairs "
            "of different heads of a layer, on the probe's fixed batch.",
            "Left, the mean over all probed steps, each weighing as long as it lasted; right, that of the probes in "
            f"the last {100 * (1 - END):.0f} % of the steps.",
            f"High: {HEAD_METRICS[metric].high}. Dotted: 0, where nothing is going on.",
            seeds_said(material),
        ),
        chart=alt.hconcat(*charts),
    )


def seeds_said(material: ReportData) -> str:
    """Return a sentence on the number of seeds of the means, and on whether they have intervals."""
    if material.n_seeds == 1:
        return "One seed."
    if material.n_seeds == 2:
        return "Means over 2 seeds."
    return f"Means over {counted(material.n_seeds, 'seed')} with 95 % intervals."


def _layers(arm: ArmResults, metric: str) -> Iterator[dict[str, Any]]:
    probed = [heads_of(run) for run in arm.runs if measures(run, metric)]
    for when in ("over the whole training", "at the end of training"):
        found = np.stack([_averaged(one.steps, one.mean[metric], when) for one in probed])
        for at, layer in enumerate(probed[0].layers):
            if np.isfinite(found[:, at]).all():
                mean = over_seeds(found[:, at])
                yield {
                    "what": arm.label,
                    "when": when,
                    "layer": layer,
                    "value": mean.mean,
                    "low": mean.low,
                    "high": mean.high,
                }


def _averaged(steps: np.ndarray, values: np.ndarray, when: str) -> np.ndarray:
    if when == "at the end of training":
        return at_end(steps, values)
    if len(steps) == 1:
        return values[0]
    # Probes may be dense at first; without weights their average would be that of the beginning.
    return np.trapezoid(values, steps, axis=0) / (steps[-1] - steps[0])


def at_end(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean over the last probes, (step, layer) -> (layer,)."""
    return values[steps >= END * steps[-1]].mean(0)


METRICS = ("output_dissimilarity", "context_cka", "query_cka", "attention_diversity")
COLOURS = {"share keys": "#d55e00", "do not": "#0072b2", "heads": "#5f6b7a"}
"""Pairs of heads that share keys, pairs that do not, and metrics of single heads."""


def by_kv_heads(material: ReportData) -> Figure | None:
    """Pairs that share keys against pairs that do not, by KV heads; None unless arms differ in nothing but those."""
    import altair as alt

    arms = [arm for arm in material.arms if is_probed(arm.shown) and kv_heads(arm) is not None]
    if len({kv_heads(arm) for arm in arms}) < 2 or len({declared(arm.shown).model.layout.n_heads for arm in arms}) > 1:
        return None
    rows = [row for metric in METRICS for arm in arms for row in _rows_kv_heads(arm, metric)]
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


def _rows_kv_heads(arm: ArmResults, metric: str) -> Iterator[dict[str, Any]]:
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
