"""Effects of ablations on the loss: a number for each head and sequence, with intervals, and ranks of estimates.

An estimate is compared with the exact effects by how far they agree. Numpy alone.

Effects of sequences are skewed: a head matters much to few of them. Student's interval then misses too often, so the
interval is a bootstrap-t: sequences are drawn again, and each mean is divided by its own standard error. Source: Hall,
The Bootstrap and Edgeworth Expansion (1992), section 3.5. Intervals for all heads at once take the largest and the
smallest of these ratios over heads, so that a head whose few sequences look alike gets the bound of heads that show
their skewness.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import lru_cache
from typing import Any, Literal, cast, get_args

import numpy as np
from jaxtyping import Float, Int

from headway.base import rng

Kind = Literal["zero", "mean", "resample"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The replacements of a head's context: zero, its mean over another text, or its value on a sequence of that text."""
TOLD: Kind = "mean"
"""The kind that the first sentence and picture, and sentences on several heads, are about."""

MeanOver = Literal["positions", "per-position"]
"""The axes of the mean: all positions and sequences of the other text, or its sequences for each position."""

PerSequence = Float[np.ndarray, " batch"]
"""A number for each sequence."""

Values = Float[np.ndarray, "*some batch"]
"""Numbers of any kind for each sequence."""

Means = Float[np.ndarray, "*some"]
"""Their means over sequences."""

Ends = tuple[Means, Means]
"""Both ends of the interval of each mean."""

OfLayers = tuple[np.ndarray, ...]
"""Numbers for the heads of each layer."""

TokenCounts = Int[np.ndarray, " batch"]
"""The number of tokens of each sequence that count, which is its weight in means over tokens."""

Head = tuple[int, int]
"""A head as (layer, head), from 0."""


def every_head(n_heads: Sequence[int]) -> list[Head]:
    """Return all heads of layers with these numbers of heads."""
    return [(layer, head) for layer, n in enumerate(n_heads) for head in range(n)]


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

    per_sequence: OfLayers
    """The change of each layer's heads."""
    tokens: TokenCounts
    """The number of tokens of each sequence that count, which is its weight."""

    @property
    def mean(self) -> OfLayers:
        """The effect of each layer's heads over all tokens."""
        return tuple(mean_over_tokens(effects, self.tokens) for effects in self.per_sequence)

    def interval(self, confidence: float = 0.95) -> OfLayers:
        """Return the interval of each mean over sequences, weighted by tokens; NaN with one sequence.

        Each interval holds for its head on its own: over many heads some intervals miss.
        """
        return self._ends(confidence, at_once=False)

    def corrected_interval(self, confidence: float = 0.95) -> OfLayers:
        """Return intervals that hold for all heads at once; NaN below eight sequences, which cannot carry them."""
        return self._ends(confidence if len(self.tokens) >= LEAST else np.nan, at_once=True)

    def _ends(self, confidence: float, *, at_once: bool) -> OfLayers:
        every = np.concatenate(self.per_sequence)
        ends = np.stack(interval(every, self.tokens, confidence, at_once=at_once), axis=-1)
        return tuple(np.split(ends, np.cumsum([len(layer) for layer in self.per_sequence])[:-1]))

    def heads(self) -> Iterator[tuple[Head, float]]:
        """Return each head with its effect, in the order of the model."""
        heads = every_head([len(layer) for layer in self.per_sequence])
        return zip(heads, self.flat().tolist(), strict=True)

    def ranked(self) -> list[tuple[Head, float]]:
        """Return the heads with their effects, those first without which the loss rises most."""
        return sorted(self.heads(), key=lambda pair: -pair[1])

    def flat(self) -> Float[np.ndarray, " heads"]:
        """Return the effect of every head, in the order of the model."""
        return np.concatenate(self.mean)

    @classmethod
    def joined(cls, parts: Sequence["HeadEffects"]) -> "HeadEffects":
        """Return effects on several parts of a text as those on all of it."""
        return joined(parts)


def beyond(effects: HeadEffects, least: float = 0.0) -> list[tuple[Head, float, tuple[float, float]]]:
    """Return the heads whose effect exceeds a size, by intervals that hold for all heads at once.

    Each has its effect and the ends of its interval; the largest effect comes first.
    """
    ends = np.concatenate(effects.corrected_interval()).tolist()
    found = [
        (head, effect, (low, high))
        for (head, effect), (low, high) in zip(effects.heads(), ends, strict=True)
        if low > least or high < -least
    ]
    return sorted(found, key=lambda each: -abs(each[1]))


