"""Figures of the data lane: its share of the residual stream, and a drawing of its place in the model.

The share is drawn before each layer and over training. The drawing shows where the embedding enters the stream, which
part starts empty, and which part is read out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from headway.base.text import counted, join, listed
from headway.config.lm.model import TransformerModel
from headway.config.spec import thinned
from headway.report.charts.figure import INK, QUIET, WIDTH, Figure, alt, colours_of_column, grid, inline, panel
from headway.report.charts.intervals import SEEDS, over_seeds
from headway.report.charts.lines import Axis, line_bands, rule
from headway.report.experiment.data import ArmResults, ReportData
from headway.report.lm.common import declared

METRIC = "lane_share"
POINTS = 120
PLACES = ("#1d3557", "#2f6db3", "#56b4e9", "#2a9d5c", "#9acd32", "#d4a017", "#e4572e", "#c2185b", "#8e44ad")
"""Colours of the places along the stream, from the first layer on; more places share the ends' mixture."""


def lane_use(material: ReportData) -> Figure | None:
    """The lane's share of the stream's squared norm; None without a lane."""
    arms = [arm for arm in material.arms if has_lane(arm) and arm.shown.metrics.get(METRIC)]
    if not arms:
        return None
    over = [arm for arm in arms if len(arm.shown.series(METRIC)[0]) > 1]
    columns = min(4, max(1, len(over)))
    width = (WIDTH - 60) // columns - 50
    rows = [_at_the_end(arms)]
    if over:
        rows.append(grid([_over_training(arm, width) for arm in over], columns))
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
        chart=grid(rows, 1).resolve_scale(color="independent"),
    )


SHARE = Axis("share", "share in the lane", domain=[0, 1], ticks={"format": "%"})


def has_lane(arm: ArmResults) -> bool:
    """Return whether the model of an arm has a data lane."""
    model = declared(arm.shown).model
    return model.embedding_width < model.d_model


def _places(n: int) -> list[str]:
    return [*(f"layer {layer}" for layer in range(n - 1)), "final norm"]


def _at_the_end(arms: Sequence[ArmResults]) -> Any:
    rows = []
    for arm in arms:
        shares = np.array([run.metrics[METRIC] for run in arm.runs if run.metrics.get(METRIC)], dtype=float)
        for place, column in zip(_places(shares.shape[1]), shares.T, strict=True):
            rows.append({"what": arm.label, "place": place, **over_seeds(column).row("share")})
    places = _places(max(len(arm.shown.metrics[METRIC]) for arm in arms))
    x = Axis("place", "before", order=places, scale={"padding": 0.4}, ticks={"labelAngle": 0})
    colour = colours_of_column("what", {arm.label: arm.colour for arm in arms}, "stroke", columns=4)
    lines = line_bands(rows, x, SHARE, colour, spread="bar", points=60, shown=["what:N", "place:N", ("share:Q", ".1%")])
    return panel(lines, WIDTH - 80, 270, "at the end of training")


def _over_training(arm: ArmResults, width: int) -> Any:
    places, model = _places(arm.shown.series(METRIC)[1].shape[1]), declared(arm.shown).model
    ticks = {"tickCount": 3, "labelExpr": "datum.value ? format(datum.value, '~s') : '0'"}
    palette = {place: PLACES[at % len(PLACES)] for at, place in enumerate(places)}
    colour = colours_of_column("place", palette, "stroke", title="before", columns=5)
    shown = ["place:N", "step:Q", ("share:Q", ".1%")]
    rows = list(_rows(arm, places))
    x = Axis("step", "training step", ticks=ticks)
    lines = line_bands(rows, x, SHARE, colour, spread=None, strokeWidth=1.8, shown=shown)
    even = rule([1 - model.embedding_width / model.d_model], y=SHARE, colour="#b4b8bf", dash=(4, 3))
    return panel([even, *lines], width, 190, arm.label)


def _rows(arm: ArmResults, places: Sequence[str]) -> Iterator[dict[str, Any]]:
    steps, shares = arm.shown.series(METRIC)
    for at in thinned(steps.tolist(), POINTS):
        for place, share in zip(places, shares[at], strict=True):
            yield {"place": place, "step": steps[at], "share": share}


EMBEDDED, LANE, BOX, LINE = "#cfe0f3", "#fbe9c6", "#ffffff", "#9aa0a8"
SLABS = ((330.0, 420.0), (500.0, 590.0), (650.0, 710.0))
"""Left and right ends of the first layer, the last layer and the norm."""
LEFT, RIGHT, BOTTOM, TOP = 240.0, 760.0, 20.0, 180.0
"""Ends of the stream in the drawing, in pixels."""


