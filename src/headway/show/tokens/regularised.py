"""Show: loss against diversity, arm by arm, where arms push their heads apart, or together."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from headway.declare.head_metrics import HEAD_METRICS
from headway.declare.metrics import metric_name
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import WIDTH, Figure, inline, keyed
from headway.show.shared.summary import over_seeds
from headway.show.shared.theme import SOLID
from headway.show.tokens.finished_run import declared, heads_of, is_probed, measures
from headway.show.tokens.head_layers import at_end, seeds_said
from headway.show.tokens.head_training import HEADLINE, PART
from headway.words import join


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
