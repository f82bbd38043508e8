"""Effects of ablations on the loss: a number for each head and sequence, with intervals, and ranks of estimates.

An estimate is compared with the exact effects by how far they agree. Numpy alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int

Kind = Literal["zero", "mean", "resample"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The replacements of a head's context: zero, its mean over another text, or its value on a sequence of that text."""

MeanOver = Literal["positions", "per-position"]
"""The axes of the mean: all positions and sequences of the other text, or its sequences for each position."""

Head = tuple[int, int]
"""A head as (layer, head), from 0."""


def named(head: Head) -> str:
    """Return the name of a head in sentences, such as L3H7.

    Examples:
        >>> named((3, 7))
        'L3H7'
    """
    layer, number = head
    return f"L{layer}H{number}"


@dataclass(frozen=True, kw_only=True)
class HeadEffects:
    """The change of the loss, in nats per token, when a head is ablated; above 0 the loss rises."""

    per_sequence: tuple[Float[np.ndarray, "_head batch"], ...]
    """The change of each layer's heads."""
    tokens: Int[np.ndarray, " batch"]
    """The number of tokens of each sequence that count, which is its weight."""

    @property
    def mean(self) -> tuple[Float[np.ndarray, " _head"], ...]:
        """The effect of each layer's heads over all tokens."""
        return tuple(mean_over_tokens(effects, self.tokens) for effects in self.per_sequence)

    def interval(self, confidence: float = 0.95) -> tuple[Float[np.ndarray, "_head 2"], ...]:
        """Return Student's interval of each mean over sequences, weighted by tokens; NaN with one sequence.

        Each interval holds for its head on its own: over many heads some intervals miss.
        """
        return tuple(np.stack(interval(e, self.tokens, confidence), axis=-1) for e in self.per_sequence)

    def corrected_interval(self, confidence: float = 0.95) -> tuple[Float[np.ndarray, "_head 2"], ...]:
        """Return intervals that hold for all heads at once: Bonferroni's correction for their number."""
        n_heads = sum(map(len, self.per_sequence))
        return self.interval(1 - (1 - confidence) / max(1, n_heads))

    def heads(self) -> Iterator[tuple[Head, float]]:
        """Return each head with its effect, in the order of the model."""
        for layer, mean in enumerate(self.mean):
            for head, effect in enumerate(mean):
                yield (layer, head), float(effect)

    def ranked(self) -> list[tuple[Head, float]]:
        """Return the heads with their effects, those first without which the loss rises most."""
        return sorted(self.heads(), key=lambda pair: -pair[1])

    def flat(self) -> Float[np.ndarray, " heads"]:
        """Return the effect of every head, in the order of the model."""
        return np.concatenate([*self.mean, np.zeros(0)])

    @classmethod
    def joined(cls, parts: Sequence["HeadEffects"]) -> "HeadEffects":
        """Return effects on several parts of a text as those on all of it."""
        return joined(parts)


@dataclass(frozen=True, kw_only=True)
class ExactEffects:
    """The exact effects of every head on the loss of a text, from losses without it."""

    loss: Float[np.ndarray, " batch"]
    """The loss of the whole model, nats per token of each sequence."""
    single: Mapping[Kind, HeadEffects]
    joint: Mapping[Kind, Float[np.ndarray, " batch"]]
    """The change of the loss without any head."""
    forward_passes: float
    """The work as a number of forward passes, without the pass of the other text."""

    @property
    def tokens(self) -> Int[np.ndarray, " batch"]:
        """The number of tokens of each sequence that count."""
        return next(iter(self.single.values())).tokens

    def joint_mean(self, kind: Kind) -> float:
        """Return the change of the loss without any head, over all tokens."""
        return float(mean_over_tokens(self.joint[kind], self.tokens))

    def share_of_joint(self, kind: Kind) -> float:
        """Return the sum of single effects as a share of the joint one; NaN if that is 0.

        The share is 1 only if effects add up.
        """
        joint = self.joint_mean(kind)
        return float(self.single[kind].flat().sum()) / joint if joint else float("nan")

    @classmethod
    def joined(cls, parts: Sequence["ExactEffects"]) -> "ExactEffects":
        """Return effects on several parts of a text as those on all of it."""
        passes = sum(part.forward_passes * len(part.loss) for part in parts) / sum(len(part.loss) for part in parts)
        return joined([replace(part, forward_passes=passes) for part in parts])


def joined(parts: Sequence[Any]) -> Any:
    """Return results on several parts of a text as one on all of it: the last axis of every array is the sequences'.

    Args:
        parts: arrays, mappings, tuples or dataclasses of these, alike in everything but the sequences; numbers in them
            are those of the first part.

    Examples:
        >>> joined([{"zero": (np.zeros((2, 1)),)}, {"zero": (np.zeros((2, 3)),)}])["zero"][0].shape
        (2, 4)
    """
    first = parts[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(parts, axis=-1)
    if isinstance(first, Mapping):
        return {key: joined([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple):
        return tuple(joined(each) for each in zip(*parts, strict=True))
    if isinstance(first, float):
        return first
    names = [field.name for field in fields(first)]
    return replace(first, **{name: joined([getattr(part, name) for part in parts]) for name in names})


def mean_over_tokens(
    per_sequence: Float[np.ndarray, "*some batch"], tokens: Int[np.ndarray, " batch"]
) -> Float[np.ndarray, "*some"]:
    """Return the mean over all tokens, from means over each sequence's."""
    return np.asarray(per_sequence @ (tokens / tokens.sum()))


def interval(
    per_sequence: Float[np.ndarray, "*some batch"], tokens: Int[np.ndarray, " batch"], confidence: float = 0.95
) -> tuple[Float[np.ndarray, "*some"], Float[np.ndarray, "*some"]]:
    """Return both ends of Student's interval of the mean over tokens; sequences are the sampled units.

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
    """Return both ends of Student's interval of a part's share of a whole; NaN with one sequence.

    Part and whole are means over tokens. Their ratio is linear in the sequences' deviations, as in `interval`: it wants
    a whole that is far from 0.
    """
    whole = mean_over_tokens(wholes, tokens)
    shares = mean_over_tokens(parts, tokens) / whole
    low, high = interval((parts - shares[..., None] * wholes) / whole, tokens, confidence)
    return np.asarray(shares + low), np.asarray(shares + high)


def rank_correlation(one: Float[np.ndarray, " heads"], other: Float[np.ndarray, " heads"]) -> float:
    """Return Spearman's rank correlation, ties at their mean rank; NaN if either has one value only.

    Examples:
        >>> round(rank_correlation(np.array([0.1, 0.2, 0.9]), np.array([1.0, 3.0, 2.0])), 3)
        0.5
    """
    from scipy.stats import rankdata

    a, b = (rankdata(values) - (len(values) + 1) / 2 for values in (one, other))
    spread = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / spread if spread else float("nan")
