"""Figures of loss and head diversity: how much of the loss the diversity of each layer explains.

`association` draws R^2 layer by layer; `losses` draws the loss that diversity is compared with. `against_loss` draws
loss against diversity, arm by arm, if arms push their heads apart or together.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headway.base.text import counted, join, number
from headway.config.head_metrics import HEAD_METRICS
from headway.config.metrics import metric_name
from headway.config.spec import thinned
from headway.report.charts.figure import SOLID, WIDTH, Figure, inline, keyed, over_seeds, step_axis
from headway.report.experiment.data import ArmResults, ReportData, per_seed
from headway.report.lm.common import declared, heads_of, is_probed, measures
from headway.report.lm.heads import HEADLINE, PART, at_end, panels, seeds_said
from headway.stats.lm.diversity import EARLY, LayerAssociation
from headway.stats.lm.verdicts import untested
from headway.stats.simultaneous import LEVEL

LOSSES = {
    "probe_loss_nats": "on the probe's fixed batch",
    "train_loss_nats": "of the batches trained on since the last record",
}
WINDOW_COLOURS = {"early": "#d55e00", "whole": "#0072b2"}
CHANCE, CHANCE_COLOUR = "by chance", "#dfe3e8"
OWN = "of what a seed does by itself"


def association(material: ReportData, loss: str = "probe_loss_nats") -> Figure | None:
    """R^2 of a loss on mean and variance of output dissimilarity, layer by layer; None where too little was probed."""
    import altair as alt

    labels = {arm.name: arm.label for arm in material.arms}
    entries = [
        entry
        for entry in material.results.associations
        if entry.arm in labels and entry.loss == loss and entry.metric == "output_dissimilarity"
    ]
    if not entries:
        return None
    rows = [row for entry in entries for row in _rows(entry, labels[entry.arm])]
    arms = [arm for arm in material.arms if any(row["what"] == arm.label for row in rows)]
    windows = [name for name in WINDOW_COLOURS if any(row["window"] == name for row in rows)]
    named = {"early": f"first {EARLY} probes", "whole": "whole training"}
    for row in rows:
        row["window"] = named[row["window"]]
    colour = alt.Color(
        "window:N",
        scale=alt.Scale(
            domain=[*(named[n] for n in windows), CHANCE], range=[*(WINDOW_COLOURS[n] for n in windows), CHANCE_COLOUR]
        ),
        legend=alt.Legend(title=None, orient="bottom", symbolType="circle", symbolStrokeWidth=0, symbolSize=90),
    )
    shape = alt.Shape(
        "kind:N",
        scale=alt.Scale(domain=[OWN], range=["diamond"]),
        legend=alt.Legend(title=None, orient="bottom", symbolFillColor="white", symbolSize=70),
    )
    x = alt.X("layer:O", title="layer", axis=alt.Axis(labelAngle=0))
    offset = alt.XOffset("window:N", sort=[named[n] for n in windows])
    y_scale = alt.Scale(domain=[0, 1], nice=False)
    y = alt.Y("r2:Q", title="R² of the loss", scale=y_scale, axis=alt.Axis(tickCount=5))
    base = alt.Chart().encode(x=x, xOffset=offset)
    tooltip = ["what:N", "window:N", "layer:O", "n:Q", "r2:Q", "own:Q", "swapped:Q", "p:Q"]
    chart = alt.layer(
        base.transform_filter("isValid(datum.swapped)")
        .mark_bar()
        .encode(y=alt.Y("swapped:Q", scale=y_scale), y2=alt.datum(0), color=alt.ColorDatum(CHANCE)),
        base.transform_filter("isValid(datum.of_seed)")
        .mark_point(filled=True, size=14, opacity=0.55)
        .encode(y=alt.Y("of_seed:Q", scale=y_scale), color=colour),
        base.transform_filter("isValid(datum.r2)")
        .mark_point(filled=True, size=48, opacity=1)
        .encode(y=y, color=colour, tooltip=tooltip),
        base.transform_filter("isValid(datum.own)")
        .transform_calculate(kind=f"'{OWN}'")
        .mark_point(filled=False, size=34, opacity=1, strokeWidth=1.4)
        .encode(y=alt.Y("own:Q", scale=y_scale), color=colour, shape=shape),
        data=inline(rows),
    )
    return Figure(
        name="association" if loss == "probe_loss_nats" else "association-train-loss",
        part=PART,
        title="How much of the loss the diversity of a layer explains"
        + ("" if loss == "probe_loss_nats" else ": training batches"),
        caption=_association_caption(material, entries, loss, windows),
        chart=panels(chart, arms),
        folded=loss != "probe_loss_nats",
    )


def _rows(entry: LayerAssociation, label: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a layer, and of each of its seeds."""
    place = {"what": label, "layer": entry.layer, "window": entry.window}
    numbers = {"r2": entry.r2, "own": entry.r2_own, "swapped": entry.r2_swapped, "p": entry.p, "n": entry.n}
    yield place | numbers
    if len(entry.per_series) > 1:
        yield from (place | {"of_seed": one} for one in entry.per_series)


