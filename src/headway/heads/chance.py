"""Heads: how likely what was found is among heads that learnt nothing. Numpy alone, as `scores`.

A layer is searched for its highest head (or pair), so it is held against the highest head of each draw of untrained
heads on the same stream: that corrects for the number of heads, however they depend on one another. Few draws are had,
and rare chances are asked for, so the highest of a layer are taken to have a Gumbel distribution, as maxima of many
light-tailed values have, on a scale without bounds: the logit of a share, the inverse hyperbolic tangent of a cosine.
Its two parameters are not known but estimated, which the chance allows for. Of an untrained layer, which is one more
draw, the chance is uniform; as a safeguard it is never below 1 / (draws + 1) where a draw's highest is not exceeded.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

FAMILY_WISE = 0.05
"""The chance that a page of an untrained model has any finding."""
Scale = Literal["share", "cosine", "plain", "size"]
_SAMPLES = 40_000
_LEAST = {"share": 0.1, "cosine": 0.02, "plain": 0.0, "size": 0.02}
"""The least spread that maxima are taken to have, on the scale without bounds: few draws may agree by accident."""


def chance(found: float, maxima: Sequence[float] | np.ndarray, scale: Scale = "plain") -> float:
    """The chance that the highest of one more draw is at least what was found; 1 with fewer than four draws.

    Examples:
        >>> chance(0.3, [0.25, 0.3, 0.35, 0.28, 0.32]) > 0.3
        True
        >>> chance(0.9, [0.25, 0.3, 0.35, 0.28, 0.32], "share") < 0.02
        True
    """
    drawn = np.asarray(maxima, np.float64)
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < 4 or not math.isfinite(found):
        return 1.0
    at, unbounded = _unbounded(np.array(found), scale), _unbounded(drawn, scale)
    rank = (1 + int((unbounded >= at).sum())) / (len(drawn) + 1)
    if rank > max(FAMILY_WISE, 1 / (len(drawn) + 1)):
        return rank
    spread = max(float(unbounded.std(ddof=1)), _LEAST[scale])
    if not spread:
        return 1.0 if at <= unbounded[0] else 0.0
    means, deviations = _estimates(len(drawn))
    t = (float(at) - unbounded.mean()) / spread
    tail = float(-np.expm1(-np.exp(-np.clip(means + t * deviations, -30, 700))).mean())
    return max(tail, rank) if (unbounded >= at).any() else tail


def threshold(maxima: Sequence[float] | np.ndarray, level: float, scale: Scale = "plain") -> float:
    """From what value on the chance is at most a level; NaN where there are too few draws."""
    drawn = np.asarray(maxima, np.float64)
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < 4:
        return math.nan
    unbounded = _unbounded(drawn, scale)
    spread = max(float(unbounded.std(ddof=1)), _LEAST[scale])
    means, deviations = _estimates(len(drawn))
    low, high = -5.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        tail = float(-np.expm1(-np.exp(-np.clip(means + middle * deviations, -30, 700))).mean())
        low, high = (middle, high) if tail > level else (low, middle)
    return float(_bounded(max(unbounded.mean() + high * spread, unbounded.max()), scale))


@lru_cache(maxsize=8)
def _estimates(draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of so many standard Gumbel values, over and over."""
    drawn = np.random.default_rng(0).gumbel(size=(_SAMPLES, draws))
    return drawn.mean(1), drawn.std(1, ddof=1)


def _unbounded(x: np.ndarray, scale: Scale) -> np.ndarray:
    if scale == "share":
        inside = np.clip(x, 1e-3, 1 - 1e-3)
        return np.asarray(np.log(inside / (1 - inside)))
    if scale == "cosine":
        return np.asarray(np.arctanh(np.clip(x, -0.9999, 0.9999)))
    return np.asarray(np.log(np.clip(x, 1e-12, None))) if scale == "size" else x


def _bounded(x: float, scale: Scale) -> float:
    if scale == "share":
        return 1 / (1 + math.exp(-min(x, 700.0)))
    return math.tanh(x) if scale == "cosine" else math.exp(min(x, 700.0)) if scale == "size" else x
