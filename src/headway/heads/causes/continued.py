"""Heads: a run of a model in which heads of one layer have other contexts, from shared work.

Layers below are as they were. Of Headway's own models every head's change goes through its own slice of W_O, and copies
go side by side through what is above. Of those that others wrote what enters the output projection is edited, and what
is above runs as it always does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.model.attention import Attention
from headway.model.edits import Edits, Site
from headway.model.intervenable import Intervenable, KeptPass
from headway.model.trace import Trace
from headway.model.transformer import Transformer

Contexts = Mapping[int, Float[Tensor, "batch pos d_head"]]
"""By head of a layer what stands in for its context."""

Stream = Float[Tensor, "batch pos d_model"]

_READ: tuple[Site, ...] = ("q", "k", "v")
_STREAMS, _LOGITS = 1 << 22, 1 << 24
"""Entries of the streams, and of the logits, of copies that are held at once."""


@dataclass(frozen=True, eq=False)
class OwnRun:
    """A run of one of Headway's models."""

    model: Transformer
    trace: Trace

    def logits_with(self, layer: int, patches: Sequence[Contexts]) -> Iterator[Float[Tensor, "batch pos vocab"]]:
        """The logits with each of some patches of a layer."""
        at_once = max(1, _STREAMS // self.trace.streams[layer].numel())
        for start in range(0, len(patches), at_once):
            yield from self._some(layer, patches[start : start + at_once])

    def _some(self, layer: int, patches: Sequence[Contexts]) -> Sequence[Tensor]:
        model, stream = self.model, self.trace.streams[layer]
        attention = cast(Attention, model.layers[layer].attention)
        W_O = attention.o.weight.T.unflatten(0, (-1, attention.d_head))
        z = next(each.z for each in self.trace.attentions if each.layer == layer)
        written = model.written(stream, layer)
        assert written is not None
        parts = []
        for patch in patches:
            part = written
            for head, context in patch.items():
                part = part + (context - z[:, head]) @ W_O[head]
            parts.append(part)
        stream = model.rest(stream.repeat(len(parts), 1, 1), torch.cat(parts), layer)
        for later in range(layer + 1, model.model.n_layers):
            stream = model.rest(stream, model.written(stream, later), later)
        return model.read_out(stream).chunk(len(parts))

    def reads(self, layer: int, changes: Sequence[Stream]) -> Iterator[Mapping[Site, Tensor]]:
        """Queries, keys and values of a layer with each of some changes of the stream before it."""
        for change in changes:
            seen: dict[Site, Tensor] = {}
            edits: Edits = {(layer, site): partial(_noted, seen, site) for site in _READ}
            self.model.written(self.trace.streams[layer] + change, layer, edits)
            yield seen

    def ends(self, changes: Sequence[Stream]) -> Iterator[Float[Tensor, "batch pos vocab"]]:
        """The logits with each of some changes of the stream after the last layer."""
        for change in changes:
            yield self.model.read_out(self.trace.streams[-1] + change)


@dataclass(frozen=True, eq=False)
class TheirRun:
    """A run of a model that others wrote."""

    kept: KeptPass

    def logits_with(self, layer: int, patches: Sequence[Contexts]) -> Iterator[Float[Tensor, "batch pos vocab"]]:
        """The logits with each of some patches of a layer."""
        for some in self._together(patches):
            logits = self.kept.again(layer, {(layer, "z"): partial(_patched, some)}, len(some))
            yield from logits.chunk(len(some))

    def writes(self, layer: int, norm: nn.Module, patches: Sequence[Contexts]) -> Iterator[Stream]:
        """What a norm between a layer's heads and the stream gives more with each of some patches than without."""
        was = self.kept.writes(layer, norm, {})
        for some in self._together(patches):
            found = self.kept.writes(layer, norm, {(layer, "z"): partial(_patched, some)}, len(some))
            yield from (part - was for part in found.chunk(len(some)))

    def reads(self, layer: int, changes: Sequence[Stream]) -> Iterator[Mapping[Site, Tensor]]:
        """Queries, keys and values of a layer with each of some changes of the stream before it."""
        for some in self._together(changes):
            read = {site: x.chunk(len(some)) for site, x in self.kept.reads(layer, torch.cat(list(some))).items()}
            yield from ({site: parts[at] for site, parts in read.items()} for at in range(len(some)))

    def ends(self, changes: Sequence[Stream]) -> Iterator[Float[Tensor, "batch pos vocab"]]:
        """The logits with each of some changes of the stream after the last layer."""
        for some in self._together(changes):
            yield from self.kept.ends(torch.cat(list(some))).chunk(len(some))

    def _together(self, things: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """So many as can go side by side."""
        at_once = max(1, _LOGITS // self.kept.logits.numel()) if self.kept.repeats else 1
        for start in range(0, len(things), at_once):
            yield things[start : start + at_once]


def continued(model: Intervenable, tokens: Int[Tensor, "batch pos"], trace: Trace) -> OwnRun | TheirRun:
    """A run of tokens, of which the trace is known."""
    return OwnRun(model, trace) if isinstance(model, Transformer) else TheirRun(model.kept(tokens))


def _noted(seen: dict[Site, Tensor], site: Site, x: Tensor) -> Tensor:
    seen[site] = x
    return x


def _patched(patches: Sequence[Contexts], z: Tensor) -> Tensor:
    parts = [part.clone() for part in z.chunk(len(patches))]
    for part, patch in zip(parts, patches, strict=True):
        for head, context in patch.items():
            part[:, head] = context
    return torch.cat(parts)
