"""Show: the data lane: how much of the stream it carries, before each layer and over training."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headway.declare.log_spaced import thinned
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import WIDTH, Figure, Look, inline, keyed
from headway.show.shared.summary import SEEDS, over_seeds
from headway.show.shared.theme import SOLID
from headway.show.tokens.finished_run import declared
from headway.words import counted, join

METRIC = "lane_share"
POINTS = 120
PLACES = ("#1d3557", "#2f6db3", "#56b4e9", "#2a9d5c", "#9acd32", "#d4a017", "#e4572e", "#c2185b", "#8e44ad")
"""Colours of the places along the stream, from the first layer on; more places share the ends' mixture."""


def lane_use(material: ReportData) -> Figure | None:
    """The lane's share of the stream's squared norm; None without a lane."""
    import altair as alt

    arms = [arm for arm in material.arms if has_lane(arm) and arm.shown.metrics.get(METRIC)]
    if not arms:
        return None
    panels = [_at_the_end(arms)]
    over = [arm for arm in arms if len(arm.shown.series(METRIC)[0]) > 1]
    rows: list[Any] = [alt.hconcat(*panels)]
    columns = min(4, max(1, len(over)))
    width = (WIDTH - 60) // columns - 50
    for at in range(0, len(over), columns):
        rows.append(alt.hconcat(*(_over_training(arm, width) for arm in over[at : at + columns])))
    return Figure(
        name="lane-use",
        part="Data lane",
        title="How much of the stream is in the lane",
        caption=join(
            "The lane's share of the stream's squared norm, averaged over tokens, before each layer and before the "
            "final norm. Grey: the lane's share of the width, which it would have if all entries were alike.",
            f"Above, at the end of training: the mean over {counted(material.n_seeds, 'seed')}"
            + (", with its 95 % interval (t)." if material.n_seeds >= SEEDS else ".")
            if material.n_seeds > 1
            else "Above, at the end of training.",
            f"Below, during training, seed {' or '.join(sorted({str(arm.shown.seed) for arm in over}))}."
            if over
            else "",
        ),
        chart=alt.vconcat(*rows).resolve_scale(color="independent"),
    )


def has_lane(arm: ArmResults) -> bool:
    """Whether the model of an arm has a data lane."""
    model = declared(arm.shown).model
    return model.embedding_width < model.d_model


def _places(n: int) -> list[str]:
    return [*(f"layer {layer}" for layer in range(n - 1)), "final norm"]


def _at_the_end(arms: Sequence[ArmResults]) -> Any:
    import altair as alt

    longest = max(len(arm.shown.metrics[METRIC]) for arm in arms)
    looks: list[Look] = [(arm.label, arm.colour, SOLID) for arm in arms]
    look = keyed("what", looks, nested=False)
    rows = []
    for arm in arms:
        shares = np.array([run.metrics[METRIC] for run in arm.runs if run.metrics.get(METRIC)], dtype=float)
        for place, column in zip(_places(shares.shape[1]), shares.T, strict=True):
            mean = over_seeds(column)
            rows.append({"what": arm.label, "place": place, "share": mean.mean, "low": mean.low, "high": mean.high})
    x = alt.X(
        "place:N", title="before", sort=_places(longest), axis=alt.Axis(labelAngle=0), scale=alt.Scale(padding=0.4)
    )
    y = alt.Y("share:Q", title="share in the lane", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    chart = alt.Chart(inline(rows)).encode(x=x)
    layers = [
        chart.mark_rule(strokeWidth=1.6).encode(
            y=alt.Y("low:Q", title="share in the lane"), y2="high:Q", color=look["color"]
        ),
        chart.mark_line().encode(y=y, color=look["color"]),
        chart.mark_point(size=60, filled=True, opacity=1).encode(
            y=y, color=look["color"], tooltip=["what:N", "place:N", alt.Tooltip("share:Q", format=".1%")]
        ),
    ]
    return alt.layer(*layers).properties(width=WIDTH - 80, height=270, title="at the end of training")


def _over_training(arm: ArmResults, width: int) -> Any:
    import altair as alt

    places = _places(arm.shown.series(METRIC)[1].shape[1])
    colours = alt.Scale(domain=places, range=[PLACES[i % len(PLACES)] for i in range(len(places))])
    model = declared(arm.shown).model
    width_share = 1 - model.embedding_width / model.d_model
    x = alt.X(
        "step:Q",
        title="training step",
        axis=alt.Axis(tickCount=3, labelExpr="datum.value ? format(datum.value, '~s') : '0'"),
    )
    y = alt.Y("share:Q", title="share in the lane", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    legend = alt.Legend(title="before", orient="bottom", columns=5)
    lines = alt.Chart(inline(_rows(arm, places))).mark_line(strokeWidth=1.8)
    tooltip = ["place:N", "step:Q", alt.Tooltip("share:Q", format=".1%")]
    rule = alt.Chart(inline([{"share": width_share}])).mark_rule(color="#b4b8bf", strokeDash=[4, 3]).encode(y=y)
    drawn = lines.encode(
        x=x, y=y, color=alt.Color("place:N", sort=places, scale=colours, legend=legend), tooltip=tooltip
    )
    return alt.layer(rule, drawn).properties(width=width, height=190, title=arm.label)


def _rows(arm: ArmResults, places: Sequence[str]) -> Iterator[dict[str, Any]]:
    steps, shares = arm.shown.series(METRIC)
    for at in thinned(steps.tolist(), POINTS):
        for place, share in zip(places, shares[at], strict=True):
            yield {"place": place, "step": steps[at], "share": share}
