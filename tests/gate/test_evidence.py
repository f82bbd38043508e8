"""The gate's test: its evidence is a ratio of t densities, its levels add up, and its bounds are where it decides."""

import math

import numpy as np
import pytest
from scipy import stats

from headway.gate.evidence import (
    EFFECTS,
    fewest_pairs,
    interval,
    is_positive,
    log_evidence,
    lower_bound,
    spent_rate,
)


@pytest.mark.parametrize("n", [2, 3, 8, 24])
@pytest.mark.parametrize("mean", [-1.0, 0.0, 0.7, 3.0])
def test_the_evidence_is_the_ratio_of_the_densities_of_the_t_statistic(n, mean):
    values = np.random.default_rng(n).normal(mean, 1, n)
    t = values.mean() / values.std(ddof=1) * math.sqrt(n)
    ratio = sum(weight * stats.nct.pdf(t, n - 1, effect * math.sqrt(n)) for effect, weight in EFFECTS)
    expected = ratio / stats.t.pdf(t, n - 1)
    assert log_evidence(values) == pytest.approx(math.log(expected), abs=1e-5)


def test_no_unit_matters():
    values = np.random.default_rng(0).normal(1, 1, 9)
    for unit in (1e-300, 1e-9, 1e9, 1e300):
        assert log_evidence(values * unit) == pytest.approx(log_evidence(values))


def test_the_levels_of_all_challengers_add_up_to_the_rate():
    assert sum(spent_rate(0.05, number, 50) for number in range(1, 2_001)) == pytest.approx(0.05)


def test_differences_that_are_equal_decide_at_the_fewest_pairs_and_no_sooner():
    level = spent_rate(0.05, 1, 50)
    decided = [n for n in range(1, 12) if is_positive([1.0] * n, level)]
    assert decided[0] >= fewest_pairs(level)
    assert decided == [*range(decided[0], 12)]
    assert not is_positive([-1.0] * 30, level)
    assert not is_positive([0.0] * 30, level)


@pytest.mark.parametrize("level", [0.1, 0.0008])
def test_a_bound_is_where_the_test_decides(level):
    values = np.random.default_rng(1).normal(5, 1, 12)
    bound = lower_bound(values, level)
    assert is_positive(values - bound + 1e-6, level)
    assert not is_positive(values - bound - 1e-6, level)


def test_an_interval_lies_around_the_mean_and_needs_some_pairs():
    values = np.random.default_rng(2).normal(5, 1, 12)
    low, high = interval(values)
    assert low < values.mean() < high
    assert high - values.mean() == pytest.approx(values.mean() - low)
    assert interval(values[:2]) is None
    assert interval([1.0] * 12) == pytest.approx((1.0, 1.0))


def test_an_interval_misses_the_mean_seldom_enough_at_any_look():
    """Of 200 sequences of up to 12 pairs, at a level of 5 %, which the test does not use up."""
    rng = np.random.default_rng(3)
    missed = 0
    for values in rng.normal(0, 1, (200, 12)):
        missed += any(is_positive(sign * values[:n], 0.025) for n in range(2, 13) for sign in (1, -1))
    assert missed <= 14
