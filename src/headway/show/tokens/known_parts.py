"""Show: how much is right of a task whose answer is known, by kind of question and by what had been read."""

from collections.abc import Callable
from typing import Any

import numpy as np

from headway.data.tokens.hops import guessed
from headway.declare.tokens.hops import HopsTask
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.shared.theme import QUIET
from headway.show.tokens.finished_run import declared
from headway.words import counted


def by_kind(material: ReportData) -> Figure | None:
    """The share of right answers by kind of question, such as the number of hops; None where there is one kind."""
    import altair as alt

    chart = _lines(material, "accuracy_by_kind", "hops", lambda at: at)
    if chart is None:
        return None
    title, caption = "How much is right by the number of hops", _caption(material)
    if guesses := _guesses(material):
        line = alt.Chart(inline(guesses)).mark_line(strokeDash=[4, 3], color=QUIET, strokeWidth=1.6)
        chart += line.encode(x=alt.X("at:O", title="hops"), y="accuracy:Q")
        caption += " Dashed: what is right of one that guesses from the number of hops, the place and its letter alone."
    return Figure(name="accuracy-by-kind", part="Outcome", title=title, caption=caption, chart=chart)


def _guesses(material: ReportData) -> list[dict[str, float]]:
    """What needs no hop, where all arms are asked the same."""
    tasks = [declared(arm.shown).task for arm in material.arms]
    task = tasks[0]
    if not isinstance(task, HopsTask) or any(other != task for other in tasks):
        return []
    return [{"at": k, "accuracy": share} for k, share in enumerate(guessed(task))]


def by_length(material: ReportData) -> Figure | None:
    """The same by what had been read before it was asked; None where that is always the same."""
    title, caption = "How much is right by what had been read", _caption(material)
    chart = _lines(material, "accuracy_by_length", "tokens read, up to", lambda at: 2**at)
    if chart is None:
        return None
    return Figure(name="accuracy-by-length", part="Outcome", title=title, caption=caption, chart=chart, folded=True)


def _caption(material: ReportData) -> str:
    return (
        f"Share of right answers at the end, the mean over up to {counted(material.n_seeds, 'seed')}; thin lines reach "
        "from the worst seed to the best."
    )


def _lines(material: ReportData, metric: str, axis: str, place: Callable[[int], int]) -> Any:
    import altair as alt

    rows = [row for arm in material.arms for row in _rows(arm, metric, place)]
    if len({row["at"] for row in rows}) < 2:
        return None
    names = [arm.label for arm in material.arms]
    colour = alt.Color(
        "arm:N",
        title=None,
        sort=names,
        scale=alt.Scale(domain=names, range=[arm.colour for arm in material.arms]),
        legend=alt.Legend(labelLimit=300),
    )
    base = alt.Chart(inline(rows)).encode(x=alt.X("at:O", title=axis, axis=alt.Axis(labelAngle=0)), color=colour)
    y, low = (
        alt.Y(f"{of}:Q", title="share of right answers", scale=alt.Scale(domain=[0, 1], nice=False))
        for of in ("accuracy", "low")
    )
    return alt.layer(
        base.mark_rule(opacity=0.5).encode(y=low, y2="high:Q"),
        base.mark_line(strokeWidth=2, point=True).encode(
            y=y, tooltip=["arm:N", "at:O", "accuracy:Q", "low:Q", "high:Q"]
        ),
    ).properties(width=WIDTH - 380, height=280)


def _rows(arm: ArmResults, metric: str, place: Callable[[int], int]) -> list[dict[str, Any]]:
    kept = [run.metrics[metric] for run in arm.runs if run.metrics.get(metric)]
    found = []
    for at in range(max(map(len, kept), default=0)):
        values = [share for row in kept if at < len(row) and (share := row[at]) is not None]
        if values:
            ends = {"low": min(values), "high": max(values)}
            found.append({"arm": arm.label, "at": place(at), "accuracy": float(np.mean(values)), **ends})
    return found
