"""Heads: an attention under measurement: its trace, and which of its queries and keys count.

A query counts that is no padding and sees a key; a key counts that such a query sees. What does not count is in no
metric, whatever stands there, NaN included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.model.trace import AttentionTrace


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a metric may use of an attention."""

    attention: AttentionTrace
    """In float32 at least."""
    counted: Bool[Tensor, "batch query"]
    keys_counted: Bool[Tensor, "batch key"]
    before: Float[Tensor, "batch query d_model"] | None = None
    """The stream before layer 0, where the trace has it."""
    after: Float[Tensor, "batch query d_model"] | None = None
    """The stream after this layer, where the trace has it."""
    period: int | Int[Tensor, " batch"] | None = None
    """Of random tokens that are repeated: one, or one for each text."""
    begins: int | Int[Tensor, " batch"] = 0
    """The first position that is repeated, counted from the first key of the text."""

    @property
    def n_heads(self) -> int:
        """Query heads."""
        return self.attention.q.shape[1]

    @property
    def share(self) -> float:
        """How many of the queries are here: 1 unless they are some that stand for all."""
        some = self.attention.some
        return 1.0 if some is None else some.places.shape[1] / some.of


def subject(
    attention: AttentionTrace,
    streams: Sequence[Tensor] = (),
    period: int | Int[Tensor, " batch"] | None = None,
    begins: int | Int[Tensor, " batch"] = 0,
) -> Subject:
    """An attention with what counts in it.

    Args:
        attention: what was recorded of it.
        streams: those of the whole trace, or none.
        period: of random tokens that are repeated, one for all texts or one for each.
        begins: the first position that is repeated, likewise.
    """
    attention = _in_float32(attention)
    sees = attention.sees().any(1).expand(len(attention.q), -1, -1)
    counted = sees.any(2)
    if attention.rows is not None:
        counted = counted & attention.rows
    return Subject(
        attention=attention,
        counted=counted,
        keys_counted=(sees & counted[:, :, None]).any(1) if attention.some is None else attention.some.keys_counted,
        before=streams[0] if streams else None,
        after=streams[attention.layer + 1] if streams else None,
        period=period,
        begins=begins,
    )


def only(
    counted: Bool[Tensor, "batch pos"], x: Float[Tensor, "batch head pos width"]
) -> Float[Tensor, "rows head width"]:
    """Vectors of heads as rows, zero where a position does not count."""
    return torch.where(counted[:, None, :, None], x, 0).transpose(1, 2).flatten(0, 1)


def _in_float32(attention: AttentionTrace) -> AttentionTrace:
    if attention.q.dtype not in (torch.float16, torch.bfloat16):
        return attention
    tensors = {name: getattr(attention, name) for name in ("q", "k", "v", "z", "W_O", "b_O", "bias", "gain")}
    floats: dict[str, Any] = {name: x if x is None else x.float() for name, x in tensors.items()}
    return replace(attention, **floats)
