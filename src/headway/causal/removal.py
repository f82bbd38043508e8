"""Losses without any sets of heads, and runs with other contexts in one layer, from shared forward passes.

`reference_losses_without` is the obvious way: a whole forward pass for each set. `losses_without` computes these losses
from shared work. A set changes nothing below its lowest layer. So the model walks up once; at each layer the sets that
begin there leave the walk, side by side along the batch, and go through the layers above. A model that others wrote
takes the layers above for one set after the other.

A run with other contexts in one layer keeps the layers below. In Headway's own models every head's change goes through
its own slice of W_O, and copies go side by side through the layers above. In models of others the input of the output
projection is edited, and the layers above run as they always do.

Costs are counted in forward passes: the floating-point operations of `headway.config.lm.budget.forward_flops`, in its
parts.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Float
from torch import Tensor

from headway.causal.effects import KINDS, Head, Kind
from headway.causal.substitutes import Intervenable, StandIn, Substitutes, Tokens, sequence_losses, without
from headway.config.lm.budget import forward_flops, parameters_of, pattern_flops
from headway.config.lm.model import TransformerModel
from headway.models.attention import Attention
from headway.models.trace import READ, Edits, Site, Trace
from headway.models.transformer import Transformer

if TYPE_CHECKING:
    from headway.hf.intervene import Contexts, Stream, TheirDecoder


def shares_after_attention(model: TransformerModel, vocab_size: int, n_ctx: int) -> list[float]:
    """Return for each layer which share of a forward pass comes after its attention: its MLP, later layers, read-out.

    Args:
        model: the model.
        vocab_size: the tokens of its vocabulary.
        n_ctx: the tokens of a sequence.

    Examples:
        >>> from headway.config.lm.model import GptNeo
        >>> shares = shares_after_attention(GptNeo(family="gpt-neo", d_model=768, n_layers=4, n_heads=48), 512, 512)
        >>> round(shares[0], 2), round(shares[3], 2)
        (0.91, 0.17)
    """
    matrices = [p for p in parameters_of(model, vocab_size) if len(p.shape) == 2]

    def products(begins: str) -> int:
        return 2 * n_ctx * sum(math.prod(p.shape) for p in matrices if p.name.startswith(begins))

    whole = left = forward_flops(model, vocab_size, n_ctx)
    shares: list[float] = []
    for layer in range(model.n_layers):
        left -= products(f"layers.{layer}.attention.") + pattern_flops(model, layer, n_ctx)
        shares.append(left / whole)
        left -= products(f"layers.{layer}.mlp.")
    return shares


@dataclass(frozen=True)
class Removal:
    """Heads that are ablated together, with the contexts that stand in for them."""

    heads: tuple[Head, ...]
    stand_in: StandIn


@dataclass(frozen=True, kw_only=True)
class Losses:
    """Losses in nats per token of each sequence: of the whole model, and without each set of heads."""

    whole: Float[Tensor, " batch"]
    without: Float[Tensor, "set batch"]
    forward_passes: float
    """The work as a number of forward passes."""


def reference_losses_without(
    model: Intervenable, inputs: Tokens, targets: Tokens, removals: Sequence[Removal]
) -> Losses:
    """Return losses from a whole forward pass for each set."""
    edits = [None, *(without(removal.heads, removal.stand_in) for removal in removals)]
    with torch.no_grad():
        whole, *found = (sequence_losses(model, model.hidden(inputs, edits=each)[0], targets) for each in edits)
    return Losses(whole=whole, without=torch.stack(found), forward_passes=1.0 + len(removals))


def losses_without(model: Intervenable, inputs: Tokens, targets: Tokens, removals: Sequence[Removal]) -> Losses:
    """Return the losses of each sequence without sets of heads, from shared work.

    Args:
        model: the model, which drops nothing at random.
        inputs: the text.
        targets: the tokens after each position; -1 where none is counted.
        removals: the sets of heads.
    """
    if isinstance(model, Transformer):
        return _side_by_side(model, inputs, targets, removals)
    return _one_by_one(model, inputs, targets, removals)


def losses_by_kind(
    model: Intervenable,
    inputs: Tokens,
    targets: Tokens,
    stand_ins: Substitutes,
    sets: Sequence[tuple[Head, ...]],
    kinds: Sequence[Kind] = KINDS,
) -> tuple[Losses, dict[Kind, Float[Tensor, "set batch"]]]:
    """Return the losses without sets of heads; also those of each kind of what stands in for them."""
    removals = [Removal(heads, stand_ins[kind]) for kind in kinds for heads in sets]
    losses = losses_without(model, inputs, targets, removals)
    return losses, dict(zip(kinds, losses.without.unflatten(0, (len(kinds), len(sets))), strict=True))


def _one_by_one(model: "TheirDecoder", inputs: Tensor, targets: Tensor, removals: Sequence[Removal]) -> Losses:
    """Return losses one set after another; only layers below a set's lowest layer are shared."""
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
    return Losses(whole=whole, without=torch.stack(found), forward_passes=passes)


