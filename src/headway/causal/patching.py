"""Activation patching, attribution patching and path patching between a clean and a corrupted text.

Activation patching asks how a metric changes when one head does what it did on another text. A patch of its queries,
keys, values, weights or context always results in another context. So every patch is a context, put in where contexts
enter the output projection, and all patches share the layers below. Contexts from patched queries, keys and values are
computed as the trace says, with its mask, bias and cap; `causal.checks` first checks that the model does the same. If
several query heads read a KV head, only what the one head reads is patched. Paper: Meng et al. 2022, arXiv 2202.05262
(causal tracing); Zhang and Nanda 2024, arXiv 2309.16042 (best practices).

Attribution patching estimates the same to first order, from one gradient of the corrupted run by each head's context.
Queries and keys act through a softmax that saturates, so a gradient by them says little. Here the softmax is computed
anew with the clean queries or keys, and only the rest is linear. If paths through later layers cancel, the gradient is
small and the effect need not be. So the gradient is computed again without each later attention, layer by layer, and a
head whose estimate is then much larger is named. Paper: Kramár et al. 2024, arXiv 2403.00745 (AtP*): its fix of queries
and keys, and GradDrop, here with a layer's attention instead of the whole layer left out, and as a check beside the
estimate instead of a mean.

Path patching asks what a later head does with the output of an earlier one, with nothing between them. The clean output
is put into the stream that one later head reads, into its queries, keys or values alone; everything else is as in the
corrupted run. So the effect is that of a direct path. A norm between heads and the stream is part of the path. Paper:
Wang et al. 2023, arXiv 2211.00593 (the IOI circuit); Goldowsky-Dill et al. 2023, arXiv 2304.05969.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.base.words import say
from headway.causal.attribution import check_gradients
from headway.causal.effects import Head
from headway.causal.patch_result import THROUGH, HeadPaths, PatchSite, Through
from headway.causal.removal import OwnRun
from headway.causal.substitutes import Intervenable, Tokens, layers_with_heads, logits_of
from headway.errors import UserError
from headway.models.trace import AttentionTrace, Edits, Site, Trace
from headway.models.transformer import Transformer

if TYPE_CHECKING:
    from headway.hf.intervene import Contexts, TheirPass
    from headway.hf.stream_sums import StreamSums

PatchMetric = Callable[[Tensor], Tensor]
"""A function from logits (batch, pos, vocab) to a number for each example."""


@dataclass(frozen=True, eq=False)
class TwoRuns:
    """A model on a clean text and on a corrupted one of the same shape, with a metric."""

    model: Intervenable
    clean_tokens: Tokens
    tokens: Int[Tensor, "others span"]
    metric: PatchMetric

    def __post_init__(self) -> None:
        if self.clean_tokens.shape != self.tokens.shape or not self.tokens.numel():
            raise UserError(
                f"a clean text of {list(self.clean_tokens.shape)} and a corrupted one of {list(self.tokens.shape)} "
                "(sequence, position) were given; give pairs of one length"
            )
        with torch.no_grad():
            found = self.metric(logits_of(self.model, self.tokens))
        if not isinstance(found, Tensor) or found.shape != self.tokens.shape[:1] or not found.is_floating_point():
            shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise UserError(
                f"metric: it returned {shape} for {len(self.tokens)} examples; turn logits (example, pos, vocab) into "
                "a number for each example, such as logits[:, -1, 7] - logits[:, -1, 8]"
            )

    @cached_property
    def clean(self) -> Trace:
        """The trace of the clean text."""
        with torch.no_grad():
            return self.model.trace(self.clean_tokens)

    @cached_property
    def corrupted(self) -> Trace:
        """The trace of the corrupted text."""
        with torch.no_grad():
            return self.model.trace(self.tokens)

    @cached_property
    def run(self) -> "OwnRun | TheirPass":
        """The corrupted run, ready to be repeated with other contexts."""
        with torch.no_grad():
            if isinstance(self.model, Transformer):
                return OwnRun(self.model, self.corrupted)
            return self.model.kept(self.tokens)

    @cached_property
    def sums(self) -> "StreamSums":
        """The finding whether heads' outputs reach later layers unchanged, in a model that others wrote."""
        assert not isinstance(self.model, Transformer), "of our own it is declared"
        with torch.no_grad():
            return self.model.stream_sums(self.tokens)

    def values(self, tokens: Tokens) -> Float[Tensor, " batch"]:
        """Return the metric of a run."""
        with torch.no_grad():
            return self.metric(logits_of(self.model, tokens)).double()

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads, in the order in which the model computes their attentions."""
        return tuple((each.layer, head) for each in self.corrupted.attentions for head in range(each.z.shape[1]))

    def pairs(self) -> Iterator[tuple[AttentionTrace, AttentionTrace]]:
        """Return the attention of each layer that has one, clean and corrupted."""
        yield from zip(self.clean.attentions, self.corrupted.attentions, strict=True)

    def with_contexts(self, layer: int, patches: "Sequence[Contexts]") -> Float[Tensor, "patch batch"]:
        """Return the metric with each of some contexts in place of those of a layer's heads."""
        with torch.no_grad():
            return torch.stack([self.metric(logits).double() for logits in self.run.logits_with(layer, patches)])


