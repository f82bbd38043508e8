"""Show: where in a model heads differ: a metric against depth, a line per arm."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from headway.declare.head_metrics import HEAD_METRICS
from headway.declare.metrics import metric_name
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import WIDTH, Figure, inline, keyed
from headway.show.shared.summary import over_seeds
from headway.show.shared.theme import QUIET
from headway.show.tokens.finished_run import heads_of, measures
from headway.show.tokens.head_training import PART
from headway.words import counted, join

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
    """Over how many seeds means are, and whether they have intervals."""
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
