"""Heads: attribution patching: what patching would do, to first order, from one gradient of the corrupted run.

The gradient is that by each head's context. Queries and keys act through a softmax that saturates, so that a gradient
by them says little: here the softmax is computed anew with the clean queries or keys, and only what follows is linear.

Where paths through later layers cancel, the gradient is small and the effect need not be. So the gradient is taken anew
with each later attention left out of it, layer by layer, and a head whose estimate is then much larger is named.

Paper: Kramár et al. 2024, arXiv 2403.00745 (AtP*): its fix of queries and keys, and GradDrop, here with a layer's
attention instead of the whole layer left out, and as a check beside the estimate instead of a mean.
"""

from functools import partial

import torch
from torch import Tensor

from headway.heads.causes.attribution import check_gradients
from headway.heads.causes.patched import PatchSite
from headway.heads.causes.patching import TwoRuns, patched_context
from headway.heads.causes.substitutes import layers_with_heads
from headway.model.edits import Edits
from headway.model.intervenable import logits_of

_MUCH = 3.0
"""How many times larger an estimate is without a layer where its paths are said to cancel."""


def estimated_effects(
    runs: TwoRuns, sites: tuple[PatchSite, ...], *, by_position: bool = False
) -> dict[PatchSite, Tensor]:
    """Of each site (head, batch), or (head, pos, batch).

    Raises:
        UserError: for a model whose weights have no gradient.
    """
    gradients = _gradients(runs, None)
    length = runs.tokens.shape[1]
    places = [slice(i, i + 1) for i in range(length)] if by_position else [slice(None)]
    found: dict[PatchSite, Tensor] = {}
    with torch.no_grad():
        for site in sites:
            rows = [
                _product(gradients[of.layer][:, head], patched_context(clean, of, head, site, at) - of.z[:, head])
                for clean, of in runs.pairs()
                for head in range(of.z.shape[1])
                for at in places
            ]
            effects = torch.stack(rows).double()
            found[site] = effects.unflatten(0, (-1, length)) if by_position else effects
    return found


def cancelling(runs: TwoRuns) -> tuple[bool, ...]:
    """Of each head, whether its estimate is much larger when some later attention is left out of the gradient."""
    layers = layers_with_heads(runs.model)
    whole = _estimates_of_contexts(runs, None)
    largest = torch.zeros_like(whole)
    places = torch.tensor([of.layer for of in runs.corrupted.attentions for _ in range(of.z.shape[1])])
    for left_out in layers[1:]:
        without = _estimates_of_contexts(runs, left_out)
        # What is left out of the gradient has no estimate of its own, and nothing later has another one.
        largest = torch.where(places < left_out, largest.maximum(without.abs()), largest)
    floor = 0.01 * whole.abs().max()
    return tuple(bool(x) for x in (largest > _MUCH * whole.abs()) & (largest > floor))


def _estimates_of_contexts(runs: TwoRuns, left_out: int | None) -> Tensor:
    """(head,) for the contexts, the mean over examples."""
    gradients = _gradients(runs, left_out)
    with torch.no_grad():
        return torch.cat(
            [(gradients[of.layer] * (clean.z - of.z)).sum((2, 3)).mean(0) for clean, of in runs.pairs()]
        ).cpu()


def _gradients(runs: TwoRuns, left_out: int | None) -> dict[int, Tensor]:
    """Of the metric of each example by the contexts of the corrupted run, by layer."""
    model = runs.model
    check_gradients(model)
    layers, found = layers_with_heads(model), dict[int, Tensor]()
    edits: Edits = {(layer, "z"): partial(_kept, found, layer, layer == left_out) for layer in layers}
    with torch.enable_grad():
        total = runs.metric(logits_of(model, runs.tokens, edits=edits)).sum()
    return dict(zip(layers, torch.autograd.grad(total, [found[layer] for layer in layers]), strict=True))


def _kept(found: dict[int, Tensor], layer: int, leaf: bool, z: Tensor) -> Tensor:
    z = z.detach().requires_grad_() if leaf or not z.requires_grad else z
    found[layer] = z
    return z


def _product(gradient: Tensor, change: Tensor) -> Tensor:
    return (gradient * change).sum((1, 2))
