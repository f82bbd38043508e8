"""Show: a drawing of the data lane: where the embedding enters the stream, what starts empty, where it is read out."""

from collections.abc import Iterator
from typing import Any

from headway.declare.tokens.transformer import TransformerModel
from headway.show.report.report_data import ReportData
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.shared.theme import INK, QUIET
from headway.show.tokens.finished_run import declared
from headway.show.tokens.lane import has_lane
from headway.words import listed

EMBEDDED, LANE, BOX, LINE = "#cfe0f3", "#fbe9c6", "#ffffff", "#9aa0a8"
Shape = dict[str, Any]

LEFT, RIGHT, BOTTOM, TOP = 240.0, 760.0, 20.0, 180.0
"""Ends of the stream in the drawing, in pixels."""


def lane_diagram(material: ReportData) -> Figure | None:
    """A drawing per kind of lane: same or switched side, positions in it or not; None without a lane."""
    import altair as alt

    kinds: dict[tuple[str, bool], list[Any]] = {}
    for arm in material.arms:
        if has_lane(arm):
            model = declared(arm.shown).model
            kinds.setdefault((model.lane, model.positions_in_lane), []).append(arm)
    if not kinds:
        return None
    drawings = [
        _drawing(declared(arms[0].shown).model).properties(
            width=WIDTH - 20, height=210, title=_title(listed(arm.label for arm in arms), side)
        )
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
        chart=alt.vconcat(*drawings, spacing=18),
    )


def _title(arms: str, side: str) -> str:
    return f"{arms}: " + ("read out on the same side" if side == "same" else "read out on the other side")


def _drawing(model: TransformerModel) -> Any:
    import altair as alt

    boxes, texts, arrows = list(_boxes(model)), list(_texts(model)), list(_arrows(model))
    x, x2 = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, WIDTH - 20])), alt.X2("x2:Q")
    y, y2 = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[0, 210])), alt.Y2("y2:Q")
    fills = [EMBEDDED, LANE, BOX]
    fill = alt.Fill("fill:N", scale=alt.Scale(domain=fills, range=fills), legend=None)
    drawn = [
        alt.Chart(inline(boxes))
        .mark_rect(stroke=LINE, strokeWidth=1, cornerRadius=3)
        .encode(x=x, x2=x2, y=y, y2=y2, fill=fill, opacity=alt.Opacity("opacity:Q", scale=None)),
        alt.Chart(inline(arrows)).mark_rule(color=INK, strokeWidth=1.5).encode(x=x, x2=x2, y=y),
        alt.Chart(inline(arrows))
        .mark_point(shape="triangle-right", size=70, filled=True, color=INK, opacity=1)
        .encode(x=alt.X("tip:Q", axis=None), y=y),
    ]
    for bold in (True, False):
        rows = [text for text in texts if text["bold"] == bold]
        mark = alt.Chart(inline(rows)).mark_text(
            lineBreak="\n",
            fontSize=12 if bold else 11,
            fontWeight="bold" if bold else "normal",
            color=INK if bold else QUIET,
            lineHeight=14,
        )
        drawn.append(mark.encode(x=x, y=y, text="text:N"))
    return alt.layer(*drawn)


def _split(model: TransformerModel) -> float:
    """Where the embedded entries, below, end and the lane begins; a narrow part stays visible."""
    share = model.embedding_width / model.d_model
    return BOTTOM + (TOP - BOTTOM) * min(0.85, max(0.15, share))


def _read(model: TransformerModel) -> tuple[float, float]:
    """The entries that the read-out takes."""
    split = _split(model)
    return (BOTTOM, split) if model.lane == "same" else (TOP - (split - BOTTOM), TOP)


def _box(x: float, x2: float, y: float, y2: float, fill: str = BOX, opacity: float = 1.0) -> Shape:
    return {"x": x, "x2": x2, "y": y, "y2": y2, "fill": fill, "opacity": opacity}


def _boxes(model: TransformerModel) -> Iterator[Shape]:
    split, (low, high) = _split(model), _read(model)
    yield _box(LEFT, RIGHT, BOTTOM, split, EMBEDDED)
    yield _box(LEFT, RIGHT, split, TOP, LANE)
    yield _box(20, 180, BOTTOM, split)
    yield _box(820, 960, low, high)
    for left, right in _slabs():
        yield _box(left, right, BOTTOM - 8, TOP + 8)


def _slabs() -> list[tuple[float, float]]:
    return [(330.0, 420.0), (500.0, 590.0), (650.0, 710.0)]


def _arrows(model: TransformerModel) -> Iterator[Shape]:
    split, (low, high) = _split(model), _read(model)
    yield {"x": 180, "x2": LEFT - 8, "tip": LEFT - 6, "y": (BOTTOM + split) / 2}
    yield {"x": RIGHT, "x2": 812, "tip": 814, "y": (low + high) / 2}


def _texts(model: TransformerModel) -> Iterator[Shape]:
    split, (low, high) = _split(model), _read(model)
    lane = model.d_model - model.embedding_width

    def text(x: float, y: float, said: str, bold: bool = False) -> Shape:
        return {"x": x, "y": y, "text": said, "bold": bold}

    yield text(100, (BOTTOM + split) / 2, "token embedding", True)
    yield text(100, BOTTOM - 11, f"{model.embedding_width} columns")
    into = "positions are added here" if model.positions_in_lane else "starts at zero"
    yield text(LEFT - 70, (split + TOP) / 2, f"{into}")
    yield text(LEFT + 45, (split + TOP) / 2, f"lane: {lane}", True)
    yield text(LEFT + 45, (BOTTOM + split) / 2, f"{model.embedding_width}", True)
    (a, b), (c, d), (e, f) = _slabs()
    yield text((a + b) / 2, (BOTTOM + TOP) / 2, "layer 0", True)
    yield text((b + c) / 2, (BOTTOM + TOP) / 2, "· · ·", True)
    yield text((c + d) / 2, (BOTTOM + TOP) / 2, f"layer {model.n_layers - 1}", True)
    yield text((e + f) / 2, (BOTTOM + TOP) / 2, "norm", True)
    yield text(890, (low + high) / 2, "read-out", True)
    yield text(890, low - 11 if low > BOTTOM else BOTTOM - 11, f"{model.embedding_width} entries")
    yield text((LEFT + RIGHT) / 2, TOP + 18, f"residual stream, {model.d_model} wide")
