"""Declare: a transformer without some of its heads: an ordinary one of another layout.

A KV head goes when the last query head that reads it has gone. A map of low rank whose rank is above its new width
becomes a whole matrix.
"""

from collections.abc import Sequence
from typing import Literal

from headway.declare.tokens.head_units import units_of
from headway.declare.tokens.layout import HeadLayout, LayerHeads
from headway.declare.tokens.transformer import Ranks, TransformerModel

Keep = Sequence[Sequence[bool]]
"""Per layer, whether each head stays; nothing for a layer without heads."""

_PROJECTIONS: tuple[Literal["q", "k", "v", "o"], ...] = ("q", "k", "v", "o")


def without_heads(model: TransformerModel, keep: Keep) -> TransformerModel:
    """The declaration of the kept heads, one value for each head of each layer.

    Examples:
        >>> from headway.declare.tokens.transformer import GptNeo
        >>> declared = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads="4-2")
        >>> without_heads(declared, [[True, False, True, False], [False, False]]).n_heads
        '2x4-0'
    """
    kept = [_kept(heads, mask) for heads, mask in zip(model.layout.layers, keep, strict=True)]
    layout = HeadLayout(d_model=model.d_model, layers=tuple(kept))
    emptied = (
        i for i, (old, new) in enumerate(zip(model.layout.n_heads, layout.n_heads, strict=True)) if old > new == 0
    )
    values = {name: getattr(model, name) for name in type(model).model_fields} | {
        "n_heads": str(layout),
        "n_kv_heads": None,
        "d_head": None,
        "emptied": tuple(sorted({*model.emptied, *emptied})),
        "ranks": Ranks(**model.ranks.model_dump() | {name: _ranks(model, kept, name) for name in _PROJECTIONS}),
    }
    return type(model)(**values)


def spread_evenly(model: TransformerModel, number: int) -> TransformerModel:
    """The model with so many heads, those that go taken from all layers alike: what to expect before it is known.

    Examples:
        >>> from headway.declare.tokens.transformer import GptNeo
        >>> declared = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads=4)
        >>> spread_evenly(declared, 5).n_heads
        '2x4-3x4'
    """
    n_heads, left = model.layout.n_heads, model.layout.total
    keep = [[True] * n for n in n_heads]
    for unit in sorted(units_of(model.layout), key=lambda unit: -unit[0][1] / n_heads[unit[0][0]]):
        if left - len(unit) >= number:
            left -= len(unit)
            for layer, head in unit:
                keep[layer][head] = False
    return without_heads(model, keep)


def _kept(heads: LayerHeads, mask: Sequence[bool]) -> LayerHeads:
    kv_of = [kv for kv, count in enumerate(heads.queries) for _ in range(count)]
    counts = [sum(kv_of[head] == kv for head, stays in enumerate(mask) if stays) for kv in range(heads.n_kv_heads)]
    queries = tuple(count for count in counts if count)
    return LayerHeads(queries=queries, d_head=heads.d_head if queries else 0)


def _ranks(
    model: TransformerModel, kept: Sequence[LayerHeads], name: Literal["q", "k", "v", "o"]
) -> tuple[int | None, ...] | None:
    """The rank in each layer; None, for a whole matrix, where the new width is below it."""
    ranks = []
    for layer, heads in enumerate(kept):
        rank, width = model.rank(name, layer), heads.d_head * (heads.n_heads if name in "qo" else heads.n_kv_heads)
        # Of a layer without heads there is no such matrix.
        ranks.append(None if rank is None or width == 0 or rank > min(model.d_model, width) else rank)
    return tuple(ranks) if any(ranks) else None
