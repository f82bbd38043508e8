"""Compare: where a function of one number is 0, by Ridders' method; `scipy.optimize` takes longer to load than to use.

Paper: Ridders, IEEE Transactions on Circuits and Systems 26 (1979), 979-980.
"""

import math
from collections.abc import Callable

_MOST = 200


def root(function: Callable[[float], float], low: float, high: float, *, within: float = 1e-10) -> float:
    """Where a function of one number is 0 between two at which it has different signs.

    Raises:
        ValueError: when it has the same sign at both.

    Examples:
        >>> round(root(lambda x: x**3 - 2, 0.0, 2.0), 9)
        1.25992105
    """
    at_low, at_high = function(low), function(high)
    if at_low * at_high > 0:
        raise ValueError("the function has one sign at both ends")
    found = low if at_low == 0 else high
    if at_low * at_high == 0:
        return found
    for _ in range(_MOST):
        middle, before = (low + high) / 2, found
        at_middle = function(middle)
        step = (middle - low) * math.copysign(1.0, at_low - at_high)
        found = middle + step * at_middle / math.sqrt(at_middle * at_middle - at_low * at_high)
        at = function(found)
        if at == 0 or abs(found - before) <= within:
            return found
        if at_middle * at < 0:
            low, high, at_low, at_high = middle, found, at_middle, at
        elif at_low * at < 0:
            high, at_high = found, at
        else:
            low, at_low = found, at
        if abs(high - low) <= within:
            return found
    return found
