"""Pruning: a model without some of its heads, as an ordinary model of another layout and not behind a mask.

Only the kept heads' rows or columns remain of every array that belongs to heads. A KV head goes when the last query
head that reads it has gone. A layer may lose all heads: it then adds its output bias.

A model can be pruned at once, or in steps with importance measured anew. A pruned model can also get its lost heads
back, re-initialised. The kept heads and everything else then stay as in the pruned model; the returned heads write at
random.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from headway.base.text import counted
from headway.causal.effects import Head
from headway.causal.importance import Order, PruningText
from headway.causal.substitutes import heads_of
from headway.config.lm.head_units import PROJECTIONS, Keep, Unit, sums_of, units_of, without_heads
from headway.config.lm.layout import LayerHeads
from headway.config.lm.model import TransformerModel
from headway.errors import UserError
from headway.models.transformer import Transformer


def pruned(model: Transformer, keep: Keep) -> Transformer:
    """Return a new model with the kept heads only, in its precision, device and mode.

    A map of low rank whose rank is above its new width becomes the whole matrix that the product is.

    Law: its logits are those of the model with gate 0 on the heads that went.

    Args:
        model: the model; it stays as it is.
        keep: per layer, whether each query head stays.

    Examples:
        >>> from headway.config.lm.model import GptNeo
        >>> from headway.models.weights import initial_weights
        >>> declared = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads="4-2")
        >>> model = Transformer(declared, 10, initial_weights(declared, 10, seed=0))
        >>> str(pruned(model, [[True, False, True, False], [False, True]]).model.layout)
        '2x4-1x8'
    """
    declared = without_heads(model.model, keep)
    held: dict[str, Tensor] = dict(model.named_parameters())
    result = Transformer(declared, model.vocab_size).to(next(model.parameters())).train(model.training)
    with torch.no_grad():
        arrays = {name: array for name, array in held.items() if ".attention." not in name}
        for layer, (heads, mask) in enumerate(zip(model.model.layout.layers, keep, strict=True)):
            stay = [head for head, stays in enumerate(mask) if stays]
            arrays |= _attention_pruning(held, layer, *entries_of(heads, stay), declared)
        for name, parameter in result.named_parameters():
            parameter.copy_(arrays[name])
    return result


def entries_of(heads: LayerHeads, stay: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the entries of some heads in a layer's width of queries, and in its width of keys."""
    kv = sorted({heads.kv_of[head] for head in stay})
    inside = torch.arange(heads.d_head)
    q_entries, kv_entries = (torch.tensor(some).long()[:, None] * heads.d_head + inside for some in (stay, kv))
    return q_entries.flatten(), kv_entries.flatten()


