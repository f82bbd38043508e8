"""Heads: a pruned model with the heads again that it has lost, drawn anew.

What the kept heads and everything else do is as it was in the pruned model; the heads that are back write at random.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from headway.declare.tokens.layout import LayerHeads
from headway.declare.tokens.transformer import TransformerModel
from headway.heads.causes.kinds import Head
from headway.heads.causes.pruning import entries_of


def regrown(
    whole: TransformerModel,
    drawn: Mapping[str, np.ndarray],
    held: Mapping[str, np.ndarray],
    heads: Sequence[Head],
) -> dict[str, np.ndarray]:
    """Arrays of the whole model: those of the pruned one where it has them, drawn ones elsewhere.

    Args:
        whole: the model with all heads, of whole matrices.
        drawn: initial arrays of it.
        held: the arrays of the pruned model.
        heads: the heads that it has, by layer and number in the whole one.

    Examples:
        >>> from headway.declare.tokens.transformer import Gpt2
        >>> from headway.declare.tokens.without_heads import without_heads
        >>> from headway.model.weights import initial_weights
        >>> model = Gpt2(family="gpt-2", d_model=4, n_layers=1, n_heads=2)
        >>> drawn = initial_weights(model, 8, seed=1)
        >>> held = initial_weights(without_heads(model, [[False, True]]), 8, seed=0)
        >>> again = regrown(model, drawn, held, [(0, 1)])["layers.0.attention.q.weight"]
        >>> bool((again[:2] == drawn["layers.0.attention.q.weight"][:2]).all()), bool((again[2:] == held["layers.0.attention.q.weight"]).all())
        (True, True)
    """  # noqa: E501 - the doctest stands on one line
    arrays = {name: array.copy() for name, array in drawn.items()}
    for name, array in held.items():
        if ".attention." not in name and ".emptied." not in name:
            arrays[name][...] = array
    for layer, of in enumerate(whole.layout.layers):
        kept = [head for at, head in heads if at == layer]
        _attention(arrays, held, layer, of, kept)
    return arrays


def _attention(
    arrays: dict[str, np.ndarray], held: Mapping[str, np.ndarray], layer: int, of: LayerHeads, kept: Sequence[int]
) -> None:
    """The arrays of one attention, in place."""
    at = f"layers.{layer}.attention"
    bias = held.get(f"{at}.o.bias", held.get(f"layers.{layer}.emptied.bias"))
    if bias is not None:
        arrays[f"{at}.o.bias"][...] = bias
    if not kept:
        return
    q, kv = (entries.numpy() for entries in entries_of(of, kept))
    for name, entries in (("q", q), ("k", kv), ("v", kv)):
        arrays[f"{at}.{name}.weight"][entries] = held[f"{at}.{name}.weight"]
        if f"{at}.{name}.bias" in held:
            arrays[f"{at}.{name}.bias"][entries] = held[f"{at}.{name}.bias"]
    arrays[f"{at}.o.weight"][:, q] = held[f"{at}.o.weight"]
