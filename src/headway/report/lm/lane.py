"""A drawing of the data lane: where the embedding enters the residual stream, what starts empty, what is read out."""

from collections.abc import Iterable, Iterator
from typing import Any

from headway.base.text import listed
from headway.config.lm.model import TransformerModel
from headway.report.charts.figure import INK, QUIET, WIDTH, Figure, alt, grid, inline, panel
from headway.report.experiment.data import ReportData
from headway.report.lm.common import declared
from headway.report.lm.training import has_lane

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


def _drawable(columns: Iterable[str], shapes: Iterable[tuple[Any, ...]]) -> Any:
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
