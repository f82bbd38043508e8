"""Heads: activation patching: what a metric does when one head does what it did on another text.

Whatever is taken of a head, its queries, keys, values, weights or context, ends in another context: so every patch is a
context, put in where contexts enter the output projection, and all of them share the layers below. From queries, keys
and values contexts are computed as the trace says, with whatever mask, bias and cap it has; that this is what the model
does is a check that is made before (`patch_check`).

Of a KV head that several query heads read, only what the one head reads is patched.

Paper: Meng et al. 2022, arXiv 2202.05262 (causal tracing); Zhang and Nanda 2024, arXiv 2309.16042 (best practices).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.errors import UserError
from headway.heads.causes.continued import Contexts, OwnRun, TheirRun, continued
from headway.heads.causes.kinds import Head
from headway.heads.causes.patched import PatchSite
from headway.heads.causes.substitutes import heads_of
from headway.model.intervenable import Intervenable, StreamSums, logits_of
from headway.model.trace import AttentionTrace, Trace
from headway.model.transformer import Transformer

PatchMetric = Callable[[Tensor], Tensor]
"""From logits (batch, pos, vocab) to a number for each example."""


@dataclass(frozen=True, eq=False)
class TwoRuns:
    """A model on a clean text and on a corrupted one of the same shape, and a metric of it."""

    model: Intervenable
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
        if self.model.training and self.model.dropout:
            raise UserError("the model is in training mode and drops entries at random; call model.eval()")
        with torch.no_grad():
            found = self.metric(logits_of(self.model, self.tokens))
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

    @cached_property
    def run(self) -> OwnRun | TheirRun:
        """The corrupted run, as it goes on with other contexts."""
        with torch.no_grad():
            return continued(self.model, self.tokens, self.corrupted)

    @cached_property
    def sums(self) -> StreamSums:
        """Of a model that others wrote, whether what heads write reaches later layers as it is."""
        assert not isinstance(self.model, Transformer), "of our own it is declared"
        with torch.no_grad():
            return self.model.stream_sums(self.tokens)

    def _traced(self, tokens: Tensor) -> Trace:
        if not isinstance(self.model, Transformer):
            return self.model.trace(tokens)
        trace = self.model(tokens, record=True)[1]
        assert trace is not None
        return trace

    def values(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, " batch"]:
        """The metric of a run."""
        with torch.no_grad():
            return self.metric(logits_of(self.model, tokens)).double()

    def pairs(self) -> Iterator[tuple[AttentionTrace, AttentionTrace]]:
        """The attention of each layer that has one, clean and corrupted."""
        yield from zip(self.clean.attentions, self.corrupted.attentions, strict=True)

    def with_contexts(self, layer: int, patches: Sequence[Contexts]) -> Float[Tensor, "patch batch"]:
        """The metric with each of some contexts of a layer's heads, in place of what those heads did."""
        with torch.no_grad():
            return torch.stack([self.metric(logits).double() for logits in self.run.logits_with(layer, patches)])


def patched_context(
    clean: AttentionTrace, corrupted: AttentionTrace, head: int, site: PatchSite, at: slice = slice(None)
) -> Float[Tensor, "batch pos d_head"]:
    """The context of a head with one of its parts, at some positions, from the clean run.

    Positions are those of queries, or of keys where keys or values are patched.
    """
    clean, corrupted = clean.of_head(head), corrupted.of_head(head)
    if site == "pattern":
        return (_with(corrupted.patterns(), clean.patterns(), at) @ corrupted.v)[:, 0]
    z, q, k, v = (
        _with(one, other, at) if name == site else one
        for name in ("z", "q", "k", "v")
        for one, other in [(getattr(corrupted, name), getattr(clean, name))]
    )
    return (z if site == "z" else replace(corrupted, q=q, k=k, v=v).patterns() @ v)[:, 0]


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
            contexts = [{head: patched_context(clean, corrupted, head, site, at)} for head in range(n) for at in places]
            found.append(runs.with_contexts(corrupted.layer, contexts) - base)
            heads += [(corrupted.layer, head) for head in range(n)]
    effects = torch.cat(found)
    return tuple(heads), effects.unflatten(0, (-1, length)) if by_position else effects


def _with(x: Tensor, other: Tensor, at: slice) -> Tensor:
    """A tensor (batch, head, pos, ...) with some positions of another."""
    if at == slice(None):
        return other
    mixed = x.clone()
    mixed[:, :, at] = other[:, :, at]
    return mixed