def _attention_pruning(
    held: Mapping[str, Tensor], layer: int, q: Tensor, kv: Tensor, declared: TransformerModel
) -> dict[str, Tensor]:
    """Return the arrays of the heads that an attention keeps, by their entries among queries and among keys."""
    at = f"layers.{layer}.attention"
    if not len(q):
        bias = held.get(f"{at}.o.bias", held.get(f"{at}.o.second.bias"))
        return {} if bias is None else {f"layers.{layer}.emptied.bias": bias}
    arrays: dict[str, Tensor] = {}
    for name in PROJECTIONS:
        entries = q if name in "qo" else kv
        whole = declared.rank(name, layer) is None
        arrays |= _projection(held, f"{at}.{name}", entries, of_output=name == "o", whole=whole)
    smear = held.get(f"{at}.smear")
    if smear is not None:
        d_head = declared.layout.layers[layer].d_head
        arrays[f"{at}.smear"] = smear[kv[::d_head].to(smear.device) // d_head]
    return arrays


def _projection(
    held: Mapping[str, Tensor], at: str, entries: Tensor, *, of_output: bool, whole: bool
) -> dict[str, Tensor]:
    """Return the kept rows of Q, K or V, or columns of O; `whole` for one matrix instead of two factors."""
    arrays = {name.removeprefix(f"{at}."): array for name, array in held.items() if name.startswith(f"{at}.")}
    for name, array in arrays.items():
        some = entries.to(array.device)
        if of_output and name in ("weight", "first.weight"):
            arrays[name] = array[:, some]
        elif not of_output and name != "first.weight":
            arrays[name] = array[some]
    if whole and "first.weight" in arrays:
        arrays["second.weight"] = arrays["second.weight"] @ arrays.pop("first.weight")
        arrays = {name.removeprefix("second."): array for name, array in arrays.items()}
    return {f"{at}.{name}": array for name, array in arrays.items()}


def prune_to_number(
    model: Transformer,
    keep: int,
    order: Order,
    text: PruningText,
    *,
    steps: int = 1,
    tell: Callable[[str], object] = lambda _: None,
) -> tuple[Transformer, tuple[Head, ...]]:
    """Return a new model with a given number of heads, and the heads of the whole model that it has.

    Args:
        model: the model; it stays as it is.
        keep: a number of heads that whole units can have; see `heads_to_keep`.
        order: the order in which units are pruned.
        text: the text from which the order is measured.
        steps: the number of steps; importance is measured again after each, and each removes an equal share of the
            heads.
        tell: the function that is given a sentence about each step, if there are several.

    Raises:
        UserError: if `steps` is below 1, or the order ends before enough heads are pruned.
    """
    if steps < 1:
        raise UserError(f"{steps} steps were asked for; give 1 or more")
    now = model
    total = model.model.layout.total
    heads = heads_of(model)
    for step in range(1, steps + 1):
        target = total - round((total - keep) * step / steps)
        if len(heads) <= target:
            continue
        if steps > 1:
            tell(f"step {step} of {steps}: from {counted(len(heads), 'head')} to {target}")
        units = units_of(now.model.layout)
        ranked = order(now, units, replace(text, keep=target))
        gone = _going(units, ranked, len(heads) - target, len(heads) - keep)
        heads = [head for head, its in zip(heads, heads_of(now), strict=True) if its not in gone]
        keep_now = []
        for layer, n in enumerate(now.n_heads):
            keep_now.append([(layer, head) not in gone for head in range(n)])
        now = pruned(now, keep_now)
    return now, tuple(heads)


def _going(units: Sequence[Unit], order: Sequence[int], number: int, in_all: int) -> set[Head]:
    """Return the heads that go: the first units of the order that can make up the number together with others.

    Raises:
        UserError: when all of that number should go now, and cannot.
    """
    going: list[int] = []
    left, later = number, in_all
    for at in order:
        size = len(units[at])
        if size <= left and _fits([units[i] for i in order if i not in (*going, at)], later - size):
            going.append(at)
            left, later = left - size, later - size
    if later and number == in_all:
        raise UserError(
            f"{counted(number, 'head')} more should be pruned, but this method can prune only {number - later}: heads "
            "that share keys and values are pruned together, and a layer keeps the last of similar heads; keep more, "
            "or use another method"
        )
    return {head for at in going for head in units[at]}


def _fits(units: Sequence[Unit], number: int) -> bool:
    """Return whether some of the units together have exactly a number of heads."""
    sizes = {len(unit) for unit in units}
    if len(sizes) < 2:
        return not number or (bool(sizes) and number % min(sizes) == 0)
    return number in sums_of(units)


def regrown(
    whole: TransformerModel,
    drawn: Mapping[str, np.ndarray],
    held: Mapping[str, np.ndarray],
    heads: Sequence[Head],
) -> dict[str, np.ndarray]:
    """Return arrays of the whole model: those of the pruned one where it has them, drawn ones elsewhere.

    Args:
        whole: the model with all heads, of whole matrices.
        drawn: initial arrays of it.
        held: the arrays of the pruned model.
        heads: the heads that it has, by layer and number in the whole one.

    Examples:
        >>> from headway.config.lm.model import Gpt2
        >>> from headway.config.lm.head_units import without_heads
        >>> from headway.models.weights import initial_weights
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
    for layer, layout in enumerate(whole.layout.layers):
        kept = [number for where, number in heads if where == layer]
        _attention_regrowing(arrays, held, layer, layout, kept)
    return arrays


def _attention_regrowing(
    arrays: dict[str, np.ndarray], held: Mapping[str, np.ndarray], layer: int, layout: LayerHeads, kept: Sequence[int]
) -> None:
    """Restore the arrays of one attention in place."""
    at = f"layers.{layer}.attention"
    bias = held.get(f"{at}.o.bias", held.get(f"layers.{layer}.emptied.bias"))
    if bias is not None:
        arrays[f"{at}.o.bias"][...] = bias
    if not kept:
        return
    q, kv = (entries.numpy() for entries in entries_of(layout, kept))
    for name, entries in (("q", q), ("k", kv), ("v", kv)):
        for array in (f"{at}.{name}.weight", f"{at}.{name}.bias"):
            if array in held:
                arrays[array][entries] = held[array]
    arrays[f"{at}.o.weight"][:, q] = held[f"{at}.o.weight"]
