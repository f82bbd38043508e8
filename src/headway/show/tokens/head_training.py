"""Show: what every layer's heads do while a model trains: a line per layer, a panel per arm, a figure per metric."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from headway.declare.head_metrics import HEAD_METRICS
from headway.declare.log_spaced import thinned
from headway.declare.metrics import metric_name
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import WIDTH, Figure, inline, step_axis
from headway.show.tokens.finished_run import heads_of, is_probed, measures
from headway.words import counted, join, listed

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
    """A figure per probed metric, and of some the variance over pairs; those apart from the headline are folded.

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
    rows = [row for arm in material.arms for row in _rows(arm, metric, statistic, points)]
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
    """Whether a metric is drawn on a log axis: raw ones, which grow with the rows, are."""
    return metric.endswith("_raw") or metric == "attention_variance_published"


def layer_colour(n_layers: int) -> Any:
    """Layers from dark to light by depth, named one by one where they are few."""
    import altair as alt

    if n_layers > MOST_LINES:
        scale = alt.Scale(scheme=alt.SchemeParams(name="viridis", extent=[0, 0.92]), domain=[0, n_layers - 1])
        return alt.Color("layer:Q", scale=scale, legend=alt.Legend(title="layer", orient="bottom", gradientLength=200))
    stops = alt.SchemeParams(name="viridis", extent=[0, 0.92])
    legend = alt.Legend(title="layer", orient="bottom", direction="horizontal", titleOrient="left", columns=MOST_LINES)
    return alt.Color("layer:O", scale=alt.Scale(scheme=stops, domain=list(range(n_layers))), legend=legend)


def panels(chart: Any, arms: Sequence[ArmResults], *, height: int = 150) -> Any:
    """A layered chart whose rows name their arm as `what`: one panel, or one per arm, in rows of equal axes."""
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


def _rows(arm: ArmResults, metric: str, statistic: Statistic, points: int) -> Iterator[dict[str, Any]]:
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
        f"Dotted, what it would be if nothing were going on: {declared.null}." if has_null else "",
        alone,
        "The metric is on a logarithmic axis." if logarithmic else "",
        "Steps are on a logarithmic axis." if first == 1 else f"Steps beyond {first:,} are on a logarithmic axis.",
        f"Curves are thinned to at most {points} points." if thin else "",
    )


def _alone(arms: Sequence[ArmResults]) -> str:
    """Which layers have one head only, of which a metric of pairs says nothing."""
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
