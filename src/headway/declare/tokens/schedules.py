"""Declare: schedules of heads, short for the layout of a model of so many layers and such a width.

`ascending(90)`, `descending(90)` and `constant(96)` share a total: each layer has twice, half, as many heads as the
one before. `linear(4, 16)` goes from the first layer to the last, each lowered to a divisor of d_model where d_head
is not given; `delight(4, 8)` is the same line. `openelm(0.5, 1.0)` keeps d_head, and scales the joint width of the
heads.

Paper: Mehta et al. 2024 (OpenELM, arXiv 2404.14619); Mehta et al. 2021 (DeLighT, arXiv 2008.00623), whose depth of
a block is a number of heads here.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence

from headway.declare.tokens.layers import Schedule, line, make_divisible
from headway.errors import DeclarationError, shortened

EXAMPLES = {
    "ascending": "ascending(90)",
    "descending": "descending(90)",
    "constant": "constant(96)",
    "linear": "linear(4, 16)",
    "openelm": "openelm(0.5, 1.0)",
    "delight": "delight(4, 8)",
}
"""The schedules, each as it may be written."""

MOST_TOTAL = 1_000_000_000
"""Of the numbers in a schedule's parentheses."""

MOST_DOUBLINGS = 30
"""Layers, each of which has twice the heads of the one before."""

QUERIES_PER_KV_HEAD = 4
"""Of an OpenELM layer."""


def scheduled(schedule: Schedule, *, n_layers: int, d_model: int, d_head: int | None) -> list[str]:
    """The text of each layer.

    Raises:
        DeclarationError: when a total cannot be shared so, naming those that can, or OpenELM has no d_head.

    Examples:
        >>> scheduled(Schedule("delight", (4.0, 8.0)), n_layers=8, d_model=64, d_head=8)
        ['4', '4', '5', '5', '6', '6', '7', '8']
    """
    if any(n > MOST_TOTAL for n in schedule.numbers):
        raise DeclarationError(
            f"n_heads {schedule.name}(...): {max(schedule.numbers):g} was given; give {MOST_TOTAL:,} or less"
        )
    match schedule.name:
        case "ascending" | "descending" | "constant":
            if schedule.name != "constant" and n_layers > MOST_DOUBLINGS:
                raise DeclarationError(
                    f"n_heads {schedule.name}(...): over {n_layers:,} layers the last has 2^{n_layers - 1} times the "
                    f"heads of the first, or the first of the last; take {MOST_DOUBLINGS} layers or fewer, or another "
                    "schedule"
                )
            shares = [1 if schedule.name == "constant" else 2**i for i in range(n_layers)]
            shares = shares[::-1] if schedule.name == "descending" else shares
            heads = _shared(schedule, shares, None if d_head else d_model)
        case "openelm":
            return _openelm(schedule, n_layers, d_model, d_head)
        case _:
            # In floor(), a sum such as 3.9999999996 is meant to be 4.
            first, last = schedule.numbers
            wanted = [math.floor(n + 1e-9) for n in line(first, last, n_layers)]
            every = divisors(d_model)
            heads = [max(1, n) if d_head else every[bisect_right(every, max(1, n)) - 1] for n in wanted]
    return [str(n) for n in heads]


def _shared(schedule: Schedule, shares: Sequence[int], d_model: int | None) -> list[int]:
    """A total shared over the layers; where `d_model` is given, each number of heads must divide it."""
    (total,) = schedule.numbers
    asked = total / sum(shares)
    if asked % 1 == 0 and (d_model is None or d_model % (int(asked) * max(shares)) == 0):
        return [int(asked) * share for share in shares]
    if d_model is None:
        units = [n for n in (math.floor(asked), math.floor(asked) + 1) if n]
    elif d_model % max(shares):
        raise DeclarationError(
            f"n_heads {schedule.name}({total:g}): over {len(shares)} layers one has {max(shares)} times the heads of "
            f"another, which does not divide d_model {d_model}; take fewer layers, or write the layout"
        )
    else:
        units = divisors_near(d_model // max(shares), asked)
    layouts = [f"{unit * sum(shares)} ({shortened('-'.join(str(unit * share) for share in shares))})" for unit in units]
    raise DeclarationError(
        f"n_heads {schedule.name}({total:g}): {total:g} heads cannot be shared as "
        f"{shortened('-'.join(map(str, shares)))}{'' if d_model is None else f' into divisors of {d_model}'}; "
        f"{' and '.join(layouts)} can"
    )


def _openelm(schedule: Schedule, n_layers: int, d_model: int, d_head: int | None) -> list[str]:
    if d_head is None:
        raise DeclarationError("n_heads openelm(...) keeps d_head and varies the heads; give model.d_head, such as 64")
    first, last = schedule.numbers
    alphas = [round(alpha, 2) for alpha in line(first, last, n_layers)]
    heads = [make_divisible(alpha * d_model, QUERIES_PER_KV_HEAD * d_head) // d_head for alpha in alphas]
    return [f"{n}:{n // QUERIES_PER_KV_HEAD}" for n in heads]


def divisors_near(number: int, asked: float) -> list[int]:
    """The divisors of a number next to what was asked for, below and above.

    Examples:
        >>> divisors_near(768, 50)
        [48, 64]
    """
    every = divisors(number)
    return [d for d in every if d < asked][-1:] + [d for d in every if d > asked][:1]


def divisors(number: int) -> list[int]:
    """All divisors of a number, ascending.

    Examples:
        >>> divisors(12)
        [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
