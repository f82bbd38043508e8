"""Show: arms of different tasks in panels of their own: errors on different tasks share no axis."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headway.show.report.report_data import ReportData
from headway.show.shared.figure import Figure
from headway.words import join

_SENTENCES = re.compile(r"(?<=\.) (?=[A-Z])")


def by_task(draw: Callable[[ReportData], Figure | None], material: ReportData) -> Figure | None:
    """A figure of all arms, a panel below the other for each task; None where no task has anything to draw."""
    import altair as alt

    if len(material.tasks) < 2:
        return draw(material)
    drawn = [(name, figure) for name, part in material.tasks if (figure := draw(part)) is not None]
    if not drawn:
        return None
    charts: list[Any] = [figure.chart.properties(title=name) for name, figure in drawn]
    together = alt.vconcat(*charts, spacing=30)
    sentences = dict.fromkeys(said for _, figure in drawn for said in _SENTENCES.split(figure.caption))
    return replace(
        drawn[0][1],
        caption=join("A panel per task, each on axes of its own.", *sentences),
        chart=together.resolve_scale(color="independent", strokeDash="independent", strokeWidth="independent"),
    )
