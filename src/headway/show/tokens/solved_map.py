"""Show: in how many of its seeds each arm solves a task, beside what is possible at all."""

from collections.abc import Sequence
from typing import Any

from headway.compare.share_verdicts import decimal
from headway.compare.shares import Share
from headway.declare.run import RunSpec
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import Figure, inline
from headway.show.shared.theme import INK
from headway.show.tokens.finished_run import declared
from headway.words import counted, join

PART = "Outcome"


def solved_map(material: ReportData) -> Figure | None:
    """A cell for each arm: tasks by heads, with the threshold of what is possible; None where two arms share one."""
    rows = [row for arm in material.arms if (row := _row(arm)) is not None]
    places = {(row["task"], row["heads"], row["control"]) for row in rows}
    if not rows or len(places) < len(rows):  # arms that differ in something else have no place in a map of heads
        return None
    bounded = any(row["possible"] == "no" for row in rows)
    return Figure(
        name="share-solved",
        part=PART,
        title="In how many seeds the task is solved",
        caption=join(
            f"Share of up to {counted(material.n_seeds, 'seed')} of each arm that end with the task solved, and in "
            "brackets the best accuracy of any seed.",
            "Dashed frames: no model of that shape can solve it, by theory." if bounded else "",
        ),
        chart=_panels(rows),
    )


def _panels(rows: Sequence[dict[str, Any]]) -> Any:
    """A map for each control, one above the other."""
    import altair as alt

    tasks = list(dict.fromkeys(row["task"] for row in rows))
    columns = sorted({row["heads"] for row in rows}, key=lambda heads: (sum(map(int, heads.split("-"))), heads))
    panels_of = {row["control"]: row["panel"] for row in rows}
    base = alt.Chart(inline(rows)).encode(
        x=alt.X("heads:O", sort=columns, title="heads of each layer", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("task:N", sort=tasks, title=None, axis=alt.Axis(labelLimit=300)),
    )
    tooltip = ["arm:N", "share:Q", "low:Q", "high:Q", "seeds:Q", "possible:N", "best:Q"]
    cells = base.mark_rect().encode(
        color=alt.Color("share:Q", scale=alt.Scale(scheme="blues", domain=[0, 1]), title="share of seeds"),
        tooltip=tooltip,
    )
    # What theory rules out is framed, so that its edge is the threshold.
    ruled_out = (
        base.transform_filter("datum.possible === 'no'")
        .mark_rect(filled=False, stroke=INK, strokeWidth=2, strokeDash=[4, 2])
        .encode(tooltip=tooltip)
    )
    said = base.mark_text(fontSize=12).encode(
        text="said:N", color=alt.condition("datum.share > 0.6", alt.value("white"), alt.value(INK))
    )
    panels = [
        alt.layer(cells, ruled_out, said)
        .transform_filter(f"datum.control === {control!r}")
        .properties(width=90 * len(columns), height=44 * len(tasks), title=title)
        for control, title in panels_of.items()
    ]
    return alt.vconcat(*panels, spacing=24)


def _row(arm: ArmResults) -> dict[str, Any] | None:
    """What is shown of an arm; None where its runs are not told by yes or no."""
    solved = arm.final("solved")
    if not len(solved):
        return None
    run = declared(arm.shown)
    share = Share(yes=int((solved > 0).sum()), n=len(solved))
    low, high = share.interval
    best = max(arm.final("accuracy"), default=0.0)
    return {
        "arm": arm.label,
        "task": run.task.title,
        "heads": "-".join(map(str, run.model.layout.n_heads)),
        "control": _mlp(arm) if arm.control is None else arm.control,
        "panel": _panel(arm),
        "share": share.value,
        "low": low,
        "high": high,
        "seeds": share.n,
        "best": float(best),
        "possible": _possible(run),
        "said": f"{decimal(share.value)} ({best:.3f})".replace("0.", "."),
    }


def _panel(arm: ArmResults) -> str:
    """What the arms of a panel have in common: their control, or what their model is made of where that tells it."""
    plain = _mlp(arm)
    return plain if arm.control is None or plain != "attention alone" else arm.control


def _mlp(arm: ArmResults) -> str:
    """Arms with an MLP, or with smeared keys, stand apart from those of attention alone."""
    model = declared(arm.shown).model
    return ("attention alone" if model.mlp == "none" else "with an MLP") + ", keys smeared" * model.smeared_keys


def _possible(run: RunSpec) -> str:
    best = run.best_possible.get("solved")
    return "not known" if best is None else "yes" if best > 0 else "no"
