"""Show: a final metric over seeds as a mean with its interval."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SEEDS = 3
"""Seeds from which on an interval is drawn: that of two seeds is 13 standard errors wide on either side."""


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over seeds and the ends of its 95 % interval (t); the mean itself where the seeds are too few for one."""

    mean: float
    low: float
    high: float


def over_seeds(values: Sequence[float] | np.ndarray) -> Mean:
    """The mean of one value or more, with its interval.

    Examples:
        >>> over_seeds([1.0, 2.0])
        Mean(mean=1.5, low=1.5, high=1.5)
    """
    values = np.asarray(values, dtype=float)
    mean, half = float(values.mean()), 0.0
    if len(values) >= SEEDS:
        from scipy.stats import t

        half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Mean(mean=mean, low=mean - half, high=mean + half)
