"""Figures of head metrics: over training, against depth, by the number of KV heads, and beside the loss.

* `progress`: a line per layer, a panel per arm, a figure per metric;
* `by_layer`: a metric against depth, a line per arm;
* `by_kv_heads`: how similar heads are when they share their keys and values;
* `against_loss`: loss against diversity, arm by arm, if arms push their heads apart or together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from headway.base.text import join, listed
from headway.config.head_metrics import HEAD_METRICS
from headway.config.metrics import metric_name
from headway.config.spec import thinned
from headway.report.charts.figure import WIDTH, Figure, alt, colours_of_column, grid, inline, panel
from headway.report.charts.intervals import ENDS, mean_said, over_seeds, points_with_intervals
from headway.report.charts.lines import Axis, band_said, keyed, line_bands, point_size, rule, step_axis
from headway.report.experiment.data import ArmResults, Finished, ReportData
from headway.report.lm.common import declared, has_probes, heads_of, measures
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
    measured = {metric for arm in material.arms for run in arm.runs if has_probes(run) for metric in heads_of(run).mean}
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
    rows = [row for row in rows if row["value"] > 0 and row["low"] > 0] if logarithmic else rows
    if not rows:
        return
    arms = [arm for arm in material.arms if any(row["what"] == arm.label for row in rows)]
    first = min((row["step"] for row in rows if row["step"]), default=1)
    x = step_axis(first, max([row["step"] for row in rows] + [2]))
    digits = ("~s" if rows[0]["low"] >= 1 else "~e") if logarithmic else "~r"
    name = metric_name(metric)
    y = Axis(
        "value", name if statistic == "mean" else "variance over pairs", log=logarithmic,
        scale={} if logarithmic else {"zero": False}, ticks={"tickCount": 5, "minExtent": 34, "format": digits},
    )  # fmt: skip
    style = {"color": layer_colour(max(row["layer"] for row in rows) + 1), "detail": "layer:O"}
    spread = "band" if material.n_seeds > 1 else None
    shown = ["what:N", "layer:O", "step:Q", "value:Q"]
    size = point_size(rows, "step")
    layers = line_bands(alt.Chart(), x, y, style, spread=spread, strokeWidth=1.8, points=size, shown=shown)
    has_null = any(row["null"] is not None and np.isfinite(row["null"]) for row in rows)
    if has_null:
        with_null = alt.Chart().transform_filter("isValid(datum.null)")
        null = replace(y, column="null")
        layers += line_bands(with_null, x, null, style, spread=None, strokeDash=[2, 3], strokeWidth=1.2)
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
    if n_layers > MOST_LINES:
        scale = alt.Scale(scheme=alt.SchemeParams(name="viridis", extent=[0, 0.92]), domain=[0, n_layers - 1])
        return alt.Color("layer:Q", scale=scale, legend=alt.Legend(title="layer", orient="bottom", gradientLength=200))
    stops = alt.SchemeParams(name="viridis", extent=[0, 0.92])
    legend = alt.Legend(title="layer", orient="bottom", direction="horizontal", titleOrient="left", columns=MOST_LINES)
    return alt.Color("layer:O", scale=alt.Scale(scheme=stops, domain=list(range(n_layers))), legend=legend)


def panels(chart: Any, arms: Sequence[ArmResults]) -> Any:
    """Split a layered chart, whose rows name their arm as `what`, into one panel per arm with equal axes."""
    if len(arms) == 1:
        return chart.properties(width=(WIDTH - 60) * 2 // 3, height=280)
    columns = min(COLUMNS, len(arms))
    if len(arms) in (5, 6):
        columns = 3
    header = alt.Header(title=None, labelPadding=4, labelFontSize=12, labelLimit=(WIDTH - 60) // columns - 20)
    facet = alt.Facet("what:N", sort=[arm.label for arm in arms], header=header)
    sized = chart.properties(width=(WIDTH - 80) // columns - 22, height=150)
    return sized.facet(facet=facet, columns=columns, spacing=14)


def _points(material: ReportData) -> int:
    lines = sum(len(heads_of(arm.shown).layers) for arm in material.arms if has_probes(arm.shown))
    return max(FEWEST_POINTS, min(150, ROWS // max(lines, 1)))


def _rows_head_training(arm: ArmResults, metric: str, statistic: Statistic, points: int) -> Iterator[dict[str, Any]]:
    probed = [heads_of(run) for run in arm.runs if measures(run, metric)]
    if not probed:
        return
    shared = sorted(set.intersection(*(set(one.steps.tolist()) for one in probed)))
    at = [shared[i] for i in thinned(shared, points)]
    by_seed = np.stack([getattr(one, statistic)[metric][np.isin(one.steps, at)] for one in probed])
    nulls = probed[0].null.get(metric) if statistic == "mean" else None
    null = None if nulls is None else nulls[np.isin(probed[0].steps, at)]
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
    rows = sorted({heads_of(run).n_rows[metric] for run in runs if has_probes(run)})
    thin = any(len(heads_of(run).steps) > points for run in runs if has_probes(run))
    alone = _alone(arms) if declared.of == "pair" else ""
    return join(
        f"{declared.sentence[:1].upper()}{declared.sentence[1:]}.",
        f"High values: {declared.high}.",
        f"Each line is a layer: the {what} over its {over}." if over else "Each line is a layer.",
        f"Measured on one fixed batch of held-out text ({listed([f'{n:,}' for n in rows])} positions).",
        band_said(material.n_seeds),
        f"Dotted: null value, {declared.null.sentence}." if has_null else "",
        alone,
        "The metric is on a logarithmic axis." if logarithmic else "",
        "Steps are on a logarithmic axis." if first == 1 else f"Steps beyond {first:,} are on a logarithmic axis.",
        f"Curves are thinned to at most {points} points." if thin else "",
    )


def _alone(arms: Sequence[ArmResults]) -> str:
    """Return a sentence on layers with one head only, which have no metric of pairs."""
    lone = [
        f"layer {layer} of {arm.label}"
        for arm in arms
        if has_probes(arm.shown)
        for layer, n_heads in zip(heads_of(arm.shown).layers, heads_of(arm.shown).n_heads, strict=True)
        if n_heads == 1
    ]
    if not lone:
        return ""
    named = listed(lone) if len(lone) <= 4 else f"{', '.join(lone[:3])} and {len(lone) - 3} more"
    return f"No line for {named}: the metric needs two heads."


WHEN = ("over the whole training", "at the end of training")
END = 0.9
"""The end of training is from this share of its steps on."""


def by_layer(material: ReportData, metric: str = "output_dissimilarity") -> Figure | None:
    """The mean of a metric in each layer: over the whole training, and at its end."""
    arms = [arm for arm in material.arms if measures(arm.shown, metric)]
    rows = [row for arm in arms for row in _layers(arm, metric)]
    if not rows:
        return None
    drawn = [arm for arm in arms if any(row["what"] == arm.label for row in rows)]
    style, name = keyed("what", [(arm.label, arm.colour, arm.style.dash) for arm in drawn]), metric_name(metric)
    low, high = min([0.0, *(row["low"] for row in rows)]), max([0.0, *(row["high"] for row in rows)])
    margin = 0.06 * (high - low)
    x = Axis("layer", "layer", order=sorted({row["layer"] for row in rows}), ticks={"labelAngle": 0})
    y = Axis("value", name, domain=[low - margin, high + margin])
    charts = []
    for when in WHEN:
        found, shown = [row for row in rows if row["when"] == when], ["what:N", "layer:O", "value:Q", "low:Q", "high:Q"]
        lines = line_bands(found, x, y, style, spread="bar", points=40, shown=shown)
        charts.append(panel([rule([0.0], y=y, dash=(2, 3)), *lines], WIDTH // 2 - 60, 260, when))
    return Figure(
        name=f"layers-{metric.replace('_', '-')}",
        part=PART,
        title=f"{name[:1].upper()}{name[1:]} of each layer",
        caption=join(
            f"{HEAD_METRICS[metric].sentence[:1].upper()}{HEAD_METRICS[metric].sentence[1:]}. Values are means over "
            "the pairs of heads of a layer, on one fixed batch of held-out text.",
            f"Left: mean over the whole training. Right: mean over the last {100 * (1 - END):.0f} % of the steps.",
            f"High values: {HEAD_METRICS[metric].high}. Dotted: 0, the null value.",
            f"Points: {mean_said(material.n_seeds)}.",
        ),
        chart=grid(charts, 2),
    )


def _layers(arm: ArmResults, metric: str) -> Iterator[dict[str, Any]]:
    probed = [heads_of(run) for run in arm.runs if measures(run, metric)]
    for when in WHEN:
        by_seed = np.stack([_averaged(one.steps, one.mean[metric], when) for one in probed])
        for at, layer in enumerate(probed[0].layers):
            if np.isfinite(by_seed[:, at]).all():
                yield {"what": arm.label, "when": when, "layer": layer, **over_seeds(by_seed[:, at]).row()}


def _averaged(steps: np.ndarray, values: np.ndarray, when: str) -> np.ndarray:
    if when == WHEN[1]:
        return at_end(steps, values)
    if len(steps) == 1:
        return values[0]
    # Probes may be dense at first; without weights their average would be that of the beginning.
    return np.trapezoid(values, steps, axis=0) / (steps[-1] - steps[0])


def at_end(steps: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The mean over the last probes, (step, layer) -> (layer,)."""
    return values[steps >= END * steps[-1]].mean(0)


