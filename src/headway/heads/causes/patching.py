"""Heads: activation patching: what a metric does when one head does what it did on another text.

Whatever is taken of a head, its queries, keys, values, weights or context, ends in another context, which goes through
its own slice of W_O: so every patch is a context, and all of them share the layers below.

Of a KV head that several query heads read, only what the one head reads is patched.

Paper: Meng et al. 2022, arXiv 2202.05262 (causal tracing); Zhang and Nanda 2024, arXiv 2309.16042 (best practices).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.errors import UserError
from headway.heads.causes.kinds import Head
from headway.heads.causes.patched import PatchSite
from headway.heads.causes.substitutes import heads_of
from headway.model.attention import Attention
from headway.model.trace import AttentionTrace, Trace
from headway.model.transformer import Transformer

PatchMetric = Callable[[Tensor], Tensor]
"""From logits (batch, pos, vocab) to a number for each example."""

_AT_ONCE = 1 << 22
"""Entries of the streams of copies that are held at once."""


@dataclass(frozen=True, eq=False)
class TwoRuns:
    """A model on a clean text and on a corrupted one of the same shape, and a metric of it."""

    model: Transformer
    clean_tokens: Int[Tensor, "batch pos"]
    tokens: Int[Tensor, "others span"]
    metric: PatchMetric

    def __post_init__(self) -> None:
        if self.clean_tokens.shape != self.tokens.shape or not self.tokens.numel():
            raise UserError(
                f"a clean text of {list(self.clean_tokens.shape)} and a corrupted one of {list(self.tokens.shape)} "
                "(sequence, position) were given; give pairs of one length"
            )
        if not heads_of(self.model):
            raise UserError("the model has no heads, so there is nothing to patch; give a model with heads")
        if self.model.training and self.model.model.dropout:
            raise UserError("the model is in training mode and drops entries at random; call model.eval()")
        with torch.no_grad():
            found = self.metric(self.model(self.tokens)[0])
        if not isinstance(found, Tensor) or found.shape != self.tokens.shape[:1] or not found.is_floating_point():
            shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise UserError(
                f"metric: {shape} came back for {len(self.tokens)} examples; give a function from logits (example, "
                "pos, vocab) to a number for each example, such as logits[:, -1, 7] - logits[:, -1, 8]"
            )

    @cached_property
    def clean(self) -> Trace:
        """What every head did on the clean text."""
        with torch.no_grad():
            return self._traced(self.clean_tokens)

    @cached_property
    def corrupted(self) -> Trace:
        """What every head did on the corrupted text."""
        with torch.no_grad():
            return self._traced(self.tokens)

    def _traced(self, tokens: Tensor) -> Trace:
        trace = self.model(tokens, record=True)[1]
        assert trace is not None
        return trace

    def values(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, " batch"]:
        """The metric of a run."""
        with torch.no_grad():
            return self.metric(self.model(tokens)[0]).double()

    def pairs(self) -> Iterator[tuple[AttentionTrace, AttentionTrace]]:
        """The attention of each layer that has one, clean and corrupted."""
        yield from zip(self.clean.attentions, self.corrupted.attentions, strict=True)

    def context(
        self, clean: AttentionTrace, corrupted: AttentionTrace, head: int, site: PatchSite, at: slice = slice(None)
    ) -> Float[Tensor, "batch pos d_head"]:
        """The context of a head with one of its parts, at some positions, from the clean run.

        Positions are those of queries, or of keys where keys or values are patched.
        """
        if site == "z":
            return _with(corrupted.z[:, head], clean.z[:, head], at)
        kv = corrupted.kv_of[head]
        q, k, v = corrupted.q[:, head], corrupted.k[:, kv], corrupted.v[:, kv]
        if site == "pattern":
            weights = _with(self._weights(corrupted, q, k), self._weights(clean, clean.q[:, head], clean.k[:, kv]), at)
            return weights @ v
        if site == "q":
            q = _with(q, clean.q[:, head], at)
        if site == "k":
            k = _with(k, clean.k[:, kv], at)
        if site == "v":
            v = _with(v, clean.v[:, kv], at)
        return self._weights(corrupted, q, k) @ v

    def _weights(self, of: AttentionTrace, q: Tensor, k: Tensor) -> Tensor:
        logits = q @ k.mT * of.scale
        logits = logits if of.mask is None else logits.masked_fill(~of.mask, -torch.inf)
        weights = (logits if of.scores is None else of.scores(logits)).softmax(2)
        # A query that sees nothing looks at nothing.
        return weights if of.mask is None else weights.masked_fill(~of.mask, 0)

    def with_contexts(
        self, layer: int, contexts: Sequence[tuple[int, Float[Tensor, "batch pos d_head"]]]
    ) -> Float[Tensor, "patch batch"]:
        """The metric with each of some contexts, head by head of a layer, in place of what that head did."""
        at_once = max(1, _AT_ONCE // self.corrupted.streams[layer].numel())
        return torch.cat([self._continued(layer, contexts[i : i + at_once]) for i in range(0, len(contexts), at_once)])

    def _continued(self, layer: int, contexts: Sequence[tuple[int, Tensor]]) -> Tensor:
        model, stream = self.model, self.corrupted.streams[layer]
        attention = cast(Attention, model.layers[layer].attention)
        W_O = attention.o.weight.T.unflatten(0, (-1, attention.d_head))
        z = next(each.z for each in self.corrupted.attentions if each.layer == layer)
        with torch.no_grad():
            written = model.written(stream, layer)
            assert written is not None
            parts = [written + (context - z[:, head]) @ W_O[head] for head, context in contexts]
            stream = model.rest(stream.repeat(len(parts), 1, 1), torch.cat(parts), layer)
            return self.from_stream(stream, layer + 1, len(parts))

    def from_stream(self, stream: Tensor, layer: int, copies: int) -> Float[Tensor, "copy batch"]:
        """The metric of copies of the examples, side by side, from the stream before a layer on."""
        for later in range(layer, self.model.model.n_layers):
            stream = self.model.rest(stream, self.model.written(stream, later), later)
        logits = self.model.read_out(stream)
        return torch.stack([self.metric(part).double() for part in logits.chunk(copies)])


def patched_effects(
    runs: TwoRuns, site: PatchSite, *, by_position: bool = False
) -> tuple[tuple[Head, ...], Float[Tensor, "head *pos batch"]]:
    """The change of the metric with each head's part from the clean run, exactly."""
    base, length = runs.values(runs.tokens), runs.tokens.shape[1]
    places = [slice(i, i + 1) for i in range(length)] if by_position else [slice(None)]
    heads: list[Head] = []
    found = []
    with torch.no_grad():
        for clean, corrupted in runs.pairs():
            n = corrupted.z.shape[1]
            contexts = [(head, runs.context(clean, corrupted, head, site, at)) for head in range(n) for at in places]
            found.append(runs.with_contexts(corrupted.layer, contexts) - base)
            heads += [(corrupted.layer, head) for head in range(n)]
    effects = torch.cat(found)
    return tuple(heads), effects.unflatten(0, (-1, length)) if by_position else effects


def _with(x: Tensor, other: Tensor, at: slice) -> Tensor:
    """A tensor (batch, pos, ...) with some positions of another."""
    if at == slice(None):
        return other
    mixed = x.clone()
    mixed[:, at] = other[:, at]
    return mixed
