"""Importance of heads for pruning: methods, by name, that put a model's units in the order in which they go.

Paper: `taylor`: Michel et al. 2019, arXiv 1905.10650: the mean over examples of |dL/dxi|, xi the gate of a unit; not
divided by the layer's norm, which over ragged layers depends on their number of heads. `alike` is the article's
hypothesis that alike heads are redundant. `magnitude` is the norm of what a head can write, W_V W_O, whose value does
not depend on the head's arbitrary basis, as that of its matrices does.

Of two alike heads `alike` removes the one that adds less: it chooses by size as well as by likeness. Two methods
separate these parts: `alike-either` draws the one that goes, and `output` goes by size alone.

Learned methods train gates on heads while the model stays as it is. `gates`: hard concrete gates with an L0 penalty.
Paper: Voita et al. 2019, arXiv 1905.09418, who tune the penalty's weight and train the model along; here the weight
follows from the number of heads that are to stay (it rises while more are open), and the model is left alone.

`budget`: a number of heads is open in every pass, chosen by a relaxed top-k with Gumbel noise that hardens as it cools;
so it needs no weight. Paper: Li, Cotterell and Sachan 2021, arXiv 2108.04657, where that number is constant; here it
falls from all heads, since two heads that need one another are hardly ever drawn together from few. With hard choices,
whose gradients are the relaxed ones, it found none of 8 planted circuits, and relaxed all 8.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import cast

import numpy as np
import torch
from torch import Tensor

from headway.base import rng
from headway.base.torch_setup import uncompiled
from headway.causal.attribution import check_gradients, gate_gradients
from headway.causal.effects import Head
from headway.causal.removal import Removal, losses_without
from headway.causal.substitutes import Tokens, counted
from headway.config.lm.head_units import Unit
from headway.errors import UserError
from headway.heads.measure import HeadStream
from headway.models.attention import Attention
from headway.models.layers import Map
from headway.models.transformer import Transformer

_ALIKE, _SHARE = "output_dissimilarity", "output_share"


@dataclass(frozen=True, kw_only=True)
class PruningText:
    """The text that a method may read, in batches of some sequences, and a seed for its draws.

    Methods that learn are also told how many heads are to stay.
    """

    inputs: Tokens
    targets: Tokens
    at_once: int
    seed: int = 0
    keep: int = 1

    def batches(self) -> list[tuple[Tensor, Tensor]]:
        """Yield inputs and targets of each batch."""
        return list(zip(self.inputs.split(self.at_once), self.targets.split(self.at_once), strict=True))


Order = Callable[[Transformer, Sequence[Unit], PruningText], list[int]]
"""Units in the order in which they go; units left out cannot go."""


def taylor(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """Order units by the mean over sequences of |dL/dxi|, xi a gate on the whole unit."""
    sizes = [
        np.stack([np.abs(sum(gradients[layer][head] for layer, head in unit)) for unit in units])
        for gradients in (gate_gradients(model, *batch) for batch in text.batches())
    ]
    return _ascending(np.concatenate(sizes, axis=1).mean(1))


def ablation(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """Order units by the exact change of the loss without each unit, its contexts set to zero as pruning does."""
    zero = dict.fromkeys(range(model.model.n_layers), next(model.parameters()).new_zeros(1, 1, 1, 1))
    removals, total = [Removal(unit, zero) for unit in units], np.zeros(len(units))
    for inputs, targets in text.batches():
        losses = losses_without(model, inputs, targets, removals)
        total += ((losses.without - losses.whole) * counted(targets)).sum(1).cpu().numpy()
    return _ascending(total / int(counted(text.targets).sum()))


def alike(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """Remove, again and again, the unit that adds less of the two units of a layer with most alike outputs."""
    likeness, share = _measured(model, units, text)
    return _of_pairs(likeness, lambda pair: min(pair, key=share.__getitem__))


def alike_either(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """Remove, again and again, a unit that the seed draws of the two units of a layer with most alike outputs."""
    likeness, _ = _measured(model, units, text)
    drawn = rng.generator(text.seed, "one of two alike heads pruned")
    return _of_pairs(likeness, lambda pair: pair[int(drawn.integers(2))])


def output(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """Order units by what they add to the stream, as a share of what their layer's heads add."""
    return _ascending(np.array(_measured(model, units, text)[1]))