def _side_by_side(model: Transformer, inputs: Tensor, targets: Tensor, removals: Sequence[Removal]) -> Losses:
    batch, length = inputs.shape
    result = torch.zeros(len(removals), batch, dtype=torch.float64, device=inputs.device)
    at_once = _sets_at_once(model)
    shares, passes = shares_after_attention(model.model, model.vocab_size, length), 1.0
    with torch.no_grad():
        stream = model.entered(inputs)
        for layer in range(model.model.n_layers):
            begins = [i for i, removal in enumerate(removals) if _first(removal) == layer]
            z: dict[int, Tensor] = {}
            written = model.written(stream, layer, {(layer, "z"): partial(z.setdefault, layer)})
            for start in range(0, len(begins), at_once):
                assert written is not None, "a layer with heads writes"
                some = begins[start : start + at_once]
                branch = [removals[i] for i in some]
                outputs = [_written_without(model, layer, written, z[layer], each) for each in branch]
                last = _upwards(model, layer, stream, outputs, branch)
                result[some] = sequence_losses(model, last, targets.repeat(len(some), 1)).unflatten(0, (len(some), -1))
            passes += len(begins) * shares[layer]
            stream = model.rest(stream, written, layer)
        whole = sequence_losses(model, stream, targets)
    result[[i for i, removal in enumerate(removals) if not removal.heads]] = whole
    return Losses(whole=whole, without=result, forward_passes=passes)


def _upwards(
    model: Transformer, layer: int, stream: Tensor, outputs: list[Tensor], removals: Sequence[Removal] = ()
) -> Tensor:
    """Return the last streams of passes that part at a layer, side by side along the batch.

    Args:
        model: the model.
        layer: the layer.
        stream: the stream before it, which all passes share.
        outputs: its attention's output in each pass.
        removals: the heads that each pass goes without in later layers, if any.
    """
    stream = model.rest(stream.repeat(len(outputs), 1, 1), torch.cat(outputs), layer)
    for later in range(layer + 1, model.model.n_layers):
        stream = model.rest(stream, model.written(stream, later, _later(removals, later)), later)
    return stream


def _written_without(model: Transformer, layer: int, written: Tensor, z: Tensor, removal: Removal) -> Tensor:
    """Return what an attention writes without heads: each head's change of z goes through its own slice of W_O."""
    heads = [head for at, head in removal.heads if at == layer]
    change = removal.stand_in[layer].expand_as(z)[:, heads] - z[:, heads]
    return written + change.transpose(1, 2).flatten(2) @ _output_slices(model, layer)[heads].flatten(0, 1)


def _output_slices(model: Transformer, layer: int) -> Float[Tensor, "head d_head d_model"]:
    """Return W_O of a layer, head by head."""
    attention = cast(Attention, model.layers[layer].attention)
    return attention.o.weight.T.unflatten(0, (-1, attention.d_head))


def _later(removals: Sequence[Removal], layer: int) -> Edits | None:
    """Return the edits of a later layer, sets side by side along the batch."""
    edits = [without(removal.heads, removal.stand_in).get((layer, "z")) for removal in removals]
    if not any(edits):
        return None

    def edit(z: Tensor) -> Tensor:
        parts = zip(edits, z.chunk(len(removals)), strict=True)
        return torch.cat([part if change is None else change(part) for change, part in parts])

    return {(layer, "z"): edit}


def _first(removal: Removal) -> int | None:
    """Return the lowest layer of a set; None for an empty set."""
    return min((layer for layer, _ in removal.heads), default=None)


def _sets_at_once(model: Transformer) -> int:
    """Return how many sets go side by side, in about as much memory as a forward pass takes.

    Each needs the stream, the intermediate arrays of an MLP or an attention, and a few logits.
    """
    attention = max((3 * h.q_width for h in model.model.layout.layers), default=0)
    mlp = 3 * max(model.model.mlp_widths)
    return 1 + 2 * model.vocab_size // (max(mlp, attention) + 4 * model.model.d_model)


_STREAMS = 1 << 22
"""The most entries of the streams of copies that are held at once."""


@dataclass(frozen=True, eq=False)
class OwnRun:
    """A run of one of Headway's models."""

    model: Transformer
    trace: Trace

    def logits_with(self, layer: int, patches: "Sequence[Contexts]") -> Iterator[Float[Tensor, "batch pos vocab"]]:
        """Return the logits with each of some patches of a layer."""
        model, stream = self.model, self.trace.streams[layer]
        W_O = _output_slices(model, layer)
        z = next(each.z for each in self.trace.attentions if each.layer == layer)
        written = model.written(stream, layer)
        assert written is not None
        at_once = max(1, _STREAMS // stream.numel())
        for start in range(0, len(patches), at_once):
            parts = []
            for patch in patches[start : start + at_once]:
                changes = ((context - z[:, head]) @ W_O[head] for head, context in patch.items())
                parts.append(sum(changes, start=written))
            yield from model.read_out(_upwards(model, layer, stream, parts)).chunk(len(parts))

    def reads(self, layer: int, changes: "Sequence[Stream]") -> Iterator[Mapping[Site, Tensor]]:
        """Return queries, keys and values of a layer with each of some changes of the stream before it."""
        for change in changes:
            seen: dict[Site, Tensor] = {}
            edits: Edits = {(layer, site): partial(seen.setdefault, site) for site in READ}
            self.model.written(self.trace.streams[layer] + change, layer, edits)
            yield seen

    def ends(self, changes: "Sequence[Stream]") -> Iterator[Float[Tensor, "batch pos vocab"]]:
        """Return the logits with each of some changes of the stream after the last layer."""
        for change in changes:
            yield self.model.read_out(self.trace.streams[-1] + change)
