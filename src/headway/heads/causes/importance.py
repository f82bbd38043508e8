"""Heads: which heads go first when a model is pruned: an order of units, by a method.

Paper: `taylor`: Michel et al. 2019, arXiv 1905.10650: the mean over examples of |dL/dxi|, xi the gate of a unit; not
divided by the layer's norm, which over ragged layers depends on their number of heads. `alike` is the article's
hypothesis that alike heads are redundant. `magnitude` is the norm of what a head can write, W_V W_O, whose value does
not depend on the head's arbitrary basis, as that of its matrices does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import cast

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from headway import streams
from headway.declare.tokens.head_units import Unit
from headway.errors import UserError
from headway.heads.causes.attribution import gate_gradients
from headway.heads.causes.kinds import Head
from headway.heads.causes.losses import counted
from headway.heads.causes.without import Removal, losses_without
from headway.heads.stream import HeadStream
from headway.model.attention import Attention
from headway.model.maps import Map
from headway.model.transformer import Transformer

_ALIKE, _SHARE = "output_dissimilarity", "output_share"


@dataclass(frozen=True, kw_only=True)
class PruningText:
    """What a method may read: a text, in batches of some sequences; and a seed for what it draws.

    Methods that learn are also told how many heads are to stay.
    """

    inputs: Int[Tensor, "batch pos"]
    targets: Int[Tensor, "batch pos"]
    at_once: int
    seed: int = 0
    keep: int = 1

    def batches(self) -> list[tuple[Tensor, Tensor]]:
        """Inputs and targets of each batch."""
        return list(zip(self.inputs.split(self.at_once), self.targets.split(self.at_once), strict=True))


Order = Callable[[Transformer, Sequence[Unit], PruningText], list[int]]
"""The units in the order in which they go; those that are left out cannot."""


def taylor(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """By the mean over sequences of |dL/dxi|, xi a gate on the whole unit."""
    sizes = [
        np.stack([np.abs(sum(gradients[layer][head] for layer, head in unit)) for unit in units])
        for gradients in (gate_gradients(model, *batch) for batch in text.batches())
    ]
    return _ascending(np.concatenate(sizes, axis=1).mean(1))


def ablation(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """By the exact change of the loss without the unit, which pruning makes: its contexts are set to zero."""
    some = next(model.parameters())
    zero = tuple(some.new_zeros(1, 1, 1, 1) for _ in range(model.model.n_layers))
    removals = [Removal(unit, zero) for unit in units]
    total, tokens = torch.zeros(len(units), dtype=torch.float64, device=some.device), 0
    for inputs, targets in text.batches():
        losses, counts = losses_without(model, inputs, targets, removals), counted(targets)
        total += ((losses.without - losses.whole) * counts).sum(1)
        tokens += int(counts.sum())
    return _ascending((total / tokens).cpu().numpy())


def alike(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """Of the two units of a layer whose outputs are most alike, the one that adds less goes; and again."""
    stream = HeadStream([_ALIKE, _SHARE])
    with torch.no_grad():
        for inputs, _ in text.batches():
            stream.add(model.trace(inputs))
    scores = stream.scores()
    cosine = {int(name.split(".")[1]): -value for name, value in scores[_ALIKE].values.items()}
    share = {int(name.split(".")[1]): value for name, value in scores[_SHARE].values.items()}
    adds = [float(sum(share[layer][head] for layer, head in unit)) for unit in units]
    pairs = {
        (i, j): float(np.mean([cosine[units[i][0][0]][a, b] for _, a in units[i] for _, b in units[j]]))
        for i, j in combinations(range(len(units)), 2)
        if units[i][0][0] == units[j][0][0]
    }
    order: list[int] = []
    while pairs:
        pair = max(pairs, key=lambda both: pairs[both])
        gone = min(pair, key=lambda unit: adds[unit])
        order.append(gone)
        pairs = {both: value for both, value in pairs.items() if gone not in both}
    return order


def magnitude(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """By the Frobenius norm of what the unit can write of what it looks at, W_V W_O; no text is read."""
    del text
    return _ascending(np.array([sum(_squared_norm(model, head) for head in unit) for unit in units]))


def at_random(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """In an order that the seed draws: the floor of every other method."""
    del model
    return [int(unit) for unit in streams.generator(text.seed, "heads pruned at random").permutation(len(units))]


def _squared_norm(model: Transformer, head: Head) -> float:
    """||W_V W_O||^2 of a head, as the trace of two small matrices."""
    layer, number = head
    attention = cast(Attention, model.layers[layer].attention)
    kv = [kv for kv, count in enumerate(attention.queries) for _ in range(count)][number]
    d_head = attention.d_head
    with torch.no_grad():
        W_V = cast(Map, attention.v).weight[kv * d_head : (kv + 1) * d_head].double()
        W_O = attention.o.weight[:, number * d_head : (number + 1) * d_head].double()
        return float(((W_O.T @ W_O) * (W_V @ W_V.T)).sum())


def _ascending(scores: np.ndarray) -> list[int]:
    if not np.isfinite(scores).all():
        raise UserError("importance of heads is not finite on this text; take another text or checkpoint")
    return [int(unit) for unit in np.argsort(scores, kind="stable")]
