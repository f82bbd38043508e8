"""Figures of head metrics over training: a line per layer, a panel per arm, a figure per metric."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from headway.base.text import capital, join
from headway.config.head_metrics import HEAD_METRICS
from headway.config.metrics import metric_name
from headway.config.spec import thinned
from headway.report.charts.figure import WIDTH, Datum, Figure, alt, inline
from headway.report.charts.lines import Axis, line_bands, point_size, step_axis
from headway.report.experiment.data import ArmResults, ReportData
from headway.report.lm.common import heads_of

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
    probed = [each for arm in material.arms for each in map(heads_of, arm.runs) if each]
    measured = {metric for each in probed for metric in each.mean}
    for metric in [*HEADLINE, *(name for name in HEAD_METRICS if name not in HEADLINE)]:
        family = HEAD_METRICS[metric].family
        if family in ("circuits", "outputs"):  # figures of their own; shares of a layer add up to 1 whatever they are
            continue
        if metric in measured and (every or metric in HEADLINE or family == "published"):
            yield from _drawn(material, metric, "mean", folded=metric not in HEADLINE)
            if metric in SPREAD:
                yield from _drawn(material, metric, "variance", folded=metric not in ("query_cka", *HEADLINE))


def _drawn(material: ReportData, metric: str, statistic: Statistic, *, folded: bool) -> Iterator[Figure]:
    points = _points(material)
    rows = [row for arm in material.arms for row in _rows_head_training(arm, metric, statistic, points)]
    logarithmic = is_logarithmic(metric)
    if logarithmic:
        rows = [row for row in rows if row["low"] > 0]
    if not rows:
        return
    labels = {row["what"] for row in rows}
    arms = [arm for arm in material.arms if arm.label in labels]
    first = min((row["step"] for row in rows if row["step"]), default=1)
    x = step_axis(first, max(2, *(row["step"] for row in rows)))
    digits = ("~s" if rows[0]["low"] >= 1 else "~e") if logarithmic else "~r"
    name, spread_said = metric_name(metric), "variance over pairs"
    ticks = {"tickCount": 5, "minExtent": 34, "format": digits}
    scale = {} if logarithmic else {"zero": False}
    y = Axis("value", name if statistic == "mean" else spread_said, log=logarithmic, scale=scale, ticks=ticks)
    style = {"color": layer_colour(max(row["layer"] for row in rows) + 1), "detail": "layer:O"}
    spread = "band" if material.n_seeds > 1 else None
    shown = ["what:N", "layer:O", "step:Q", "value:Q"]
    size = point_size(rows, "step")
    layers = line_bands(alt.Chart(), x, y, style, spread=spread, strokeWidth=1.8, points=size, shown=shown)
    has_null = any(np.isfinite(row["null"]) for row in rows)
    if has_null:
        with_null = alt.Chart().transform_filter("isValid(datum.null)")
        null = replace(y, column="null")
        layers += line_bands(with_null, x, null, style, spread=None, strokeDash=[2, 3], strokeWidth=1.2)
    yield Figure(
        name=f"heads-{metric.replace('_', '-')}" + ("" if statistic == "mean" else "-variance"),
        part=PART,
        title=capital(name) + ("" if statistic == "mean" else f": {spread_said}"),
        caption=_caption(material, metric, statistic, has_null),
        chart=panels(alt.layer(*layers, data=inline(rows)), arms),
        folded=folded,
    )


def is_logarithmic(metric: str) -> bool:
    """Return whether a metric is drawn on a log axis, as raw metrics are, which grow with the rows."""
    return metric.endswith("_raw") or metric == "attention_variance_published"


def layer_colour(n_layers: int) -> Any:
    """Return colours of layers from dark to light by depth, named one by one if layers are few."""
    domain, kind = list(range(n_layers)), "O"
    legend: dict[str, Any] = {"direction": "horizontal", "titleOrient": "left", "columns": MOST_LINES}
    if n_layers > MOST_LINES:
        domain, kind, legend = [0, n_layers - 1], "Q", {"gradientLength": 200}
    scale = {"scheme": {"name": "viridis", "extent": [0, 0.92]}, "domain": domain}
    return alt.Color(f"layer:{kind}", scale=scale, legend={"title": "layer", "orient": "bottom", **legend})


def panels(chart: Any, arms: Sequence[ArmResults]) -> Any:
    """Split a layered chart, whose rows name their arm as `what`, into one panel per arm with equal axes."""
    if len(arms) == 1:
        return chart.properties(width=(WIDTH - 60) * 2 // 3, height=280)
    columns = min(COLUMNS, len(arms))
    if len(arms) in (5, 6):
        columns = 3
    limit = (WIDTH - 60) // columns - 20
    header = {"title": None, "labelPadding": 4, "labelFontSize": 12, "labelLimit": limit}
    facet = alt.Facet("what:N", sort=[arm.label for arm in arms], header=header)
    sized = chart.properties(width=(WIDTH - 80) // columns - 22, height=150)
    return sized.facet(facet=facet, columns=columns, spacing=14)


def _points(material: ReportData) -> int:
    lines = sum(len(probed.layers) for arm in material.arms if (probed := heads_of(arm.shown)))
    return max(FEWEST_POINTS, min(150, ROWS // max(lines, 1)))


def _rows_head_training(arm: ArmResults, metric: str, statistic: Statistic, points: int) -> Iterator[Datum]:
    probed = [each for run in arm.runs if (each := heads_of(run)) and metric in each.mean]
    if not probed:
        return
    shared = sorted(set.intersection(*(set(one.steps.tolist()) for one in probed)))
    at = [shared[i] for i in thinned(shared, points)]
    by_seed = np.stack([getattr(one, statistic)[metric][np.isin(one.steps, at)] for one in probed])
    null = np.full(by_seed.shape[1:], np.nan)
    if statistic == "mean" and metric in probed[0].null:
        null = probed[0].null[metric][np.isin(probed[0].steps, at)]
    for i, step in enumerate(at):
        for j, layer in enumerate(probed[0].layers):
            values = by_seed[:, i, j]
            lone = statistic == "variance" and probed[0].n_heads[j] < 3  # one pair has no variance
            if np.isfinite(values).all() and not lone:
                yield {
                    "what": arm.label,
                    "layer": layer,
                    "step": step,
                    "value": values.mean(),
                    "low": values.min(),
                    "high": values.max(),
                    "null": null[i, j],
                }


def _caption(material: ReportData, metric: str, statistic: Statistic, has_null: bool) -> str:
    declared, n_seeds = HEAD_METRICS[metric], material.n_seeds
    over = {"pair": f"the {statistic} over a layer's pairs of heads", "head": f"the {statistic} over a layer's heads"}
    return join(
        f"{capital(declared.sentence)}.",
        f"A high value means {declared.high}.",
        f"Lines show {over.get(declared.of, 'single layers')}"
        + (f", averaged over up to {n_seeds} seeds; bands span the seeds" if n_seeds > 1 else "")
        + ("; dotted lines are null values." if has_null else "."),
    )
