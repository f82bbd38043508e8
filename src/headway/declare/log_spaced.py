"""Declare: steps that are even on a log scale."""

from bisect import bisect_left
from collections.abc import Sequence
from math import expm1, log1p


def log_spaced(n: int, end: int) -> tuple[int, ...]:
    """At most `n` steps from 0 on, of which the next would be `end`; fewer where there are not so many.

    Examples:
        >>> log_spaced(6, end=600)
        (0, 2, 7, 24, 70, 206)
        >>> log_spaced(4, end=2)
        (0, 1)
    """
    found = (round(expm1(log1p(end) * at / n)) for at in range(n))
    return tuple(sorted({step for step in found if step < end}))


def thinned(steps: Sequence[int], limit: int) -> list[int]:
    """Positions of at most `limit` of the steps, evenly on a log scale, the first and the last among them.

    Examples:
        >>> thinned([0, 10, 20], limit=5)
        [0, 1, 2]
        >>> thinned(range(1000), limit=4)
        [0, 9, 99, 999]
    """
    if len(steps) <= limit:
        return list(range(len(steps)))
    at = [log1p(step) for step in steps]
    wanted = (at[0] + (at[-1] - at[0]) * place / (limit - 1) for place in range(limit))
    return sorted({_nearest(at, value) for value in wanted})


def _nearest(ascending: Sequence[float], value: float) -> int:
    after = min(bisect_left(ascending, value), len(ascending) - 1)
    before = max(after - 1, 0)
    return before if abs(ascending[before] - value) <= abs(ascending[after] - value) else after
