"""Heads: attention patterns to 8 bits, packed: small enough for thousands of them in a page. Numpy alone."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8

STEPS = 255
"""A weight of 1; what is kept is the nearest of so many steps, at most 0.002 away."""
_STRATEGIES = (zlib.Z_RLE, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY)
"""Ways to deflate the same bytes. Weights hardly repeat themselves in longer rows: codes of their own pay more."""


@dataclass(frozen=True, kw_only=True)
class PackedPatterns:
    """What some heads of an attention look at in one sequence.

    Attributes:
        heads: their numbers.
        n_queries: rows of a pattern.
        n_keys: columns of a pattern.
        lower: whether only what is on the diagonal and below is kept, row by row, since the rest is 0.
        data: head after head, deflated without a header.
    """

    heads: tuple[int, ...]
    n_queries: int
    n_keys: int
    lower: bool
    data: bytes

    @classmethod
    def of(cls, weights: Float[np.ndarray, "some query key"], heads: Sequence[int]) -> "PackedPatterns":
        """Pack the patterns of these heads; the triangle above the diagonal is left out where it is empty."""
        steps = np.rint(np.nan_to_num(weights) * STEPS).astype(np.uint8)
        n_queries, n_keys = steps.shape[1:]
        lower = n_queries == n_keys and not steps[:, ~_lower(n_keys)].any()
        kept = steps[:, _lower(n_keys)] if lower else steps
        return cls(heads=tuple(heads), n_queries=n_queries, n_keys=n_keys, lower=lower, data=_deflated(kept.tobytes()))

    def steps(self) -> UInt8[np.ndarray, "some query key"]:
        """The weights in steps of 1/255."""
        flat = np.frombuffer(zlib.decompress(self.data, -zlib.MAX_WBITS), np.uint8)
        if not self.lower:
            return flat.reshape(len(self.heads), self.n_queries, self.n_keys)
        whole = np.zeros((len(self.heads), self.n_queries, self.n_keys), np.uint8)
        whole[:, _lower(self.n_keys)] = flat.reshape(len(self.heads), -1)
        return whole


def _lower(n: int) -> np.ndarray:
    return np.tri(n, dtype=bool)


def _deflated(data: bytes) -> bytes:
    return min((_with(strategy, data) for strategy in _STRATEGIES), key=len)


def _with(strategy: int, data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, 9, strategy)
    return packer.compress(data) + packer.flush()
