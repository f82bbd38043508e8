"""Attribution: cheap estimates from gradients of what heads do to the loss.

A gate g on each head and example makes its context g z + (1 - g) s, where s stands in for it. At g = 1 the loss changes
to first order by -dL/dg when the head goes. Michel's importance is the size of that with s = 0. The integral along the
way from all gates open to all gates closed is the head's share of the joint effect of all heads.

Paper: Michel et al. 2019, arXiv 1905.10650 (importance). Sundararajan et al. 2017, arXiv 1703.01365 (integrated
gradients), there over inputs and here over the gates of all heads at once. So the estimates of all heads sum to the
exact joint effect; a single estimate need not equal the exact effect of its head.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from headway.causal.effects import KINDS, HeadEffects, Kind, OfLayers
from headway.causal.substitutes import Intervenable, Substitutes, Tokens, counted, layers_with_heads
from headway.errors import UserError
from headway.models.trace import Edits


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """Estimates of every head, from one forward and one backward pass."""

    gate_gradients: OfLayers
    """dL/dxi of each layer, L the loss of a sequence in nats per token and xi the gate of a head on it."""
    first_order: Mapping[Kind, HeadEffects]
    """The gradient times the difference that each kind of ablation makes."""

    @property
    def michel(self) -> OfLayers:
        """Michel's importance of each layer's heads: the mean over sequences of |dL/dxi|."""
        return tuple(np.abs(gradients).mean(1) for gradients in self.gate_gradients)


def attribute(model: Intervenable, inputs: Tokens, targets: Tokens, stand_ins: Substitutes) -> Attribution:
    """Return Michel's importance and first-order effects of every head, from one pass and its gradient.

    Args:
        model: the model; its parameters get no gradient.
        inputs: the text.
        targets: the tokens after each position; -1 where none is counted.
        stand_ins: the substitutes for heads on this text.

    Raises:
        UserError: if `check_gradients` refuses the model.
    """
    gates, z, slopes = _gradients(model, inputs, targets)
    first_order = {}
    for kind in KINDS:
        stand_in = stand_ins[kind]
        changes = {i: ((stand_in[i] - z[i].detach()) * slope).sum((2, 3)).T for i, slope in slopes.items()}
        first_order[kind] = _effects(model, changes, targets)
    return Attribution(gate_gradients=_per_layer(model, gates, len(inputs)), first_order=first_order)


def integrated(
    model: Intervenable, inputs: Tokens, targets: Tokens, stand_ins: Substitutes, *, steps: int = 8
) -> dict[Kind, HeadEffects]:
    """Return integrated gradients of every head from all gates open to all closed, by the midpoint rule.

    Law: over all heads they sum to the joint effect, the nearer the more steps.

    Args:
        model: the model.
        inputs: the text.
        targets: the tokens after each position; -1 where none is counted.
        stand_ins: the substitutes for heads on this text.
        steps: forward and backward passes for each of the three ways.

    Raises:
        UserError: if `check_gradients` refuses the model.
    """
    check_gradients(model)
    layers, found = layers_with_heads(model), {}
    for kind in KINDS:
        total: dict[int, Tensor] = {}
        for step in range(steps):
            gates = _gates(model, len(inputs), 1 - (step + 0.5) / steps)
            edits: Edits = {(i, "z"): partial(_between, gates[i], stand_ins[kind][i]) for i in layers}
            with torch.enable_grad():
                loss = _total(model, model.hidden(inputs, edits=edits)[0], targets)
            gradients = torch.autograd.grad(loss, [gates[i] for i in layers])
            for i, gradient in zip(layers, gradients, strict=True):
                total[i] = total.get(i, 0) - gradient.T / steps
        found[kind] = _effects(model, total, targets)
    return found


def gate_gradients(model: Intervenable, inputs: Tokens, targets: Tokens) -> OfLayers:
    """Return dL/dxi of each layer's heads, as in `Attribution`.

    Raises:
        UserError: if `check_gradients` refuses the model.
    """
    gates, _, _ = _gradients(model, inputs, targets)
    return _per_layer(model, gates, len(inputs))


def _gradients(
    model: Intervenable, inputs: Tensor, targets: Tensor
) -> tuple[dict[int, Tensor], dict[int, Tensor], dict[int, Tensor]]:
    """Return gradients of the losses by gates (head, batch), the contexts, and gradients by contexts, of each layer."""
    check_gradients(model)
    gates, z = _gates(model, len(inputs), 1.0), dict[int, Tensor]()
    edits: Edits = {(layer, "z"): partial(z.setdefault, layer) for layer in layers_with_heads(model)}
    with torch.enable_grad():
        total = _total(model, model.hidden(inputs, gates=gates, edits=edits)[0], targets)
    found = torch.autograd.grad(total, [*(gates[layer] for layer in z), *z.values()])
    by_gates = {layer: gradient.T for layer, gradient in zip(z, found, strict=False)}
    return by_gates, z, dict(zip(z, found[len(z) :], strict=True))


def check_gradients(model: Intervenable) -> None:
    """Raise UserError if a loss of the model has no gradients.

    Raises:
        UserError: when its weights are of no type that has them, or were made where torch records nothing.
    """
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point() or parameter.is_inference():
            was = "made under torch.inference_mode" if parameter.is_inference() else f"of type {parameter.dtype}"
            raise UserError(
                f"the weights {name} are {was} and have no gradients; load the model in another way, or "
                "use a method that needs no gradients, such as ablation"
            )


def _between(gate: Tensor, stand_in: Tensor, z: Tensor) -> Tensor:
    return stand_in + gate[:, :, None, None] * (z - stand_in)


def _gates(model: Intervenable, batch: int, value: float) -> list[Tensor]:
    """Return a gate for each example and head."""
    some = next(model.parameters())
    return [some.new_full((batch, n), value, requires_grad=True) for n in model.n_heads]


def _total(model: Intervenable, stream: Tensor, targets: Tensor) -> Tensor:
    """Return the summed losses of the sequences, whose gradient by a sequence's gates is that of its own loss."""
    logits = model.read_out(stream).flatten(0, 1).float()
    losses = nn.functional.cross_entropy(logits, targets.flatten(), ignore_index=-1, reduction="none")
    return (losses.unflatten(0, targets.shape).sum(1) / counted(targets)).sum()


def _effects(model: Intervenable, changes: dict[int, Tensor], targets: Tensor) -> HeadEffects:
    return HeadEffects(per_sequence=_per_layer(model, changes, len(targets)), tokens=counted(targets).cpu().numpy())


def _per_layer(model: Intervenable, found: dict[int, Tensor], batch: int) -> tuple[np.ndarray, ...]:
    """Return arrays (head, batch) of all layers, in float64; empty for a layer without heads."""
    empty = torch.zeros(0, batch)
    return tuple(found.get(i, empty).detach().double().cpu().numpy() for i in range(len(model.n_heads)))
