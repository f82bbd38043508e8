"""Show: errors of answers that are numbers against the number of heads, with the arms that have as many as needed."""

from typing import Any

from headway.declare.tokens.retrieval import RetrievalTask
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import Figure, inline
from headway.show.shared.theme import arm_colour
from headway.show.tokens.finished_run import declared
from headway.words import counted, join

SMALLEST = 1e-12
"""What is drawn of an error of 0 on an axis of logarithms."""


def errors_by_heads(material: ReportData) -> Figure | None:
    """Error over variance against the heads of a layer, a colour per task, a panel per control; None without errors."""
    import altair as alt

    rows = [row for arm in material.arms for row in _rows(arm)]
    if not rows:
        return None
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    palette = alt.Scale(domain=tasks, range=[arm_colour(at) for at in range(len(tasks))])
    colour = alt.Color("task:N", title=None, sort=tasks, scale=palette)
    heads = sorted({row["heads"] for row in rows})
    panels = [
        _panel([row for row in rows if row["control"] == control], colour, heads).properties(
            title="" if control is None else material.experiment.control_label(control)
        )
        for control in dict.fromkeys(row["control"] for row in rows)
    ]
    return Figure(
        name="error-by-heads",
        part="Outcome",
        title="Error by the number of heads",
        caption=join(
            "Mean squared error over the variance of what is asked, of each of up to "
            f"{counted(material.n_seeds, 'seed')} at the end; lines join medians. The axis is logarithmic.",
            "Rings: layers times heads reach the number of things to be found."
            if any(r["enough"] for r in rows)
            else "",
        ),
        chart=alt.concat(*panels, columns=2, spacing=30).resolve_scale(y="shared"),
    )


def _panel(rows: list[dict[str, Any]], colour: Any, heads: list[int]) -> Any:
    import altair as alt

    x = alt.X("heads:O", title="heads of a layer", sort=heads, axis=alt.Axis(labelAngle=0, grid=False))
    y, middle = (
        alt.Y(value, title="error over variance", scale=alt.Scale(type="log"), axis=alt.Axis(format="~e"))
        for value in ("nmse:Q", "median(nmse):Q")
    )
    points = alt.Chart(inline(rows)).mark_point(filled=True, size=22, opacity=0.5)
    lines = alt.Chart(inline(rows)).mark_line(strokeWidth=2)
    rings = alt.Chart(inline([row for row in rows if row["enough"]])).mark_point(
        size=170, filled=False, strokeWidth=1.6, opacity=1
    )
    return alt.layer(
        points.encode(x=x, y=y, color=colour, tooltip=["arm:N", "seed:N", "nmse:Q"]),
        lines.encode(x=x, y=middle, color=colour),
        rings.encode(x=x, y=middle, color=colour),
    ).properties(width=min(420, 90 * len(heads)), height=260)


def _rows(arm: ArmResults) -> list[dict[str, Any]]:
    run = declared(arm.shown)
    return [
        {
            "arm": arm.label,
            "task": run.task.title,
            "heads": max(run.model.layout.n_heads),
            "control": arm.control,
            "seed": str(seed),
            "nmse": max(error, SMALLEST),
            "enough": isinstance(run.task, RetrievalTask) and run.model.layout.total >= run.task.targets,
        }
        for seed, error in arm.by_seed("nmse").items()
    ]
