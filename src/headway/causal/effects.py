"""Heads: the ways of taking a head away, and what a head is called. Numpy alone, as `heads.scores`.

Heads: what taking heads away does to the loss: a number for each head and sequence, so that there are intervals.

Numpy alone, as `heads.scores`.

Heads: how far an estimate of heads' effects agrees with the exact ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float, Int

Kind = Literal["zero", "mean", "resample"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What a head's context becomes: zero, its mean over another text, or what it is on a sequence of another text."""

MeanOver = Literal["positions", "per-position"]
"""positions: over positions and sequences of the other text; per-position: over its sequences, each position apart."""

Head = tuple[int, int]
"""Layer and head, from 0."""


def named(head: Head) -> str:
    """What sentences call a head.

    Examples:
        >>> named((3, 7))
        'L3H7'
    """
    layer, number = head
    return f"L{layer}H{number}"


@dataclass(frozen=True, kw_only=True)
class HeadEffects:
    """The change of the loss, in nats per token, when a head is taken away; above 0: the loss rises without it."""

    per_sequence: tuple[Float[np.ndarray, "_head batch"], ...]
    """Of each layer."""
    tokens: Int[np.ndarray, " batch"]
    """How many of each sequence count: its weight."""

    @property
    def mean(self) -> tuple[Float[np.ndarray, " _head"], ...]:
        """The effect over all tokens, of each layer."""
        return tuple(mean_over_tokens(effects, self.tokens) for effects in self.per_sequence)

    def interval(self, confidence: float = 0.95) -> tuple[Float[np.ndarray, "_head 2"], ...]:
        """Student's interval of each mean over sequences, weighted by tokens; NaN with one sequence.

        Of each head on its own: over many heads some intervals miss.
        """
        return tuple(np.stack(interval(e, self.tokens, confidence), axis=-1) for e in self.per_sequence)

    def corrected_interval(self, confidence: float = 0.95) -> tuple[Float[np.ndarray, "_head 2"], ...]:
        """Intervals that hold for all heads at once: Bonferroni's correction for their number."""
        n_heads = sum(map(len, self.per_sequence))
        return self.interval(1 - (1 - confidence) / max(1, n_heads))

    def heads(self) -> Iterator[tuple[Head, float]]:
        """Each head with its effect, in the order of the model."""
        for layer, mean in enumerate(self.mean):
            for head, effect in enumerate(mean):
                yield (layer, head), float(effect)

    def ranked(self) -> list[tuple[Head, float]]:
        """The same, those that the loss rises most without first."""
        return sorted(self.heads(), key=lambda pair: -pair[1])

    def flat(self) -> Float[np.ndarray, " heads"]:
        """The effect of every head, in the order of the model."""
        return np.concatenate([*self.mean, np.zeros(0)])

    @classmethod
    def joined(cls, parts: Sequence["HeadEffects"]) -> "HeadEffects":
        """Effects on several parts of a text as those on all of it."""
        layers = zip(*(part.per_sequence for part in parts), strict=True)
        return cls(
            per_sequence=tuple(np.concatenate(layer, axis=1) for layer in layers),
            tokens=np.concatenate([part.tokens for part in parts]),
        )


@dataclass(frozen=True, kw_only=True)
class ExactEffects:
    """What every head does to the loss of a text, by losses without it."""

    loss: Float[np.ndarray, " batch"]
    """Of the whole model, nats per token of each sequence."""
    single: Mapping[Kind, HeadEffects]
    joint: Mapping[Kind, Float[np.ndarray, " batch"]]
    """The change of the loss without any head."""
    forward_passes: float
    """How many of them the work amounts to, beside the one of the other text."""

    @property
    def tokens(self) -> Int[np.ndarray, " batch"]:
        """How many of each sequence count."""
        return next(iter(self.single.values())).tokens

    def joint_mean(self, kind: Kind) -> float:
        """The change of the loss without any head, over all tokens."""
        return float(mean_over_tokens(self.joint[kind], self.tokens))

    def share_of_joint(self, kind: Kind) -> float:
        """Single effects, summed, as a share of the joint one; NaN where that is 0. 1 only where effects add up."""
        joint = self.joint_mean(kind)
        return float(self.single[kind].flat().sum()) / joint if joint else float("nan")

    @classmethod
    def joined(cls, parts: Sequence["ExactEffects"]) -> "ExactEffects":
        """Effects on several parts of a text as those on all of it."""
        return cls(
            loss=np.concatenate([part.loss for part in parts]),
            single={kind: HeadEffects.joined([part.single[kind] for part in parts]) for kind in KINDS},
            joint={kind: np.concatenate([part.joint[kind] for part in parts]) for kind in KINDS},
            forward_passes=sum(part.forward_passes * len(part.loss) for part in parts)
            / sum(len(part.loss) for part in parts),
        )


def mean_over_tokens(
    per_sequence: Float[np.ndarray, "*some batch"], tokens: Int[np.ndarray, " batch"]
) -> Float[np.ndarray, "*some"]:
    """The mean over all tokens, of means over each sequence's."""
    return np.asarray(per_sequence @ (tokens / tokens.sum()))


def interval(
    per_sequence: Float[np.ndarray, "*some batch"], tokens: Int[np.ndarray, " batch"], confidence: float = 0.95
) -> tuple[Float[np.ndarray, "*some"], Float[np.ndarray, "*some"]]:
    """Both ends of Student's interval of the mean over tokens; sequences are what was sampled.

    The mean is a ratio of sums over sequences, so its spread is that of the sequences' deviations, weighted.
    """
    from scipy.stats import t

    mean, n = mean_over_tokens(per_sequence, tokens), len(tokens)
    if n < 2:
        return np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    deviations = (per_sequence - mean[..., None]) * (tokens / tokens.sum())
    half = t.ppf(0.5 + confidence / 2, n - 1) * np.sqrt(n / (n - 1) * np.square(deviations).sum(-1))
    return np.asarray(mean - half), np.asarray(mean + half)


def share_interval(
    parts: Float[np.ndarray, "*some batch"],
    wholes: Float[np.ndarray, " batch"],
    tokens: Int[np.ndarray, " batch"],
    confidence: float = 0.95,
) -> tuple[Float[np.ndarray, "*some"], Float[np.ndarray, "*some"]]:
    """Both ends of Student's interval of what parts are of a whole, means over tokens each; NaN with one sequence.

    A ratio of means, linear in the sequences' deviations, as in `interval`: it wants a whole that is far from 0.
    """
    whole = mean_over_tokens(wholes, tokens)
    shares = mean_over_tokens(parts, tokens) / whole
    low, high = interval((parts - shares[..., None] * wholes) / whole, tokens, confidence)
    return np.asarray(shares + low), np.asarray(shares + high)


def rank_correlation(one: Float[np.ndarray, " heads"], other: Float[np.ndarray, " heads"]) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN where either has one value only.

    Examples:
        >>> round(rank_correlation(np.array([0.1, 0.2, 0.9]), np.array([1.0, 3.0, 2.0])), 3)
        0.5
    """
    from scipy.stats import rankdata

    a, b = (rankdata(values) - (len(values) + 1) / 2 for values in (one, other))
    spread = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / spread if spread else float("nan")