def _measured(
    model: Transformer, units: Sequence[Unit], text: PruningText
) -> tuple[dict[tuple[int, int], float], list[float]]:
    """Return the mean cosine of the outputs of each two units of a layer, and the output share of each unit."""
    stream = HeadStream([_ALIKE, _SHARE])
    with torch.no_grad():
        for inputs, _ in text.batches():
            stream.add(model.trace(inputs))
    scores = stream.scores()
    unlike, share = ({int(name.split(".")[1]): x for name, x in scores[of].values.items()} for of in (_ALIKE, _SHARE))
    likeness = {
        (i, j): -float(np.mean([unlike[layer][a, b] for (layer, a), (_, b) in product(units[i], units[j])]))
        for i, j in combinations(range(len(units)), 2)
        if units[i][0][0] == units[j][0][0]
    }
    return likeness, [float(sum(share[layer][head] for layer, head in unit)) for unit in units]


def _of_pairs(likeness: Mapping[tuple[int, int], float], gone_of: Callable[[tuple[int, int]], int]) -> list[int]:
    """Remove one unit of the most alike pair, again and again, until each layer has one unit left."""
    order, pairs = list[int](), dict(likeness)
    while pairs:
        order.append(gone_of(max(pairs, key=pairs.__getitem__)))
        pairs = {pair: value for pair, value in pairs.items() if order[-1] not in pair}
    return order


