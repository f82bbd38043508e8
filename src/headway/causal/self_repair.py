"""Self-repair: heads that stand in for one another, so that single removals hide what they do.

Redundant heads have small single effects: while one is there, the other is not missed. So heads are also removed
together. Three measurements show redundancy:

* the joint effect of the heads that single removals name, beside the sum of their single effects;
* the joint effect of all other heads, and how much of it comes back when one of them is left in;
* pairs of heads: of few heads all pairs, of many those of heads that a search on the first sequences suspects.

Numpy alone. Paper: McGrath et al. 2023, arXiv 2307.15771 (self-repair).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from headway.base.words import HeadStatement, statement
from headway.causal.ablation_result import MATTERS, Ablation, PairEffects
from headway.causal.effects import (
    KINDS,
    TOLD,
    ExactEffects,
    Head,
    Kind,
    PerSequence,
    beyond,
    floats,
    interval,
    mean_over_tokens,
    named,
)
from headway.heads.findings import Finding
from headway.heads.scores import five_digits

_SHOWN = 3
"""The most pairs that a finding names."""
_ALIKE = 0.9
"""The cosine from which on two heads are said to write nearly the same."""


def sum_of_singles(exact: ExactEffects, heads: Iterable[Head], kind: Kind) -> PerSequence:
    """Return the sum of the single effects of some heads on each sequence."""
    single = exact.single[kind].per_sequence
    return np.sum([single[layer][number] for layer, number in heads], axis=0)


def heads_beyond(exact: ExactEffects, *signs: int) -> tuple[Head, ...]:
    """Return heads whose removal raises (1) or lowers (-1) the loss, as sentences name them, the strongest first.

    A head that raises the loss in one way of ablation and lowers it in another is there once.
    """
    found = dict[Head, float]()
    for effects in exact.single.values():
        for head, effect, _ in beyond(effects, MATTERS):
            if np.sign(effect) in signs:
                found[head] = max(found.get(head, 0.0), abs(effect))
    return tuple(sorted(found, key=lambda head: -found[head]))


@dataclass(frozen=True, kw_only=True)
class GroupEffect:
    """The effect of removing some heads together, on each sequence.

    Attributes:
        heads: the heads of the group.
        joint: the change of the loss without all of them.
        left_in: the change of the loss without all but one of them, by this one.
    """

    heads: tuple[Head, ...]
    joint: Mapping[Kind, PerSequence]
    left_in: Mapping[Head, Mapping[Kind, PerSequence]]


@dataclass(frozen=True, kw_only=True)
class SelfRepair:
    """Effects of removing several heads together.

    Attributes:
        exact: the single effects.
        pairs: the interactions of the pairs that were measured.
        named: the heads that single removals name; None if there are fewer than two.
        others: the heads whose single removal is not found to raise the loss; None if there are fewer than two.
    """

    exact: ExactEffects
    pairs: PairEffects
    named: GroupEffect | None
    others: GroupEffect | None

    def findings(self) -> Iterator[Finding]:
        """Yield a finding if heads do another thing together than one by one, by the kind that sentences are about."""
        statements = [*self._pairs()]
        for group in filter(None, (self.named, self.others)):
            statements += self.group_statements(group)
        if statements:
            yield Finding(about="self_repair", statements=tuple(statements))

    def _pairs(self) -> Iterator[HeadStatement]:
        redundant = self.redundant(TOLD)
        both, ends = self._both.mean(TOLD), np.transpose(self._both.corrected_interval(TOLD))
        for at in redundant[:_SHOWN]:
            heads = self.pairs.heads[at]
            first, second = (self._mean(sum_of_singles(self.exact, [head], TOLD)) for head in heads)
            yield statement(
                "stand_in",
                kind=TOLD,
                heads=tuple(map(named, heads)),
                both=float(both[at]),
                interval=floats(ends[at]),
                first=first,
                second=second,
            )
            if self.pairs.cosine[at] > _ALIKE:
                yield statement("write_alike", cosine=float(self.pairs.cosine[at]))
        if len(redundant) > _SHOWN:
            yield statement("more_stand_ins", n=len(redundant) - _SHOWN)

    def redundant(self, kind: Kind) -> list[int]:
        """Return the pairs most of whose joint effect shows only without both heads, the strongest first."""
        (low, _), extra = self.pairs.corrected_interval(kind), self.pairs.mean(kind)
        both = self._both.mean(kind)
        return [int(at) for at in np.argsort(-extra) if low[at] > MATTERS and 2 * extra[at] > both[at] > 0]

    def group_statements(self, group: GroupEffect) -> Iterator[HeadStatement]:
        """Yield what a group does together, if that differs from the sum of single effects."""
        joint, singles = group.joint[TOLD], sum_of_singles(self.exact, group.heads, TOLD)
        low, high = self._ends(joint - singles)
        if low <= MATTERS and high >= -MATTERS:
            return
        yield statement(
            "together",
            kind=TOLD,
            heads=tuple(map(named, group.heads)),
            change=self._mean(joint),
            interval=self._ends(joint),
            single=self._mean(singles),
        )
        if group is self.others:
            yield statement("not_alone")
        for head, left in group.left_in.items():
            back = joint - left[TOLD]
            ends = self._ends(back, 1 - 0.05 / len(group.heads))
            if ends[0] > MATTERS:
                yield statement("left_in", heads=(named(head),), less=self._mean(back), interval=ends)

    def _mean(self, per_sequence: np.ndarray) -> float:
        return float(mean_over_tokens(per_sequence, self.exact.tokens))

    def _ends(self, per_sequence: np.ndarray, confidence: float = 0.975) -> tuple[float, float]:
        """Return both ends of an interval; by default of one that holds for both groups of heads at once."""
        return floats(interval(per_sequence, self.exact.tokens, confidence))

    @cached_property
    def _both(self) -> PairEffects:
        """The effects of removing both heads of each pair."""
        both = {}
        for kind in KINDS:
            alone = [sum_of_singles(self.exact, pair, kind) for pair in self.pairs.heads]
            both[kind] = self.pairs.per_sequence[kind] + np.array(alone)
        return replace(self.pairs, per_sequence=both)

    def group_json(self, group: GroupEffect | None) -> dict[str, Any] | None:
        """Return the effects of a group as plain values, in nats per token."""
        if group is None:
            return None

        def effect(values: np.ndarray) -> dict[str, Any]:
            return five_digits({"effect_nats": self._mean(values), "interval": interval(values, self.exact.tokens)})

        told: dict[str, Any] = {"heads": list(map(named, group.heads))}
        for kind in KINDS:
            singles = sum_of_singles(self.exact, group.heads, kind)
            told[kind] = {"joint": effect(group.joint[kind]), "single_effects": effect(singles)}
        left_in = {named(head): {kind: effect(of[kind]) for kind in KINDS} for head, of in group.left_in.items()}
        return {**told, "all_but_one": left_in}


@dataclass(frozen=True, kw_only=True)
class AblationTogether(Ablation):
    """An ablation of single heads, and of several heads together.

    Attributes:
        repair: effects of removing several heads together; None of a single head.
    """

    repair: SelfRepair | None = None

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about single heads, and about heads that do more together than one by one."""
        found = (*super().findings, *(() if self.repair is None else self.repair.findings()))
        return tuple(sorted(found, key=lambda finding: finding.about == "circuit"))  # last

    @property
    def not_found(self) -> tuple[Finding, ...]:
        """The search for redundant heads, if no pair is redundant."""
        repair = self.repair
        if repair is None or repair.redundant(TOLD):
            return ()
        return (Finding(about="self_repair", statements=(statement("no_stand_ins", n=len(repair.pairs.heads)),)),)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values, as `Ablation.to_json`; `self_repair` has the joint effects."""
        repair, found = self.repair, None
        if repair is not None:
            found = {
                "named": repair.group_json(repair.named),
                "others": repair.group_json(repair.others),
                "pairs": self._pairs(repair.pairs),
                "redundant": {
                    kind: [list(map(named, repair.pairs.heads[at])) for at in repair.redundant(kind)] for kind in KINDS
                },
            }
        return {**super().to_json(), "self_repair": found}
