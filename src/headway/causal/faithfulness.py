"""Faithfulness of a circuit: the loss with only its heads, next to other circuits of the same number of heads."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb

import numpy as np
from jaxtyping import Int
from torch import Tensor

from headway.base import rng
from headway.causal.ablation_result import CircuitLosses, Faithfulness
from headway.causal.effects import KINDS, Head, Kind, named
from headway.causal.removal import Removal, losses_without
from headway.causal.substitutes import Intervenable, Substitutes, check_text, counted, heads_of, layout_of
from headway.errors import UserError

DRAWS = 50
"""The default number of random circuits that a circuit is compared with."""


def faithfulness(
    model: Intervenable,
    inputs: Int[Tensor, "batch pos"],
    targets: Int[Tensor, "batch pos"],
    stand_ins: Substitutes,
    heads: Sequence[Head],
    *,
    kind: Kind = "mean",
    draws: int = DRAWS,
    seed: int = 0,
) -> Faithfulness:
    """Return the loss with some heads alone, on a text that is read at once.

    Args:
        model: the model.
        inputs: the text.
        targets: the tokens after each position; -1 where none is counted.
        stand_ins: what stands in for the other heads.
        heads: those that stay.
        kind: which of the stand-ins is taken.
        draws: other circuits of the same number of heads: all different, and all that there are where they are few.
        seed: of these.

    Raises:
        UserError: as `check_text` and `check_circuit`.
    """
    batch = (inputs, targets, stand_ins)
    return faithfulness_in_batches(model, [batch], heads, kinds=(kind,), draws=draws, seed=seed)[kind]


def faithfulness_in_batches(
    model: Intervenable,
    batches: Iterable[tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"], Substitutes]],
    heads: Sequence[Head],
    *,
    kinds: Sequence[Kind] = KINDS,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[Kind, Faithfulness]:
    """Return the faithfulness of a circuit on a text in batches, by each kind of ablation of the other heads.

    Raises:
        UserError: as `check_text` and `check_circuit`.
    """
    check_circuit(model, heads, draws)
    others = random_circuits(heads_of(model), heads, draws, seed)
    exhaustive = len(others) == comb(len(heads_of(model)), len(heads)) - 1
    parts, tokens = [], []
    for inputs, targets, stand_ins in batches:
        check_text(model, inputs, targets)
        parts.append(_losses(model, inputs, targets, stand_ins, [(), tuple(heads), *others], kinds))
        tokens.append(counted(targets).cpu().numpy())
    whole, of_sets = (np.concatenate(some, axis=-1) for some in zip(*parts, strict=True))
    return {
        kind: Faithfulness(
            heads=tuple(heads),
            kind=kind,
            losses=CircuitLosses(whole=whole, none=losses[0], circuit=losses[1], random=losses[2:]),
            tokens=np.concatenate(tokens),
            exhaustive=exhaustive,
        )
        for kind, losses in zip(kinds, of_sets, strict=True)
    }


def check_circuit(model: Intervenable, heads: Sequence[Head], draws: int = DRAWS) -> None:
    """Raise UserError if some heads are no circuit of the model.

    Raises:
        UserError: for no heads, all of them, heads that are not there or stand twice, or nothing to hold them against.
    """
    every = heads_of(model)
    wrong = next((head for head in heads if head not in every), None)
    twice = next((head for at, head in enumerate(heads) if head in heads[:at]), None)
    if wrong is not None:
        said = f"{named(wrong)} is none of them"
    elif twice is not None:
        said = f"{named(twice)} stands twice"
    elif not heads:
        said = "none was given"
    elif len(heads) == len(every):
        said = f"all {len(every)} were given, and nothing is left to take away"
    else:
        if draws < 1:
            raise UserError(f"draws {draws}: a circuit is held against random ones; give 1 or more")
        return
    raise UserError(f"heads of a circuit: {said}; give some of the heads of the model ({layout_of(model)}), each once")


def random_circuits(every: Sequence[Head], heads: Sequence[Head], draws: int, seed: int) -> list[tuple[Head, ...]]:
    """Return other circuits of as many heads, no two equal; all of them if they are few."""
    own, n = frozenset(heads), len(heads)
    if comb(len(every), n) - 1 <= draws:
        return [some for some in combinations(every, n) if frozenset(some) != own]
    draw, found = rng.generator(seed, "random circuits"), dict[frozenset[Head], tuple[Head, ...]]()
    while len(found) < draws:
        some = tuple(every[i] for i in draw.permutation(len(every))[:n])
        if frozenset(some) != own:
            found.setdefault(frozenset(some), some)
    return list(found.values())


def _losses(
    model: Intervenable,
    inputs: Tensor,
    targets: Tensor,
    stand_ins: Substitutes,
    circuits: Sequence[tuple[Head, ...]],
    kinds: Sequence[Kind],
) -> tuple[np.ndarray, np.ndarray]:
    """Return losses per sequence: of the whole model, and (kind, circuit, sequence) of each circuit alone."""
    every = heads_of(model)
    outside = [tuple(head for head in every if head not in kept) for kept in circuits]
    removals = [Removal(heads, stand_ins.of[kind]) for kind in kinds for heads in outside]
    losses = losses_without(model, inputs, targets, removals)
    of_kinds = losses.without.unflatten(0, (len(kinds), len(circuits)))
    return losses.whole.cpu().numpy(), of_kinds.cpu().numpy()
