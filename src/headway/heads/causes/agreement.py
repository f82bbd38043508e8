"""Heads: how far an estimate of heads' effects agrees with the exact ones."""

import numpy as np
from jaxtyping import Float


def rank_correlation(one: Float[np.ndarray, " heads"], other: Float[np.ndarray, " heads"]) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN where either has one value only.

    Examples:
        >>> round(rank_correlation(np.array([0.1, 0.2, 0.9]), np.array([1.0, 3.0, 2.0])), 3)
        0.5
    """
    from scipy.stats import rankdata

    a, b = (rankdata(values) - (len(values) + 1) / 2 for values in (one, other))
    spread = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / spread if spread else float("nan")
