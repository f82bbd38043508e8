"""Figures that the sources published, and that nothing else draws.

* `association`: how much of the loss the diversity of each layer explains, R^2 layer by layer;
* `film`: the similarity of all pairs of heads while they train: a map per layer, a frame per probed step;
* `lane_diagram`: where the embedding enters the residual stream, what starts empty, what is read out.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from headway.base.text import counted, join, listed, number
from headway.config.lm.model import TransformerModel
from headway.config.spec import thinned
from headway.report.charts.figure import INK, QUIET, WIDTH, Figure, alt, colours_of_column, grid, hints, inline, panel
from headway.report.charts.lines import Axis
from headway.report.charts.maps import DIVERGING
from headway.report.experiment.data import ArmResults, ReportData
from headway.report.lm.common import declared, heads_of, measures
from headway.report.lm.heads import PART, panels
from headway.report.lm.training import has_lane
from headway.stats.lm.diversity import EARLY, LayerAssociation, attentions, scores_at
from headway.stats.lm.verdicts import untested
from headway.stats.simultaneous import LEVEL

LOSS = "probe_loss_nats"
WINDOWS = {"early": (f"first {EARLY} probes", "#d55e00"), "whole": ("whole training", "#0072b2")}
"""Name and colour of each window of training."""
CHANCE, CHANCE_COLOUR = "by chance", "#dfe3e8"
OWN = "R² of deviations from the mean over seeds"


def association(material: ReportData) -> Figure | None:
    """R^2 of the probe's loss on mean and variance of output dissimilarity by layer; None if too little was probed."""
    labels = {arm.name: arm.label for arm in material.arms}
    entries = [
        entry
        for entry in material.results.associations
        if entry.arm in labels and entry.loss == LOSS and entry.metric == "output_dissimilarity"
    ]
    if not entries:
        return None
    rows = [row for entry in entries for row in _rows(entry, labels[entry.arm])]
    arms = [arm for arm in material.arms if any(row["what"] == arm.label for row in rows)]
    windows = [name for name in WINDOWS if any(entry.window == name for entry in entries)]
    layers = _layers(windows, sorted({entry.layer for entry in entries}))
    return Figure(
        name="association",
        part=PART,
        title="How much of the loss the diversity of a layer explains",
        caption=_caption(material, entries, windows),
        chart=panels(alt.layer(*layers, data=inline(rows)), arms),
    )


def _layers(windows: Sequence[str], layers: Sequence[int]) -> Iterator[Any]:
    """Bars of what is by chance, points of seeds and of their means, and diamonds of what seeds do by themselves."""
    named = dict(WINDOWS[name] for name in windows)
    colour = colours_of_column("window", {**named, CHANCE: CHANCE_COLOUR}, "circle", symbolSize=90)
    shape = alt.Shape(
        "kind:N",
        scale=alt.Scale(domain=[OWN], range=["diamond"]),
        legend=alt.Legend(title=None, orient="bottom", symbolFillColor="white", symbolSize=70),
    )
    x = Axis("layer", "layer", order=layers, ticks={"labelAngle": 0})
    y = Axis("r2", "R² of the loss", domain=[0, 1], ticks={"tickCount": 5})
    offset = alt.XOffset("window:N", sort=list(named))

    def known(column: str) -> Any:
        chart = alt.Chart().transform_filter(f"isValid(datum.{column})")
        return chart.encode(x=x.encoded("x"), y=y.encoded("y", column), xOffset=offset)

    yield known("swapped").mark_bar().encode(y2=alt.datum(0), color=alt.ColorDatum(CHANCE))
    yield known("of_seed").mark_point(filled=True, size=14, opacity=0.55).encode(color=colour)
    shown = ["what:N", "window:N", "layer:O", "n:Q", "r2:Q", "own:Q", "swapped:Q", "p:Q"]
    yield known("r2").mark_point(filled=True, size=48, opacity=1).encode(color=colour, tooltip=hints(shown))
    own = known("own").transform_calculate(kind=f"'{OWN}'")
    yield own.mark_point(filled=False, size=34, opacity=1, strokeWidth=1.4).encode(color=colour, shape=shape)