METRICS = ("output_dissimilarity", "context_cka", "query_cka", "attention_diversity")
COLOURS = {"pairs that share keys": "#d55e00", "other pairs": "#0072b2", "heads": "#5f6b7a"}
"""Pairs of heads that share keys, pairs that do not, and metrics of single heads."""


def by_kv_heads(material: ReportData) -> Figure | None:
    """Pairs that share keys against pairs that do not, by KV heads; None unless arms differ in nothing but those."""
    arms = [arm for arm in material.arms if has_probes(arm.shown) and kv_heads_of_arm(arm) is not None]
    if (
        len({kv_heads_of_arm(arm) for arm in arms}) < 2
        or len({declared(arm.shown).model.layout.n_heads for arm in arms}) > 1
    ):
        return None
    rows = [row for metric in METRICS for arm in arms for row in _rows_kv_heads(arm, metric)]
    if not rows:
        return None
    pairs = {name: colour for name, colour in COLOURS.items() if any(row["pairs"] == name for row in rows)}
    colour = colours_of_column("pairs", pairs, "stroke")
    order = sorted({row["kv_heads"] for row in rows})
    x = Axis("kv_heads", "KV heads of a layer", order=order, ticks={"labelAngle": 0})
    charts = []
    for metric in METRICS:
        if points := [row for row in rows if row["metric"] == metric]:
            y = Axis("value", metric_name(metric), scale={"zero": False}, ticks={"tickCount": 5})
            shown = ["what:N", "pairs:N", "value:Q", "low:Q", "high:Q"]
            lines = line_bands(points, x, y, colour, spread="bar", points=60, shown=shown)
            charts.append(panel(lines, (WIDTH - 140) // 2, 190))
    n_heads = declared(arms[0].shown).model.layout.n_heads
    return Figure(
        name="kv-heads",
        part=PART,
        title="Diversity by the number of KV heads",
        caption=join(
            f"Mean over all layers ({n_heads[0]} query heads each) at the last measured step."
            if len(set(n_heads)) == 1
            else "Mean over all layers at the last measured step.",
            "Pairs of heads that share keys and values are drawn separately from other pairs.",
            " ".join(
                f"High {metric_name(metric)}: {HEAD_METRICS[metric].high}."
                for metric in METRICS
                if any(row["metric"] == metric for row in rows)
            ),
            f"Points: {mean_said(material.n_seeds)}.",
        ),
        chart=grid(charts, 2, (40, 20)),
    )


def kv_heads_of_arm(arm: ArmResults) -> int | None:
    """The KV heads of every layer; None where layers differ in them, or one has no attention."""
    counts = {layer.n_kv_heads for layer in declared(arm.shown).model.layout.layers}
    return counts.pop() if len(counts) == 1 and 0 not in counts else None


def _rows_kv_heads(arm: ArmResults, metric: str) -> Iterator[dict[str, Any]]:
    per_seed: dict[str, list[float]] = {}
    for run in arm.runs:
        for pairs, value in _by_sharing(run, metric).items():
            per_seed.setdefault(pairs, []).append(value)
    for pairs, values in per_seed.items():
        mean = over_seeds(values).row()
        yield {"what": arm.label, "metric": metric, "kv_heads": kv_heads_of_arm(arm), "pairs": pairs, **mean}


def _by_sharing(run: Finished, metric: str) -> dict[str, float]:
    """The mean over the pairs of all layers that share keys, and over those that do not; of heads, over all."""
    if not measures(run, metric):
        return {}
    by_kind: dict[str, list[np.ndarray]] = {}
    values = scores_at(run.run, int(heads_of(run).steps[-1]))[metric].values
    layout = declared(run).model.layout
    for layer, name in attentions(run.run).items():
        value = np.asarray(values[name], np.float64)
        if value.ndim == 2:
            kv_of = np.repeat(np.arange(layout.layers[layer].n_kv_heads), layout.layers[layer].queries)
            upper = np.triu(np.ones(value.shape, bool), k=1)
            share = kv_of[:, None] == kv_of[None, :]
            by_kind.setdefault("pairs that share keys", []).append(value[upper & share])
            by_kind.setdefault("other pairs", []).append(value[upper & ~share])
        else:
            by_kind.setdefault("heads", []).append(np.atleast_1d(value))
    joined = {name: np.concatenate(parts) for name, parts in by_kind.items()}
    return {name: float(value.mean()) for name, value in joined.items() if len(value) and np.isfinite(value).all()}


LOSS_ENDS = ("loss_low", "loss_high")


def against_loss(material: ReportData) -> Figure | None:
    """Loss against diversity at the end, a point per arm; None unless arms have regularisers or DropHead."""
    arms = [arm for arm in material.arms if has_probes(arm.shown) and len(arm.final("eval_loss_nats"))]
    if not any(_steered(arm) for arm in arms) or len(arms) < 2:
        return None
    metrics = [name for name in HEADLINE if all(measures(arm.shown, name) for arm in arms)]
    rows = [row for metric in metrics for arm in arms for row in _point(arm, metric)]
    if not rows:
        return None
    colour = colours_of_column("what", {arm.label: arm.colour for arm in arms}, "circle", columns=4)
    options: dict[str, Any] = {"scale": {"zero": False, "padding": 14}, "ticks": {"tickCount": 5}}
    y, charts = Axis("loss_nats", "evaluation loss (nats)", **options), []
    for metric in metrics:
        if found := [row for row in rows if row["metric"] == metric]:
            points = points_with_intervals(
                found, Axis("diversity", metric_name(metric), **options), y, colour, across=ENDS, up=LOSS_ENDS,
                thick=1.5, shown=["what:N", "diversity:Q", "loss_nats:Q"],
            )  # fmt: skip
            charts.append(panel(points, (WIDTH - 120) // 2, 210))
    return Figure(
        name="loss-and-diversity",
        part=PART,
        title="Loss and diversity with and without regularisers",
        caption=join(
            "Each point is an arm at the end of training: its evaluation loss, and the mean of a diversity metric "
            "over all layers.",
            " ".join(f"High {metric_name(m)}: {HEAD_METRICS[m].high}." for m in metrics),
            f"Points: {mean_said(material.n_seeds)}.",
        ),
        chart=grid(charts, 2, (40, 20)),
    )


def _steered(arm: ArmResults) -> bool:
    training = declared(arm.shown).content()["training"]
    return bool(training.get("regularizers") or training.get("drophead"))


def _point(arm: ArmResults, metric: str) -> Iterator[dict[str, Any]]:
    by_seed = {}
    for run in arm.runs:
        if measures(run, metric) and run.metrics.get("eval_loss_nats") is not None:
            values = at_end(heads_of(run).steps, heads_of(run).mean[metric])
            if np.isfinite(values).any():
                by_seed[run.seed] = (float(values[np.isfinite(values)].mean()), run.metrics["eval_loss_nats"])
    if by_seed:
        diversity, loss = (over_seeds([pair[k] for pair in by_seed.values()]) for k in (0, 1))
        yield {"what": arm.label, "metric": metric, **diversity.row("diversity"), **loss.row("loss_nats", *LOSS_ENDS)}
