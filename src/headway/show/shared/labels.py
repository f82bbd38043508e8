"""Show: names beside points, each on a side where it covers no other name and no point."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headway.show.shared.figure import inline

Side = tuple[float, float, str]
"""Where a name stands from its point: pixels to the right, pixels down, and its alignment."""

E, W, N, S = (10.0, 4.0, "left"), (-10.0, 4.0, "right"), (0.0, -11.0, "center"), (0.0, 19.0, "center")
NE, SE, NW, SW = (7.0, -9.0, "left"), (7.0, 17.0, "left"), (-7.0, -9.0, "right"), (-7.0, 17.0, "right")
FAR: tuple[Side, ...] = tuple(
    (dx, dy, align)
    for away in (28.0, 42.0, 56.0, 70.0)
    for dy in (-away + 4, away + 4)
    for dx, align in ((8.0, "left"), (-8.0, "right"))
)
SIDES: tuple[Side, ...] = (E, NE, SE, W, NW, SW, N, S, *FAR)

_CHARACTER, _LINE, _POINT = 6.3, 13.0, 6.0
"""Pixels of a character of the names' size, of a line, and from the middle of a point to its edge."""

Box = tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Named:
    """A point in pixels from the upper left, its name, and the sides to try first."""

    x: float
    y: float
    name: str
    first: tuple[Side, ...] = ()


def sides(points: Sequence[Named], *, width: float, height: float) -> list[Side]:
    """A side for each name, taken in turn: the first that is free and inside the panel, or else the first.

    Examples:
        >>> sides([Named(x=50, y=50, name="one"), Named(x=70, y=50, name="two")], width=300, height=100)
        [(7.0, -9.0, 'left'), (10.0, 4.0, 'left')]
    """
    taken: list[Box] = [(p.x - _POINT, p.y - _POINT, p.x + _POINT, p.y + _POINT) for p in points]
    own = list(taken)
    chosen = []
    for point, mark in zip(points, own, strict=True):
        others = [box for box in taken if box is not mark]
        tried = [*point.first, *SIDES]
        free = (
            side
            for side in tried
            if _inside(box := _box(point, side), width, height) and not any(_overlap(box, other) for other in others)
        )
        side = next(free, tried[0])
        taken.append(_box(point, side))
        chosen.append(side)
    return chosen


def text_layers(rows: Sequence[dict[str, Any]], chosen: Sequence[Side], encoding: dict[str, Any]) -> Iterator[Any]:
    """The names as layers; a white outline keeps them readable where a line passes under them.

    Args:
        rows: with the name under `label`.
        chosen: a side for each row.
        encoding: `x`, `y` and `color`.
    """
    import altair as alt

    plain = {key: value for key, value in encoding.items() if key != "color"}
    for side in dict.fromkeys(chosen):
        members = [row for row, place in zip(rows, chosen, strict=True) if place == side]
        chart = alt.Chart(inline(members)).encode(text="label:N", **plain)
        place: dict[str, Any] = {"dx": side[0], "dy": side[1], "align": side[2], "fontSize": 11.5}
        yield chart.mark_text(stroke="white", strokeWidth=3.5, strokeJoin="round", color="white", **place)
        yield chart.mark_text(**place).encode(color=encoding["color"])


def _box(point: Named, side: Side) -> Box:
    dx, dy, align = side
    length = _CHARACTER * len(point.name)
    left = point.x + dx - {"left": 0.0, "center": length / 2, "right": length}[align]
    return (left, point.y + dy - _LINE + 3, left + length, point.y + dy + 3)


def _inside(box: Box, width: float, height: float) -> bool:
    return box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= height


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
