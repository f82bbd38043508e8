"""Results of an ablation of a finished model: the heads that matter, and the faithfulness of circuits, in sentences.

A head is named if its effect is above 0.01 nats per token, to either side, by an interval that holds for all heads of
the model at once. Nothing is said of all other heads: an effect that few texts feel may be missed. Faithfulness is the
share of the loss that a circuit recovers alone. Numpy alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from headway.base.text import counted, decimal, listed, some_names
from headway.causal.effects import (
    FELT,
    KINDS,
    LEAST,
    ExactEffects,
    Head,
    HeadEffects,
    Kind,
    MeanOver,
    beyond,
    felt,
    interval,
    mean_over_tokens,
    named,
    rank_correlation,
    share_interval,
)
from headway.causal.patch_result import share_within
from headway.heads.findings import NAMED, Finding
from headway.heads.results import ModelOnText
from headway.heads.scores import HeadScores, five_digits, score_json

MATTERS = 0.01
"""Nats per token from which on an effect is named."""
SAID: Mapping[Kind, str] = {"zero": "set to zero", "mean": "at their mean", "resample": "resampled"}


def effect_findings(ablation: "Ablation") -> Iterator[Finding]:
    """Yield findings: the heads that matter by each ablation, all heads together, and pairs of heads."""
    for kind in KINDS:
        yield Finding(about=f"{kind}_ablation_nats", sentence=_heads(ablation.exact.single[kind], kind))
    yield Finding(about="joint_effect", sentence=_joint(ablation))
    if ablation.pairs is not None:
        yield from (Finding(about="interactions", sentence=_pairs(ablation, kind)) for kind in KINDS)


def nats(value: float) -> str:
    """Return nats as sentences write them: two decimals, three if small.

    Examples:
        >>> nats(0.5234), nats(-0.0312), nats(0.00042), nats(1.5), nats(-0.0001)
        ('0.52', '−0.031', '0.000', '1.50', '0.000')
    """
    return decimal(value, _digits(value))


def within(value: float, ends: Sequence[float]) -> str:
    """Return a number with its interval, to one count of digits.

    Examples:
        >>> within(0.5234, (0.4719, 0.5688))
        '0.52 (0.47 to 0.57)'
    """
    digits = _digits(value)
    low, high = (decimal(end, digits) for end in ends)
    return f"{decimal(value, digits)} ({low} to {high})"


def _digits(value: float) -> int:
    return 2 if abs(value) >= 0.095 else 3


def share_that_is_told(exact: ExactEffects, kind: Kind) -> float:
    """Return the share of the joint effect that single effects explain; NaN if the joint effect may be 0."""
    low, high = interval(exact.joint[kind], exact.tokens)
    return exact.share_of_joint(kind) if low > 0 or high < 0 else float("nan")


def _heads(effects: HeadEffects, kind: Kind) -> str:
    if len(effects.tokens) < LEAST:
        n_heads = sum(map(len, effects.per_sequence))
        return f"heads {SAID[kind]}: {_too_few(len(effects.tokens), n_heads, 'head')}"
    changes = [f"{named(head)} {within(effect, ends)}" for head, effect, ends in beyond(effects, MATTERS)]
    said = ["no head is found to matter"]
    if changes:
        said = [f"change of the loss without a head, in nats per token: {some_names(changes, NAMED)}"]
    ends = np.concatenate(effects.corrected_interval())
    unknown = zip(effects.heads(), np.isnan(ends).any(1), strict=True)
    rare = [head for (head, effect), is_unknown in unknown if is_unknown and abs(effect) > MATTERS]
    if rare:
        n = len(effects.tokens)
        least = min(int(felt(effects.per_sequence[layer][number])) for layer, number in rare)
        more = n * FELT // least - n
        names = listed(map(named, rare[:NAMED])) if len(rare) <= NAMED else counted(len(rare), "head")
        said.append(f"{names}: the effect shows on too few of {n} sequences for an interval; give about {more} more")
    return f"heads {SAID[kind]}: {'; '.join(said)}"


def _too_few(n: int, claims: int, what: str) -> str:
    """Return why nothing is claimed of few sequences."""
    return (
        f"{counted(n, 'sequence')} are too few for {counted(claims, 'test')} at once, so no {what} is named; give a "
        f"text of {LEAST} documents or more"
    )


def per_token(value: float, ends: Sequence[float]) -> str:
    """Return a change of the loss with its unit and its interval."""
    number, _, span = within(value, ends).partition(" ")
    return f"{number} nats per token {span}"


def _joint(ablation: "Ablation") -> str:
    exact = ablation.exact
    totals = {kind: exact.joint_mean(kind) for kind in KINDS}
    changes = listed(f"{nats(total)} ({kind})" for kind, total in totals.items())
    said = f"without any head the loss changes by {changes} nats per token"
    shares = {kind: share_that_is_told(exact, kind) for kind in KINDS}
    told = [kind for kind in KINDS if np.isfinite(shares[kind])]
    if not told:
        return said
    ways = f" ({', '.join(told)})" if len(told) < len(KINDS) else ""
    percents = listed(f"{100 * shares[kind]:.0f} %".replace("-", "−") for kind in told) + ways
    return f"{said}; the effects of single heads sum to {percents} of that (100 %: effects add up)"


def ways_told(ablation: "Ablation") -> list[Kind]:
    """Return the kinds of ablation with some effect distinct from 0; in others only noise has ranks."""
    return [kind for kind in KINDS if beyond(ablation.exact.single[kind])]


def _pairs(ablation: "Ablation", kind: Kind) -> str:
    pairs = ablation.pairs
    assert pairs is not None
    if len(pairs.tokens) < LEAST:
        return f"pairs {SAID[kind]}: {_too_few(len(pairs.tokens), len(pairs.heads), 'pair')}"
    means, (low, high) = pairs.mean(kind), pairs.corrected_interval(kind)
    told = [i for i in np.argsort(-np.abs(means)) if low[i] > MATTERS or high[i] < -MATTERS]
    if not told:
        return f"pairs {SAID[kind]}: no pair is found to interact by more than {nats(MATTERS)} nats per token"
    both = [" and ".join(map(named, pairs.heads[i])) for i in told]
    said = [f"{name} {within(float(means[i]), (low[i], high[i]))}" for name, i in zip(both, told, strict=True)]
    return (
        f"pairs {SAID[kind]}, both together minus each alone, in nats per token: {some_names(said, NAMED)}; above 0, "
        "the heads are redundant; below 0, they work together"
    )


@dataclass(frozen=True, kw_only=True)
class Faithfulness:
    """The loss when every head outside a circuit is ablated, in nats per token.

    Attributes:
        heads: the heads that stay.
        kind: the kind of ablation of the other heads.
        losses: the losses of each sequence: with all heads, without any, with these alone, and with each random
            circuit.
        tokens: the number of tokens of each sequence that count: its weight.
        exhaustive: True if the random circuits are all other circuits of the same number of heads.
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
        """The loss without any head."""
        return float(mean_over_tokens(self.losses.none, self.tokens))

    @property
    def circuit(self) -> float:
        """The loss with the circuit alone."""
        return float(mean_over_tokens(self.losses.circuit, self.tokens))

    @property
    def random(self) -> Float[np.ndarray, " draws"]:
        """The losses of random circuits of the same size."""
        return mean_over_tokens(self.losses.random, self.tokens)

    @property
    def circuit_interval(self) -> tuple[float, float]:
        """The interval over sequences of the loss with the circuit alone, 95 %."""
        low, high = interval(self.losses.circuit, self.tokens)
        return float(low), float(high)

    @property
    def useful(self) -> bool:
        """True if all heads together are worth 0.01 nats or more, and clearly more than nothing over sequences."""
        low, _ = interval(self.losses.none - self.losses.whole, self.tokens)
        return self.none - self.whole > MATTERS and (len(self.tokens) < 2 or bool(low > 0))

    @property
    def share(self) -> float:
        """The share of the worth of all heads that the circuit keeps, from 0 to 1; NaN if heads are worth nothing."""
        return self._share(self.circuit)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the share over sequences, 95 %; NaN with one sequence, or without a share."""
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
        """The number of random circuits that keep as much."""
        return int((self.random <= self.circuit).sum())

    @property
    def chance(self) -> float:
        """The share of random circuits that are as faithful, counted with this one, so that it is never 0."""
        return (1 + self.as_faithful) / (1 + len(self.random))

    def _share(self, loss: float) -> float:
        return (self.none - loss) / (self.none - self.whole) if self.useful else float("nan")

    @property
    def sentence(self) -> str:
        """A sentence about the circuit."""
        return circuit_sentence({self.kind: self})

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
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


def circuit_sentence(by_kind: Mapping[Kind, Faithfulness]) -> str:
    """Return a sentence with the faithfulness of a circuit by each ablation, beside random ones of its size."""
    told = {kind: each for kind, each in by_kind.items() if each.useful}
    if not told:
        ways = listed(f"{nats(each.none - each.whole)} ({SAID[kind]})" for kind, each in by_kind.items())
        return (
            f"all heads together change the loss by {ways} nats per token, which is under {nats(MATTERS)} or not "
            "clearly different from 0, so no circuit can keep a share"
        )
    one = next(iter(told.values()))
    kept = listed(
        f"{share_within(each.share, each.interval)} with the others {SAID[kind]}" for kind, each in told.items()
    )
    keep = "keep" if len(one.heads) > 1 else "keeps"
    said = f"{listed(map(named, one.heads))} alone {keep} this share of the effect of all heads: {kept}"
    untold = [SAID[kind] for kind in by_kind if kind not in told]
    rest = f"; {listed(untold)}, all heads together have no clear effect" if untold else ""
    return f"{said}; {random_circuits_said(one)} {_random(list(told.values()))}{rest}"


def random_circuits_said(circuit: Faithfulness) -> str:
    """Return the name of the circuits that are compared with a circuit."""
    n, of = len(circuit.random), f"of {counted(len(circuit.heads), 'head')}"
    if circuit.exhaustive:
        return f"the only other circuit {of}" if n == 1 else f"all {n} other circuits {of}"
    return f"{counted(n, 'random circuit')} {of}"


def _random(told: list[Faithfulness]) -> str:
    middle = listed(f"{100 * float(np.median(each.random_shares)):.0f} %".replace("-", "−") for each in told)
    if len(told[0].random) == 1:
        return f"keeps {middle}"
    as_much = listed(str(each.as_faithful) if each.as_faithful else "none" for each in told)
    as_much = "none" if not any(each.as_faithful for each in told) else as_much
    return f"keep {middle} (median), and {as_much} of them as much"


SCHEMA = 1
Ends = tuple[Float[np.ndarray, " pair"], Float[np.ndarray, " pair"]]


@dataclass(frozen=True, kw_only=True)
class PairEffects:
    """The interactions of pairs of heads: the effect of removing both minus the effects of each alone."""

    heads: tuple[tuple[Head, Head], ...]
    why: tuple[str, ...]
    """The reason why each pair was measured: alike, or important."""
    cosine: tuple[float, ...]
    """The cosine of what the two write, the mean over positions; NaN for heads of different layers."""
    per_sequence: Mapping[Kind, Float[np.ndarray, "pair batch"]]
    """In nats per token; above 0: one makes up for the loss of the other."""
    tokens: Int[np.ndarray, " batch"]

    def mean(self, kind: Kind) -> Float[np.ndarray, " pair"]:
        """Return the interaction of each pair over all tokens."""
        return mean_over_tokens(self.per_sequence[kind], self.tokens)

    def interval(self, kind: Kind, confidence: float = 0.95) -> Ends:
        """Return both ends of each pair's own interval over sequences, as `HeadEffects.interval` computes them."""
        return interval(self.per_sequence[kind], self.tokens, confidence)

    def corrected_interval(self, kind: Kind) -> Ends:
        """Return both ends of intervals that hold for all pairs at once; NaN below eight sequences."""
        confidence = 0.95 if len(self.tokens) >= LEAST else np.nan
        return interval(self.per_sequence[kind], self.tokens, confidence, at_once=True)