@dataclass(frozen=True, kw_only=True)
class ExactEffects:
    """The exact effects of every head on the loss of a text, from losses without it."""

    loss: PerSequence
    """The loss of the whole model, nats per token of each sequence."""
    single: Mapping[Kind, HeadEffects]
    joint: Mapping[Kind, PerSequence]
    """The change of the loss without any head."""
    forward_passes: float
    """The work as a number of forward passes, without the pass of the other text."""

    @property
    def tokens(self) -> TokenCounts:
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


def _mapped(function: Callable[..., Any], *results: Any) -> Any:
    """Return a function of the arrays and numbers of alike results: mappings, tuples or dataclasses of these."""
    first = results[0]
    if isinstance(first, Mapping):
        return {key: _mapped(function, *(each[key] for each in results)) for key in first}
    if isinstance(first, tuple):
        return tuple(_mapped(function, *each) for each in zip(*results, strict=True))
    if is_dataclass(first):
        return replace(cast(Any, first), **_mapped(function, *map(vars, results)))
    return function(*results)


def joined(parts: Sequence[Any]) -> Any:
    """Return results on several parts of a text as one on all of it: the last axis of every array is the sequences'.

    Args:
        parts: arrays, mappings, tuples or dataclasses of these, alike in everything but the sequences; numbers in them
            are those of the first part.

    Examples:
        >>> joined([{"zero": (np.zeros((2, 1)),)}, {"zero": (np.zeros((2, 3)),)}])["zero"][0].shape
        (2, 4)
    """

    def join(first: Any, *others: Any) -> Any:
        return np.concatenate([first, *others], axis=-1) if isinstance(first, np.ndarray) else first

    return _mapped(join, *parts)


