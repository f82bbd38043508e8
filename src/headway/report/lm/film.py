"""The similarity of all pairs of heads while they train, as a film: a map per layer, a frame per probed step."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.config.spec import thinned
from headway.report.charts.maps import DIVERGING
from headway.report.experiment.data import ArmResults
from headway.report.lm.common import heads_of
from headway.stats.lm.diversity import attentions, scores_at

MOST_FRAMES = 60
FRAME_MS, LAST_MS = 180, 1_800
"""The duration of a frame, and of the last one."""
TILE, GAP, LABEL = 96, 12, 150
"""Pixels of a map, of the space between maps, and of an arm's name."""
MISSING = (0xC3, 0xC8, 0xD0)
"""The colour of a head with itself."""


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
