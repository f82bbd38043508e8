"""Heads: how much of a model's loss some of its heads explain by themselves, beside random heads of the same number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from headway import streams
from headway.errors import UserError
from headway.heads.causes.effect_findings import MATTERS, nats
from headway.heads.causes.kinds import Head, Kind, named
from headway.heads.causes.losses import check_text, counted
from headway.heads.causes.substitutes import Substitutes, heads_of, layout_of
from headway.heads.causes.without import Removal, losses_without
from headway.heads.scores_json import five_digits
from headway.model.intervenable import Intervenable


@dataclass(frozen=True, kw_only=True)
class Faithfulness:
    """The loss when everything outside some heads is taken away, nats per token.

    Attributes:
        heads: that stay.
        kind: how the others are taken away.
        whole: with all heads.
        none: without any.
        circuit: with these.
        random: with as many others, drawn at random, each.
    """

    heads: tuple[Head, ...]
    kind: Kind
    whole: float
    none: float
    circuit: float
    random: Float[np.ndarray, " draws"]

    @property
    def share(self) -> float:
        """Of what all heads are good for, how much these are: 1 all of it, 0 none; NaN where it is under .01 nats."""
        return self._share(self.circuit)

    @property
    def random_shares(self) -> Float[np.ndarray, " draws"]:
        """The same of each random circuit."""
        return np.array([self._share(loss) for loss in self.random])

    @property
    def chance(self) -> float:
        """The share of random circuits that are as faithful, counted with this one, so that it is never 0."""
        return float((1 + (self.random <= self.circuit).sum()) / (1 + len(self.random)))

    def _share(self, loss: float) -> float:
        useful = self.none - self.whole
        return (self.none - loss) / useful if useful > MATTERS else float("nan")

    @property
    def sentence(self) -> str:
        """In words."""
        shares, keep = self.random_shares, "keep" if len(self.heads) > 1 else "keeps"
        if not np.isfinite(self.share):
            return (
                f"all heads together are good for less than {nats(MATTERS)} nats per token ({self.kind} for them), so "
                "there is nothing of which some could keep a share"
            )
        return (
            f"{', '.join(map(named, self.heads))} alone {keep} {100 * self.share:.0f} % of what all heads are good for "
            f"({self.kind} for the others); {len(shares)} random circuits of as many heads keep "
            f"{100 * shares.min():.0f} to {100 * shares.max():.0f} %, "
            f"{100 * float(np.median(shares)):.0f} % in the middle"
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "schema": 1,
            "heads": [named(head) for head in self.heads],
            "kind": self.kind,
            "loss_nats": {
                "whole": five_digits(self.whole),
                "none": five_digits(self.none),
                "circuit": five_digits(self.circuit),
            },
            "share": five_digits(self.share),
            "random_shares": five_digits(self.random_shares),
            "chance": five_digits(self.chance),
            "sentence": self.sentence,
        }


def faithfulness(
    model: Intervenable,
    inputs: Int[Tensor, "batch pos"],
    targets: Int[Tensor, "batch pos"],
    stand_ins: Substitutes,
    heads: Sequence[Head],
    *,
    kind: Kind = "mean",
    draws: int = 50,
    seed: int = 0,
) -> Faithfulness:
    """What the loss is with some heads alone.

    Args:
        model: the model.
        inputs: the text.
        targets: the tokens after each position; -1 where none is counted.
        stand_ins: what stands in for the other heads.
        heads: those that stay.
        kind: which of the stand-ins is taken.
        draws: random circuits of the same number of heads.
        seed: of these.

    Raises:
        UserError: as `check_text`; for no heads, all of them, or heads that are not there or stand twice.
    """
    check_text(model, inputs, targets)
    every, stays = heads_of(model), list(heads)
    wrong = [head for head in stays if head not in every]
    if wrong or len(set(stays)) < len(stays) or not 0 < len(stays) < len(every):
        said = named(wrong[0]) + " is none of them" if wrong else f"{len(stays)} were given"
        raise UserError(
            f"heads of a circuit: {said}; give some of the heads of the model ({layout_of(model)}), each once"
        )
    draw = streams.generator(seed, "random circuits")
    chosen = [[every[i] for i in draw.permutation(len(every))[: len(stays)]] for _ in range(draws)]
    removals = [
        Removal(tuple(head for head in every if head not in kept), stand_ins.of[kind]) for kept in ([], stays, *chosen)
    ]
    losses = losses_without(model, inputs, targets, removals)
    counts = counted(targets).double()
    none, circuit, *random = (float((loss * counts).sum() / counts.sum()) for loss in losses.without)
    return Faithfulness(
        heads=tuple(stays),
        kind=kind,
        whole=float((losses.whole * counts).sum() / counts.sum()),
        none=none,
        circuit=circuit,
        random=np.array(random),
    )
