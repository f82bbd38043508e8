"""Compare: how much of one series others explain, and what of that is worth.

R^2 of ordinary least squares with an intercept. Series in time are no independent draws: the interval comes from
resampling whole blocks of neighbours, the null from shifting one series against the others, which keeps what each does
by itself. Two series that merely both rise or fall still explain each other; so the same is said of their changes from
one point to the next, less what the changes of time and of its logarithm explain of both. (Points need not be evenly
spaced, and over a longer gap everything changes more.)

Papers: the moving block bootstrap is Kuensch, Annals of Statistics 17 (1989), 1217-1241; blocks that go round are
Politis and Romano's (1992).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Num

RESAMPLES = 1_000
"""Draws of the bootstrap."""

FEWEST = 12
"""Points below which nothing is said."""

_COVERED = (0.025, 0.975)
_NULL = 0.95


@dataclass(frozen=True, kw_only=True)
class Association:
    """R^2 of a regression, the mean over one or more pairs of series (seeds).

    Attributes:
        r2: explained share of the variance.
        interval: 95 % interval of the moving block bootstrap, seeds resampled by themselves.
        null: the 95 % point of R^2 when the series are shifted against each other.
        p: share of the shifts whose R^2 is as large. Few points that remember long have few shifts that differ: of 40
            points with an autocorrelation of .8, 8 to 12 nulls in 100 have a p below .05; of 200, 5.
        r2_changes: the same of the differences of neighbours beyond those of time, None where that cannot be told.
        p_changes: its share of the shifts.
        per_series_changes: R^2 of the changes of each, None likewise.
        n: points of the shortest series.
        per_series: R^2 of each.
    """

    r2: float
    interval: tuple[float | None, float | None]
    null: float | None
    p: float
    r2_changes: float | None
    p_changes: float | None
    n: int
    per_series: tuple[float, ...]
    per_series_changes: tuple[float, ...] | None


def associate(
    ys: Sequence[Float[np.ndarray, " _"]],
    xs: Sequence[Float[np.ndarray, "_ _"]],
    *,
    times: Sequence[Num[np.ndarray, " _"]] | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Association | None:
    """How much of each y its regressors explain.

    Args:
        ys: a series (point,) for each seed.
        xs: its regressors (point, regressor).
        times: when its points were taken (point,), from 0; None: evenly.
        seed: of the resampling.
        resamples: draws of the bootstrap.

    Returns:
        None where a series is shorter than `FEWEST` or does not vary, or is not finite.

    Examples:
        >>> time = np.linspace(0, 20, 60)
        >>> found = associate([np.sin(time)], [np.stack([np.sin(time), np.cos(3 * time)], axis=1)])
        >>> round(found.r2, 3), found.p < 0.05
        (1.0, True)
    """
    rng = np.random.default_rng([seed, len(ys)])
    per_series = tuple(r_squared(y, x) for y, x in zip(ys, xs, strict=True))
    if not per_series or min(map(len, ys)) < FEWEST or not np.isfinite(per_series).all():
        return None
    drawn = np.mean([_bootstrap(y, x, rng, resamples) for y, x in zip(ys, xs, strict=True)], axis=0)
    low, high = np.quantile(drawn, _COVERED)
    null, p = _against_shifts(ys, xs, float(np.mean(per_series)), rng)
    at = [np.arange(len(y)) for y in ys] if times is None else times
    dys = [_changes(y[:, None], t)[:, 0] for y, t in zip(ys, at, strict=True)]
    dxs = [_changes(x, t) for x, t in zip(xs, at, strict=True)]
    each_of_changes = tuple(r_squared(dy, dx) for dy, dx in zip(dys, dxs, strict=True))
    of_changes = float(np.mean(each_of_changes))
    known = math.isfinite(of_changes)
    p_changes = _against_shifts(dys, dxs, of_changes, rng)[1] if known else None
    return Association(
        r2=float(np.mean(per_series)),
        interval=(float(low), float(high)),
        null=null,
        p=p,
        r2_changes=of_changes if known else None,
        p_changes=p_changes,
        n=min(map(len, ys)),
        per_series=per_series,
        per_series_changes=each_of_changes if known else None,
    )


def r_squared(y: Float[np.ndarray, " point"], x: Float[np.ndarray, "point regressor"]) -> float:
    """R^2 of least squares of y on x and an intercept, in 0..1; NaN where y does not vary or points are too few.

    Examples:
        >>> r_squared(np.array([0.0, 1.0, 2.0, 3.0]), np.array([[0.0], [1.0], [2.0], [3.0]]))
        1.0
    """
    if len(y) < x.shape[1] + 2 or not (np.isfinite(y).all() and np.isfinite(x).all()):
        return math.nan
    return float(_explained(_moments(y, _standard(x)).sum(0)[None])[0])


def _changes(values: Float[np.ndarray, "point series"], time: Num[np.ndarray, " point"]) -> np.ndarray:
    """Differences of neighbours, less what those of time and of its logarithm explain."""
    clock = np.diff(np.stack([time, np.log1p(time)], axis=1), axis=0)
    design = np.concatenate([np.ones((len(clock), 1)), clock / np.abs(clock).max(0).clip(1e-300)], axis=1)
    changes = np.diff(values, axis=0)
    rest = changes - design @ np.linalg.lstsq(design, changes, rcond=1e-9)[0]
    # What time explains to the last digit leaves rounding, and that explains nothing.
    return np.where(np.abs(rest).max(0) > 1e-9 * np.abs(values).max(0), rest, 0.0)


def block_length(n: int) -> int:
    """Neighbours that are kept together among n points: twice the cube root of n.

    Examples:
        >>> block_length(40), block_length(500)
        (7, 16)
    """
    return min(n // 2, max(2, round(2 * n ** (1 / 3))))


def _standard(x: np.ndarray) -> np.ndarray:
    """Centred and of unit spread, so that sums of products lose no digits; a column that does not vary is zero."""
    centred = x - x.mean(0)
    spread = centred.std(0)
    still = spread <= 1e-12 * np.abs(x).max(0)
    return np.where(still, 0.0, centred / np.where(still, 1.0, spread))


def _moments(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Products of all pairs of (1, y, x) at each point, of which R^2 needs only the sums: (point, 2 + k, 2 + k)."""
    z = np.concatenate([np.ones((len(y), 1)), _standard(y[:, None]), x], axis=1)
    return z[:, :, None] * z[:, None, :]