@dataclass(frozen=True, kw_only=True)
class Ablation(ModelOnText):
    """The effect of every head of a finished model on the loss of a text: exact, and estimated.

    Attributes:
        other: a description of the other text, whose contexts stand in for heads.
        mean_over: the axes of the other text's mean: positions (and sequences), or sequences per position.
        exact: effects of single heads and of all, in each way of taking them away.
        michel: Michel's importance, of each layer.
        first_order: attribution, the gradient times the difference, by way.
        integrated: integrated gradients, from all heads to none, by way.
        pairs: the joint effects of pairs of heads; None if they were not asked for.
        circuit: the faithfulness of a circuit, by way of ablating the other heads; None if it was not asked for.
    """

    other: str
    mean_over: MeanOver
    exact: ExactEffects
    michel: tuple[Float[np.ndarray, " _head"], ...]
    first_order: Mapping[Kind, HeadEffects]
    integrated: Mapping[Kind, HeadEffects]
    pairs: PairEffects | None = None
    circuit: Mapping[Kind, Faithfulness] | None = None

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Findings: the heads that matter, all heads together, pairs of heads, and the circuit."""
        of_circuit = (
            () if self.circuit is None else (Finding(about="circuit", sentence=circuit_sentence(self.circuit)),)
        )
        return (*effect_findings(self), *of_circuit)

    @property
    def loss_nats(self) -> float:
        """The loss of the whole model per token."""
        return float(mean_over_tokens(self.exact.loss, self.exact.tokens))

    @cached_property
    def agreement(self) -> dict[Kind, dict[str, float]]:
        """The rank correlation of each estimate with the exact effects, by kind of ablation; NaN for a single head."""
        michel = np.concatenate([*self.michel, np.zeros(0)])
        return {
            kind: {
                name: rank_correlation(estimate, self.exact.single[kind].flat())
                for name, estimate in {
                    "michel": michel,
                    "first-order": self.first_order[kind].flat(),
                    "integrated": self.integrated[kind].flat(),
                }.items()
            }
            for kind in KINDS
        }

    @cached_property
    def agreement_of_sizes(self) -> dict[Kind, float]:
        """The rank correlation of Michel's importance, which has no sign, with the sizes of the exact effects."""
        michel = np.concatenate([*self.michel, np.zeros(0)])
        return {kind: rank_correlation(michel, np.abs(self.exact.single[kind].flat())) for kind in KINDS}

    @cached_property
    def agreement_of_kinds(self) -> dict[tuple[Kind, Kind], float]:
        """The rank correlation of the exact effects of two kinds of ablation; NaN for a single head."""
        single = self.exact.single
        return {
            (one, other): rank_correlation(single[one].flat(), single[other].flat())
            for one, other in combinations(KINDS, 2)
        }

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values, numbers to five digits; non-finite numbers are null.

        For heads and pairs, `interval` is the 95 % interval of each alone. `corrected_interval` is simultaneous for all
        heads, or for all pairs: sentences say that a head matters by these intervals. Rank correlations are given even
        for noise. `heads_told_from_0` counts the heads whose corrected interval excludes 0; if it is 0, there was
        nothing to rank.
        """
        exact = self.exact
        low, high = interval(exact.loss, exact.tokens)
        return {
            "schema": SCHEMA,
            **super().to_json(),
            "other": {"from": self.other, "mean": self.mean_over},
            "loss_nats": {"value": five_digits(self.loss_nats), "interval": five_digits([low, high])},
            "heads": self._heads(),
            "joint": {
                kind: {
                    "effect_nats": five_digits(exact.joint_mean(kind)),
                    "interval": five_digits(interval(exact.joint[kind], exact.tokens)),
                    "share_of_single_effects": five_digits(exact.share_of_joint(kind)),
                }
                for kind in KINDS
            },
            "rank_correlation_with_exact": {
                kind: {name: five_digits(value) for name, value in found.items()}
                for kind, found in self.agreement.items()
            },
            "rank_correlation_with_absolute_exact": {
                kind: {"michel": five_digits(value)} for kind, value in self.agreement_of_sizes.items()
            },
            "heads_told_from_0": {kind: len(beyond(exact.single[kind])) for kind in KINDS},
            "rank_correlation_of_ways": {
                f"{one} and {other}": five_digits(value) for (one, other), value in self.agreement_of_kinds.items()
            },
            "pairs": None if self.pairs is None else self._pairs(self.pairs),
            "circuit": None if self.circuit is None else {kind: each.to_json() for kind, each in self.circuit.items()},
            "metrics": {metric: score_json(score) for metric, score in self.scores.items()},
            "forward_passes": five_digits(exact.forward_passes),
            "findings": [vars(finding) for finding in self.findings],
            "notes": list(self.notes),
        }

    def _heads(self) -> list[dict[str, Any]]:
        """Return an entry for each head, those whose removal raises the loss most first."""
        ends = {kind: effects.interval() for kind, effects in self.exact.single.items()}
        corrected = {kind: effects.corrected_interval() for kind, effects in self.exact.single.items()}
        means = {kind: effects.mean for kind, effects in self.exact.single.items()}
        return [
            {
                "head": named((layer, head)),
                "layer": layer,
                "number": head,
                **{
                    kind: {
                        "effect_nats": five_digits(means[kind][layer][head]),
                        "interval": five_digits(ends[kind][layer][head]),
                        "corrected_interval": five_digits(corrected[kind][layer][head]),
                        "first_order": five_digits(self.first_order[kind].mean[layer][head]),
                        "integrated": five_digits(self.integrated[kind].mean[layer][head]),
                    }
                    for kind in KINDS
                },
                "michel": five_digits(self.michel[layer][head]),
            }
            for (layer, head), _ in self.exact.single["mean"].ranked()
        ]

    def _pairs(self, pairs: PairEffects) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [
            {"heads": [named(one), named(other)], "why": why, "cosine": five_digits(cosine)}
            for (one, other), why, cosine in zip(pairs.heads, pairs.why, pairs.cosine, strict=True)
        ]
        for kind in pairs.per_sequence:
            means, own, corrected = pairs.mean(kind), pairs.interval(kind), pairs.corrected_interval(kind)
            for at, pair in enumerate(found):
                pair[kind] = {
                    "interaction_nats": five_digits(means[at]),
                    "interval": five_digits([end[at] for end in own]),
                    "corrected_interval": five_digits([end[at] for end in corrected]),
                }
        return found


def effect_scores(
    names: Mapping[int, str],
    exact: ExactEffects,
    michel: tuple[np.ndarray, ...],
    first_order: Mapping[Kind, HeadEffects],
    integrated: Mapping[Kind, HeadEffects],
) -> dict[str, HeadScores]:
    """Return effects and estimates as metrics of the atlas, by metric; `names` are the attentions' by layer."""
    by_metric: dict[str, tuple[np.ndarray, ...]] = {
        **{f"{kind}_ablation_nats": exact.single[kind].mean for kind in KINDS},
        "michel_importance_nats": michel,
        **{f"{kind}_attribution_nats": first_order[kind].mean for kind in KINDS},
        **{f"{kind}_integrated_nats": integrated[kind].mean for kind in KINDS},
    }
    n_tokens = int(exact.tokens.sum())
    return {
        metric: HeadScores(
            metric=metric, values={name: values[layer] for layer, name in names.items()}, n_rows=n_tokens
        )
        for metric, values in by_metric.items()
    }
