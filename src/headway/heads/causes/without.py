"""Heads: the loss of each sequence without some heads, for any number of sets of heads.

`reference_losses_without` is the obvious way: a whole forward pass for each set. `losses_without` takes the same losses
from shared work: a set changes nothing below its lowest layer, so the model walks up once, and at each layer the sets
that begin there leave it, side by side along the batch, and go through what is above. A model that others wrote goes
through what is above one set after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.heads.causes.first_product import FirstProduct
from headway.heads.causes.kinds import Head
from headway.heads.causes.losses import sequence_losses
from headway.heads.causes.passes import Work, work_of
from headway.heads.causes.substitutes import StandIn, without
from headway.model.attention import Attention
from headway.model.edits import Edits
from headway.model.intervenable import Intervenable, TheirModel
from headway.model.transformer import Transformer


@dataclass(frozen=True)
class Removal:
    """Heads that are taken away together, and what stands in for them."""

    heads: tuple[Head, ...]
    stand_in: StandIn


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Nats per token of each sequence: of the whole model, and without each set of heads."""

    whole: Float[Tensor, " batch"]
    without: Float[Tensor, "set batch"]
    forward_passes: float
    """How many of them the work amounts to."""


def reference_losses_without(
    model: Intervenable,
    inputs: Int[Tensor, "batch pos"],
    targets: Int[Tensor, "batch pos"],
    removals: Sequence[Removal],
) -> Losses:
    """A whole forward pass for each set."""
    with torch.no_grad():
        whole = sequence_losses(model, model.hidden(inputs)[0], targets)
        found = [
            sequence_losses(model, model.hidden(inputs, edits=without(r.heads, r.stand_in))[0], targets)
            for r in removals
        ]
    return Losses(
        whole=whole,
        without=torch.stack(found) if found else whole.new_zeros(0, len(whole)),
        forward_passes=1.0 + len(removals),
    )


def losses_without(
    model: Intervenable,
    inputs: Int[Tensor, "batch pos"],
    targets: Int[Tensor, "batch pos"],
    removals: Sequence[Removal],
    *,
    memory_bytes: int | None = None,
) -> Losses:
    """The same losses from shared work.

    Args:
        model: the model, which drops nothing at random.
        inputs: the text.
        targets: the tokens after each position; -1 where none is counted.
        removals: the sets of heads.
        memory_bytes: what may be held beside the model, about; None: about as much as a forward pass holds. One set is
            always held. Of a model that others wrote one set is held.
    """
    if isinstance(model, Transformer):
        return _side_by_side(model, inputs, targets, removals, memory_bytes)
    return _one_by_one(model, inputs, targets, removals)


def _one_by_one(model: TheirModel, inputs: Tensor, targets: Tensor, removals: Sequence[Removal]) -> Losses:
    """Layers below the lowest of a set give what they gave, which is all that is known of them."""
    with torch.no_grad():
        kept, passes = model.kept(inputs), 1.0
        whole = sequence_losses(model, kept.logits, targets)
        found = []
        for removal in removals:
            if (first := _first(removal)) is None:
                found.append(whole)
                continue
            logits = kept.again(first, without(removal.heads, removal.stand_in))
            found.append(sequence_losses(model, logits, targets))
            passes += kept.share(first)
    return Losses(
        whole=whole, without=torch.stack(found) if found else whole.new_zeros(0, len(whole)), forward_passes=passes
    )


def _side_by_side(
    model: Transformer, inputs: Tensor, targets: Tensor, removals: Sequence[Removal], memory_bytes: int | None
) -> Losses:
    batch, length = inputs.shape
    result = torch.zeros(len(removals), batch, dtype=torch.float64, device=inputs.device)
    at_once = _sets_at_once(model, batch, length, memory_bytes)
    work, passes = work_of(model.model, model.vocab_size, length), 1.0
    with torch.no_grad():
        stream = model.entered(inputs)
        for layer in range(model.model.n_layers):
            begins = [i for i, removal in enumerate(removals) if _first(removal) == layer]
            captured: list[Tensor] = []
            edits: Edits = {(layer, "z"): partial(_capture, captured)} if begins else {}
            written = model.written(stream, layer, edits)
            if begins:
                assert written is not None, "a layer with heads writes"
                first = FirstProduct.of(model, layer, stream, written)
                branch = _Branch(model, layer, stream, written, captured[0], first)
                for start in range(0, len(begins), at_once):
                    some = begins[start : start + at_once]
                    result[some] = branch.losses([removals[i] for i in some], targets)
                passes += _passes(work, layer, len(begins), shares=first is not None)
            stream = model.rest(stream, written, layer)
        whole = sequence_losses(model, stream, targets)
    for i, removal in enumerate(removals):
        if not removal.heads:
            result[i] = whole
    return Losses(whole=whole, without=result, forward_passes=passes)


