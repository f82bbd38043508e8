"""Heads: a model without some of its heads: an ordinary model of another layout, not one behind a mask.

Of every array that belongs to heads only the kept heads' rows or columns remain. A KV head goes when the last query
head that reads it has gone. A layer may lose all heads: what it adds is then its output bias.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from headway.declare.tokens.layout import LayerHeads
from headway.declare.tokens.transformer import TransformerModel
from headway.declare.tokens.without_heads import Keep, without_heads
from headway.errors import UserError
from headway.model.transformer import Transformer

_PROJECTIONS: tuple[Literal["q", "k", "v", "o"], ...] = ("q", "k", "v", "o")


def pruned(model: Transformer, keep: Keep) -> Transformer:
    """A new model with the kept heads only; of the same precision, on the same device, in the same mode.

    A map of low rank whose rank is above its new width becomes the whole matrix that the product is.

    Law: its logits are those of the model with gate 0 on the heads that went.

    Args:
        model: the model; it stays as it is.
        keep: per layer, whether each query head stays.

    Raises:
        UserError: when `keep` does not have a value for each head of each layer.

    Examples:
        >>> from headway.declare.tokens.transformer import GptNeo
        >>> from headway.model.weights import initial_weights
        >>> declared = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads="4-2")
        >>> model = Transformer(declared, 10, initial_weights(declared, 10, seed=0))
        >>> str(pruned(model, [[True, False, True, False], [False, True]]).model.layout)
        '2x4-1x8'
    """
    declared = without_heads(model.model, _checked(model, keep))
    kept = [_kept(heads, mask) for heads, mask in zip(model.model.layout.layers, keep, strict=True)]
    held: dict[str, Tensor] = dict(model.named_parameters())
    result = Transformer(declared, model.vocab_size)
    some = next(model.parameters())
    result.to(device=some.device, dtype=some.dtype).train(model.training)
    with torch.no_grad():
        arrays = {name: array for name, array in held.items() if ".attention." not in name}
        for layer, of in enumerate(kept):
            arrays |= _attention(held, layer, of, declared)
        for name, parameter in result.named_parameters():
            parameter.copy_(arrays[name])
    return result


@dataclass(frozen=True, kw_only=True)
class _Kept:
    """What stays of the heads of a layer, by its entries in the layer's width of queries, and of keys."""

    q: Tensor
    kv: Tensor


def _checked(model: Transformer, keep: Keep) -> Keep:
    n_heads = model.model.layout.n_heads
    if [len(mask) for mask in keep] != list(n_heads):
        raise UserError(
            f"which heads to keep was given for {'-'.join(str(len(mask)) for mask in keep) or 'no'} heads of the "
            f"layers, but the model's layout is {model.model.layout}; give a value for each head of each layer"
        )
    return keep


def entries_of(heads: LayerHeads, stay: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The entries of some heads of a layer in its width of queries, and of their keys and values in that of keys."""
    kv_of = [kv for kv, count in enumerate(heads.queries) for _ in range(count)]
    kv = sorted({kv_of[head] for head in stay})
    return _entries(stay, heads.d_head), _entries(kv, heads.d_head)


def _kept(heads: LayerHeads, mask: Sequence[bool]) -> _Kept:
    q, kv = entries_of(heads, [head for head, stays in enumerate(mask) if stays])
    return _Kept(q=q, kv=kv)


def _entries(heads: Sequence[int], d_head: int) -> Tensor:
    return (torch.tensor(heads, dtype=torch.long)[:, None] * d_head + torch.arange(d_head)).flatten()


def _attention(held: Mapping[str, Tensor], layer: int, of: _Kept, declared: TransformerModel) -> dict[str, Tensor]:
    """The arrays of what is left of an attention."""
    at = f"layers.{layer}.attention"
    if not len(of.q):
        bias = held.get(f"{at}.o.bias", held.get(f"{at}.o.second.bias"))
        return {} if bias is None else {f"layers.{layer}.emptied.bias": bias}
    arrays: dict[str, Tensor] = {}
    for name in _PROJECTIONS:
        entries, whole = of.q if name in "qo" else of.kv, declared.rank(name, layer) is None
        arrays |= _projection(held, f"{at}.{name}", entries, of_output=name == "o", whole=whole)
    if (smear := held.get(f"{at}.smear")) is not None:
        d_head = declared.layout.layers[layer].d_head
        arrays[f"{at}.smear"] = smear[of.kv[::d_head].to(smear.device) // d_head]
    return arrays


def _projection(
    held: Mapping[str, Tensor], at: str, entries: Tensor, *, of_output: bool, whole: bool
) -> dict[str, Tensor]:
    """The kept rows of Q, K or V, or columns of O; `whole` for one matrix where there may have been two."""
    first, second = held.get(f"{at}.first.weight"), held.get(f"{at}.second.weight")
    bias = held.get(f"{at}.bias", held.get(f"{at}.second.bias"))
    entries = entries.to(next(iter(held.values())).device)
    if second is None or first is None:
        weight = held[f"{at}.weight"]
        arrays = {"weight": weight[:, entries] if of_output else weight[entries]}
    elif of_output:
        arrays = {"first.weight": first[:, entries], "second.weight": second}
    else:
        arrays = {"first.weight": first, "second.weight": second[entries]}
    if bias is not None:
        arrays["bias" if second is None else "second.bias"] = bias if of_output else bias[entries]
    if whole and second is not None:
        arrays["weight"] = arrays.pop("second.weight") @ arrays.pop("first.weight")
        arrays |= {"bias": arrays.pop("second.bias")} if bias is not None else {}
    return {f"{at}.{name}": array for name, array in arrays.items()}
