"""Raise an AssertionError if two ways of computing a value differ by more than rounding explains.

The last bits of a sum depend on its order, and the order on the processor, the number of threads and the library. So a
test that compares two ways of computing the same holds no number of its own. It allows a difference of

    2 sqrt(terms) x machine precision x size of the values

Each value stands at the end of a chain of `terms` sums and products. Their roundings are independent, so they grow as
the square root of their number, and both ways have theirs. The size is that of the largest value: a rounding in a sum
is as large as the largest term, whatever is left of the sum.

Published numbers, statistical tolerances and limits of formulas are other things (tests/laws/test_tolerances.py).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

TERMS = 700
"""Terms of a pass through the small models of the tests: about 200 in each of 3 layers, and the read-out.

The 200 are the widths of the stream, of the head, of the MLP, twice each, and the positions. On processors of Intel and
AMD, with every instruction set, up to 23 of the 53 roundings that this allows were seen.
"""

ADAM = 1_000_000
"""By how much more terms count in a weight that Adam has moved, whose scale is the learning rate.

Adam divides a gradient by its own size: where it is a thousandth of the largest, its roundings count a thousandfold.
"""


def assert_same(
    found: Any,
    expected: Any,
    *,
    terms: float = TERMS,
    dtype: Any = None,
    scale: Any = None,
    each: bool = False,
    what: str = "",
) -> None:
    """Compare numbers, arrays, tensors, and mappings or sequences of them.

    Args:
        found: computed in one way.
        expected: computed in the other way.
        terms: sums and products in a row that lead to each value.
        dtype: in which both were computed, where the values are stored in a wider type; None: the coarser of their
            types.
        scale: the size of the numbers whose roundings are seen; None: the largest value. A difference of two losses
            has the roundings of the losses.
        each: whether the size is that of each value instead: of sums that cancel nothing.
        what: is named in the message.
    """
    if isinstance(expected, Mapping):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_same(
                found[key], expected[key], terms=terms, dtype=dtype, scale=scale, each=each, what=f"{what} {key}"
            )
        return
    if isinstance(expected, list | tuple) and not all(_is_number(one) for one in expected):
        assert len(found) == len(expected), f"{what} lengths {len(found)} and {len(expected)}"
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_same(one, other, terms=terms, dtype=dtype, scale=scale, each=each, what=f"{what} {place}")
        return
    mine, theirs = _array(found), _array(expected)
    assert mine.shape in (theirs.shape, ()) or not theirs.shape, f"{what} shapes {mine.shape} and {theirs.shape}"
    precision = max(_precision(found if dtype is None else dtype), _precision(expected if dtype is None else dtype))
    mine, theirs = (array.astype(np.float64) for array in np.broadcast_arrays(mine, theirs))
    finite = np.isfinite(mine) & np.isfinite(theirs)
    np.testing.assert_array_equal(mine[~finite], theirs[~finite], err_msg=what)
    if scale is None:
        sizes = np.maximum(np.abs(mine[finite]), np.abs(theirs[finite]))
        size = sizes if each else sizes.max(initial=0)
    else:
        size = np.abs(_array(scale).astype(np.float64)).max()
    differences, allowed = np.abs(mine[finite] - theirs[finite]), 2 * np.sqrt(terms) * precision * size
    wrong = ~(differences <= allowed)
    assert not wrong.any(), (
        f"{what} {wrong.sum()} of {wrong.size} values differ by more than rounding: by up to "
        f"{differences[wrong].max():.3g}; 2 sqrt({terms:g}) roundings of {np.max(size):.3g} are {np.max(allowed):.3g}"
    )


class nearly:
    """Equal to whatever is the same but for rounding: `assert found == nearly(expected)`; options as `assert_same`."""

    __array_ufunc__ = None  # an array leaves the comparison to this class

    def __init__(self, expected: Any, **options: Any):
        self._expected, self._options = expected, options

    def __eq__(self, found: object) -> bool:
        try:
            assert_same(found, self._expected, **self._options)
        except AssertionError:
            return False
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        options = "".join(f", {name}={value}" for name, value in self._options.items())
        return f"nearly({self._expected}{options})"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or getattr(value, "shape", None) == ()


def _array(value: Any) -> np.ndarray:
    if type(value).__module__.partition(".")[0] == "torch":
        return value.detach().double().cpu().numpy()
    if isinstance(value, list | tuple):
        return np.array([_array(one) for one in value])
    return np.asarray(value)


def _precision(value: Any) -> float:
    """The machine precision of a type, or of the narrowest type of some values."""
    if isinstance(value, list | tuple):
        return max((_precision(one) for one in value), default=0.0)
    kind = value if isinstance(value, type | str) else getattr(value, "dtype", value)
    if type(kind).__module__ == "torch":
        import torch  # what needs no torch is compared without it

        return torch.finfo(kind).eps if kind.is_floating_point else 0.0
    if isinstance(kind, type | np.dtype | str) and np.issubdtype(kind, np.floating):
        return float(np.finfo(kind).eps)
    return float(np.finfo(np.float64).eps)
