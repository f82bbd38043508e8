"""Heads: which tokens look at which, over a whole text: for every head the pairs that an even head would not have.

The weight that a head gives to a pair of tokens is summed over all places where the one sees the other, less what even
attention would have given there, so that pairs do not stand on top for being frequent.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from headway.heads.view import AttendedPair
from headway.model.trace import AttentionTrace

TOP = 8


@dataclass(kw_only=True)
class _Sums:
    weight: Float[np.ndarray, "head pair"]
    even: Float[np.ndarray, " pair"]
    n: Int[np.ndarray, " pair"]


class TokenPairs:
    """Pairs of tokens of a text, and what every head gives to them; batches are added one by one."""

    def __init__(
        self, queries: Int[np.ndarray, "sequence query"], keys: Int[np.ndarray, "sequence key"], *, same: bool
    ) -> None:
        """Begin.

        Args:
            queries: the tokens that look, of all sequences.
            keys: the tokens that they look at.
            same: whether these stand at the same places: what a place gives to itself is then in no pair, since a token
                and itself are one word however different the places are that other pairs come from.
        """
        self._others = ~np.eye(queries.shape[1], keys.shape[1], dtype=bool) | (not same)
        self._width = int(max(queries.max(), keys.max())) + 1
        codes = queries[:, :, None].astype(np.int64) * self._width + keys[:, None, :]
        # A causal model has no use for the pairs above the diagonal; their sums stay 0.
        self._codes, inverse = np.unique(codes, return_inverse=True)
        self._place = inverse.reshape(codes.shape)
        self._sums: dict[str, _Sums] = {}

    def add(self, attention: AttentionTrace, first: int) -> None:
        """Add what an attention does with some sequences.

        Args:
            attention: what was recorded of it.
            first: the number of the first of its sequences.
        """
        weights = attention.patterns().float().cpu().numpy()
        sees = np.broadcast_to(attention.sees().any(1).cpu().numpy(), (len(weights), *weights.shape[2:]))
        place = self._place[first : first + len(weights)].ravel()
        even = sees / np.maximum(sees.sum(2, keepdims=True), 1) * self._others
        weights, sees = weights * self._others, sees & self._others
        n = len(self._codes)
        here = _Sums(
            weight=np.stack([np.bincount(place, weights[:, h].ravel(), n) for h in range(weights.shape[1])]),
            even=np.bincount(place, even.ravel(), n),
            n=np.bincount(place, sees.ravel(), n).astype(np.int64),
        )
        if attention.name in self._sums:
            before = self._sums[attention.name]
            here = _Sums(weight=before.weight + here.weight, even=before.even + here.even, n=before.n + here.n)
        self._sums[attention.name] = here

    def top(self, name: str) -> Mapping[int, tuple[AttendedPair, ...]]:
        """For each head of an attention the pairs with most beyond an even share."""
        sums = self._sums[name]
        return {head: self._top(weight, sums) for head, weight in enumerate(sums.weight)}

    def _top(self, weight: Float[np.ndarray, " pair"], sums: _Sums) -> tuple[AttendedPair, ...]:
        more = weight - sums.even
        few = min(TOP, len(more))
        best = np.argpartition(-more, few - 1)[:few]
        return tuple(
            AttendedPair(
                query=int(self._codes[at] // self._width),
                key=int(self._codes[at] % self._width),
                weight=float(weight[at] / sums.n[at]),
                even=float(sums.even[at] / sums.n[at]),
                n=int(sums.n[at]),
            )
            for at in best[np.argsort(-more[best], kind="stable")]
            if more[at] > 0
        )
