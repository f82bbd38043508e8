"""Heads: alikeness within and between the groups of heads that share keys and values. Numpy alone, as `scores`."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def within_and_between(pairs: Float[np.ndarray, "head head"], kv_of: Sequence[int]) -> tuple[float, float]:
    """The mean of a metric over pairs of different heads that share their keys, and over those that do not.

    Args:
        pairs: the metric.
        kv_of: the KV head of each head.

    Returns:
        Two means; NaN where there is no such pair.

    Examples:
        >>> within_and_between(np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.0]]), [0, 0, 1])
        (0.5, 0.15000000000000002)
    """
    shared = np.equal.outer(kv_of, kv_of)
    pair = np.triu(np.ones_like(shared), k=1)
    return _mean(pairs[shared & pair]), _mean(pairs[~shared & pair])


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else float("nan")