def _explained(sums: np.ndarray) -> np.ndarray:
    """R^2 from sums of moments, (draw, 2 + k, 2 + k) -> (draw,)."""
    count = sums[:, :1, :1]
    centred = sums[:, 1:, 1:] / count - sums[:, 1:, :1] * sums[:, :1, 1:] / count**2
    total, cross, square = centred[:, 0, 0], centred[:, 0, 1:], centred[:, 1:, 1:]
    # The pseudo-inverse leaves out what does not vary, and what says the same twice.
    explained = np.einsum("ri,rij,rj->r", cross, np.linalg.pinv(square, rcond=1e-9, hermitian=True), cross)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(total > 1e-12, explained / total, np.nan)
    return np.clip(share, 0.0, 1.0)


def _bootstrap(y: np.ndarray, x: np.ndarray, rng: np.random.Generator, resamples: int) -> np.ndarray:
    """R^2 of draws of whole blocks; a draw is as long as the series, but for a part of a block.

    Blocks go round from the end to the beginning: otherwise the ends, which of a trend say most, would be drawn less.
    """
    length = block_length(len(y))
    moments = _moments(y, _standard(x))
    sums = np.cumsum(np.concatenate([np.zeros_like(moments[:1]), moments, moments[: length - 1]]), axis=0)
    blocks = sums[length:] - sums[:-length]
    chosen = rng.integers(len(blocks), size=(resamples, math.ceil(len(y) / length)))
    return np.nan_to_num(_explained(blocks[chosen].sum(1)))


def _against_shifts(
    ys: Sequence[np.ndarray], xs: Sequence[np.ndarray], observed: float, rng: np.random.Generator
) -> tuple[float, float]:
    """The 95 % point of the mean R^2 of shifted series, and the share that is as large as the observed one."""
    nulls = [_shifted(y, x) for y, x in zip(ys, xs, strict=True)]
    drawn = nulls[0] if len(nulls) == 1 else np.mean([null[rng.integers(len(null), size=2_000)] for null in nulls], 0)
    as_large = int((drawn >= observed).sum())
    return float(np.quantile(drawn, _NULL)), (1 + as_large) / (1 + len(drawn))


def _shifted(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """R^2 of y, moved round by every number of points that is a block or more, on x."""
    n, length = len(y), block_length(len(y))
    at = (np.arange(n)[None, :] + np.arange(length, n - length + 1)[:, None]) % n
    standard_x, standard_y = _standard(x), _standard(y[:, None])[:, 0]
    cross = standard_y[at] @ standard_x / n
    square = standard_x.T @ standard_x / n
    total = float((standard_y**2).mean())
    if total == 0:
        return np.zeros(len(at))
    return np.clip(np.einsum("si,ij,sj->s", cross, np.linalg.pinv(square, rcond=1e-9, hermitian=True), cross), 0, 1)
