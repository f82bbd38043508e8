"""Heads: which heads go first, learned: gates on heads are trained while the model stays as it is.

`gates`: hard concrete gates with an L0 penalty. Paper: Voita et al. 2019, arXiv 1905.09418, who tune the penalty's
weight and train the model along; here the weight follows from the number of heads that are to stay (it rises while more
are open), and the model is left alone.

`budget`: a number of heads is open in every pass, chosen by a relaxed top-k with Gumbel noise that hardens as it cools;
so there is no weight at all. Paper: Li, Cotterell and Sachan 2021, arXiv 2108.04657, where that number is the same
throughout; here it falls from all heads, since two that need one another are hardly ever drawn together from few. With
hard choices, whose gradients are the relaxed ones, it found none of 8 planted circuits, and relaxed all 8.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from headway import streams
from headway.declare.tokens.head_units import Unit
from headway.heads.causes.attribution import check_gradients
from headway.heads.causes.importance import PruningText
from headway.heads.causes.losses import check_text
from headway.model.transformer import Transformer
from headway.uncompiled import uncompiled

STEPS, RATE = 200, 0.1
"""Of Adam, on one number for each unit."""
TEMPERATURE, STRETCH, LOW = 0.33, 1.2, 0.1
"""Of the hard concrete distribution: gates are clip(1.2 s - .1, 0, 1)."""
_OPEN = 2.0
"""Where the logarithms of the odds begin: nearly open."""
_WEIGHT = 0.3
"""By how much the penalty's weight rises in a step, times the share of heads that is open too much."""
_FALLING = 0.6
"""Share of the steps in which the number of open units falls to what is to stay."""
_WARM, _COLD = 1.0, 0.1
"""Temperatures of the relaxed choice, first and last."""


def gates(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """By the odds that a gate with an L0 penalty is open."""
    sizes = torch.tensor([float(len(unit)) for unit in units])
    odds, weight = torch.full((len(units),), _OPEN, requires_grad=True), 0.0
    draw = torch.Generator().manual_seed(_seed(text, "uniform numbers of gates"))

    def loss(step: int, inputs: Tensor, targets: Tensor) -> Tensor:
        nonlocal weight
        del step
        uniform = torch.rand(len(inputs), len(units), generator=draw).clamp(1e-6, 1 - 1e-6)
        opened = hard_concrete(odds, uniform)
        excess = ((open_chance(odds) * sizes).sum() - text.keep) / sizes.sum()
        weight = max(0.0, weight + _WEIGHT * float(excess.detach()))
        return _nll(model, units, opened, inputs, targets) + weight * excess

    _train([odds], loss, model, text)
    return [int(unit) for unit in odds.detach().argsort()]


def budget(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """By the scores of a relaxed top-k, which opens fewer and fewer units, until as many as are to stay."""
    total = sum(map(len, units))
    k = min(len(units) - 1, max(1, round(text.keep * len(units) / total)))
    scores = torch.zeros(len(units), requires_grad=True)
    draw = torch.Generator().manual_seed(_seed(text, "noise of the choice"))

    def loss(step: int, inputs: Tensor, targets: Tensor) -> Tensor:
        temperature = _WARM * (_COLD / _WARM) ** (step / (STEPS - 1))
        uniform = torch.rand(len(units), generator=draw).clamp(1e-6, 1 - 1e-6)
        n_open = round(len(units) + (k - len(units)) * min(1.0, (step + 1) / (_FALLING * STEPS)))
        chosen = top_k(scores - (-uniform.log()).log(), min(n_open, len(units) - 1), temperature)
        return _nll(model, units, chosen.expand(len(inputs), -1), inputs, targets)

    _train([scores], loss, model, text)
    return [int(unit) for unit in scores.detach().argsort()]


def hard_concrete(odds: Tensor, uniform: Tensor) -> Tensor:
    """A draw of gates: s = sigmoid((log u - log(1 - u) + log a) / .33), then clip(1.2 s - .1, 0, 1)."""
    s = torch.sigmoid((uniform.log() - (1 - uniform).log() + odds) / TEMPERATURE)
    return (STRETCH * s - LOW).clamp(0, 1)


def open_chance(odds: Tensor) -> Tensor:
    """The probability that a gate is above 0: sigmoid(log a - .33 log(.1 / 1.1)).

    Examples:
        >>> round(float(open_chance(torch.tensor(0.0))), 3)
        0.688
    """
    return torch.sigmoid(odds - TEMPERATURE * math.log(LOW / (STRETCH - LOW)))


def top_k(scores: Tensor, k: int, temperature: float) -> Tensor:
    """Gates that sum to k and, the colder it is, are the nearer to 1 for the k highest scores and 0 for the others.

    Each is the sigmoid of how far its score lies above a threshold, which is where they sum to k; gradients go through
    the threshold too (the implicit function theorem).

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
    # Its value is the one found; its gradient is the one by which the sum stays.
    threshold = middle + (total - total.detach()) / slope
    return ((exact - threshold) / temperature).sigmoid().to(scores.dtype)


def _nll(model: Transformer, units: Sequence[Unit], opened: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
    """The loss under a gate for each example and unit."""
    unit_of = {head: at for at, unit in enumerate(units) for head in unit}
    here = opened.to(device=inputs.device, dtype=next(model.parameters()).dtype)
    by_layer = [
        here[:, [unit_of[layer, head] for head in range(n)]] for layer, n in enumerate(model.model.layout.n_heads)
    ]
    logits = model(inputs, gates=by_layer)[0].flatten(0, 1).float()
    return torch.nn.functional.cross_entropy(logits, targets.flatten(), ignore_index=-1)


def _train(
    learned: list[Tensor],
    loss: Callable[[int, Tensor, Tensor], Tensor],
    model: Transformer,
    text: PruningText,
) -> None:
    """Adam on what is learned, over the batches of the text in turn; the model's weights get no gradient."""
    check_text(model, text.inputs, text.targets)
    check_gradients(model)
    with uncompiled():
        optimizer, batches = torch.optim.Adam(learned, lr=RATE), text.batches()
    for step in range(STEPS):
        with torch.enable_grad():
            value = loss(step, *batches[step % len(batches)])
        for each, gradient in zip(learned, torch.autograd.grad(value, learned), strict=True):
            each.grad = gradient
        with uncompiled():
            optimizer.step()


def _seed(text: PruningText, purpose: str) -> int:
    return int(streams.generator(text.seed, purpose).integers(2**62))
