"""Declare: numbers that may differ by layer, and the schedules of widths.

Paper: Mehta et al. 2024 (OpenELM, arXiv 2404.14619); Mehta et al. 2021 (DeLighT, arXiv 2008.00623).
"""

import math
import re

from headway.errors import DeclarationError, near

PerLayer = int | str | tuple[int | None, ...] | None
"""One number for every layer, a list, or text: `10-30-80-150`, or where it is a width, a schedule."""


def per_layer(value: PerLayer, n_layers: int, what: str) -> tuple[int | None, ...]:
    """The number of each layer; None where the default stands.

    Raises:
        DeclarationError: when they are not as many as layers, or below 1.

    Examples:
        >>> per_layer("5-20-50-100", 4, "rank")
        (5, 20, 50, 100)
    """
    if isinstance(value, str):
        parts = value.split("-")
        if not all(part.strip().isdecimal() for part in parts):
            raise DeclarationError(f"{what} {value!r}: write a number, a list, or numbers joined by dashes: 5-20-50-100")
        numbers: tuple[int | None, ...] = tuple(int(part) for part in parts)
        numbers = numbers * n_layers if len(numbers) == 1 else numbers
    elif isinstance(value, tuple):
        numbers = value
    else:
        numbers = (value,) * n_layers
    if len(numbers) != n_layers:
        raise DeclarationError(f"{what} names {len(numbers)} layers, but n_layers is {n_layers}; make them equal")
    smallest = 0 if what == "n_heads" else 1
    for number in numbers:
        if number is not None and number < smallest:
            raise DeclarationError(f"{what}: {number} was given; give {smallest} or more")
    return numbers


def widths(value: PerLayer, *, n_layers: int, d_model: int) -> tuple[int, ...]:
    """The width of the MLP of each layer; by default 4 d_model.

    `openelm(0.5, 4.0)` is a multiplier that grows linearly, the width made divisible by 256;
    `delight(2, 4, 8)` is the multiplier m + (N_max / N_min - 1) b / (B - 1) for m, N_min, N_max.

    Raises:
        DeclarationError: for a schedule that is not known, or other numbers than layers.

    Examples:
        >>> widths("openelm(0.5, 4.0)", n_layers=4, d_model=1280)
        (768, 2048, 3584, 5120)
    """
    schedule = re.fullmatch(r"\s*([a-z]+)\s*\(([^()]*)\)\s*", value) if isinstance(value, str) else None
    if not schedule:
        return tuple(4 * d_model if width is None else width for width in per_layer(value, n_layers, "d_mlp"))
    counts = {"openelm": 2, "delight": 3}
    if schedule[1] not in counts:
        raise DeclarationError(f"d_mlp: there is no schedule {schedule[1]!r}; {near(schedule[1], counts)}")
    try:
        numbers = [float(argument) for argument in schedule[2].split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != counts[schedule[1]] or not all(math.isfinite(n) and n > 0 for n in numbers):
        raise DeclarationError(
            f"d_mlp {value!r}: {schedule[1]} takes {counts[schedule[1]]} positive numbers, "
            "as in openelm(0.5, 4.0) and delight(2, 4, 8)"
        )
    along = [i / max(1, n_layers - 1) for i in range(n_layers)]
    if schedule[1] == "openelm":
        first, last = numbers
        return tuple(make_divisible(round(first + (last - first) * x, 2) * d_model, 256) for x in along)
    m, fewest, most = numbers
    return tuple(max(1, round((m + (most / fewest - 1) * x) * d_model)) for x in along)


def make_divisible(value: float, divisor: int) -> int:
    """The multiple of `divisor` nearest to a value, at least one and not below 90 % of the value.

    Examples:
        >>> make_divisible(640, 256)
        768
    """
    nearest = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * value else nearest
