"""Compare: points that fill a cube evenly: scrambled Sobol points, the same bits as scipy's.

`scipy.stats` takes longer to load than everything else that a comparison does, and is wanted for these alone. They are
made from Joe and Kuo's direction numbers, by a random lower triangular matrix and a random shift.

Papers: Joe and Kuo, SIAM J. Sci. Comput. 30 (2008), 2635-2654; Matousek, J. Complexity 14 (1998), 527-556.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float, UInt32

_BITS = 30
_NUMBERS = """
3,1 7,1,3 11,1,3,1 13,1,1,1 19,1,1,3,3 25,1,3,5,13 37,1,1,5,5,17 41,1,1,5,5,5 47,1,1,7,11,19 55,1,1,5,1,1
59,1,1,1,3,11 61,1,3,5,5,31 67,1,3,3,9,7,49 91,1,1,1,15,21,21 97,1,3,1,13,27,49 103,1,1,1,15,7,5
109,1,3,1,15,13,25 115,1,1,5,5,19,61 131,1,3,7,11,23,15,103 137,1,3,7,13,13,15,69 143,1,1,3,13,7,35,63
145,1,3,5,9,1,25,53 157,1,3,1,13,9,35,107 167,1,3,1,5,27,61,31 171,1,1,5,11,19,41,61 185,1,3,5,3,3,13,69
191,1,1,7,13,1,19,1 193,1,3,7,5,13,19,59 203,1,1,3,9,25,29,41 211,1,3,5,13,23,1,55 213,1,3,7,3,13,59,17
229,1,3,1,3,5,53,69 239,1,1,5,5,23,33,13 241,1,1,7,7,1,61,123 247,1,1,7,9,13,61,49 253,1,3,3,5,3,55,33
285,1,3,1,15,31,13,49,245 299,1,3,5,15,31,59,63,97 301,1,3,1,11,11,11,77,249 333,1,3,1,11,27,43,71,9
351,1,1,7,15,21,11,81,45 355,1,3,7,3,25,31,65,79 357,1,3,1,1,19,11,3,205 361,1,1,5,9,19,21,29,157
369,1,3,7,11,1,33,89,185 391,1,3,3,3,15,9,79,71 397,1,3,7,11,15,39,119,27
"""
"""Of each dimension but the first: the polynomial, and the first odd numbers."""

_MOST = 48
"""Dimensions that are made here; more are left to scipy."""


def sobol_points(dimensions: int, power: int, seed: int) -> Float[np.ndarray, "point dimension"]:
    """The first 2^power scrambled points, in 0..1.

    Examples:
        >>> sobol_points(2, 3, seed=0).mean(0).round(1).tolist()
        [0.5, 0.5]
    """
    rng = np.random.default_rng(seed)
    if dimensions > _MOST:
        from scipy.stats import qmc

        return np.asarray(qmc.Sobol(dimensions, scramble=True, rng=rng).random_base2(power))
    rng = rng.spawn(1)[0]  # as scipy does
    shift = rng.integers(2, size=(dimensions, _BITS), dtype=np.uint32) @ (1 << np.arange(_BITS, dtype=np.uint32))
    matrix = np.tril(rng.integers(2, size=(dimensions, _BITS, _BITS), dtype=np.uint32))
    matrix[:, np.arange(_BITS), np.arange(_BITS)] = 1
    # As bits, the highest first: (dimension, direction, bit).
    falling = np.arange(_BITS - 1, -1, -1, dtype=np.uint32)
    bits = (_directions(dimensions)[:, :, None] >> falling) & 1
    scrambled = ((np.einsum("dpk,djk->djp", matrix, bits) & 1) << falling).sum(2, dtype=np.uint32)
    points = np.empty((1 << power, dimensions), np.uint32)
    points[0] = shift
    for bit in range(power):  # in the order of Gray's code, in which neighbours differ by one direction
        n = 1 << bit
        points[n : 2 * n] = points[:n][::-1] ^ scrambled[:, bit]
    return points * 2.0**-_BITS


def _directions(dimensions: int) -> UInt32[np.ndarray, "dimension direction"]:
    """What each bit of a point's number adds to it, before any scrambling."""
    rows = [[1] * _BITS]
    for text in _NUMBERS.split()[: dimensions - 1]:
        polynomial, *row = map(int, text.split(","))
        degree = len(row)
        while len(row) < _BITS:
            new = row[-degree]
            for k in range(1, degree + 1):
                if polynomial >> (degree - k) & 1:
                    new ^= row[-k] << k
            row.append(new)
        rows.append(row)
    return (np.array(rows, np.uint64) << np.arange(_BITS - 1, -1, -1, dtype=np.uint64)).astype(np.uint32)
