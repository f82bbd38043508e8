"""Faithfulness of a circuit: the loss with only its heads, next to other circuits of the same number of heads."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb

from headway.base import rng
from headway.causal.ablation_result import CircuitLosses, Faithfulness
from headway.causal.effects import KINDS, Head, Kind, joined, named
from headway.causal.removal import losses_by_kind
from headway.causal.substitutes import Intervenable, Substitutes, Tokens, counted, heads_of
from headway.errors import UserError

DRAWS = 50
"""The default number of random circuits that a circuit is compared with."""


def faithfulness(
    model: Intervenable,
    batches: Iterable[tuple[Tokens, Tokens, Substitutes]],
    heads: Sequence[Head],
    *,
    kinds: Sequence[Kind] = KINDS,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[Kind, Faithfulness]:
    """Return the faithfulness of a circuit on a text in batches, by each kind of ablation of the other heads.

    Args:
        model: the model.
        batches: the text, the targets, and the substitutes for the other heads, batch by batch.
        heads: the heads that stay.
        kinds: the kinds of substitutes, one after the other.
        draws: the number of random circuits with as many heads; all of them if there are fewer.
        seed: the random seed of these circuits.

    """
    every = heads_of(model)
    others = random_circuits(every, heads, draws, seed)
    exhaustive = len(others) == comb(len(every), len(heads)) - 1
    outside = [tuple(head for head in every if head not in kept) for kept in [(), tuple(heads), *others]]
    parts = []
    for inputs, targets, stand_ins in batches:
        losses, by_kind = losses_by_kind(model, inputs, targets, stand_ins, outside, kinds)
        arrays = {kind: part.cpu().numpy() for kind, part in by_kind.items()}
        parts.append((losses.whole.cpu().numpy(), arrays, counted(targets).cpu().numpy()))
    whole, without, tokens = joined(parts)
    return {
        kind: Faithfulness(
            heads=tuple(heads),
            kind=kind,
            losses=CircuitLosses(whole=whole, none=of_sets[0], circuit=of_sets[1], random=of_sets[2:]),
            tokens=tokens,
            exhaustive=exhaustive,
        )
        for kind, of_sets in without.items()
    }


def check_circuit(model: Intervenable, heads: Sequence[Head], draws: int = DRAWS) -> None:
    """Raise UserError if some heads are no circuit of the model.

    Raises:
        UserError: if the heads are none, all, unknown or repeated, or no random circuit is left to compare with.
    """
    every = heads_of(model)
    wrong = [head for head in heads if head not in every]
    twice = [head for at, head in enumerate(heads) if head in heads[:at]]
    if wrong:
        said = f"{named(wrong[0])} is not a head of the model"
    elif twice:
        said = f"{named(twice[0])} is named twice"
    elif not heads:
        said = "none was given"
    elif len(heads) == len(every):
        said = f"all {len(every)} were given, so no head is left to ablate"
    else:
        if draws < 1:
            raise UserError(f"draws {draws}: a circuit is compared with random circuits; give 1 or more")
        return
    raise UserError(
        f"heads of a circuit: {said}; give some of the heads of the model ({'-'.join(map(str, model.n_heads))}), each "
        "once"
    )


def random_circuits(every: Sequence[Head], heads: Sequence[Head], draws: int, seed: int) -> list[tuple[Head, ...]]:
    """Return other circuits of as many heads, no two equal; all of them if they are few."""
    own, n = frozenset(heads), len(heads)
    if comb(len(every), n) - 1 <= draws:
        return [some for some in combinations(every, n) if frozenset(some) != own]
    draw, found = rng.generator(seed, "random circuits"), {own: tuple(heads)}
    while len(found) <= draws:
        some = tuple(every[i] for i in draw.permutation(len(every))[:n])
        found.setdefault(frozenset(some), some)
    return list(found.values())[1:]