@dataclass(frozen=True)
class _Branch:
    """What leaves the walk at a layer."""

    model: Transformer
    layer: int
    stream: Tensor
    """Before the layer."""
    written: Tensor
    z: Tensor
    first: FirstProduct | None
    """Of the layer's MLP, where it can be shared."""

    def losses(self, removals: Sequence[Removal], targets: Tensor) -> Tensor:
        """Of each set and sequence."""
        model, sets = self.model, len(removals)
        stream = self._after(removals)
        for layer in range(self.layer + 1, model.model.n_layers):
            stream = model.rest(stream, model.written(stream, layer, _later(removals, layer)), layer)
        return sequence_losses(model, stream, targets.repeat(sets, 1)).unflatten(0, (sets, -1))

    def _after(self, removals: Sequence[Removal]) -> Tensor:
        """The stream after the layer without the heads, sets side by side along the batch."""
        if self.first is not None:
            return self.first.after([self._change(removal) for removal in removals])
        written = torch.cat([self._written(removal) for removal in removals])
        return self.model.rest(self.stream.repeat(len(removals), 1, 1), written, self.layer)

    def _written(self, removal: Removal) -> Tensor:
        """What the attention writes without the heads: each one's change of z goes through its own slice of W_O."""
        attention = cast(Attention, self.model.layers[self.layer].attention)
        W_O = attention.o.weight.T.unflatten(0, (-1, attention.d_head))
        heads, change = self._change(removal)
        return self.written + change @ W_O[heads].flatten(0, 1)

    def _change(self, removal: Removal) -> tuple[list[int], Tensor]:
        """The heads of this layer that go, and by how much their contexts change, head after head."""
        heads = [head for layer, head in removal.heads if layer == self.layer]
        stand_in = removal.stand_in[self.layer]
        assert stand_in is not None, "a layer with heads has what stands in for them"
        change = stand_in.expand_as(self.z)[:, heads] - self.z[:, heads]
        return heads, change.transpose(1, 2).flatten(2)


def _later(removals: Sequence[Removal], layer: int) -> Edits | None:
    """The edits of a later layer, sets side by side along the batch."""
    concerned = [any(at == layer for at, _ in removal.heads) for removal in removals]
    if not any(concerned):
        return None

    def edit(z: Tensor) -> Tensor:
        parts = list(z.chunk(len(removals)))
        for i, removal in enumerate(removals):
            if concerned[i]:
                here = [head for head in removal.heads if head[0] == layer]
                parts[i] = without(here, removal.stand_in)[layer, "z"](parts[i])
        return torch.cat(parts)

    return {(layer, "z"): edit}


def _capture(into: list[Tensor], z: Tensor) -> Tensor:
    into.append(z)
    return z


def _first(removal: Removal) -> int | None:
    """The lowest layer of a set; None of an empty one."""
    return min((layer for layer, _ in removal.heads), default=None)


def _passes(work: Work, layer: int, sets: int, *, shares: bool) -> float:
    """What follows the attention, for each set; the first product of the MLP, where it is shared, once."""
    shared = work.first_products[layer] if shares else 0.0
    return sets * (work.after_attention(layer) - shared) + shared


def _sets_at_once(model: Transformer, batch: int, length: int, memory_bytes: int | None) -> int:
    """How many sets fit: of each the stream, what an MLP or an attention holds on the way, and a few logits."""
    size = next(model.parameters()).element_size()
    attention = max((3 * h.n_heads * h.d_head for h in model.model.layout.layers), default=0)
    mlp = 3 * max(model.model.mlp_widths)
    one = batch * length * (max(mlp, attention) + 4 * model.model.d_model) * size
    allowed = one + 2 * batch * length * model.vocab_size * size if memory_bytes is None else memory_bytes
    return max(1, allowed // one)
