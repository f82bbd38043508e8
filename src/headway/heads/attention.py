"""An attention under measurement: its trace, and the queries and keys that count.

A query counts if it is no padding and sees a key. A key counts if such a query sees it. No metric contains anything
else, whatever stands there, NaN included. A row is a position of one text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.models.trace import AttentionTrace

Rows = Float[Tensor, "rows head width"]
PerText = Int[Tensor, " batch"]


@dataclass(frozen=True, kw_only=True)
class MaskedAttention:
    """The parts of an attention that a metric may use."""

    attention: AttentionTrace
    """The trace of the attention, in float32 at least."""
    counted: Bool[Tensor, "batch query"]
    keys_counted: Bool[Tensor, "batch key"]
    before: Float[Tensor, "batch query d_model"] | None = None
    """The stream before layer 0, if the trace has it."""
    after: Float[Tensor, "batch query d_model"] | None = None
    """The stream after this layer, if the trace has it."""
    period: PerText | None = None
    """The period of repeated random tokens, for each text."""
    begins: PerText | None = None
    """The first position that is repeated, counted from the first key of the text; known where the period is."""
    tokens: Int[Tensor, "batch token"] | None = None
    """The tokens of the text, if the keys are theirs."""

    @property
    def n_heads(self) -> int:
        """Query heads."""
        return self.attention.q.shape[1]

    @property
    def share(self) -> float:
        """The share of queries that are present: 1 unless some queries stand for all."""
        some = self.attention.some
        return 1.0 if some is None else some.places.shape[1] / some.of

    @property
    def queries(self) -> Rows:
        """The queries as rows, zero where a position does not count."""
        return rows_of(self.attention.q, self.counted)

    @property
    def contexts(self) -> Rows:
        """The contexts as rows, zero where a position does not count."""
        return rows_of(self.attention.z, self.counted)

    @property
    def values(self) -> Float[Tensor, "rows kv_head width"]:
        """The values of the KV heads as rows, zero where a key does not count."""
        return rows_of(self.attention.v, self.keys_counted)

    def is_finite(self) -> bool:
        """Return whether everything that counts is finite; sums and cosines might hide a NaN."""
        keys = rows_of(self.attention.k, self.keys_counted)
        parts = (self.queries, self.contexts, keys, self.values, self.attention.W_O)
        return all(bool(x.sum().isfinite()) for x in parts)


def mask_attention(
    attention: AttentionTrace,
    streams: Sequence[Tensor] = (),
    period: PerText | None = None,
    begins: PerText | None = None,
    tokens: Int[Tensor, "batch token"] | None = None,
) -> MaskedAttention:
    """Return an attention with the queries and keys that count.

    Args:
        attention: the recorded activations of the attention.
        streams: the streams of the whole trace, or none.
        period: the period of repeated random tokens, for each text; None: no repetition.
        begins: the first repeated position of each text; None: no repetition.
        tokens: the tokens of the text; None: unknown.
    """
    attention = _in_float32(attention)
    sees = attention.sees().any(1).expand(len(attention.q), -1, -1)
    counted = sees.any(2)
    of_keys = tokens is not None and attention.kind == "self" and tokens.shape[1] == attention.k.shape[2]
    if attention.rows is not None:
        counted = counted & attention.rows
    return MaskedAttention(
        attention=attention,
        counted=counted,
        keys_counted=(sees & counted[:, :, None]).any(1) if attention.some is None else attention.some.keys_counted,
        before=streams[0] if streams else None,
        after=streams[attention.layer + 1] if streams else None,
        period=period,
        begins=begins,
        tokens=tokens if of_keys else None,
    )


def rows_of(x: Float[Tensor, "batch head pos width"], counted: Bool[Tensor, "batch pos"]) -> Rows:
    """Return vectors of heads as rows, zero where a position does not count."""
    return torch.where(counted[:, None, :, None], x, 0).transpose(1, 2).flatten(0, 1)


def _in_float32(attention: AttentionTrace) -> AttentionTrace:
    if attention.q.dtype not in (torch.float16, torch.bfloat16):
        return attention
    tensors = {name: getattr(attention, name) for name in ("q", "k", "v", "z", "W_O", "b_O", "bias", "gain", "sinks")}
    floats: dict[str, Any] = {name: x if x is None else x.float() for name, x in tensors.items()}
    return replace(attention, **floats)