def patched_context(
    clean: AttentionTrace, corrupted: AttentionTrace, head: int, site: PatchSite, at: slice = slice(None)
) -> Float[Tensor, "batch pos d_head"]:
    """Return the context of a head with one of its parts, at some positions, from the clean run.

    Positions are those of queries, or of keys where keys or values are patched.
    """
    clean, corrupted = clean.of_head(head), corrupted.of_head(head)
    if site == "pattern":
        return (_with(corrupted.patterns(), clean.patterns(), at) @ corrupted.v)[:, 0]
    part: dict[str, Any] = {site: _with(getattr(corrupted, site), getattr(clean, site), at)}
    patched = replace(corrupted, **part)
    return (patched.z if site == "z" else patched.patterns() @ patched.v)[:, 0]


def patched_effects(runs: TwoRuns, site: PatchSite, *, by_position: bool = False) -> Float[Tensor, "head *pos batch"]:
    """Return the exact change of the metric with each head's part from the clean run."""
    base, changes = runs.values(runs.tokens), []
    with torch.no_grad():
        for corrupted, contexts in _patches(runs, site, by_position):
            changes.append(runs.with_contexts(corrupted.layer, [{head: z} for head, z in contexts]) - base)
    effects = torch.cat(changes)
    return effects.unflatten(0, (-1, runs.tokens.shape[1])) if by_position else effects


def _patches(
    runs: TwoRuns, site: PatchSite, by_position: bool
) -> Iterator[tuple[AttentionTrace, Iterator[tuple[int, Tensor]]]]:
    """Yield each corrupted attention with its patched contexts, each of one head, at all positions or at one."""
    places = [slice(i, i + 1) for i in range(runs.tokens.shape[1])] if by_position else [slice(None)]
    for clean, corrupted in runs.pairs():
        heads = product(range(corrupted.z.shape[1]), places)
        yield corrupted, ((head, patched_context(clean, corrupted, head, site, at)) for head, at in heads)


def _with(x: Tensor, other: Tensor, at: slice) -> Tensor:
    """Return a tensor (batch, head, pos, ...) with some positions of another."""
    if at == slice(None):
        return other
    mixed = x.clone()
    mixed[:, :, at] = other[:, :, at]
    return mixed


_MUCH = 3.0
"""The factor by which an estimate has to grow without a layer for its paths to count as cancelling."""


def estimated_effects(
    runs: TwoRuns, sites: tuple[PatchSite, ...], *, by_position: bool = False, left_out: int | None = None
) -> dict[PatchSite, Tensor]:
    """Return the estimated effects of patches at each site: (head, batch), or (head, pos, batch).

    Args:
        runs: both runs.
        sites: the sites.
        by_position: True for an estimate of each position.
        left_out: the layer whose attention is left out of the gradient; None: no layer.

    Raises:
        UserError: if the model's weights have no gradient.
    """
    gradients = _gradients(runs, left_out)
    estimates: dict[PatchSite, Tensor] = {}
    with torch.no_grad():
        for site in sites:
            rows = []
            for corrupted, contexts in _patches(runs, site, by_position):
                for head, context in contexts:
                    change = context - corrupted.z[:, head]
                    rows.append((gradients[corrupted.layer][:, head] * change).sum((1, 2)))
            effects = torch.stack(rows).double()
            estimates[site] = effects.unflatten(0, (-1, runs.tokens.shape[1])) if by_position else effects
    return estimates


