"""Compare: falling exponentials through points, two forms: `exp(-b n) + c` and `a exp(-b n) + c`.

For a given b both are linear in what is left, so each fit is a search in b alone, which finds every minimum. Of
several, the curve is the one next to a start; another one that fits better is told beside it. `refitted` is the same
search for many losses of the same points at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float

    Array = Float[np.ndarray, " point"]

PUBLISHED_FORM, FREE_FORM = "exp(-b n) + c", "a exp(-b n) + c"
PARAMETERS = {PUBLISHED_FORM: ("b", "c"), FREE_FORM: ("a", "b", "c")}
"""The forms, as published first, and their parameters."""

START = 0.05 * 96
"""Where the search begins: b times the median total. That is b = .05 for the published totals."""

GRID = 400
"""Values of b at which minima are looked for."""

_TURNS = 40
"""Of a golden section: what is left of two steps of the grid is 1e-9 of the logarithm of b."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A fitted curve: a exp(-b n) + c, and the sum of its squared residuals."""

    a: float
    b: float
    c: float
    sse: float

    def __call__(self, n: Any) -> Any:
        """The loss at a total number of heads, or at many."""
        return self.a * np.exp(-self.b * np.asarray(n, dtype=float)) + self.c


def minima(form: str, totals: Array, losses: Array) -> list[Curve]:
    """Every local least-squares minimum of a form inside the range of b that the totals can show, by falling b.

    Examples:
        >>> published = minima(PUBLISHED_FORM, np.array([45.0, 90.0, 180.0]), np.array([1.86, 1.74, 1.65]))
        >>> [(round(curve.b, 4), round(curve.c, 4)) for curve in published]
        [(0.0352, 1.6671), (0.0019, 0.9229)]
    """
    totals, losses = np.asarray(totals, dtype=float), np.asarray(losses, dtype=float)
    grid = _grid(totals)
    sse = _profile(form, np.exp(grid), totals, losses)[2]
    inside = np.flatnonzero((sse[1:-1] < sse[:-2]) & (sse[1:-1] <= sse[2:])) + 1
    of_each = np.broadcast_to(losses, (len(inside), len(losses)))
    log_b = _golden(form, grid[inside - 1], grid[inside + 1], totals, of_each)
    return [_curve(form, float(b), totals, losses) for b in np.exp(log_b[::-1])]


def fit(form: str, totals: Array, losses: Array, *, near: float | None = None) -> tuple[Curve | None, Curve | None]:
    """The curve of a form through points, and another minimum that fits better; None where there is none.

    Args:
        form: one of `PARAMETERS`.
        totals: heads of all layers of each point.
        losses: of each point.
        near: the b next to which the curve is taken; None: the published start.
    """
    found = minima(form, totals, losses)
    if not found:
        return None, None
    start = START / float(np.median(totals)) if near is None else near
    main = min(found, key=lambda curve: abs(np.log(curve.b / start)))
    best = min(found, key=lambda curve: curve.sse)
    return main, best if best.sse < main.sse * (1 - 1e-6) else None


def refitted(form: str, totals: Array, losses: Float[np.ndarray, "draw point"], near: float) -> list[Curve]:
    """For each of many losses the curve that is next to `near`; a level or a straight line where there is no minimum.

    It is `fit` of each, thirty times as fast.
    """
    totals, losses = np.asarray(totals, dtype=float), np.asarray(losses, dtype=float)
    grid = _grid(totals)
    sse = _left(form, np.exp(grid), totals, losses)
    rows, inside = np.nonzero((sse[:, 1:-1] < sse[:, :-2]) & (sse[:, 1:-1] <= sse[:, 2:]))
    log_b = _golden(form, grid[inside], grid[inside + 2], totals, losses[rows])
    found: dict[int, float] = {}
    for row, value in zip(rows.tolist(), log_b.tolist(), strict=True):
        if row not in found or abs(value - np.log(near)) < abs(found[row] - np.log(near)):
            found[row] = value
    some = np.array(sorted(found), dtype=int)
    at_minimum = _curves(form, np.exp([found[row] for row in some.tolist()]), totals, losses[some])
    of_row = dict(zip(some.tolist(), at_minimum, strict=True))
    return [of_row.get(row) or limit(form, totals, one) for row, one in enumerate(losses)]


