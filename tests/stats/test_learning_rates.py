"""Gains of other learning rates: seldom where rates make no difference, found where they make one."""

from types import SimpleNamespace

import numpy as np
import pytest

from headway.base.words import CHOSEN_RATES
from headway.stats.evidence import Difference, Family
from headway.stats.learning_rates import RateMean, _chosen, _with_gains, expected_largest
from headway.stats.sequential import Looking, LookPlan

ARMS, FACTORS = ("a", "b", "c"), (0.5, 1.0, 2.0)


def any_gain(losses):
    """Whether an arm is said to gain by another rate, of losses (arm, rate, seed)."""
    names = {arm: [arm if factor == 1 else f"{arm}+x{factor:g}" for factor in FACTORS] for arm in ARMS}
    runs = {
        name: {
            seed: SimpleNamespace(name=name, seed=seed, status="done", metrics={"eval_mse": loss}, execution=None)
            for seed, loss in enumerate(of_seeds)
        }
        for arm, of_arm in zip(ARMS, losses, strict=True)
        for name, of_seeds in zip(names[arm], of_arm, strict=True)
    }
    rates = {
        arm: {name: RateMean(factor=x, mean=1.0, n_seeds=3) for name, x in zip(names[arm], FACTORS, strict=True)}
        for arm in ARMS
    }
    found = _with_gains(rates, runs, "eval_mse", Looking(margin=1.0))
    return any(rate.gain > 0 for of_arm in found.values() for rate in of_arm.values())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "n"), [("standard_normal", 3), ("standard_exponential", 8)])
def test_a_gain_is_seldom_said_where_the_rate_moves_nothing(kind, n):
    draw = np.random.default_rng(n)
    said = 0
    for _ in range(100):
        rest = getattr(draw, kind)((3, 3, n))
        said += any_gain(np.exp(0.01 * (rest + draw.standard_normal(n))))
    assert said <= 0.05 * 100


def test_a_gain_is_said_where_a_rate_has_one_and_with_an_exact_zero_too():
    losses = np.exp(0.01 * np.random.default_rng(0).standard_normal((3, 3, 5)))
    losses[1, 2] *= 0.8
    assert any_gain(losses)
    losses[2, 0, 0] = 0.0
    assert any_gain(losses)


def test_a_zero_that_brings_pairs_makes_no_more_gains_of_nothing():
    draw, said = np.random.default_rng(1), 0
    for _ in range(300):
        losses = np.exp(0.01 * draw.standard_normal((3, 3, 5)))
        losses[0, 0, 0] = 0.0
        said += any_gain(losses)
    assert said <= 0.05 * 300


def test_the_gain_of_choosing_among_rates_is_that_of_equal_rates():
    """The least of five equal means lies below each of them, and so does the verdict that rests on it."""
    means = np.random.default_rng(0).standard_normal((20_000, 5, 4)).mean(2)
    assert -means.min(1).mean() == pytest.approx(expected_largest(5) / np.sqrt(4), abs=0.02)


def test_a_verdict_at_chosen_rates_says_whom_the_choice_favours():
    difference = Difference.partly_known(n_pairs=4, metric="eval_mse")
    plan = LookPlan(looks=(4,), margin=1.0)
    family = Family(
        of="comparisons", metric="eval_mse", control=None, rule="blocks", size=1, plan=plan, level=0.05, residual_sd=2.0
    )
    assert _chosen(("a", "b"), (3, 3), difference, family) == CHOSEN_RATES
    favoured = f"{CHOSEN_RATES}, which favours b (5 rates against 2) by up to 0.6 %"
    assert _chosen(("a", "b"), (2, 5), difference, family) == favoured
