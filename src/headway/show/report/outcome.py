"""Show: what every arm is judged by in the end, seed by seed, beside what needs no training on the same task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import WIDTH, Figure, ends, inline
from headway.show.shared.summary import SEEDS, over_seeds
from headway.show.shared.theme import INK
from headway.words import join

CLOSE = 0.1
"""Arms within this fraction of the best arm's error are drawn once more in a panel of their own."""

WIDER = 3.0
"""Those arms are drawn once more only if they lie within a range this many times smaller than that of all arms."""


@dataclass(frozen=True, kw_only=True)
class OutcomeMeasure:
    """What arms are judged by, and in which words."""

    name: str
    metric: str
    column: str
    """Its name in data and tooltips, and in what results.json holds of the references."""
    axis: str
    title: str
    sentence: str
    references: Mapping[str, tuple[str, str, tuple[float, ...]]]
    ticks: str
    one_seed: str
    label_width: int = 200
    """Pixels that the name of an arm may take."""
    row: int = 44
    """Pixels of an arm's row."""


def final_outcome(material: ReportData, measure: OutcomeMeasure) -> Figure | None:
    """A row per arm: a point per seed, the mean with its interval, a tick per estimator; None without any error."""
    import altair as alt

    arms = [arm for arm in material.arms if len(arm.final(measure.metric))]
    if not arms:
        return None
    best = min(arm.final(measure.metric).mean() for arm in arms)
    close = [arm for arm in arms if arm.final(measure.metric).mean() <= best * (1 + CLOSE)]
    reach = max(arm.final(measure.metric).max() for arm in arms) - best
    zoomed = 1 < len(close) < len(arms) and reach > WIDER * (
        max(arm.final(measure.metric).max() for arm in close) - best
    )
    labels = min(measure.label_width, 8 * max(len(arm.label) for arm in arms))
    width = (WIDTH - 40) // 2 - labels if zoomed else WIDTH - labels
    panels = [_panel(material, measure, arms, width, "all arms" if zoomed else "")]
    if zoomed:
        panels.append(
            _panel(material, measure, close, width, f"arms within {100 * CLOSE:.0f} % of the best", legend=False)
        )
    several = material.n_seeds > 1
    return Figure(
        name=measure.name,
        part="Outcome",
        title=measure.title,
        caption=join(
            measure.sentence,
            "A small point per seed; the large point is their mean"
            + (
                ", the bar its 95 % interval over seeds (t)."
                if material.n_seeds >= SEEDS
                else "; too few seeds for an interval."
            )
            if several
            else measure.one_seed,
            "Of finalists of the search their fresh seeds alone; of the other arms those of the search."
            if material.results.search is not None and material.results.search.first_fresh is not None
            else "",
            measure.ticks,
            "They are left out where they lie far from every arm." if _far(material, measure, arms) else "",
            "Right: the same, drawn larger." if zoomed else "",
        ),
        chart=alt.hconcat(*panels, spacing=30),
    )


def _panel(
    material: ReportData,
    measure: OutcomeMeasure,
    arms: Sequence[ArmResults],
    width: int,
    title: str,
    *,
    legend: bool = True,
) -> Any:
    import altair as alt

    one_seed = material.n_seeds == 1
    summary, ticks = [_summary(arm, measure, one_seed=one_seed) for arm in arms], list(_ticks(material, measure, arms))
    seeds = [
        {"arm": arm.label, measure.column: run.metrics[measure.metric], "seed": str(run.seed)}
        for arm in arms
        for run in arm.runs
        if run.metrics.get(measure.metric) is not None
    ]
    value = f"{measure.column}:Q"
    y = alt.Y(
        "arm:N",
        sort=[arm.label for arm in arms],
        title=None,
        axis=alt.Axis(ticks=False, domain=False, labelLimit=measure.label_width, labelFontSize=12),
    )
    values = [row[measure.column] for row in (*seeds, *ticks)]
    values += [row[end] for row in summary for end in ("low", "high")]
    x = alt.X(
        value,
        title=measure.axis,
        scale=alt.Scale(domain=ends(values, beside=14 / width), nice=False, zero=False),
        axis=alt.Axis(tickCount=max(3, width // 80)),
    )
    arm_colour = alt.Color(
        "arm:N", legend=None, scale=alt.Scale(domain=[a.label for a in arms], range=[a.colour for a in arms])
    )
    looks = {row["what"]: row["colour"] for row in ticks}
    names = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=list(looks), range=list(looks.values())),
        legend=alt.Legend(symbolType="square", symbolSize=60, orient="bottom", columns=3) if legend else None,
    )
    means = alt.Chart(inline(summary)).encode(y=y, color=arm_colour)
    tooltip = [alt.Tooltip("arm:N"), value, "low:Q", "high:Q"]
    layers = [
        alt.Chart(inline(ticks))
        .mark_tick(thickness=2.5, size=26)
        .encode(x=x, y=y, color=names, tooltip=["what:N", value]),
        means.mark_rule(strokeWidth=2.5).encode(x="low:Q", x2="high:Q"),
        means.mark_point(size=110, filled=True, opacity=1, stroke="white", strokeWidth=1).encode(x=x, tooltip=tooltip),
    ]
    if material.n_seeds > 1:
        points = alt.Chart(inline(seeds)).mark_point(size=26, filled=True, opacity=0.9, color=INK)
        layers.append(points.encode(x=x, y=y, tooltip=["arm:N", "seed:N", value]))
    chart = alt.layer(*layers[not ticks :]).resolve_scale(color="independent")
    return chart.properties(width=width, height=measure.row * len(arms), title=title)


def _summary(arm: ArmResults, measure: OutcomeMeasure, *, one_seed: bool) -> dict[str, Any]:
    values = arm.final(measure.metric)
    found = over_seeds(values)
    # Where all have one seed, there is the interval over prompts, as far as runs report its standard error.
    half = 1.96 * float(arm.shown.metrics.get(f"{measure.metric}_se") or 0.0) if one_seed else 0.0
    return {"arm": arm.label, measure.column: found.mean, "low": found.low - half, "high": found.high + half}


def _ticks(material: ReportData, measure: OutcomeMeasure, arms: Sequence[ArmResults]) -> Iterator[dict[str, Any]]:
    low, high = _near(measure, arms)
    for arm in arms:
        for name, (label, colour, _) in measure.references.items():
            error = material.baselines(arm).get(name, {}).get(measure.column)
            if error is not None and low <= error <= high:
                yield {"arm": arm.label, "what": label, measure.column: error, "colour": colour}


def _near(measure: OutcomeMeasure, arms: Sequence[ArmResults]) -> tuple[float, float]:
    values = [value for arm in arms for value in arm.final(measure.metric)]
    low, high = min(values), max(values)
    margin = max((high - low) * 0.5, low * 0.05)
    return low - margin, high + margin


def _far(material: ReportData, measure: OutcomeMeasure, arms: Sequence[ArmResults]) -> bool:
    low, high = _near(measure, arms)
    found = [b for arm in arms for name, b in material.baselines(arm).items() if name in measure.references]
    errors = [b.get(measure.column) for b in found]
    return any(error is not None and not low <= error <= high for error in errors)