def _rows(entry: LayerAssociation, label: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a layer, and of each of its seeds."""
    place = {"what": label, "layer": entry.layer, "window": WINDOWS[entry.window][0]}
    numbers = {"r2": entry.r2, "own": entry.r2_own, "swapped": entry.r2_swapped, "p": entry.p, "n": entry.n}
    yield place | numbers
    if len(entry.per_series) > 1:
        yield from (place | {"of_seed": one} for one in entry.per_series)


def _caption(material: ReportData, entries: Sequence[LayerAssociation], windows: Sequence[str]) -> str:
    ends = {name: max(e.steps[1] for e in entries if e.window == name) for name in windows}
    early = f"the first {EARLY} probes (to step {ends['early']:,}) and " if "early" in windows else ""
    several = max(len(entry.seeds) for entry in entries) > 1
    return join(
        "R² of a regression that predicts the probe's loss from the mean and variance of the layer's output "
        f"dissimilarity. Steps: {early}the whole training (to step {ends['whole']:,}). Large points are means over "
        f"{counted(material.n_seeds, 'seed')}{'; small points are seeds' if several else ''}.",
        "Any two curves with a trend in time have a high R².",
        *_own(entries),
    )


def _own(entries: Sequence[LayerAssociation]) -> Iterator[str]:
    """Yield caption sentences on what each seed does by itself."""
    if any(entry.r2_own is not None for entry in entries):
        yield (
            "Diamonds show the R² of a seed's deviations from the mean over seeds. Grey: the chance level, "
            "which is the R² with the heads of other seeds."
        )
    if reason := untested(max(len(entry.seeds) for entry in entries)):
        yield f"The significance of R² {reason}."
        return
    tested = [entry for entry in entries if entry.p is not None]
    if tested:
        n_told = sum(entry.p is not None and entry.p < LEVEL for entry in tested)
        yield (
            f"{n_told} of {len(tested)} diamonds exceed chance (permutation of seeds, p below 0.05 each; chance alone "
            f"gives about {number(LEVEL * len(tested), 2)})."
        )


FILMED = "output_dissimilarity"
MOST_FRAMES = 60
FRAME_MS, LAST_MS = 180, 1_800
"""The duration of a frame, and of the last one."""
TILE, GAP, LABEL = 96, 12, 150
"""Pixels of a map, of the space between maps, and of an arm's name."""
MISSING = (0xC3, 0xC8, 0xD0)
"""The colour of a head with itself."""


def with_film(figure: Figure, material: ReportData) -> Figure:
    """Return the figure of output dissimilarity with a film of all pairs, as published; others as they are."""
    if figure.name != "heads-output-dissimilarity":
        return figure
    arms = [arm for arm in material.arms if measures(arm.shown, FILMED)]
    return replace(figure, animation=partial(film, arms, FILMED))


def film(arms: Sequence[ArmResults], metric: str) -> bytes:
    """Return a GIF of a metric of pairs of heads: a row per arm, red for its largest value and blue for its negative.

    Args:
        arms: the arms, each with a probed run.
        metric: the metric of pairs.

    Raises:
        ResultsError: when stored scores are damaged.
    """
    maps = [_maps(arm, metric) for arm in arms]
    values = np.concatenate([pairs.ravel() for rows in maps for _, layers in rows for pairs in layers.values()])
    largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    n_frames = max(len(rows) for rows in maps)
    frames = []
    for place in range(n_frames):
        shown = [rows[place * (len(rows) - 1) // max(n_frames - 1, 1)] for rows in maps]
        frames.append(_frame([arm.label for arm in arms], shown, largest))
    buffer = io.BytesIO()
    durations = [FRAME_MS] * (n_frames - 1) + [LAST_MS]
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return buffer.getvalue()


def _maps(arm: ArmResults, metric: str) -> list[tuple[int, dict[int, np.ndarray]]]:
    """Return the probed steps of an arm's shown run, each with the maps (head, head) of its layers."""
    run, probed = arm.shown.run, heads_of(arm.shown)
    names = attentions(run)
    rows = []
    steps = probed.steps.tolist()
    for step in (steps[place] for place in thinned(steps, MOST_FRAMES)):
        scores = scores_at(run, step)[metric].values
        layers = {layer: np.array(scores[names[layer]], float) for layer in probed.layers}
        for pairs in layers.values():
            np.fill_diagonal(pairs, np.nan)
        rows.append((step, layers))
    return rows


def _frame(names: Sequence[str], rows: Sequence[tuple[int, dict[int, np.ndarray]]], largest: float) -> Any:
    from PIL import Image, ImageDraw

    columns = sorted({layer for _, layers in rows for layer in layers})
    size = LABEL + len(columns) * (TILE + GAP), 40 + len(rows) * (TILE + GAP)
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    draw.text((8, 4), f"step {max(step for step, _ in rows):,}", fill="black")
    for column, layer in enumerate(columns):
        draw.text((LABEL + column * (TILE + GAP), 22), f"layer {layer}", fill="black")
    for row, (name, (_, layers)) in enumerate(zip(names, rows, strict=True)):
        top = 40 + row * (TILE + GAP)
        draw.text((8, top + TILE // 2), name, fill="black")
        for layer, pairs in layers.items():
            tile = Image.fromarray(_colours(pairs / largest)).resize((TILE, TILE), Image.Resampling.NEAREST)
            image.paste(tile, (LABEL + columns.index(layer) * (TILE + GAP), top))
    return image


def _colours(share: np.ndarray) -> np.ndarray:
    """Return the colours (head, head, rgb) of values from -1 to 1; NaN is grey."""
    stops = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in DIVERGING])
    places = np.linspace(-1, 1, len(stops))
    known = np.nan_to_num(share)
    colours = np.stack([np.interp(known, places, stops[:, channel]) for channel in range(3)], axis=-1)
    colours[np.isnan(share)] = MISSING
    return colours.astype(np.uint8)


EMBEDDED, LANE_FILL, BOX, LINE = "#cfe0f3", "#fbe9c6", "#ffffff", "#9aa0a8"
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
        caption="The residual stream runs from left to right. Heights are to scale for the first arm named. "
        "The token embedding fills the blue entries. The yellow entries, the lane, start at zero "
        "unless positions are added. Every layer reads and writes all entries. The read-out reads as "
        "many entries as the embedding fills.",
        chart=grid(drawings, 1, (18, 18)),
    )


def _title(arms: str, side: str) -> str:
    return f"{arms}: " + ("read out on the same side" if side == "same" else "read out on the other side")


def _drawing(model: TransformerModel) -> list[Any]:
    x, x2 = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, WIDTH - 20])), alt.X2("x2:Q")
    y, y2 = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[0, 210])), alt.Y2("y2:Q")
    fills = [EMBEDDED, LANE_FILL, BOX]
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
    yield LEFT, RIGHT, split, TOP, LANE_FILL
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
