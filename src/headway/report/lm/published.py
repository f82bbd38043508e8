"""Figures that the sources published, and that nothing else draws.

* `association`: how much of the loss the diversity of each layer explains, R^2 layer by layer;
* `against_loss`: loss against diversity, arm by arm, if arms push their heads apart or together;
* `with_film`: the similarity of all pairs of heads while they train: a map per layer, a frame per probed step;
* `lane_diagram`: where the embedding enters the residual stream, what starts empty, what is read out.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from headway.base.text import join, listed
from headway.base.words import say
from headway.config.head_metrics import HEAD_METRICS
from headway.config.lm.model import TransformerModel
from headway.config.metrics import metric_name
from headway.config.spec import thinned
from headway.report.charts.figure import (
    INK,
    WIDTH,
    Datum,
    Figure,
    alt,
    charted,
    colours_of_column,
    grid,
    hints,
    inline,
    panel,
)
from headway.report.charts.intervals import ENDS, mean_said, over_seeds, points_with_intervals
from headway.report.charts.lines import Axis
from headway.report.charts.maps import DIVERGING
from headway.report.experiment.data import ArmResults, ReportData, arms_with, colours_of
from headway.report.lm.common import declared, heads_of, measures
from headway.report.lm.heads import HEADLINE, PART, panels
from headway.report.lm.training import has_lane
from headway.stats.lm.diversity import EARLY, LayerAssociation, attentions, scores_at
from headway.stats.lm.verdicts import untested
from headway.stats.simultaneous import LEVEL

LOSS = "probe_loss_nats"
WINDOWS = {"early": (f"first {EARLY} probes", "#d55e00"), "whole": ("whole training", "#0072b2")}
"""Name and colour of each window of training."""
CHANCE, CHANCE_COLOUR = "chance (R² with the heads of other seeds)", "#dfe3e8"
OWN = "R² with the mean over seeds subtracted"


def association(material: ReportData) -> Figure | None:
    """R^2 of the probe's loss on mean and variance of output dissimilarity by layer; None if too little was probed."""
    labels = {arm.name: arm.label for arm in material.arms}
    entries = [
        entry
        for entry in material.results.associations
        if entry.arm in labels and entry.loss == LOSS and entry.metric == FILMED
    ]
    if not entries:
        return None
    rows = [row for entry in entries for row in _rows(entry, labels[entry.arm])]
    arms = [arm for arm in material.arms if any(entry.arm == arm.name for entry in entries)]
    windows = [name for name in WINDOWS if any(entry.window == name for entry in entries)]
    layers = _layers(windows, sorted({entry.layer for entry in entries}))
    return Figure(
        name="association",
        part=PART,
        title="Variance of the loss explained by the diversity of a layer",
        caption=_caption(entries),
        chart=panels(alt.layer(*layers, data=inline(rows)), arms),
    )


def _layers(windows: Sequence[str], layers: Sequence[int]) -> Iterator[Any]:
    """Bars of what is by chance, points of seeds and of their means, and diamonds of what seeds do by themselves."""
    named = dict(WINDOWS[name] for name in windows)
    colour = colours_of_column("window", {**named, CHANCE: CHANCE_COLOUR}, "square", symbolSize=90)
    legend = {"title": None, "orient": "bottom", "symbolFillColor": "white", "symbolStrokeColor": INK, "symbolSize": 70}
    shape = alt.Shape("kind:N", scale={"domain": [OWN], "range": ["diamond"]}, legend=legend)
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


def _rows(entry: LayerAssociation, label: str) -> Iterator[Datum]:
    """Yield the rows of a layer, and of each of its seeds."""
    place = {"what": label, "layer": entry.layer, "window": WINDOWS[entry.window][0]}
    numbers = {"r2": entry.r2, "own": entry.r2_own, "swapped": entry.r2_swapped, "p": entry.p, "n": entry.n}
    yield place | numbers
    if len(entry.per_series) > 1:
        yield from (place | {"of_seed": one} for one in entry.per_series)


def _caption(entries: Sequence[LayerAssociation]) -> str:
    reason = untested(max(len(entry.seeds) for entry in entries))
    tested = [entry.p for entry in entries if entry.p is not None]
    n_told = sum(p < LEVEL for p in tested)
    return join(
        "R² of the loss at probed steps, regressed on the mean and variance of the layer's output dissimilarity (small "
        "points: seeds; large points: means).",
        "Any two curves that trend over time can give a high R².",
        say("no_permutation", reason=reason) if reason else "",
        say("permutation", n=n_told, all=len(tested), expected=LEVEL * len(tested)) if tested and not reason else "",
    )