def magnitude(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """Order units by the Frobenius norm of W_V W_O, what they can write of attended tokens; no text is read."""
    del text
    return _ascending(np.array([sum(_squared_norm(model, head) for head in unit) for unit in units]))


def at_random(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """Order units at random by the seed: the floor of every other method."""
    del model
    return rng.generator(text.seed, "heads pruned at random").permutation(len(units)).tolist()


def _squared_norm(model: Transformer, head: Head) -> float:
    """Return ||W_V W_O||^2 of a head, as the trace of two small matrices."""
    layer, number = head
    attention = cast(Attention, model.layers[layer].attention)
    by_head = (-1, attention.d_head)
    with torch.no_grad():
        W_V = cast(Map, attention.v).weight.unflatten(0, by_head)[attention.kv_of[number]].double()
        W_O = attention.o.weight.unflatten(1, by_head)[:, number].double()
        return float(((W_O.T @ W_O) * (W_V @ W_V.T)).sum())


def _ascending(scores: np.ndarray) -> list[int]:
    if not np.isfinite(scores).all():
        raise UserError("importance of heads is not finite on this text; use another text or checkpoint")
    return np.argsort(scores, kind="stable").tolist()


STEPS, RATE = 200, 0.1
"""The steps and the learning rate of Adam, on one number for each unit."""
TEMPERATURE, STRETCH, LOW = 0.33, 1.2, 0.1
"""Parameters of the hard concrete distribution: gates are clip(1.2 s - 0.1, 0, 1)."""
_OPEN = 2.0
"""The initial log odds of a gate: nearly open."""
_WEIGHT = 0.3
"""The growth of the penalty's weight per step, times the share of heads that is open too much."""
_FALLING = 0.6
"""The share of the steps in which the number of open units falls to its final value."""
_WARM, _COLD = 1.0, 0.1
"""The temperatures of the relaxed choice, first and last."""


def gates(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """Order units by the odds that a gate with an L0 penalty is open."""
    sizes = torch.tensor([float(len(unit)) for unit in units])
    odds, weight = torch.full((len(units),), _OPEN, requires_grad=True), 0.0
    uniform = _uniform(text, "uniform numbers of gates")

    def loss(_: int, inputs: Tensor, targets: Tensor) -> Tensor:
        nonlocal weight
        opened = hard_concrete(odds, uniform(len(inputs), len(units)))
        excess = ((open_chance(odds) * sizes).sum() - text.keep) / sizes.sum()
        weight = max(0.0, weight + _WEIGHT * float(excess.detach()))
        return _nll(model, units, opened, inputs, targets) + weight * excess

    return _trained_order(odds, loss, model, text)


def budget(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """Order units by the scores of a relaxed top-k, which opens ever fewer units, down to the number to stay."""
    k = min(len(units) - 1, max(1, round(text.keep * len(units) / sum(map(len, units)))))
    scores = torch.zeros(len(units), requires_grad=True)
    uniform = _uniform(text, "noise of the choice")

    def loss(step: int, inputs: Tensor, targets: Tensor) -> Tensor:
        temperature = _WARM * (_COLD / _WARM) ** (step / (STEPS - 1))
        n_open = round(len(units) + (k - len(units)) * min(1.0, (step + 1) / (_FALLING * STEPS)))
        noise = -(-uniform(len(units)).log()).log()
        chosen = top_k(scores + noise, min(n_open, len(units) - 1), temperature)
        return _nll(model, units, chosen.expand(len(inputs), -1), inputs, targets)

    return _trained_order(scores, loss, model, text)


def hard_concrete(odds: Tensor, uniform: Tensor) -> Tensor:
    """Draw gates: s = sigmoid((log u - log(1 - u) + log a) / 0.33), then clip(1.2 s - 0.1, 0, 1)."""
    s = torch.sigmoid((uniform.log() - (1 - uniform).log() + odds) / TEMPERATURE)
    return (STRETCH * s - LOW).clamp(0, 1)


def open_chance(odds: Tensor) -> Tensor:
    """Return the probability that a gate is above 0: sigmoid(log a - 0.33 log(0.1 / 1.1)).

    Examples:
        >>> round(float(open_chance(torch.tensor(0.0))), 3)
        0.688
    """
    return torch.sigmoid(odds - TEMPERATURE * math.log(LOW / (STRETCH - LOW)))


def top_k(scores: Tensor, k: int, temperature: float) -> Tensor:
    """Return gates that sum to k and approach 1 for the k highest scores, 0 for the others, as it cools.

    Each gate is the sigmoid of its score's distance above a threshold, at which the gates sum to k. Gradients go
    through the threshold too (the implicit function theorem).

    Examples:
        >>> [round(gate, 2) for gate in top_k(torch.tensor([0.1, 3.0, 2.0]), 2, 0.2).tolist()]
        [0.01, 1.0, 0.99]
    """
    exact = scores.double()
    with torch.no_grad():
        low, high = exact.min() - 40 * temperature, exact.max() + 40 * temperature
        for _ in range(80):
            middle = (low + high) / 2
            too_many = ((exact - middle) / temperature).sigmoid().sum() > k
            low, high = (middle, high) if too_many else (low, middle)
    opened = ((exact - middle) / temperature).sigmoid()
    slope = (opened * (1 - opened)).sum().detach().clamp(min=1e-30) / temperature
    total = opened.sum()
    # The value is the threshold found; its gradient keeps the sum at k.
    threshold = middle + (total - total.detach()) / slope
    return ((exact - threshold) / temperature).sigmoid().to(scores.dtype)


def _nll(model: Transformer, units: Sequence[Unit], opened: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the loss under a gate for each example and unit."""
    unit_of = {head: at for at, unit in enumerate(units) for head in unit}
    here = opened.to(device=inputs.device, dtype=next(model.parameters()).dtype)
    by_layer = [
        here[:, [unit_of[layer, head] for head in range(n)]] for layer, n in enumerate(model.model.layout.n_heads)
    ]
    logits = model(inputs, gates=by_layer)[0].flatten(0, 1).float()
    return torch.nn.functional.cross_entropy(logits, targets.flatten(), ignore_index=-1)


def _trained_order(
    learned: Tensor, loss: Callable[[int, Tensor, Tensor], Tensor], model: Transformer, text: PruningText
) -> list[int]:
    """Order units by numbers that Adam trains over the batches in turn; the model's weights get no gradient."""
    check_gradients(model)
    with uncompiled():
        optimizer, batches = torch.optim.Adam([learned], lr=RATE), text.batches()
    for step in range(STEPS):
        with torch.enable_grad():
            value = loss(step, *batches[step % len(batches)])
        (learned.grad,) = torch.autograd.grad(value, learned)
        with uncompiled():
            optimizer.step()
    return learned.detach().argsort().tolist()


def _uniform(text: PruningText, purpose: str) -> Callable[..., Tensor]:
    """Return a function that draws uniform numbers of a shape, away from 0 and 1."""
    draw = torch.Generator().manual_seed(int(rng.generator(text.seed, purpose).integers(2**62)))
    return lambda *shape: torch.rand(*shape, generator=draw).clamp(1e-6, 1 - 1e-6)


METHODS: Mapping[str, Order] = {
    "taylor": taylor,
    "ablation": ablation,
    "gates": gates,
    "budget": budget,
    "alike": alike,
    "alike-either": alike_either,
    "output": output,
    "magnitude": magnitude,
    "random": at_random,
}
