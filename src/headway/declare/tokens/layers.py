"""Declare: numbers that may differ by layer, and the schedules of widths.

Paper: Mehta et al. 2024 (OpenELM, arXiv 2404.14619); Mehta et al. 2021 (DeLighT, arXiv 2008.00623).
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headway.declare.limits import WIDEST
from headway.errors import DeclarationError, near, shortened

PerLayer = int | str | tuple[int | None, ...] | None
"""One number for every layer, a list, or text: `10-30-80-150`, or where it is a width, a schedule."""


class Schedule(NamedTuple):
    """A schedule that was asked for by its name and its numbers."""

    name: str
    numbers: tuple[float, ...]


def per_layer(value: PerLayer, n_layers: int, what: str, *, smallest: int = 1) -> tuple[int | None, ...]:
    """The number of each layer; None where the default stands.

    Args:
        value: one number for all layers, a list with one for each, or numbers joined by dashes.
        n_layers: layers.
        what: the key, for errors.
        smallest: the least number that is allowed.

    Raises:
        DeclarationError: when they are not as many as layers, or too small.

    Examples:
        >>> per_layer("5-20-50-100", 4, "rank")
        (5, 20, 50, 100)
    """
    if isinstance(value, str):
        parts = value.split("-")
        if not all(re.fullmatch(r" *[0-9]{1,15} *", part) for part in parts):
            raise DeclarationError(
                f"{what} {shortened(repr(value))}: write a number, a list, or numbers joined by dashes: 5-20-50-100"
            )
        numbers: tuple[int | None, ...] = tuple(int(part) for part in parts)
        numbers = numbers * n_layers if len(numbers) == 1 else numbers
    elif isinstance(value, tuple):
        numbers = value
    else:
        numbers = (value,) * n_layers
    check_layers(numbers, n_layers, what)
    for number in numbers:
        if number is not None and number < smallest:
            raise DeclarationError(f"{what}: {number} was given; give {smallest} or more")
        if number is not None and number > WIDEST:
            raise DeclarationError(f"{what}: {number} was given; give {WIDEST:,} or less")
    return numbers


def check_layers(values: Sequence[object], n_layers: int, what: str) -> None:
    """Refuse a list that is not as long as there are layers.

    Raises:
        DeclarationError: naming both numbers.
    """
    if len(values) != n_layers:
        raise DeclarationError(
            f"{what} names {len(values)} layer{'s' * (len(values) != 1)}, but n_layers is {n_layers}; make them equal"
        )


def schedule_in(text: object, examples: Mapping[str, str], what: str) -> Schedule | None:
    """The schedule that a text such as `openelm(0.5, 1.0)` asks for; None where it is no schedule.

    Args:
        text: what was declared.
        examples: by name, a call of each schedule that is known, with as many numbers as it may have at most;
            those behind a `;` may be left out.
        what: the key, for errors.

    Raises:
        DeclarationError: for an unknown schedule, or other numbers than it takes.

    Examples:
        >>> schedule_in("linear(4, 16)", {"linear": "linear(4, 16)"}, "n_heads")
        Schedule(name='linear', numbers=(4.0, 16.0))
        >>> schedule_in("4-8-16", {"linear": "linear(4, 16)"}, "n_heads")
    """
    found = re.fullmatch(r"\s*([A-Za-z]+)\s*\(([^()]*)\)\s*", text) if isinstance(text, str) else None
    if not found:
        return None
    name = found[1]
    if name not in examples:
        raise DeclarationError(f"{what}: there is no schedule {name!r}; {near(name, examples)}")
    example = examples[name].replace(";", ",")
    least, most = examples[name].partition(";")[0].count(",") + 1, example.count(",") + 1
    try:
        numbers = tuple(float(argument) for argument in found[2].split(","))
    except ValueError:
        numbers = ()
    if not least <= len(numbers) <= most or not all(math.isfinite(n) and n > 0 for n in numbers):
        count = f"{most}" if least == most else f"{least} or {most}"
        raise DeclarationError(
            f"{what} {text}: {name} takes {count} positive number{'s' * (count != '1')}, as in {example}"
        )
    return Schedule(name, numbers)


LARGEST_FACTOR = 1_000_000
"""Of the numbers in a schedule's parentheses."""

_WIDTHS = {"openelm": "openelm(0.5, 4.0; 256)", "delight": "delight(2, 4, 8)"}


def widths(value: PerLayer, *, n_layers: int, d_model: int) -> tuple[int, ...]:
    """The width of the MLP of each layer; by default 4 d_model.

    `openelm(0.5, 4.0)` is a multiplier that grows linearly, the width made divisible by 256, or by a third number;
    `delight(2, 4, 8)` is the multiplier m + (N_max / N_min - 1) b / (B - 1) for m, N_min, N_max.

    Raises:
        DeclarationError: for a schedule that is not known, or other numbers than layers.

    Examples:
        >>> widths("openelm(0.5, 4.0)", n_layers=4, d_model=1280)
        (768, 2048, 3584, 5120)
        >>> widths("openelm(0.5, 4.0, 16)", n_layers=4, d_model=64)
        (32, 112, 176, 256)
    """
    schedule = schedule_in(value, _WIDTHS, "d_mlp")
    if not schedule:
        return tuple(4 * d_model if width is None else width for width in per_layer(value, n_layers, "d_mlp"))
    if any(n > LARGEST_FACTOR for n in schedule.numbers):
        raise DeclarationError(f"d_mlp {value}: no number of a schedule is above {LARGEST_FACTOR:,}; give smaller ones")
    if schedule.name == "openelm":
        first, last, *divisor = schedule.numbers
        if divisor and (divisor[0] < 1 or divisor[0] % 1):
            raise DeclarationError(f"d_mlp {value}: widths are divisible by a whole number; {divisor[0]:g} is none")
        return tuple(
            make_divisible(round(beta, 2) * d_model, int(divisor[0]) if divisor else 256)
            for beta in line(first, last, n_layers)
        )
    m, fewest, most = schedule.numbers
    return tuple(max(1, round(beta * d_model)) for beta in line(m, m + most / fewest - 1, n_layers))


def line(first: float, last: float, n_layers: int) -> tuple[float, ...]:
    """Values on a straight line from the first layer to the last.

    Examples:
        >>> line(1, 2, 3)
        (1.0, 1.5, 2.0)
    """
    return tuple(first + (last - first) * i / max(1, n_layers - 1) for i in range(n_layers))


def make_divisible(value: float, divisor: int) -> int:
    """The multiple of `divisor` nearest to a value, at least one and not below 90 % of the value.

    Examples:
        >>> make_divisible(640, 256)
        768
    """
    nearest = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return nearest + divisor if nearest < 0.9 * value else nearest
