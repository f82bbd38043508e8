"""Show: how unequal heads become while a model trains: how few of them have half of all importance."""

from typing import Any

import numpy as np

from headway.compare.tokens.head_progress import scores_at
from headway.declare.log_spaced import thinned
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import WIDTH, Figure, inline, keyed
from headway.show.shared.theme import QUIET, SOLID
from headway.words import counted, join

_METRIC = "michel_importance_nats"
_POINTS = 60


def inequality(material: ReportData) -> Figure | None:
    """The share of heads that have half of all importance, over training; None where it was not probed."""
    import altair as alt

    found = [(arm, rows) for arm in material.arms if len(rows := _rows(arm)) > 1]
    if not found:
        return None
    look = keyed("arm", [(arm.label, arm.colour, SOLID) for arm, _ in found], nested=False)
    base = alt.Chart(inline([row for _, rows in found for row in rows])).encode(
        x=alt.X("step:Q", title="training step", scale=alt.Scale(nice=False))
    )
    y = "share of the heads that have half of all importance (%)"
    low, line = (alt.Y(f"{end}:Q", title=y, scale=alt.Scale(domain=[0, 55], nice=False)) for end in ("low", "share"))
    tooltip = ["arm:N", "step:Q", "share:Q", "low:Q", "high:Q"]
    even = alt.Chart(inline([{"share": 50.0}])).mark_rule(color=QUIET, strokeDash=[4, 3]).encode(y=line)
    return Figure(
        name="importance-settles",
        part="Outcome",
        title="How unequal heads become",
        caption=join(
            "Michel's importance of every head on the probes' sequences, while the model trains. Dashed: all heads "
            "matter alike. The lower, the fewer heads do half of the work.",
            f"Mean of {counted(material.n_seeds, 'seed')}; the band reaches from the smallest to the largest seed."
            if material.n_seeds > 1
            else "One seed.",
        ),
        chart=alt.layer(
            even,
            base.mark_area(opacity=0.18).encode(y=low, y2="high:Q", color=look["color"]),
            base.mark_line().encode(y=line, **look, tooltip=tooltip),
        ).properties(width=WIDTH - 60, height=300),
    )


def _rows(arm: ArmResults) -> list[dict[str, Any]]:
    steps = sorted(set.intersection(*(set(run.run.head_steps()) for run in arm.runs)))
    found = []
    for at in thinned(steps, _POINTS) if steps else []:
        shares = [share for run in arm.runs if (share := _share(run.run, steps[at])) is not None]
        if shares:
            mean, low, high = float(np.mean(shares)), min(shares), max(shares)
            found.append({"arm": arm.label, "step": steps[at], "share": mean, "low": low, "high": high})
    return found


def _share(run: Any, step: int) -> float | None:
    """The fewest heads with half of all importance, in per cent of all; in between two numbers of heads by their share.

    None where importance was not measured.
    """
    score = scores_at(run, step).get(_METRIC)
    if score is None:
        return None
    values = np.sort(np.concatenate([np.asarray(v, float) for v in score.values.values()]))[::-1]
    if not values.sum() > 0:
        return 50.0
    reached = np.concatenate([[0.0], values.cumsum() / values.sum()])
    return float(100 * np.interp(0.5, reached, np.linspace(0, 1, len(reached))))
