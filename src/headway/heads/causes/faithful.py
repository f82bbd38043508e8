"""Heads: how much of a model's loss some heads keep by themselves, and in words. Numpy alone, as `heads.scores`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from headway.heads.causes.effect_findings import MATTERS, SAID, nats
from headway.heads.causes.effects import interval, mean_over_tokens, share_interval
from headway.heads.causes.kinds import Head, Kind, named
from headway.heads.causes.patch_findings import share_within
from headway.heads.scores_json import five_digits
from headway.words import counted, listed


@dataclass(frozen=True, kw_only=True)
class Faithfulness:
    """The loss when everything outside some heads is taken away, nats per token.

    Attributes:
        heads: that stay.
        kind: how the others are taken away.
        losses: of each sequence: with all heads, without any, with these alone, and with each random circuit.
        tokens: how many of each sequence count: its weight.
        exhaustive: whether the random circuits are all others of as many heads that there are.
    """

    heads: tuple[Head, ...]
    kind: Kind
    losses: "CircuitLosses"
    tokens: Int[np.ndarray, " batch"]
    exhaustive: bool = False

    @property
    def whole(self) -> float:
        """The loss with all heads."""
        return float(mean_over_tokens(self.losses.whole, self.tokens))

    @property
    def none(self) -> float:
        """The loss without any."""
        return float(mean_over_tokens(self.losses.none, self.tokens))

    @property
    def circuit(self) -> float:
        """The loss with these alone."""
        return float(mean_over_tokens(self.losses.circuit, self.tokens))

    @property
    def random(self) -> Float[np.ndarray, " draws"]:
        """The loss with as many others alone, drawn at random, each."""
        return mean_over_tokens(self.losses.random, self.tokens)

    @property
    def circuit_interval(self) -> tuple[float, float]:
        """Student's interval over sequences of the loss with these alone, 95 %."""
        low, high = interval(self.losses.circuit, self.tokens)
        return float(low), float(high)

    @property
    def useful(self) -> bool:
        """Whether all heads are good for something: .01 nats at least, told from nothing over sequences."""
        low, _ = interval(self.losses.none - self.losses.whole, self.tokens)
        return self.none - self.whole > MATTERS and (len(self.tokens) < 2 or bool(low > 0))

    @property
    def share(self) -> float:
        """Of what all heads are good for, how much these are: 1 all of it, 0 none; NaN where that is nothing."""
        return self._share(self.circuit)

    @property
    def interval(self) -> tuple[float, float]:
        """Student's interval of the share over sequences, 95 %; NaN with one sequence, or without a share."""
        if not self.useful:
            return float("nan"), float("nan")
        none = self.losses.none
        low, high = share_interval(none - self.losses.circuit, none - self.losses.whole, self.tokens)
        return float(low), float(high)

    @property
    def random_shares(self) -> Float[np.ndarray, " draws"]:
        """The share of each random circuit."""
        return np.array([self._share(loss) for loss in self.random])

    @property
    def as_faithful(self) -> int:
        """How many of the random circuits keep as much."""
        return int((self.random <= self.circuit).sum())

    @property
    def chance(self) -> float:
        """The share of random circuits that are as faithful, counted with this one, so that it is never 0."""
        return (1 + self.as_faithful) / (1 + len(self.random))

    def _share(self, loss: float) -> float:
        return (self.none - loss) / (self.none - self.whole) if self.useful else float("nan")

    @property
    def sentence(self) -> str:
        """In words."""
        return circuit_sentence({self.kind: self})

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
                "circuit_interval": five_digits(self.circuit_interval),
                "random": five_digits(self.random),
            },
            "share": five_digits(self.share),
            "interval": five_digits(self.interval),
            "random_shares": five_digits(self.random_shares),
            "all_other_circuits": self.exhaustive,
            "chance": five_digits(self.chance),
            "sentence": self.sentence,
        }


@dataclass(frozen=True, kw_only=True)
class CircuitLosses:
    """Nats per token of each sequence: with all heads, without any, with a circuit alone, and with each random one."""

    whole: Float[np.ndarray, " batch"]
    none: Float[np.ndarray, " batch"]
    circuit: Float[np.ndarray, " batch"]
    random: Float[np.ndarray, "draws batch"]


def circuit_sentence(found: Mapping[Kind, Faithfulness]) -> str:
    """How much a circuit keeps by each way of taking the others away, beside random ones of as many heads."""
    told = {kind: each for kind, each in found.items() if each.useful}
    if not told:
        ways = listed(f"{nats(each.none - each.whole)} ({SAID[kind]})" for kind, each in found.items())
        return (
            f"all heads together are good for {ways} nats per token, which is under {nats(MATTERS)} or not told from "
            "nothing, so there is nothing of which some could keep a share"
        )
    one = next(iter(told.values()))
    kept = listed(
        f"{share_within(each.share, each.interval)} with the others {SAID[kind]}" for kind, each in told.items()
    )
    keep = "keep" if len(one.heads) > 1 else "keeps"
    said = f"{listed(map(named, one.heads))} alone {keep}, of what all heads are good for, {kept}"
    untold = [SAID[kind] for kind in found if kind not in told]
    rest = f"; {listed(untold)}, all heads together are good for nothing that is told" if untold else ""
    return f"{said}; {random_circuits_said(one)} {_random(list(told.values()))}{rest}"


def random_circuits_said(found: Faithfulness) -> str:
    """What the circuits are called that stand beside one."""
    n, of = len(found.random), f"of {counted(len(found.heads), 'head')}"
    if found.exhaustive:
        return f"the only other circuit {of}" if n == 1 else f"all {n} other circuits {of}"
    return f"{counted(n, 'random circuit')} {of}"


def _random(told: list[Faithfulness]) -> str:
    middle = listed(f"{100 * float(np.median(each.random_shares)):.0f} %".replace("-", "−") for each in told)
    if len(told[0].random) == 1:
        return f"keeps {middle}"
    as_much = listed(str(each.as_faithful) if each.as_faithful else "none" for each in told)
    as_much = "none" if not any(each.as_faithful for each in told) else as_much
    return f"keep {middle} in the middle, and {as_much} of them as much"
