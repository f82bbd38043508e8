"""The report on runs of a user's training command: the metric at the end, what was recorded, and a table."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from headway.base.text import join
from headway.config.metrics import metric_name
from headway.config.spec import thinned
from headway.report.charts.figure import WIDTH, Datum, Figure, panel
from headway.report.charts.lines import Axis, band_said, keyed, line_bands
from headway.report.charts.page import Table
from headway.report.experiment.data import ArmResults, ReportData, solid_lines
from headway.report.experiment.laboratory import ReportPart, arm_rows, seeds_said
from headway.report.experiment.outcome import OutcomeMeasure, final_outcome

POINTS = 200
"""Points of a curve, at most."""
MOST_COLUMNS = 6
"""Metrics beside the primary one in the table."""


class CommandReportPart(ReportPart):
    """The report of training commands."""

    def figures(self, material: ReportData) -> Iterator[Figure | None]:
        """The metric at the end of training, and over training."""
        metric = material.experiment.primary
        name = metric_name(metric)
        measure = OutcomeMeasure(
            name="final",
            metric=metric,
            column="value",
            axis=name,
            title=f"Final {name}",
            sentence=f"The last {name} that each run recorded.",
            references={},
            one_seed="Each point is one seed.",
        )
        yield final_outcome(material, measure)
        yield _curves(material, metric)

    def final(self, material: ReportData) -> Table:
        """A row per arm: its last metrics, mean and spread over seeds."""
        primary = material.experiment.primary
        recorded = {name for arm in material.arms for run in arm.runs for name in _records(run.curves)}
        others = sorted(recorded - {primary})[:MOST_COLUMNS]
        names = [primary, *others]
        caption = f"The last recorded values ({seeds_said(material)})."
        return Table(columns=("", *map(metric_name, names)), rows=arm_rows(material, names), caption=caption)

    def luck(self, material: ReportData) -> str:  # noqa: ARG002
        """Return nothing: how the command evaluates its models is its own."""
        return ""


def _records(curves: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = curves.get("records", {})
    return found


def _curves(material: ReportData, metric: str) -> Figure | None:
    rows = [row for arm in material.arms for row in _rows(arm, metric)]
    if len({row["step"] for row in rows}) < 2:
        return None
    styles = solid_lines(material.arms)
    spread = "band" if material.n_seeds > 1 else None
    layers = line_bands(
        rows,
        Axis("step", "recorded step", scale={"nice": False}),
        Axis("value", metric_name(metric), scale={"zero": False}),
        keyed("what", styles),
        spread=spread,
        shown=["what:N", "step:Q", "value:Q"],
    )
    return Figure(
        name="training",
        part="Training",
        title=f"{metric_name(metric)} during training",
        caption=join("Values as the command recorded them.", band_said(material.n_seeds)),
        chart=panel(layers, WIDTH - 80, 300, ""),
    )


def _rows(arm: ArmResults, metric: str) -> Iterator[Datum]:
    """Yield the mean and the ends over seeds at the steps that all seeds have recorded."""
    found = [_records(run.curves).get(metric) for run in arm.runs]
    by_step = [dict(zip(one["steps"], one["values"], strict=True)) for one in found if one]
    shared = sorted(set.intersection(*map(set, by_step))) if by_step else []
    for at in thinned(shared, POINTS):
        values = np.array([one[shared[at]] for one in by_step])
        ends = {"low": values.min(), "high": values.max()}
        yield {"what": arm.label, "step": shared[at], "value": values.mean(), **ends}


LABORATORY = CommandReportPart()