def lane_diagram(material: ReportData) -> Figure | None:
    """A drawing per kind of lane: same or switched side, positions in it or not; None without a lane."""
    kinds: dict[tuple[str, bool], list[Any]] = {}
    for arm in material.arms:
        if has_lane(arm):
            model = declared(arm.shown).model
            kinds.setdefault((model.lane, model.positions_in_lane), []).append(arm)
    if not kinds:
        return None
    drawings = [
        panel(_drawing(declared(arms[0].shown).model), WIDTH - 20, 210, _title(listed(arm.label for arm in arms), side))
        for (side, _), arms in kinds.items()
    ]
    return Figure(
        name="lane-diagram",
        part="Data lane",
        title="The data lane",
        caption="The residual stream from left to right, as high as it is wide in the model; heights are in proportion "
        "for the first arm named. The token embedding fills only the blue entries; the yellow ones, the lane, start "
        "at zero unless positions are added to them, and are free for the heads. Every layer reads and writes all "
        "entries; the read-out takes as many as the embedding has, with the same weights.",
        chart=grid(drawings, 1, (18, 18)),
    )


def _title(arms: str, side: str) -> str:
    return f"{arms}: " + ("read out on the same side" if side == "same" else "read out on the other side")


def _drawing(model: TransformerModel) -> list[Any]:
    x, x2 = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, WIDTH - 20])), alt.X2("x2:Q")
    y, y2 = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[0, 210])), alt.Y2("y2:Q")
    fills = [EMBEDDED, LANE, BOX]
    fill = alt.Fill("fill:N", scale=alt.Scale(domain=fills, range=fills), legend=None)
    boxes, arrows = alt.Chart(_drawable(("x", "x2", "y", "y2", "fill"), _boxes(model))), _arrows(model)
    tips: dict[str, Any] = {"shape": "triangle-right", "size": 70, "filled": True, "color": INK, "opacity": 1}
    drawn = [
        boxes.mark_rect(stroke=LINE, strokeWidth=1, cornerRadius=3).encode(x=x, x2=x2, y=y, y2=y2, fill=fill),
        arrows.mark_rule(color=INK, strokeWidth=1.5).encode(x=x, x2=x2, y=y),
        arrows.mark_point(**tips).encode(x=alt.X("tip:Q", axis=None), y=y),
    ]
    names, notes = (alt.Chart(_drawable(("x", "y", "text"), of(model))) for of in (_names, _notes))
    for mark in (names.mark_text(fontSize=12, fontWeight="bold", color=INK), notes.mark_text(fontSize=11, color=QUIET)):
        drawn.append(mark.encode(x=x, y=y, text="text:N"))
    return drawn


def _drawable(columns: Sequence[str], shapes: Iterable[tuple[Any, ...]]) -> Any:
    return inline(dict(zip(columns, shape, strict=True)) for shape in shapes)


def _split(model: TransformerModel) -> float:
    """Return the height at which the embedded entries, below, end and the lane begins; a narrow part stays visible."""
    return BOTTOM + (TOP - BOTTOM) * min(0.85, max(0.15, model.embedding_width / model.d_model))


def _read(model: TransformerModel) -> tuple[float, float]:
    """The entries that the read-out takes."""
    split = _split(model)
    return (BOTTOM, split) if model.lane == "same" else (TOP - (split - BOTTOM), TOP)


def _boxes(model: TransformerModel) -> Iterator[tuple[float, float, float, float, str]]:
    split, (low, high) = _split(model), _read(model)
    yield LEFT, RIGHT, BOTTOM, split, EMBEDDED
    yield LEFT, RIGHT, split, TOP, LANE
    yield 20, 180, BOTTOM, split, BOX
    yield 820, 960, low, high, BOX
    for left, right in SLABS:
        yield left, right, BOTTOM - 8, TOP + 8, BOX


def _arrows(model: TransformerModel) -> Any:
    into, out = (BOTTOM + _split(model)) / 2, sum(_read(model)) / 2
    return alt.Chart(_drawable(("x", "x2", "tip", "y"), [(180, LEFT - 8, LEFT - 6, into), (RIGHT, 812, 814, out)]))


def _names(model: TransformerModel) -> Iterator[tuple[float, float, str]]:
    split, middle, ((a, b), (c, d), (e, f)) = _split(model), (BOTTOM + TOP) / 2, SLABS
    yield 100, (BOTTOM + split) / 2, "token embedding"
    yield LEFT + 45, (split + TOP) / 2, f"lane: {model.d_model - model.embedding_width}"
    yield LEFT + 45, (BOTTOM + split) / 2, f"{model.embedding_width}"
    yield (a + b) / 2, middle, "layer 0"
    yield (b + c) / 2, middle, "· · ·"
    yield (c + d) / 2, middle, f"layer {model.n_layers - 1}"
    yield (e + f) / 2, middle, "norm"
    yield 890, sum(_read(model)) / 2, "read-out"


def _notes(model: TransformerModel) -> Iterator[tuple[float, float, str]]:
    split, (low, _) = _split(model), _read(model)
    yield 100, BOTTOM - 11, f"{model.embedding_width} columns"
    yield LEFT - 70, (split + TOP) / 2, "positions are added here" if model.positions_in_lane else "starts at zero"
    yield 890, low - 11 if low > BOTTOM else BOTTOM - 11, f"{model.embedding_width} entries"
    yield (LEFT + RIGHT) / 2, TOP + 18, f"residual stream, {model.d_model} wide"
