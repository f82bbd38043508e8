"""Films of maps that change during training, as a GIF for any page or talk.

Frames are drawn as pixels, since a film of vector pictures would take minutes. The file's size is bounded: it has few
colours, and maps get smaller the more of them there are.
"""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.report.charts.figure import INK, QUIET

if TYPE_CHECKING:
    from PIL import ImageDraw

FRAME_MS, LAST_MS = 180, 1_800
"""The duration of a frame, and of the last one."""

SHADES = 61
"""Colours of the scale; an odd number, so that zero has one of its own."""

WIDEST, TALLEST = 860, 900
"""Pixels of a frame, about."""

MISSING = "#c3c8d0"
GAP, MARGIN, TEXT = 10, 16, 13


@dataclass(frozen=True, kw_only=True)
class MapTile:
    """A square map, NaN where nothing is known; `missing` is written instead of a map where there is none."""

    title: str
    values: np.ndarray
    missing: str = ""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Maps at one moment, in rows that have a name."""

    title: str
    rows: tuple[tuple[str, tuple[MapTile, ...]], ...]


def film(frames: Iterable[Frame], *, largest: float, colours: Sequence[str], title: str) -> bytes:
    """Return a GIF of frames with equal rows, and their scale from -largest to largest beside the title."""
    every = list(frames)
    place = _Place(every[0])
    scale = _Scale(colours, largest)
    images = [_picture(frame, place, scale, title) for frame in every]
    buffer = io.BytesIO()
    durations = [FRAME_MS] * (len(images) - 1) + [LAST_MS]
    first, *others = images
    first.save(
        buffer, "GIF", save_all=True, append_images=others, duration=durations, loop=0, optimize=False, disposal=1
    )
    return buffer.getvalue()


class _Place:
    """The positions of everything in a frame."""

    def __init__(self, frame: Frame):
        from PIL import ImageFont

        self.font = ImageFont.load_default(TEXT)
        columns = max(len(tiles) for _, tiles in frame.rows)
        self.left = MARGIN + int(max(self.font.getlength(name) for name, _ in frame.rows)) + 8
        self.top = MARGIN + 3 * TEXT + 14
        n_rows = len(frame.rows)
        across = (WIDEST - self.left - MARGIN) // columns - GAP
        self.tile = max(24, min(150, across, (TALLEST - self.top - MARGIN) // n_rows - GAP))
        self.width = max(self.left + columns * (self.tile + GAP) + MARGIN, 460)
        self.height = self.top + n_rows * (self.tile + GAP) + MARGIN


class _Scale:
    """Colours as the palette of the film: the shades, then paper, ink, quiet ink and what is missing."""

    def __init__(self, colours: Sequence[str], largest: float):
        stops = np.array([_rgb(colour) for colour in colours], float)
        at = np.linspace(0, len(colours) - 1, SHADES)
        shades = np.stack([np.interp(at, range(len(colours)), stops[:, c]) for c in range(3)], axis=1)
        extra = np.array([_rgb(colour) for colour in ("#ffffff", INK, QUIET, MISSING)])
        self.palette = np.concatenate([shades.round(), extra]).astype(np.uint8)
        self.paper, self.ink, self.quiet, self.missing = range(SHADES, SHADES + 4)
        self.largest = largest

    def shade(self, values: np.ndarray) -> np.ndarray:
        """Palette entries of some values."""
        share = np.clip(np.nan_to_num(values) / self.largest, -1, 1)
        shades = ((share + 1) / 2 * (SHADES - 1)).round().astype(np.uint8)
        return np.where(np.isnan(values), self.missing, shades).astype(np.uint8)


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _picture(frame: Frame, place: _Place, scale: _Scale, title: str) -> Any:
    from PIL import Image, ImageDraw

    pixels = np.full((place.height, place.width), scale.paper, np.uint8)
    spots = []
    for row, (name, tiles) in enumerate(frame.rows):
        y = place.top + row * (place.tile + GAP)
        spots.append((MARGIN, y + place.tile // 2 - TEXT // 2 - 2, name, scale.ink))
        for column, tile in enumerate(tiles):
            x = place.left + column * (place.tile + GAP)
            if tile.missing:
                spots.append((x + 4, y + place.tile // 2 - TEXT, tile.missing.replace(" ", "\n", 1), scale.quiet))
            else:
                pixels[y : y + place.tile, x : x + place.tile] = _stretched(scale.shade(tile.values), place.tile)
            if row == 0:
                spots.append((x, y - TEXT - 6, tile.title, scale.ink))
    image = Image.fromarray(pixels, mode="P")
    image.putpalette(scale.palette.tobytes())
    draw = ImageDraw.Draw(image)
    draw.fontmode = "1"  # grey edges of letters would need colours of their own
    for x, y, text, ink in [*spots, (MARGIN, MARGIN, frame.title, scale.ink)]:
        draw.text((x, y), text, fill=ink, font=place.font)
    _legend(draw, place, scale, title)
    return image


def _stretched(shades: np.ndarray, size: int) -> np.ndarray:
    """Cells blown up, or thinned, to a square of so many pixels."""
    at = np.arange(size) * len(shades) // size
    return shades[np.ix_(at, at)]


def _legend(draw: "ImageDraw.ImageDraw", place: _Place, scale: _Scale, title: str) -> None:
    """The scale, above at the right: what it shows, and its two ends."""
    low, high = f"-{scale.largest:.2g}", f"{scale.largest:.2g}"
    x = place.width - MARGIN - int(place.font.getlength(high)) - 5 - 2 * SHADES
    y = MARGIN + TEXT + 5
    for shade in range(SHADES):
        draw.rectangle([x + 2 * shade, y, x + 2 * shade + 1, y + 7], fill=shade)
    draw.text((x, MARGIN - 3), title, fill=scale.ink, font=place.font)
    draw.text((x - 5 - place.font.getlength(low), y - 4), low, fill=scale.quiet, font=place.font)
    draw.text((x + 2 * SHADES + 5, y - 4), high, fill=scale.quiet, font=place.font)
