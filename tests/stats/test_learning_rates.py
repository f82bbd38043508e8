"""Gains of other learning rates: seldom where rates make no difference, found where they make one."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from headway.base.words import say
from headway.stats.blocks import BlockTest
from headway.stats.evidence import Difference, Family
from headway.stats.learning_rates import RateMean, _chosen, _with_gains, expected_largest
from headway.stats.sequential import Looking, LookPlan

ARMS, FACTORS = ("a", "b", "c"), (0.5, 1.0, 2.0)


@pytest.fixture(autouse=True)
def no_seeds_to_settle(monkeypatch):
    """How many seeds would settle what is open is most of a family's time, and no gain depends on it."""
    monkeypatch.setattr(BlockTest, "settling", lambda *_: None)


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
    either = f"{say('chosen_rates')}; this choice may favour either arm (3 rates tried) by up to 0.9 %"
    assert _chosen(("a", "b"), (3, 3), difference, family) == either
    favoured = f"{say('chosen_rates')}; this choice may favour b (5 rates tried) by up to 1 %"
    assert _chosen(("a", "b"), (2, 5), difference, family) == favoured
    assert _chosen(("a", "b"), (2, 5), difference, replace(family, residual_sd=None)) == say("chosen_rates")


def test_no_choice_of_a_rate_favours_an_arm_by_more_than_is_stated():
    """Equal rates on one side, and on the other as many equal ones, one good one of as many, or one alone."""
    of_arm, of_baseline = np.random.default_rng(0).standard_normal((2, 20_000, 3, 5)).mean(3)
    for baseline in (of_baseline.min(1), of_baseline[:, 0]):
        bias = (baseline - of_arm.min(1)).mean()
        assert bias <= expected_largest(3) / np.sqrt(5) + 0.01