def over_documents(found: Any, tokens: TokenCounts, documents: Int[np.ndarray, " batch"]) -> Any:
    """Return results on sequences as those on documents: their pieces are one unit, with the tokens of all of them.

    Args:
        found: results by sequence, as from `joined`.
        tokens: the number of tokens of each sequence that count.
        documents: the document of each sequence.

    Examples:
        >>> over_documents(np.array([1.0, 4.0, 5.0]), np.array([2, 1, 1]), np.array([0, 0, 7])).tolist()
        [2.0, 5.0]
    """
    of = documents[:, None] == np.unique(documents)

    def gather(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return tokens @ of if value.dtype.kind == "i" else (value * tokens) @ of / (tokens @ of)

    return _mapped(gather, found)


def mean_over_tokens(per_sequence: Values, tokens: TokenCounts) -> Means:
    """Return the mean over all tokens, from means over each sequence's."""
    return np.asarray(per_sequence @ (tokens / tokens.sum()))


LEAST = 8
"""Sequences from which on skewness can be seen, and intervals can hold for many heads at once."""
_DRAWS, _MOST = 1999, 2048
"""How often sequences are drawn again; above so many sequences a mean is close enough to normal."""
_FLOOR, _FLOOR_AT_ONCE = 0.3, 0.1
"""Drawn again, few different sequences may have next to no spread: their standard error is at least this share.

The smaller share is needed far out in the tail, where intervals for many heads end.
"""
_TOGETHER = 512
FELT = 10
"""Sequences that feel an effect, from which on it has an interval: of fewer, sequences that are drawn again show too
little of it."""
_FELT_FROM, _FELT_SHARE = 0.2, 0.6
"""The share of the root mean square from which on a sequence feels an effect, and the share of few sequences that is
enough."""


def felt(per_sequence: Values) -> Int[np.ndarray, "*some"]:
    """Return how many sequences feel an effect: those with more than a fifth of its root mean square.

    Examples:
        >>> felt(np.array([[0.0, 0.0, 0.0, 0.0, 2.0], [0.2, 0.7, 0.5, 0.9, 0.1]])).tolist()
        [1, 4]
    """
    size = np.sqrt(np.square(per_sequence).mean(-1, keepdims=True))
    return np.asarray((np.abs(per_sequence) > _FELT_FROM * size).sum(-1))


def interval(
    per_sequence: Values,
    tokens: TokenCounts,
    confidence: float = 0.95,
    *,
    at_once: bool = False,
    effect: Values | None = None,
) -> Ends:
    """Return both ends of the interval of the mean over tokens; sequences are the sampled units.

    The mean is a ratio of sums over sequences, so its spread is that of the sequences' deviations, weighted. The
    interval is a bootstrap-t, and never narrower than Student's. Below eight sequences it is Student's, which holds for
    normal deviations only. From eight on, an effect that fewer than `FELT` sequences feel has no interval: NaN.

    Args:
        per_sequence: the means of each sequence.
        tokens: the weight of each sequence: its number of tokens.
        confidence: the probability that an interval holds.
        at_once: True if this is the probability that all of the intervals hold.
        effect: the effects that sequences have to feel; None: the values themselves.
    """
    from scipy.stats import t

    mean, n, level = mean_over_tokens(per_sequence, tokens), len(tokens), (1 - confidence) / 2
    if n < 2:
        unknown = np.full_like(mean, np.nan)
        return unknown, unknown
    deviations = (per_sequence - mean[..., None]) * (tokens / tokens.sum())
    error = np.sqrt(n / (n - 1) * np.square(deviations).sum(-1))
    drawn = LEAST <= n <= _MOST and bool(mean.size) and np.isfinite(level)
    high = t.ppf(1 - level / (1 if drawn or not at_once else max(1, mean.size)), n - 1)
    low = -high
    if drawn:
        ends = _drawn_ends(deviations.reshape(-1, n), error.reshape(-1), tokens, level, at_once)
        low, high = (end if at_once else end.reshape(mean.shape) for end in ends)
        least = t.ppf(1 - level, n - 1)
        low, high = np.minimum(low, -least), np.maximum(high, least)
        number = felt(per_sequence if effect is None else effect)
        error = np.where(number < min(FELT, _FELT_SHARE * n), np.nan, error)
    return np.asarray(mean - high * error), np.asarray(mean - low * error)


def floats(ends: Sequence[Any] | np.ndarray) -> tuple[float, float]:
    """Return both ends of an interval as plain numbers."""
    low, high = ends
    return float(low), float(high)


def _drawn_ends(
    deviations: Float[np.ndarray, "cell batch"],
    error: Float[np.ndarray, " cell"],
    tokens: TokenCounts,
    level: float,
    at_once: bool,
) -> Float[np.ndarray, "end _cell"]:
    """Return quantiles of deviations of means in their standard errors, of sequences drawn again."""
    times, n = _drawn_times(len(tokens)), len(tokens)
    weights = tokens / tokens.sum()
    total = (times @ weights)[:, None]
    found, floor = [], _FLOOR_AT_ONCE if at_once else _FLOOR
    for start in range(0, len(deviations), _TOGETHER):
        some = slice(start, start + _TOGETHER)
        here, least = deviations[some].T, np.maximum(floor * error[some], 1e-300)
        mean = times @ here / total
        products = times @ (weights[:, None] * here)
        squares = times @ here**2 - 2 * mean * products + mean**2 * (times @ weights**2)[:, None]
        ratios = mean / np.maximum(np.sqrt(np.maximum(n / (n - 1) * squares, 0)) / total, least)
        ends = (ratios.min(1), ratios.max(1)) if at_once else np.quantile(ratios, [level, 1 - level], axis=0)
        found.append(ends)
    if not at_once:
        return np.concatenate(found, axis=1)
    lows, highs = zip(*found, strict=True)
    return np.array([np.quantile(np.min(lows, axis=0), level), np.quantile(np.max(highs, axis=0), 1 - level)])


@lru_cache(maxsize=4)
def _drawn_times(n: int) -> Float[np.ndarray, "draw batch"]:
    """Return how often each of so many sequences is drawn."""
    return rng.generator(0, "sequences drawn again").multinomial(n, np.full(n, 1 / n), size=_DRAWS).astype(float)


def share_interval(
    parts: Values,
    wholes: PerSequence,
    tokens: TokenCounts,
    confidence: float = 0.95,
    *,
    at_once: bool = False,
) -> Ends:
    """Return both ends of the interval of a part's share of a whole; NaN with one sequence.

    Part and whole are means over tokens. Their ratio is linear in the sequences' deviations, as in `interval`: it wants
    a whole that is far from 0.
    """
    whole = mean_over_tokens(wholes, tokens)
    shares = mean_over_tokens(parts, tokens) / whole
    deviations = (parts - shares[..., None] * wholes) / whole
    low, high = interval(deviations, tokens, confidence, at_once=at_once, effect=parts)
    return np.asarray(shares + low), np.asarray(shares + high)


def rank_correlation(one: Float[np.ndarray, " heads"], other: Float[np.ndarray, " heads"]) -> float:
    """Return Spearman's rank correlation, ties at their mean rank; NaN if either has one value only.

    Examples:
        >>> round(rank_correlation(np.array([0.1, 0.2, 0.9]), np.array([1.0, 3.0, 2.0])), 3)
        0.5
    """
    from scipy.stats import spearmanr

    if min(len(np.unique(one)), len(np.unique(other))) < 2:
        return float("nan")
    return float(spearmanr(one, other).statistic)
