"""The final metric of every arm as a figure, beside references without training on the same task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from headway.base.text import join
from headway.report.charts.figure import WIDTH, Datum, Figure, LineStyle, colours_of_column, ends, grid, panel
from headway.report.charts.intervals import ENDS, SEEDS, arms_axis, over_seeds, points_with_intervals, strip
from headway.report.charts.lines import Axis
from headway.report.experiment.data import ArmResults, ReportData, arms_with, colours_of, seed_rows


@dataclass(frozen=True, kw_only=True)
class OutcomeMeasure:
    """The metric by which arms are compared in the end, and its words."""

    name: str
    metric: str
    column: str
    """Its name in data and tooltips, and in what results.json holds of the references."""
    axis: str
    title: str
    sentence: str
    references: Mapping[str, LineStyle]
    one_seed: str
    label_width: int = 200
    """Pixels that the name of an arm may take."""
    row: int = 44
    """Pixels of an arm's row."""


def final_outcome(material: ReportData, measure: OutcomeMeasure) -> Figure | None:
    """A row per arm: a point per seed, the mean with its interval, a tick per estimator; None without any error.

    Groups whose values lie apart have a panel each, so that differences within a group can be seen.
    """
    arms = arms_with(material, measure.metric)
    if not arms:
        return None
    ticks = list(_ticks(material, measure, arms))
    near = _near(measure, arms, ticks)
    interval = " with 95 % CIs (t distribution)" if material.n_seeds >= SEEDS else ""
    several_seeds = f"Small points are seeds, and large points are their means{interval}."
    panels = [_outcome_chart(material, measure, those, near) for those in _apart(measure, arms)]
    return Figure(
        name=measure.name,
        part="Outcome",
        title=measure.title,
        caption=join(
            measure.sentence,
            several_seeds if material.n_seeds > 1 else measure.one_seed,
            "Ticks are reference predictors on the same data; those far from all arms are not drawn." if ticks else "",
        ),
        chart=panels[0] if len(panels) == 1 else grid(panels, 1),
    )


def _apart(measure: OutcomeMeasure, arms: list[ArmResults]) -> list[list[ArmResults]]:
    """Return the arms of each group if no two groups' values overlap, and otherwise all arms together."""
    groups = [[arm for arm in arms if arm.group == group] for group in dict.fromkeys(arm.group for arm in arms)]
    spans = sorted(ends(value for arm in group for value in arm.final(measure.metric)) for group in groups)
    return [arms] if any(after[0] <= before[1] for before, after in pairwise(spans)) else groups


def _outcome_chart(
    material: ReportData, measure: OutcomeMeasure, arms: Sequence[ArmResults], ticks: Sequence[Datum]
) -> Any:
    column, value = measure.column, f"{measure.column}:Q"
    summary = [_summary(arm, measure, one_seed=material.n_seeds == 1) for arm in arms]
    seeds = seed_rows(arms, measure.metric, column)
    ticks = [tick for tick in ticks if tick["arm"] in {arm.label for arm in arms}]
    drawn = [row[column] for row in (*seeds, *ticks)]
    drawn += [row[end] for row in summary for end in ENDS]
    width = WIDTH - min(measure.label_width, 8 * max(len(arm.label) for arm in arms))
    x = Axis(column, measure.axis, domain=ends(drawn, beside=14 / width), ticks={"tickCount": max(3, width // 80)})
    y = arms_axis([arm.label for arm in arms], labelLimit=measure.label_width, labelFontSize=12)
    colours = colours_of_column("arm", colours_of(arms))
    shown = ["arm:N", value, "low:Q", "high:Q"]
    layers = points_with_intervals(
        summary, x, y, colours, across=ENDS, thick=2.5, size=110, stroke="white", strokeWidth=1, shown=shown
    )
    if ticks:
        names = colours_of_column("what", {row["what"]: row["colour"] for row in ticks}, "square", columns=3)
        layers.insert(0, strip(ticks, x, y, names, kind="tick", thickness=2.5, size=26, shown=["what:N", value]))
    if material.n_seeds > 1:
        layers.append(strip(seeds, x, y, shown=["arm:N", "seed:N", value]))
    return panel(layers, width, measure.row * len(arms), "").resolve_scale(color="independent")


def _summary(arm: ArmResults, measure: OutcomeMeasure, *, one_seed: bool) -> Datum:
    mean = over_seeds(arm.final(measure.metric), measure.column)
    # Where all have one seed, there is the interval over prompts, as far as runs report its standard error.
    half = 1.96 * float(arm.shown.metrics.get(f"{measure.metric}_se") or 0.0) if one_seed else 0.0
    return {"arm": arm.label, **mean, "low": mean["low"] - half, "high": mean["high"] + half}


def _ticks(material: ReportData, measure: OutcomeMeasure, arms: Sequence[ArmResults]) -> Iterator[Datum]:
    for arm in arms:
        baselines = material.baselines(arm, measure.column)
        for name, (label, colour, _) in measure.references.items():
            if name in baselines:
                yield {"arm": arm.label, "what": label, measure.column: baselines[name], "colour": colour}


def _near(measure: OutcomeMeasure, arms: Sequence[ArmResults], ticks: Sequence[Datum]) -> list[Datum]:
    """Return the ticks that are not far from every arm."""
    values = [value for arm in arms for value in arm.final(measure.metric)]
    low, high = min(values), max(values)
    margin = max((high - low) * 0.5, low * 0.05)
    return [tick for tick in ticks if low - margin <= tick[measure.column] <= high + margin]
