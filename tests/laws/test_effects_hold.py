"""Intervals of ablation effects hold when effects are skewed: each on its own, and all of a model's at once.

`benchmarks/calibration.py --tables effects` simulates more, and draws documents from real effects of a trained model.
"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import t

from headway.causal.effects import HeadEffects


def covered(
    draw: Callable[[np.random.Generator, int], np.ndarray], truth: np.ndarray | float, n: int, times: int, seed: int
) -> np.ndarray:
    """The shares of intervals that hold on their own, of models in which all hold, and in which Bonferroni's t do."""
    random, sums = np.random.default_rng(seed), np.zeros(3)
    for _ in range(times):
        values = draw(random, n)
        effects = HeadEffects(per_sequence=(values,), tokens=np.full(n, 100))
        half = t.ppf(1 - 0.025 / len(values), n - 1) * values.std(1, ddof=1) / n**0.5
        classic = np.stack((values.mean(1) - half, values.mean(1) + half), axis=1)
        held = [
            ~((ends[:, 0] > truth) | (truth > ends[:, 1]))  # an interval that is not given denies nothing
            for ends in (effects.interval()[0], effects.corrected_interval()[0], classic)
        ]
        sums += held[0].mean(), held[1].all(), held[2].all()
    return sums / times


def lognormal(random: np.random.Generator, n: int) -> np.ndarray:
    """Effects of 48 heads."""
    return np.exp(random.normal(size=(48, n)))


def normal(random: np.random.Generator, n: int) -> np.ndarray:
    """Effects of 48 heads that do nothing."""
    return random.normal(size=(48, n))


@pytest.mark.slow
@pytest.mark.parametrize("n", [8, 16, 32])
def test_intervals_hold_for_lognormal_effects(n):
    alone, at_once, bonferroni = covered(lognormal, np.exp(0.5), n, 100, n)
    assert alone > 0.88
    assert at_once > 0.93
    assert bonferroni < 0.5


def test_intervals_hold_for_normal_effects():
    alone, at_once, _ = covered(normal, 0.0, 16, 60, 0)
    assert 0.93 < alone < 0.98
    assert at_once > 0.9


@pytest.mark.parametrize("n", [16, 32, 64])
def test_an_effect_that_few_texts_feel_has_an_interval_that_holds_or_none(n):
    """Of an effect in 14 % of the texts, skewed as well, intervals that were always given held in .5 to .9."""
    random = np.random.default_rng(n)
    values = (random.random((400, n)) < 0.14) * np.exp(random.normal(size=(400, n)))
    (ends,) = HeadEffects(per_sequence=(values,), tokens=np.full(n, 100)).interval()
    truth = 0.14 * np.exp(0.5)
    wrong = (ends[:, 0] > truth) | (truth > ends[:, 1])
    assert wrong.mean() < 0.07
