"""Results of an ablation of a finished model: the heads that matter, and the faithfulness of circuits.

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
from jaxtyping import Float

from headway.base.text import filled
from headway.base.words import HeadStatement, say, statement
from headway.causal.effects import (
    FELT,
    KINDS,
    LEAST,
    TOLD,
    Ends,
    ExactEffects,
    Head,
    HeadEffects,
    Kind,
    MeanOver,
    Means,
    OfLayers,
    PerSequence,
    TokenCounts,
    Values,
    beyond,
    felt,
    floats,
    interval,
    mean_over_tokens,
    named,
    rank_correlation,
    share_interval,
)
from headway.heads.findings import Finding
from headway.heads.results import ModelOnText
from headway.heads.scores import HeadScores, five_digits, score_json

MATTERS = 0.01
"""Nats per token from which on an effect is named."""


def within(value: float, ends: Sequence[Any]) -> str:
    """Return a number with its interval.

    Examples:
        >>> within(0.5234, (0.4719, 0.5688))
        '0.523 (0.472 to 0.569)'
    """
    return filled("{value:z.3f} ({interval:z.3f})", value=value, interval=floats(ends))


def share_that_is_told(exact: ExactEffects, kind: Kind) -> float:
    """Return the share of the joint effect that single effects explain; NaN if the joint effect may be 0."""
    low, high = interval(exact.joint[kind], exact.tokens)
    return exact.share_of_joint(kind) if low > 0 or high < 0 else float("nan")


def change_of(names: tuple[str, ...], change: float, ends: Sequence[float]) -> HeadStatement:
    """Return the change of the loss without some heads, with its interval, as an entry of a list."""
    return statement("change", heads=names, change=change, interval=floats(ends))


def told_heads(effects: HeadEffects, kind: Kind) -> Iterator[HeadStatement]:
    """Yield which heads matter by one kind of ablation, and which have no interval."""
    n, n_heads = len(effects.tokens), sum(map(len, effects.per_sequence))
    if n < LEAST:
        yield _too_few("Heads", kind, n, n_heads)
        return
    changes = tuple(change_of((named(head),), effect, ends) for head, effect, ends in beyond(effects, MATTERS))
    if changes:
        yield statement("changes", n=len(changes), all=n_heads, kind=kind, heads=changes)
    else:
        yield statement("no_change", all=n_heads, kind=kind)
    ends = np.concatenate(effects.corrected_interval())
    unknown = zip(effects.heads(), np.isnan(ends).any(1), strict=True)
    rare = [head for (head, effect), is_unknown in unknown if is_unknown and abs(effect) > MATTERS]
    if rare:
        least = min(int(felt(effects.per_sequence[layer][number])) for layer, number in rare)
        yield statement("rarely_felt", n=n, heads=tuple(map(named, rare)), more=n * FELT // least - n)


def _too_few(what: str, kind: Kind, n: int, claims: int) -> HeadStatement:
    """Return why nothing is claimed of few sequences."""
    return statement("too_few", what=what, kind=kind, n=n, claims=claims, least=LEAST)


def ways_told(ablation: "Ablation") -> list[Kind]:
    """Return the kinds of ablation with some effect distinct from 0; in others only noise has ranks."""
    return [kind for kind in KINDS if beyond(ablation.exact.single[kind])]


def _pairs(pairs: "PairEffects") -> HeadStatement:
    if len(pairs.tokens) < LEAST:
        return _too_few("Pairs", TOLD, len(pairs.tokens), len(pairs.heads))
    means, (low, high) = pairs.mean(TOLD), pairs.corrected_interval(TOLD)
    changes = tuple(
        change_of(tuple(map(named, pairs.heads[i])), float(means[i]), (low[i], high[i]))
        for i in np.argsort(-np.abs(means))
        if low[i] > MATTERS or high[i] < -MATTERS
    )
    if not changes:
        return statement("no_pair", kind=TOLD, least=MATTERS)
    return statement("pairs", kind=TOLD, pairs=changes)


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
    tokens: TokenCounts
    exhaustive: bool = False

    @property
    def whole(self) -> float:
        """The loss with all heads."""
        return float(self._mean(self.losses.whole))

    @property
    def none(self) -> float:
        """The loss without any head."""
        return float(self._mean(self.losses.none))

    @property
    def circuit(self) -> float:
        """The loss with the circuit alone."""
        return float(self._mean(self.losses.circuit))

    @property
    def random(self) -> Means:
        """The losses of random circuits of the same size."""
        return self._mean(self.losses.random)

    def _mean(self, losses: Values) -> Means:
        return mean_over_tokens(losses, self.tokens)

    @property
    def circuit_interval(self) -> tuple[float, float]:
        """The interval over sequences of the loss with the circuit alone, 95 %."""
        return floats(interval(self.losses.circuit, self.tokens))

    @property
    def useful(self) -> bool:
        """True if all heads together are worth 0.01 nats or more, and clearly more than nothing over sequences."""
        low, _ = interval(self.losses.none - self.losses.whole, self.tokens)
        return self.none - self.whole > MATTERS and (len(self.tokens) < 2 or bool(low > 0))

    @property
    def share(self) -> float:
        """The share of the worth of all heads that the circuit keeps, from 0 to 1; NaN if heads are worth nothing."""
        return float(self._share(self.circuit))

    @property
    def interval(self) -> tuple[float, float]:
        """The interval of the share over sequences, 95 %; NaN with one sequence, or without a share."""
        if not self.useful:
            return float("nan"), float("nan")
        none = self.losses.none
        return floats(share_interval(none - self.losses.circuit, none - self.losses.whole, self.tokens))

    @property
    def random_shares(self) -> Means:
        """The share of each random circuit."""
        return self._share(self.random)

    @property
    def as_faithful(self) -> int:
        """The number of random circuits that keep as much."""
        return int((self.random <= self.circuit).sum())

    @property
    def chance(self) -> float:
        """The share of random circuits that are as faithful, counted with this one, so that it is never 0."""
        return (1 + self.as_faithful) / (1 + len(self.random))

    def _share(self, losses: Any) -> Any:
        worth = self.none - self.whole if self.useful else np.nan
        return (self.none - losses) / worth

    @property
    def sentence(self) -> str:
        """The sentences about the circuit."""
        return " ".join(each.sentence for each in circuit_statements(self))

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        losses = ("whole", "none", "circuit", "circuit_interval", "random")
        return {
            "schema": 1,
            "heads": [named(head) for head in self.heads],
            "kind": self.kind,
            "loss_nats": {name: five_digits(getattr(self, name)) for name in losses},
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

    whole: PerSequence
    none: PerSequence
    circuit: PerSequence
    random: Float[np.ndarray, "draws batch"]


def circuit_statements(circuit: Faithfulness) -> Iterator[HeadStatement]:
    """Yield the faithfulness of a circuit, beside random circuits of its size."""
    if not circuit.useful:
        yield statement("no_worth", kind=circuit.kind, worth=circuit.none - circuit.whole)
        return
    said: dict[str, Any] = {"heads": tuple(map(named, circuit.heads)), "share": circuit.share, "kind": circuit.kind}
    if np.isfinite(circuit.interval).all():
        yield statement("faithful_within", **said, interval=circuit.interval)
    else:
        yield statement("faithful", **said)
    median = float(np.median(circuit.random_shares))
    yield statement("random_circuits", circuits=random_circuits_said(circuit), median=median, n=circuit.as_faithful)


def random_circuits_said(circuit: Faithfulness) -> str:
    """Return the name of the circuits that are compared with a circuit."""
    n = len(circuit.random)
    kind = "some_circuits" if not circuit.exhaustive else "only_circuit" if n == 1 else "all_circuits"
    return say(kind, n=n, heads=len(circuit.heads))


SCHEMA = 1


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
    tokens: TokenCounts

    def mean(self, kind: Kind) -> Means:
        """Return the interaction of each pair over all tokens."""
        return mean_over_tokens(self.per_sequence[kind], self.tokens)

    def interval(self, kind: Kind) -> Ends:
        """Return both ends of each pair's own interval over sequences, as `HeadEffects.interval` computes them."""
        return interval(self.per_sequence[kind], self.tokens)

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
    michel: OfLayers
    first_order: Mapping[Kind, HeadEffects]
    integrated: Mapping[Kind, HeadEffects]
    pairs: PairEffects | None = None
    circuit: Mapping[Kind, Faithfulness] | None = None

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Findings: the heads that matter, pairs of heads, and the circuit."""
        single, pairs = self.exact.single, self.pairs
        found = [
            Finding(about=f"{kind}_ablation_nats", statements=tuple(told_heads(single[kind], kind)))
            for kind in sorted(KINDS, key=TOLD.__ne__)
        ]
        if pairs is not None:
            interactions = _pairs(pairs), statement("interaction")
            found.append(Finding(about="interactions", statements=interactions))
        if self.circuit is not None:
            found.append(Finding(about="circuit", statements=tuple(circuit_statements(self.circuit[TOLD]))))
        return tuple(found)

    @property
    def loss_nats(self) -> float:
        """The loss of the whole model per token."""
        return float(mean_over_tokens(self.exact.loss, self.exact.tokens))

    @cached_property
    def agreement(self) -> dict[Kind, dict[str, float]]:
        """The rank correlation of each estimate with the exact effects, by kind of ablation; NaN for a single head."""
        found = {}
        for kind in KINDS:
            exact = self.exact.single[kind].flat()
            found[kind] = {name: rank_correlation(each, exact) for name, each in estimates_of(self, kind).items()}
        return found

    @cached_property
    def agreement_of_sizes(self) -> dict[Kind, float]:
        """The rank correlation of Michel's importance, which has no sign, with the sizes of the exact effects."""
        michel = np.concatenate(self.michel)
        return {kind: rank_correlation(michel, np.abs(self.exact.single[kind].flat())) for kind in KINDS}

    @cached_property
    def agreement_of_kinds(self) -> dict[tuple[Kind, Kind], float]:
        """The rank correlation of the exact effects of two kinds of ablation; NaN for a single head."""
        flat = {kind: effects.flat() for kind, effects in self.exact.single.items()}
        return {(one, other): rank_correlation(flat[one], flat[other]) for one, other in combinations(KINDS, 2)}

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values, numbers to five digits; non-finite numbers are null.

        For heads and pairs, `interval` is the 95 % interval of each alone. `corrected_interval` is simultaneous for all
        heads, or for all pairs: sentences say that a head matters by these intervals. Rank correlations are given even
        for noise. `heads_told_from_0` counts the heads whose corrected interval excludes 0; if it is 0, there was
        nothing to rank.
        """
        exact = self.exact
        return {
            "schema": SCHEMA,
            **super().to_json(),
            "other": {"from": self.other, "mean": self.mean_over},
            "loss_nats": five_digits({"value": self.loss_nats, "interval": interval(exact.loss, exact.tokens)}),
            "heads": self._heads(),
            "joint": {
                kind: five_digits(
                    {
                        "effect_nats": exact.joint_mean(kind),
                        "interval": interval(exact.joint[kind], exact.tokens),
                        "share_of_single_effects": exact.share_of_joint(kind),
                    }
                )
                for kind in KINDS
            },
            "rank_correlation_with_exact": five_digits(self.agreement),
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
            "findings": [finding.to_json() for finding in self.findings],
            "notes": list(self.notes),
        }

    def _heads(self) -> list[dict[str, Any]]:
        """Return an entry for each head, those whose removal raises the loss most first."""
        by_kind: dict[Kind, dict[str, OfLayers]] = {
            kind: {
                "effect_nats": effects.mean,
                "interval": effects.interval(),
                "corrected_interval": effects.corrected_interval(),
                "first_order": self.first_order[kind].mean,
                "integrated": self.integrated[kind].mean,
            }
            for kind, effects in self.exact.single.items()
        }
        entries = []
        for (layer, head), _ in self.exact.single["mean"].ranked():
            entry: dict[str, Any] = {"head": named((layer, head)), "layer": layer, "number": head}
            for kind in KINDS:
                entry[kind] = {name: five_digits(values[layer][head]) for name, values in by_kind[kind].items()}
            entries.append({**entry, "michel": five_digits(self.michel[layer][head])})
        return entries

    def _pairs(self, pairs: PairEffects) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = [
            {"heads": list(map(named, heads)), "why": why, "cosine": five_digits(cosine)}
            for heads, why, cosine in zip(pairs.heads, pairs.why, pairs.cosine, strict=True)
        ]
        for kind in pairs.per_sequence:
            values = {
                "interaction_nats": pairs.mean(kind),
                "interval": np.transpose(pairs.interval(kind)),
                "corrected_interval": np.transpose(pairs.corrected_interval(kind)),
            }
            for at, entry in enumerate(entries):
                entry[kind] = {name: five_digits(found[at]) for name, found in values.items()}
        return entries


def estimates_of(found: Ablation, kind: Kind) -> dict[str, Float[np.ndarray, " heads"]]:
    """Return the estimates of every head's effect, by method."""
    return {
        "michel": np.concatenate(found.michel),
        "first-order": found.first_order[kind].flat(),
        "integrated": found.integrated[kind].flat(),
    }


def effect_scores(
    names: Mapping[int, str],
    exact: ExactEffects,
    michel: OfLayers,
    first_order: Mapping[Kind, HeadEffects],
    integrated: Mapping[Kind, HeadEffects],
) -> dict[str, HeadScores]:
    """Return effects and estimates as metrics of the atlas, by metric; `names` are the attentions' by layer."""
    by_metric: dict[str, OfLayers] = {
        **{f"{kind}_ablation_nats": exact.single[kind].mean for kind in KINDS},
        "michel_importance_nats": michel,
        **{f"{kind}_attribution_nats": first_order[kind].mean for kind in KINDS},
        **{f"{kind}_integrated_nats": integrated[kind].mean for kind in KINDS},
    }
    scores = {}
    for metric, of_layers in by_metric.items():
        values = {name: of_layers[layer] for layer, name in names.items()}
        scores[metric] = HeadScores(metric=metric, values=values, n_rows=int(exact.tokens.sum()))
    return scores
