"""Heads: what taking heads away showed of a finished model. Numpy alone, as `heads.scores`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from headway.heads.causes.agreement import rank_correlation
from headway.heads.causes.effect_findings import effect_findings, heads_told
from headway.heads.causes.effects import ExactEffects, HeadEffects, interval, mean_over_tokens
from headway.heads.causes.faithful import Faithfulness, circuit_sentence
from headway.heads.causes.kinds import KINDS, Head, Kind, MeanOver, named
from headway.heads.findings import Finding
from headway.heads.model_on_text import ModelOnText
from headway.heads.scores import HeadScores
from headway.heads.scores_json import five_digits, score_json

SCHEMA = 1
Ends = tuple[Float[np.ndarray, " pair"], Float[np.ndarray, " pair"]]


@dataclass(frozen=True, kw_only=True)
class PairEffects:
    """What pairs of heads do beyond what each of them does: both taken away minus each alone."""

    heads: tuple[tuple[Head, Head], ...]
    why: tuple[str, ...]
    """Why each pair was looked at: alike, or important."""
    cosine: tuple[float, ...]
    """Of what the two write, the mean over positions; NaN for heads of different layers."""
    per_sequence: Mapping[Kind, Float[np.ndarray, "pair batch"]]
    """In nats per token; above 0: one makes up for the loss of the other."""
    tokens: Int[np.ndarray, " batch"]

    def mean(self, kind: Kind) -> Float[np.ndarray, " pair"]:
        """The interaction over all tokens, of each pair."""
        return mean_over_tokens(self.per_sequence[kind], self.tokens)

    def interval(self, kind: Kind, confidence: float = 0.95) -> Ends:
        """Both ends of that of each pair on its own, over sequences; see `HeadEffects.interval`."""
        return interval(self.per_sequence[kind], self.tokens, confidence)

    def corrected_interval(self, kind: Kind, confidence: float = 0.95) -> Ends:
        """Both ends of intervals that hold for all of these pairs at once: Bonferroni's correction."""
        return self.interval(kind, 1 - (1 - confidence) / max(1, len(self.heads)))


@dataclass(frozen=True, kw_only=True)
class Ablation(ModelOnText):
    """What every head of a finished model does to the loss of a text: exact effects, and estimates of them.

    Attributes:
        other: the other text, whose contexts stand in for heads, in words.
        mean_over: what its mean is over: positions (and sequences), or sequences per position.
        exact: effects of single heads and of all, in each way of taking them away.
        michel: Michel's importance, of each layer.
        first_order: attribution, the gradient times the difference, by way.
        integrated: the same along the way from all heads to none, by way.
        pairs: what pairs of heads do together; None where nobody asked.
        circuit: what some heads keep alone, by way of taking the others away; None where nobody asked.
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
        """Which heads matter, how far the ways of taking them away agree, and what estimates are worth."""
        of_circuit = (
            () if self.circuit is None else (Finding(about="circuit", sentence=circuit_sentence(self.circuit)),)
        )
        return (*effect_findings(self), *of_circuit)

    @property
    def loss_nats(self) -> float:
        """Of the whole model, per token."""
        return float(mean_over_tokens(self.exact.loss, self.exact.tokens))

    @cached_property
    def agreement(self) -> dict[Kind, dict[str, float]]:
        """The rank correlation of each estimate with the exact effects, by way; NaN for a single head."""
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
        """The rank correlation of Michel's importance, which has no sign, with the exact effects without theirs."""
        michel = np.concatenate([*self.michel, np.zeros(0)])
        return {kind: rank_correlation(michel, np.abs(self.exact.single[kind].flat())) for kind in KINDS}

    @cached_property
    def agreement_of_kinds(self) -> dict[tuple[Kind, Kind], float]:
        """The rank correlation of the exact effects in two ways; NaN for a single head."""
        single = self.exact.single
        return {
            (one, other): rank_correlation(single[one].flat(), single[other].flat())
            for one, other in combinations(KINDS, 2)
        }

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values, numbers to five digits; what is not finite is null.

        Of heads and pairs, `interval` is the 95 % interval of each on its own, and `corrected_interval` one of those
        that hold for all heads, or for all pairs, at once: by these sentences say what matters. Rank correlations are
        given of noise too; `heads_told_from_0` says of how many heads the corrected interval has no 0 in it, and where
        that is none there was nothing to rank.
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
            "heads_told_from_0": {kind: heads_told(exact.single[kind]) for kind in KINDS},
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
        """A head each, those that the loss rises most without, at their mean, first."""
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
    """Effects and estimates as metrics of the atlas, by metric; `names` are those of the attentions, by layer."""
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
