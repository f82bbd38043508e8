"""Heads: scores as plain values, numbers to five digits; what is not finite is null. Numpy alone, as `scores`."""

from typing import Any

import numpy as np

from headway.heads.scores import HeadScores

PAIRS_IN_JSON = 128
"""Metrics of pairs stand in the JSON for attentions of at most so many heads."""


def score_json(score: HeadScores) -> dict[str, Any]:
    """A metric with its values and nulls by attention; null for pairs of an attention with very many heads."""
    declared = score.declared
    wide = [name for name, value in score.values.items() if value.ndim == 2 and len(value) > PAIRS_IN_JSON]
    found = {
        "of": declared.of,
        "unit": declared.unit,
        "sentence": declared.sentence,
        "n_rows": score.n_rows,
        "values": {name: None if name in wide else five_digits(value) for name, value in score.values.items()},
        "null": {name: None if name in wide else five_digits(value) for name, value in score.null.items()},
        "untrained": {name: None if name in wide else five_digits(value) for name, value in score.untrained.items()},
        "untrained_spread": {name: None if name in wide else five_digits(v) for name, v in score.spread.items()},
    }
    if declared.of == "pair":
        found["per_head"] = {name: five_digits(value) for name, value in score.per_head().items()}
    return found


def five_digits(value: Any) -> Any:
    """An array as lists of numbers of five significant digits; null for what is not finite.

    Examples:
        >>> five_digits([1.2345678, float("nan")])
        [1.2346, None]
    """
    array = np.asarray(value, np.float64)
    if array.ndim:
        return [five_digits(inner) for inner in array]
    return float(f"{array:.5g}") if np.isfinite(array) else None