def _association_caption(
    material: ReportData, entries: Sequence[LayerAssociation], loss: str, windows: Sequence[str]
) -> str:
    ends = {name: max(e.steps[1] for e in entries if e.window == name) for name in windows}
    early = f"the first {EARLY} probed batches (to step {ends['early']:,}) and " if "early" in windows else ""
    several = max(len(entry.seeds) for entry in entries) > 1
    return join(
        f"R² of the loss {LOSSES[loss]}, regressed on mean and variance over pairs of the layer's output "
        f"dissimilarity, over {early}the whole training (to step {ends['whole']:,}): means over "
        f"{counted(material.n_seeds, 'seed')}{', and each seed as a small point' if several else ''}.",
        "Two curves that merely both move with time explain each other.",
        *_own(entries),
    )


def _own(entries: Sequence[LayerAssociation]) -> Iterator[str]:
    """Yield caption sentences on what each seed does by itself."""
    if any(entry.r2_own is not None for entry in entries):
        yield (
            "So diamonds are R² of what a seed does by itself, beside the mean over seeds; grey is how far the heads "
            "of other seeds explain that: by chance."
        )
    if reason := untested(max(len(entry.seeds) for entry in entries)):
        yield f"Whether it is more than chance {reason}."
        return
    tested = [entry for entry in entries if entry.p is not None]
    if tested:
        found = sum(entry.p is not None and entry.p < LEVEL for entry in tested)
        yield (
            f"{found} of {len(tested)} diamonds are told from chance, by swapping seeds (p below .05 each, so that "
            f"about {number(LEVEL * len(tested), 2)} would be by chance alone)."
        )


