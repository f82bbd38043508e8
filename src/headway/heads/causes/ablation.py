"""Heads: the exact effect of every head on the loss, in all three ways, and what heads do together.

Effects do not add up: a head that stands in for another matters only without it, and one that feeds another shares its
effect. So the joint effect of all heads stands beside the single ones, and pairs have an interaction.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from headway.errors import UserError
from headway.heads.causes.effects import ExactEffects, HeadEffects
from headway.heads.causes.kinds import KINDS, Head, Kind
from headway.heads.causes.losses import check_text, counted
from headway.heads.causes.substitutes import Substitutes, heads_of, layout_of
from headway.heads.causes.without import Losses, Removal, losses_without
from headway.model.intervenable import Intervenable


def ablate(
    model: Intervenable,
    inputs: Int[Tensor, "batch pos"],
    targets: Int[Tensor, "batch pos"],
    stand_ins: Substitutes,
    *,
    memory_bytes: int | None = None,
) -> ExactEffects:
    """Exact effects of every head, and of all together.

    Args:
        model: the model.
        inputs: the text.
        targets: the tokens after each position; -1 where none is counted.
        stand_ins: what stands in for heads on this text.
        memory_bytes: as in `losses_without`.

    Raises:
        UserError: as `check_text`, or when the model has no heads.
    """
    check_text(model, inputs, targets)
    heads = heads_of(model)
    if not heads:
        raise UserError("the model has no heads, so there is none to take away; give a model with heads")
    sets = [*((head,) for head in heads), tuple(heads)]
    losses = losses_without(model, inputs, targets, _removals(sets, stand_ins), memory_bytes=memory_bytes)
    changes, tokens = _changes(losses, len(sets)), counted(targets).cpu().numpy()
    ends = np.cumsum(model.n_heads)[:-1]
    return ExactEffects(
        loss=losses.whole.cpu().numpy(),
        single={
            kind: HeadEffects(per_sequence=tuple(np.split(change[:-1], ends)), tokens=tokens)
            for kind, change in changes.items()
        },
        joint={kind: change[-1] for kind, change in changes.items()},
        forward_passes=losses.forward_passes,
    )


def interactions(
    model: Intervenable,
    inputs: Int[Tensor, "batch pos"],
    targets: Int[Tensor, "batch pos"],
    stand_ins: Substitutes,
    pairs: Sequence[tuple[Head, Head]],
    *,
    memory_bytes: int | None = None,
) -> dict[Kind, Float[np.ndarray, "pair batch"]]:
    """The effect of both heads of each pair minus those of each alone, in nats per token of each sequence.

    Above 0: one makes up for the loss of the other, which is what redundant heads do. Below 0: they work together.

    Raises:
        UserError: as `check_text`, or when a pair names a head that is not there, or one twice.
    """
    check_text(model, inputs, targets)
    known = set(heads_of(model))
    for pair in pairs:
        if pair[0] == pair[1] or not known.issuperset(pair):
            named = " and ".join(f"L{layer}H{head}" for layer, head in pair)
            raise UserError(
                f"the pair {named} was given, but the model's heads are {layout_of(model)}; give two heads of it"
            )
    alone = sorted({head for pair in pairs for head in pair})
    sets = [*((head,) for head in alone), *pairs]
    losses = losses_without(model, inputs, targets, _removals(sets, stand_ins), memory_bytes=memory_bytes)
    place = {head: i for i, head in enumerate(alone)}
    first, second = ([place[pair[i]] for pair in pairs] for i in (0, 1))
    return {
        kind: change[len(alone) :] - change[first] - change[second]
        for kind, change in _changes(losses, len(sets)).items()
    }


def _removals(sets: Sequence[tuple[Head, ...]], stand_ins: Substitutes) -> list[Removal]:
    return [Removal(heads, stand_ins.of[kind]) for kind in KINDS for heads in sets]


def _changes(losses: Losses, n_sets: int) -> dict[Kind, np.ndarray]:
    """By kind, of each set and sequence."""
    changes = (losses.without - losses.whole).cpu().numpy()
    return {kind: changes[i * n_sets : (i + 1) * n_sets] for i, kind in enumerate(KINDS)}