def cancelling(runs: TwoRuns) -> tuple[bool, ...]:
    """Return for each head whether its estimate is much larger without some later attention in the gradient."""
    layers = layers_with_heads(runs.model)
    whole = estimated_effects(runs, ("z",))["z"].mean(1)
    largest = torch.zeros_like(whole)
    places = torch.tensor([layer for layer, _ in runs.heads], device=whole.device)
    for left_out in layers[1:]:
        without = estimated_effects(runs, ("z",), left_out=left_out)["z"].mean(1)
        # The omitted attention has no estimate, and later attentions keep theirs.
        largest = torch.where(places < left_out, largest.maximum(without.abs()), largest)
    floor = 0.01 * whole.abs().max()
    return tuple(bool(x) for x in (largest > _MUCH * whole.abs()) & (largest > floor))


def _gradients(runs: TwoRuns, left_out: int | None) -> dict[int, Tensor]:
    """Return gradients of each example's metric by the contexts of the corrupted run, by layer."""
    model = runs.model
    check_gradients(model)
    found = dict[int, Tensor]()

    def keep(layer: int, z: Tensor) -> Tensor:
        found[layer] = z.detach().requires_grad_() if layer == left_out or not z.requires_grad else z
        return found[layer]

    edits: Edits = {(layer, "z"): partial(keep, layer) for layer in layers_with_heads(model)}
    with torch.enable_grad():
        total = runs.metric(logits_of(model, runs.tokens, edits=edits)).sum()
    return dict(zip(found, torch.autograd.grad(total, list(found.values())), strict=True))


def head_paths(runs: TwoRuns) -> HeadPaths:
    """Return direct effects between all pairs of heads, the mean over examples.

    Raises:
        UserError: if paths cannot be measured in this model; the reason is named.
    """
    if (why := why_no_paths(runs)) is not None:
        raise UserError(f"{why}; leave paths out")
    heads = runs.heads
    place = {head: at for at, head in enumerate(heads)}
    base, n = runs.values(runs.tokens), len(heads)
    through: dict[Through, np.ndarray] = {name: np.full((n, n), np.nan) for name in THROUGH}
    to_output = np.zeros(n)
    with torch.no_grad():
        for clean, corrupted in runs.pairs():
            changes = _changes(runs, clean, corrupted)
            rows = [place[corrupted.layer, head] for head in range(len(changes))]
            for row, logits in zip(rows, runs.run.ends(changes), strict=True):
                to_output[row] = float((runs.metric(logits).double() - base).mean())
            for later in (each for each in runs.corrupted.attentions if each.layer > corrupted.layer):
                columns = [place[later.layer, reader] for reader in range(later.z.shape[1])]
                for row, parts in zip(rows, runs.run.reads(later.layer, changes), strict=True):
                    for name, effects in _readers(runs, later, parts).items():
                        through[name][row, columns] = (effects - base).mean(1).cpu().numpy()
    return HeadPaths(heads=heads, through=through, to_output=to_output)


def _changes(runs: TwoRuns, clean: AttentionTrace, corrupted: AttentionTrace) -> Sequence[Tensor]:
    """Return how each head of a layer, with its clean context, changes the stream (batch, pos, d_model)."""
    if not isinstance(runs.run, OwnRun) and (norm := runs.sums.norms.get(corrupted.layer)) is not None:
        return list(runs.run.writes(corrupted.layer, norm, [{head: z} for head, z in enumerate(clean.z.unbind(1))]))
    return (clean.contributions() - corrupted.contributions()).unbind(1)


def why_no_paths(runs: TwoRuns) -> str | None:
    """Return why direct effects between heads of a model cannot be measured, in words; None: they can."""
    model = runs.model
    if not isinstance(model, Transformer):
        if (of_sums := runs.sums.why_not) is None:
            return None
        why = say("path_cut", reason=of_sums)
    elif not model.model.residual:
        why = say("path_without_stream")
    elif model.model.norm_place == "after" and model.model.norm != "none":
        why = say("path_norms_after")
    else:
        return None
    return say("no_paths", reason=why)


def _readers(runs: TwoRuns, later: AttentionTrace, parts: Mapping[Site, Tensor]) -> dict[Through, Tensor]:
    """Return the metric (reader, batch) by input, when each head of a later layer reads a changed stream there."""
    changed, effects = replace(later, q=parts["q"], k=parts["k"], v=parts["v"]), dict[Through, Tensor]()
    for name in THROUGH:
        contexts = [{head: patched_context(changed, later, head, name)} for head in range(later.z.shape[1])]
        effects[name] = runs.with_contexts(later.layer, contexts)
    return effects