def _golden(form: str, low: Array, high: Array, totals: Array, losses: Float[np.ndarray, "draw point"]) -> Array:
    """Where between two values of log b the sum of squares of each of many losses is least."""
    if not len(losses):
        return low
    share = (np.sqrt(5) - 1) / 2

    def at(log_b: Array) -> Array:
        return _profiles(form, np.exp(log_b)[:, None], totals, losses)[2][:, 0]

    first, second = high - share * (high - low), low + share * (high - low)
    of_first, of_second = at(first), at(second)
    for _ in range(_TURNS):
        left = of_first < of_second
        low, high = np.where(left, low, first), np.where(left, second, high)
        new = np.where(left, high - share * (high - low), low + share * (high - low))
        of_new = at(new)
        first, second = np.where(left, new, second), np.where(left, first, new)
        of_first, of_second = np.where(left, of_new, of_second), np.where(left, of_first, of_new)
    return (low + high) / 2


def _curves(form: str, b: Array, totals: Array, losses: Float[np.ndarray, "draw point"]) -> list[Curve]:
    a, c, sse = (part[:, 0].tolist() for part in _profiles(form, b[:, None], totals, losses))
    return [Curve(a=a, b=b, c=c, sse=sse) for a, b, c, sse in zip(a, b.tolist(), c, sse, strict=True)]


def _grid(totals: np.ndarray) -> np.ndarray:
    """The logarithms of b, from a curve that is a straight line over all totals to one level at the smallest."""
    return np.linspace(np.log(1e-2 / totals.max()), np.log(12 / totals.min()), GRID)


def _profiles(
    form: str, b: Float[np.ndarray, "#draw b"], totals: Array, losses: Float[np.ndarray, "draw point"]
) -> tuple[Float[np.ndarray, "draw b"], ...]:
    """For each of many losses and values of b the best a and c, and the sum of squares that they leave."""
    decay = np.exp(-b[:, :, None] * totals)
    centred, rest = decay - decay.mean(axis=2, keepdims=True), losses - losses.mean(axis=1, keepdims=True)
    if form == PUBLISHED_FORM:
        a = np.ones((len(losses), b.shape[1]))
    else:
        spread = np.broadcast_to((centred**2).sum(axis=2), (len(losses), b.shape[1]))
        product = (centred * rest[:, None, :]).sum(axis=2)
        a = np.divide(product, spread, out=np.zeros_like(product), where=spread > 0)
    c = losses.mean(axis=1, keepdims=True) - a * decay.mean(axis=2)
    residuals = rest[:, None, :] - a[:, :, None] * centred
    return a, c, (residuals**2).sum(axis=2)


def _left(form: str, b: Array, totals: Array, losses: Float[np.ndarray, "draw point"]) -> Float[np.ndarray, "draw b"]:
    """The sum of squares that the best a and c leave, of many losses and the same values of b for all of them."""
    decay = np.exp(-b[:, None] * totals)
    centred, rest = decay - decay.mean(axis=1, keepdims=True), losses - losses.mean(axis=1, keepdims=True)
    product, spread = np.einsum("dp,bp->db", rest, centred), (centred**2).sum(axis=1)
    all_of_it = (rest**2).sum(axis=1, keepdims=True)
    if form == PUBLISHED_FORM:
        return np.asarray(all_of_it + spread - 2 * product)
    return np.asarray(all_of_it - np.divide(product**2, spread, out=np.zeros_like(product), where=spread > 0))


def _profile(form: str, b: Array, totals: Array, losses: Array) -> tuple[Array, ...]:
    """The same of one."""
    a, c, sse = _profiles(form, b[None], totals, losses[None])
    return a[0], c[0], sse[0]


def limit(form: str, totals: np.ndarray, losses: np.ndarray) -> Curve:
    """What points without a minimum tend to: the end of the search, line or level, that fits better."""
    ends = [_curve(form, float(np.exp(_grid(totals)[end])), totals, losses) for end in (0, -1)]
    return min(ends, key=lambda curve: curve.sse)


def _curve(form: str, b: float, totals: np.ndarray, losses: np.ndarray) -> Curve:
    a, c, sse = _profile(form, np.array([b]), totals, losses)
    return Curve(a=float(a[0]), b=b, c=float(c[0]), sse=float(sse[0]))
