"""Heads: what taking heads away does to the loss: a number for each head and sequence, so that there are intervals."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from headway.heads.causes.substitutes import Head


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
    return mean - half, mean + half
