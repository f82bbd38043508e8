"""Model: an attention of plain matrices, as whoever has one writes it down: how a toy model is brought in.

Its trace keeps the matrices, so that its circuits can be read off them and its heads drawn anew on the same stream.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headway.errors import UserError
from headway.model.redraw import Redrawable, drawn_weight
from headway.model.trace import AttentionTrace, PlainWeights, SomeQueries, Trace


def plain_attention(
    x: Tensor,
    *,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    b_Q: Float[Tensor, "head d_head"] | None = None,
    b_K: Float[Tensor, "kv_head d_head"] | None = None,
    b_V: Float[Tensor, "kv_head d_value"] | None = None,
    b_O: Float[Tensor, " d_out"] | None = None,
    causal: bool = True,
    mask: Bool[Tensor, "*batch pos pos"] | None = None,
    scale: float | None = None,
    layer: int = 0,
) -> AttentionTrace:
    """What the heads of an attention do with a stream: softmax(q k) v, computed here from its matrices.

    Args:
        x: what the attention reads, (batch, pos, d_model): the stream, after its norm where there is one.
        W_Q: of each head, (head, d_model, d_head).
        W_K: of each KV head, (kv_head, d_model, d_head): as many as heads, or a divisor of that, shared by neighbours.
        W_V: likewise, (kv_head, d_model, d_value).
        W_O: of each head, (head, d_value, d_out).
        b_Q: biases, by head.
        b_K: by KV head.
        b_V: by KV head.
        b_O: added once.
        causal: whether a position sees those up to its own alone; not in a bidirectional model.
        mask: True where a query sees a key, (query, key) or (batch, query, key), beside that; None: everywhere.
        scale: what logits are multiplied by; None: 1 / sqrt(d_head).
        layer: its number.

    Raises:
        UserError: for matrices that do not fit together.
    """
    _check(x, {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O})
    weights = PlainWeights(x=x, W_Q=W_Q, W_K=W_K, W_V=W_V, b_Q=b_Q, b_K=b_K, b_V=b_V)
    n, n_heads = x.shape[1], len(W_Q)
    kv_of = tuple(head * len(W_K) // n_heads for head in range(n_heads))
    if causal:
        past = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        mask = past if mask is None else past & mask
    q, k, v = weights.queries(), weights.keys(), weights.values()
    attention = AttentionTrace(
        name=f"layers.{layer}.attention",
        layer=layer,
        kind="self" if causal else "encoder",
        q=q,
        k=k,
        v=v,
        z=q,  # until the patterns are known
        kv_of=kv_of,
        W_O=W_O,
        b_O=b_O,
        scale=W_Q.shape[2] ** -0.5 if scale is None else scale,
        mask=mask,
        plain=weights,
    )
    return replace(attention, z=attention.patterns() @ v[:, list(kv_of)])


def redrawable(trace: Trace) -> Redrawable:
    """A trace of plain attentions, of which the heads can be drawn anew; of others they cannot."""

    def drawn(draw: int, some: Mapping[str, SomeQueries] | None = None) -> Trace:
        return Trace(
            attentions=tuple(_drawn(each, draw).at(some[each.name] if some else None) for each in trace.attentions)
        )

    plain = [attention.plain for attention in trace.attentions]
    inputs = tuple(a.q[:, 0] if a.plain is None else a.plain.x for a in trace.attentions)
    return Redrawable(
        trace=trace,
        inputs=inputs,
        turns=tuple(
            None if weights is None else torch.full((a.q.shape[2],), float(a.q.shape[3]))
            for weights, a in zip(plain, trace.attentions, strict=True)
        ),
        redraw=drawn,
    )


def _drawn(attention: AttentionTrace, draw: int) -> AttentionTrace:
    weights = attention.plain
    assert weights is not None, "heads of which the matrices are not known are not drawn"
    fields: dict[str, Any] = {"x": weights.x}
    for name in ("W_Q", "W_K", "W_V", "b_Q", "b_K", "b_V"):
        own = getattr(weights, name)
        where = f"{attention.name}.{name}"
        if own is None:
            fields[name] = None
        elif name.startswith("b"):
            fields[name] = drawn_weight(own.flatten(), draw, where).view_as(own)
        else:
            fields[name] = drawn_weight(own, draw, where)
    drawn = PlainWeights(**fields)
    W_O = drawn_weight(attention.W_O, draw, f"{attention.name}.W_O")
    found = replace(attention, q=drawn.queries(), k=drawn.keys(), v=drawn.values(), W_O=W_O, plain=drawn)
    return replace(found, z=found.patterns() @ found.v[:, list(found.kv_of)])


def _check(x: Tensor, given: Mapping[str, Tensor]) -> None:
    """Nothing, when matrices fit together.

    Raises:
        UserError: naming what does not.
    """
    shapes = ", ".join(f"{name} {list(W.shape)}" for name, W in given.items())
    said = f"the matrices of an attention do not fit together ({shapes}, x {list(x.shape)})"
    if x.ndim != 3 or any(W.ndim != 3 for W in given.values()):
        raise UserError(f"{said}: x is (batch, pos, d_model), each matrix (head, rows, columns)")
    W_Q, W_K, W_V, W_O = given.values()
    n_heads, n_kv = len(W_Q), len(W_K)
    if not n_heads or not n_kv or n_heads % n_kv or len(W_V) != n_kv or len(W_O) != n_heads:
        raise UserError(f"{said}: W_Q and W_O have a matrix a head, W_K and W_V as many or a divisor of that")
    d_model = x.shape[2]
    if any(W.shape[1] != d_model for W in (W_Q, W_K, W_V)):
        raise UserError(f"{said}: W_Q, W_K and W_V have {d_model} rows each, as x has entries")
    if W_Q.shape[2] != W_K.shape[2] or W_V.shape[2] != W_O.shape[1]:
        raise UserError(f"{said}: W_Q and W_K have as many columns, and W_V as many as W_O has rows")
