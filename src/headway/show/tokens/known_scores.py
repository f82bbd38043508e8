"""Show: how well each arm does a task whose answer is known, seed by seed, beside the best possible and chance."""

from typing import Any

import numpy as np

from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.shared.theme import INK, QUIET
from headway.words import counted, join

LABELS = 300
ROW = 30
LIMITS = {"best possible": INK, "chance": QUIET}
"""What is drawn beside arms, and in which colour."""


def accuracies(material: ReportData) -> Figure | None:
    """A row per arm with a point per seed, and lines at what is possible and at chance; None without such arms."""
    import altair as alt

    arms = [arm for arm in material.arms if len(arm.final("accuracy"))]
    if not arms:
        return None
    limits = [row for arm in arms for row in _limits(material, arm)]
    there = [name for name in LIMITS if any(row["what"] == name for row in limits)]
    y = alt.Y(
        "arm:N",
        sort=[arm.label for arm in arms],
        title=None,
        axis=alt.Axis(ticks=False, domain=False, labelLimit=LABELS, labelFontSize=12),
    )
    x = alt.X("accuracy:Q", title="share of right answers", scale=alt.Scale(domain=[0, 1], nice=False))
    colour = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=there, range=[LIMITS[name] for name in there]),
        legend=alt.Legend(orient="bottom", symbolType="square", symbolSize=60),
    )
    lines = alt.Chart(inline(limits)).mark_tick(thickness=3, size=ROW - 6)
    lines = lines.encode(x=x, y=y, color=colour, tooltip=["what:N", "accuracy:Q"])
    chart = alt.layer(lines, *_points(arms, x, y)).resolve_scale(color="independent")
    return Figure(
        name="accuracy",
        part="Outcome",
        title="How much is right",
        caption=join(
            f"Share of right answers of each of up to {counted(material.n_seeds, 'seed')} at the end; the ring is "
            "their median.",
            "Black line: what no model of that shape gets beyond." if "best possible" in there else "",
            "Grey line: what is right by chance, without finding what belongs to what." if "chance" in there else "",
        ),
        chart=chart.properties(width=WIDTH - LABELS - 60, height=ROW * len(arms)),
    )


def _points(arms: list[ArmResults], x: Any, y: Any) -> tuple[Any, Any]:
    """Each seed, and their medians."""
    import altair as alt

    seeds = [
        {"arm": arm.label, "accuracy": value, "seed": str(seed)}
        for arm in arms
        for seed, value in arm.by_seed("accuracy").items()
    ]
    medians = [{"arm": arm.label, "accuracy": float(np.median(arm.final("accuracy")))} for arm in arms]
    palette = alt.Scale(domain=[arm.label for arm in arms], range=[arm.colour for arm in arms])
    colour = alt.Color("arm:N", legend=None, scale=palette)
    small = alt.Chart(inline(seeds)).mark_point(size=34, filled=True, opacity=0.45)
    ring = alt.Chart(inline(medians)).mark_point(size=120, filled=False, strokeWidth=2, opacity=1)
    return (
        small.encode(x=x, y=y, color=colour, tooltip=["arm:N", "seed:N", "accuracy:Q"]),
        ring.encode(x=x, y=y, color=colour, tooltip=["arm:N", "accuracy:Q"]),
    )


def _limits(material: ReportData, arm: ArmResults) -> list[dict[str, Any]]:
    found = {
        "best possible": arm.shown.run.spec.best_possible.get("accuracy"),
        "chance": material.baselines(arm).get("chance", {}).get("accuracy"),
    }
    return [{"arm": arm.label, "what": name, "accuracy": at} for name, at in found.items() if at is not None]