def against_loss(material: ReportData) -> Figure | None:
    """Loss against diversity at the end, a point per arm; None unless arms have regularisers or DropHead."""
    arms = arms_with(material, "eval_loss_nats")
    arms = [arm for arm in arms if all(measures(run, HEADLINE[0]) for run in arm.runs)]
    if not any(_steered(arm) for arm in arms) or len(arms) < 2:
        return None
    metrics = [metric for metric in HEADLINE if all(measures(run, metric) for arm in arms for run in arm.runs)]
    colour = colours_of_column("what", colours_of(arms), "circle", columns=4)
    options: dict[str, Any] = {"scale": {"zero": False, "padding": 14}, "ticks": {"tickCount": 5}}
    y = Axis("loss_nats", "evaluation loss (nats)", **options)
    shown, charts = ["what:N", "diversity:Q", "loss_nats:Q"], []
    for metric in metrics:
        x = Axis("diversity", f"{metric_name(metric)} (high: {HEAD_METRICS[metric].high})", **options)
        rows = [row for arm in arms for row in _point(arm, metric)]
        if not rows:
            continue
        points = points_with_intervals(
            rows, x, y, colour, across=ENDS, up=("loss_low", "loss_high"), thick=1.5, shown=shown
        )
        charts.append(panel(points, (WIDTH - 120) // 2, 210))
    if not charts:
        return None
    return Figure(
        name="loss-and-diversity",
        part=PART,
        title="Loss and diversity with and without regularisers",
        caption=join(
            f"Each point is an arm at the end of training: {mean_said(material.n_seeds)}.",
            "Diversity is the mean over all layers.",
        ),
        chart=grid(charts, 2, (40, 20)),
    )


def _steered(arm: ArmResults) -> bool:
    training = declared(arm).content()["training"]
    return bool(training.get("regularizers") or training.get("drophead"))


END = 0.9
"""The end of training is from this share of its steps on."""


def _point(arm: ArmResults, metric: str) -> Iterator[Datum]:
    diversity = []
    for probed in filter(None, map(heads_of, arm.runs)):
        layers = probed.mean[metric][probed.steps >= END * probed.steps[-1]].mean(0)
        if np.isfinite(layers).any():
            diversity.append(float(np.nanmean(layers)))
    if not diversity:
        return
    loss = over_seeds(arm.final("eval_loss_nats"), "loss_nats")
    ends = {"loss_low": loss.pop("low"), "loss_high": loss.pop("high")}
    yield {"what": arm.label, "metric": metric, **loss, **ends, **over_seeds(diversity, "diversity")}


FILMED = "output_dissimilarity"
MOST_FRAMES = 60
FRAME_MS, LAST_MS = 180, 1_800
"""The duration of a frame, and of the last one."""
TILE, GAP, LABEL, TOP = 96, 12, 150, 40
"""Pixels of a map, of the space between maps, of an arm's name, and of the first line."""
MISSING = (0xC3, 0xC8, 0xD0)
"""The colour of a head with itself."""


def with_film(figure: Figure, material: ReportData) -> Figure:
    """Return the figure of output dissimilarity with a film of all pairs, as published; others as they are."""
    if figure.name != "heads-output-dissimilarity":
        return figure
    return replace(figure, animation=partial(film, [arm for arm in material.arms if measures(arm.shown, FILMED)]))


def film(arms: Sequence[ArmResults]) -> bytes:
    """Return a GIF: a row per arm, red for the largest output dissimilarity and blue for its negative.

    Raises:
        ResultsError: when stored scores are damaged.
    """
    from PIL import Image, ImageDraw

    maps = [_maps(arm) for arm in arms]
    largest = max(float(np.nanmax(np.abs(pairs), initial=0.0)) for rows in maps for *_, pairs in rows) or 1.0
    layers = sorted({layer for rows in maps for _, layer, _ in rows})
    steps = sorted({step for rows in maps for step, *_ in rows})
    image = Image.new("RGB", (LABEL + len(layers) * (TILE + GAP), TOP + len(arms) * (TILE + GAP)), "white")
    frames = []
    for step in (steps[at] for at in thinned(steps, MOST_FRAMES)):
        draw = ImageDraw.Draw(image)
        draw.rectangle((0, 0, LABEL, TOP), fill="white")
        draw.text((8, 4), f"step {step:,}", fill="black")
        for place, (arm, rows) in enumerate(zip(arms, maps, strict=True)):
            top = TOP + place * (TILE + GAP)
            draw.text((8, top + TILE // 2), arm.label, fill="black")
            for _, layer, pairs in (row for row in rows if row[0] == step):
                left = LABEL + layers.index(layer) * (TILE + GAP)
                draw.text((left, TOP // 2), f"layer {layer}", fill="black")
                tile = Image.fromarray(_colours(pairs / largest))
                image.paste(tile.resize((TILE, TILE), Image.Resampling.NEAREST), (left, top))
        frames.append(image.copy())
    return _gif(frames)


def _gif(frames: Sequence[Any]) -> bytes:
    buffer, durations = io.BytesIO(), [FRAME_MS] * (len(frames) - 1) + [LAST_MS]
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return buffer.getvalue()


def _maps(arm: ArmResults) -> list[tuple[int, int, np.ndarray]]:
    """Return the probed steps of an arm's shown run, and the map (head, head) of each layer at them."""
    run, rows = arm.shown.run, []
    steps = arm.shown.run.head_steps()
    for step in (steps[at] for at in thinned(steps, MOST_FRAMES)):
        scores = scores_at(run, step)[FILMED].values
        for layer, name in attentions(run).items():
            pairs = np.array(scores[name], float)
            np.fill_diagonal(pairs, np.nan)
            rows.append((step, layer, pairs))
    return rows


def _colours(share: np.ndarray) -> np.ndarray:
    """Return the colours (head, head, rgb) of values from -1 to 1; NaN is grey."""
    stops = np.array([list(bytes.fromhex(colour[1:])) for colour in DIVERGING])
    places = np.linspace(-1, 1, len(stops))
    colours = np.stack([np.interp(np.nan_to_num(share), places, channel) for channel in stops.T], axis=-1)
    colours[np.isnan(share)] = MISSING
    return colours.astype(np.uint8)


EMBEDDED, LANE_FILL, BOX = "#cfe0f3", "#fbe9c6", "#ffffff"


def lane_diagram(material: ReportData) -> Figure | None:
    """A drawing per kind of lane: same or switched side, positions in it or not; None without a lane."""
    kinds: dict[tuple[str, bool], list[ArmResults]] = {}
    for arm in material.arms:
        if has_lane(arm):
            model = declared(arm).model
            kinds.setdefault((model.lane, model.positions_in_lane), []).append(arm)
    if not kinds:
        return None
    drawings = []
    for (side, _), arms in kinds.items():
        title = (
            f"{listed(arm.label for arm in arms)}: read-out on the {'embedding' if side == 'same' else 'opposite'} side"
        )
        drawings.append(panel(_drawing(declared(arms[0]).model), WIDTH - 20, 160, title))
    return Figure(
        name="lane-diagram",
        part="Data lane",
        title="The data lane",
        caption="The residual stream runs from left to right, and heights are to scale for the first arm named. "
        "Every layer reads and writes all entries. The read-out reads as many entries as the embedding fills.",
        chart=grid(drawings, 1, (18, 18)),
    )


def _drawing(model: TransformerModel) -> list[Any]:
    width, lane = model.embedding_width, model.d_model - model.embedding_width
    split = min(0.85, max(0.15, width / model.d_model))  # a narrow part stays visible
    low = 0.0 if model.lane == "same" else 1 - split
    start = "positions are added here" if model.positions_in_lane else "starts at zero"
    boxes = [
        (0, 17, 0, split, BOX, "token embedding"),
        (19, 81, 0, split, EMBEDDED, f"{width} of {model.d_model} entries, layers 0 to {model.n_layers - 1}"),
        (19, 81, split, 1, LANE_FILL, f"lane: {lane} entries; {start}"),
        (83, 100, low, low + split, BOX, "read-out"),
    ]
    rows = [
        {"x": x, "x2": x2, "middle": (x + x2) / 2, "y": y, "y2": y2, "level": (y + y2) / 2, "fill": fill, "text": text}
        for x, x2, y, y2, fill, text in boxes
    ]
    across, up = Axis("x", domain=[0, 100], ticks=None), Axis("y", domain=[0, 1], ticks=None)
    chart = charted(rows)
    edges = {"x": across.encoded("x"), "x2": "x2:Q", "y": up.encoded("y"), "y2": "y2:Q"}
    middle = {"x": across.encoded("x", "middle"), "y": up.encoded("y", "level")}
    fill = alt.Fill("fill:N", scale=None)
    boxed = chart.mark_rect(stroke="#9aa0a8").encode(**edges, fill=fill)
    return [boxed, chart.mark_text(fontSize=12).encode(**middle, text="text:N")]