def losses(material: ReportData) -> Figure | None:
    """The loss of the batches and that of the probe's fixed batch; None where no run was probed."""
    import altair as alt

    arms = [arm for arm in material.arms if is_probed(arm.shown)]
    rows = {name: [row for arm in arms for row in _curve(arm, name)] for name in LOSSES}
    rows = {name: found for name, found in rows.items() if found}
    if "probe_loss_nats" not in rows:
        return None
    every = [row for found in rows.values() for row in found]
    first = min(row["step"] for row in every if row["step"])
    last = max(row["step"] for row in every)
    look = keyed("what", [(arm.label, arm.colour, SOLID) for arm in arms])
    scale = alt.Scale(type="log", nice=False, domain=[min(r["low"] for r in every), max(r["high"] for r in every)])
    axis = alt.Axis(tickCount=6)
    charts = []
    for name, found in rows.items():
        base = alt.Chart(inline(found)).encode(x=step_axis(first, last), color=look["color"])
        y = alt.Y("loss_nats:Q", title="loss (nats)", scale=scale, axis=axis)
        layers = [base.mark_line().encode(y=y, **look, tooltip=["what:N", "step:Q", "loss_nats:Q"])]
        if material.n_seeds > 1:
            layers.insert(0, base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q", scale=scale, axis=axis), y2="high:Q"))
        charts.append(alt.layer(*layers).properties(width=WIDTH // 2 - 60, height=260, title=f"loss {LOSSES[name]}"))
    return Figure(
        name="probe-loss",
        part=PART,
        title="The losses that diversity is held against",
        caption=join(
            "The loss at the probed steps and, where it is recorded, of the training batches.",
            f"A line is the mean over {counted(material.n_seeds, 'seed')}; its band reaches from the smallest to the "
            "largest seed."
            if material.n_seeds > 1
            else "One seed, so no band.",
            f"Both axes are logarithmic, that of steps beyond {first:,}.",
        ),
        chart=alt.hconcat(*charts),
        folded=True,
    )


def _curve(arm: ArmResults, name: str) -> Iterator[dict[str, Any]]:
    if any(not len(run.series(name)[0]) for run in arm.runs):
        return
    steps, values = per_seed(arm, name)
    for at in thinned(steps.tolist(), 120) if len(steps) else []:
        column = values[:, at]
        row = {"loss_nats": column.mean(), "low": column.min(), "high": column.max()}
        yield {"what": arm.label, "step": steps[at], **row}


def against_loss(material: ReportData) -> Figure | None:
    """Loss against diversity at the end, a point per arm; None unless arms have regularisers or DropHead."""
    import altair as alt

    arms = [arm for arm in material.arms if is_probed(arm.shown) and len(arm.final("eval_loss_nats"))]
    if not any(_steered(arm) for arm in arms) or len(arms) < 2:
        return None
    metrics = [name for name in HEADLINE if all(measures(arm.shown, name) for arm in arms)]
    rows = [row for metric in metrics for arm in arms for row in _point(arm, metric)]
    if not rows:
        return None
    look = keyed("what", [(arm.label, arm.colour, SOLID) for arm in arms], nested=False)
    colour = look["color"]
    colour.legend = alt.Legend(title=None, orient="bottom", columns=4, symbolType="circle", symbolStrokeWidth=0)
    charts = []
    for metric in metrics:
        found = [row for row in rows if row["metric"] == metric]
        if not found:
            continue
        x = alt.X(
            "diversity:Q",
            title=metric_name(metric),
            scale=alt.Scale(zero=False, padding=14),
            axis=alt.Axis(tickCount=5),
        )
        y = alt.Y(
            "loss_nats:Q",
            title="evaluation loss (nats)",
            scale=alt.Scale(zero=False, padding=14),
            axis=alt.Axis(tickCount=5),
        )
        base = alt.Chart(inline(found)).encode(color=colour)
        across = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q"), x2="high:Q", y=y)
        down = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("loss_low:Q"), y2="loss_high:Q", x=x)
        point = base.mark_point(filled=True, size=80, opacity=1).encode(
            x=x, y=y, tooltip=["what:N", "diversity:Q", "loss_nats:Q"]
        )
        charts.append(alt.layer(across, down, point).properties(width=(WIDTH - 120) // 2, height=210))
    grid = alt.vconcat(*[alt.hconcat(*charts[i : i + 2], spacing=40) for i in range(0, len(charts), 2)], spacing=20)
    return Figure(
        name="loss-and-diversity",
        part=PART,
        title="Loss and diversity with and without regularisers",
        caption=join(
            "A point per arm: its evaluation loss, and a metric of diversity at the end of training, the mean over all "
            "layers.",
            " ".join(f"High {metric_name(m)}: {HEAD_METRICS[m].high}." for m in metrics),
            seeds_said(material),
        ),
        chart=grid,
    )


def _steered(arm: ArmResults) -> bool:
    training = declared(arm.shown).content()["training"]
    return bool(training.get("regularizers") or training.get("drophead"))


def _point(arm: ArmResults, metric: str) -> Iterator[dict[str, Any]]:
    found = {}
    for run in arm.runs:
        if measures(run, metric) and run.metrics.get("eval_loss_nats") is not None:
            values = at_end(heads_of(run).steps, heads_of(run).mean[metric])
            if np.isfinite(values).any():
                found[run.seed] = (float(values[np.isfinite(values)].mean()), run.metrics["eval_loss_nats"])
    if found:
        diversity, loss = (over_seeds([pair[k] for pair in found.values()]) for k in (0, 1))
        yield {
            "what": arm.label,
            "metric": metric,
            "diversity": diversity.mean,
            "low": diversity.low,
            "high": diversity.high,
            "loss_nats": loss.mean,
            "loss_low": loss.low,
            "loss_high": loss.high,
        }
