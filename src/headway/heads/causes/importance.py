"""Heads: which heads go first when a model is pruned: an order of units, by a method.

Paper: `taylor`: Michel et al. 2019, arXiv 1905.10650: the mean over examples of |dL/dxi|, xi the gate of a unit; not
divided by the layer's norm, which over ragged layers depends on their number of heads. `alike` is the article's
hypothesis that alike heads are redundant. `magnitude` is the norm of what a head can write, W_V W_O, whose value does
not depend on the head's arbitrary basis, as that of its matrices does.

Of two alike heads `alike` lets that one go which adds less: it is chosen by its size as well as by its likeness. What
each is worth alone is told by `alike-either`, which draws the one that goes, and `output`, which goes by size.
"""

from collections.abc import Callable, Mapping, Sequence
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
    likeness, share = _measured(model, units, text)
    return _of_pairs(likeness, lambda pair: min(pair, key=lambda unit: share[unit]))


def alike_either(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """Of the two units of a layer whose outputs are most alike, one that the seed draws goes; and again."""
    likeness, _ = _measured(model, units, text)
    drawn = streams.generator(text.seed, "one of two alike heads pruned")
    return _of_pairs(likeness, lambda pair: pair[int(drawn.integers(2))])


def output(model: Transformer, units: Sequence[Unit], text: PruningText) -> list[int]:
    """By what the unit adds to the stream, as a share of what its layer's heads add."""
    _, share = _measured(model, units, text)
    return _ascending(np.array(share))


def _measured(
    model: Transformer, units: Sequence[Unit], text: PruningText
) -> tuple[dict[tuple[int, int], float], list[float]]:
    """The mean cosine of the outputs of each two units of a layer, and the output share of each unit."""
    stream = HeadStream([_ALIKE, _SHARE])
    with torch.no_grad():
        for inputs, _ in text.batches():
            stream.add(model.trace(inputs))
    scores = stream.scores()
    cosine = {int(name.split(".")[1]): -value for name, value in scores[_ALIKE].values.items()}
    share = {int(name.split(".")[1]): value for name, value in scores[_SHARE].values.items()}
    likeness = {
        (i, j): float(np.mean([cosine[units[i][0][0]][a, b] for _, a in units[i] for _, b in units[j]]))
        for i, j in combinations(range(len(units)), 2)
        if units[i][0][0] == units[j][0][0]
    }
    return likeness, [float(sum(share[layer][head] for layer, head in unit)) for unit in units]


def _of_pairs(likeness: Mapping[tuple[int, int], float], gone_of: Callable[[tuple[int, int]], int]) -> list[int]:
    """One of the most alike pair, again and again, until each layer has one unit left."""
    order, pairs = list[int](), dict(likeness)
    while pairs:
        gone = gone_of(max(pairs, key=lambda pair: pairs[pair]))
        order.append(gone)
        pairs = {pair: value for pair, value in pairs.items() if gone not in pair}
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
