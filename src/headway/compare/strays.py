"""Compare: runs that ended unlike the others of their arm: stuck seeds, of which a mean describes no run."""

from dataclasses import dataclass

import numpy as np

from headway.compare.cells import Cells

_FEWEST = 3
"""Seeds of which one can be unlike the others."""

_FAR = 5.0
"""Standard deviations, as half of the residuals tell them."""

_TO_DEVIATION = 1.4826
"""From a median of absolute residuals to a standard deviation."""

_LEAST = 0.5
"""In per cent: nobody minds less."""


@dataclass(frozen=True, kw_only=True)
class Stray:
    """A run, its value, and the median of its arm's other runs."""

    arm: str
    seed: int
    value: float
    others: float


def strays(cells: Cells) -> list[Stray]:
    """The runs whose residual is beyond five standard deviations of the family's.

    Residuals are from medians, over the arm's seeds and then over arms, so that one odd run moves no other; and
    the middle runs, whose residual is 0 whatever the spread, do not count in what is usual. A run is as far from the
    others of its arm too: where a seed is odd in most arms, it is not the one that is usual.
    """
    y = cells.as_logarithms().values
    known = np.isfinite(y)
    chosen = known.sum(1) >= _FEWEST
    if not chosen.any():
        return []
    y = y[chosen]
    in_arm = y - np.nanmedian(y, 1, keepdims=True)
    rest = in_arm.copy()
    some = np.isfinite(rest).any(0)
    if len(rest) >= _FEWEST:
        rest[:, some] -= np.nanmedian(rest[:, some], 0)
    sizes = np.abs(rest[np.isfinite(rest)])
    sizes = sizes[sizes > 0]
    if not len(sizes):
        return []
    limit = max(_FAR * _TO_DEVIATION * float(np.median(sizes)), _LEAST)
    rows = np.flatnonzero(chosen)
    found = []
    far = np.minimum(np.abs(np.nan_to_num(rest)), np.abs(np.nan_to_num(in_arm))) > limit
    for row, column in zip(*np.nonzero(far), strict=True):
        values = cells.values[rows[row]]
        others = np.delete(values, column)
        found.append(
            Stray(
                arm=cells.arms[rows[row]],
                seed=cells.seeds[column],
                value=float(values[column]),
                others=float(np.nanmedian(others)),
            )
        )
    return found
