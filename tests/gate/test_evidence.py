"""The test of a gate: a ratio of t densities, levels that add up, and intervals that end where it decides."""

import math

import numpy as np
import pytest
from scipy import stats

from headway.gate.evidence import (
    EFFECTS,
    bound,
    fewest_pairs,
    interval,
    is_hopeless,
    is_positive,
    log_evidence,
    log_ratio,
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


@pytest.mark.parametrize("level", [0.1, 0.0016])
def test_an_interval_ends_where_the_test_decides(level):
    values = np.random.default_rng(1).normal(5, 1, 12)
    low, high = interval(values, level)
    for end, sign in ((low, 1), (high, -1)):
        assert is_positive(sign * (values - end) + 1e-6, level / 2)
        assert not is_positive(sign * (values - end) - 1e-6, level / 2)


def test_an_interval_needs_some_pairs():
    assert interval([1.0, 2.0]) is None
    assert interval([1.0] * 12) == (1.0, 1.0)


@pytest.mark.parametrize("n", [2, 6, 7, 24])
def test_a_bound_is_what_the_sum_must_reach(n):
    level, least = 0.0008, bound(n, 0.0008)
    if n < 7:
        assert math.isinf(least)
    else:
        assert log_ratio(n, least - 1e-6) < -math.log(level) < log_ratio(n, least + 1e-6)


def test_an_interval_misses_the_mean_seldom_enough_at_any_look():
    """Of 200 sequences of up to 12 pairs, at a level of 5 %, which the test does not use up."""
    rng = np.random.default_rng(3)
    missed = 0
    for values in rng.normal(0, 1, (200, 12)):
        missed += any(is_positive(sign * values[:n], 0.025) for n in range(2, 13) for sign in (1, -1))
    assert missed <= 14


def test_what_cannot_be_decided_any_more_is_given_up():
    rng = np.random.default_rng(4)
    level = 0.0008
    nothing, much = rng.normal(0, 1, 24), rng.normal(3, 1, 24)
    assert next(n for n in range(24) if is_hopeless(nothing[:n], 24, level)) in range(fewest_pairs(level), 16)
    assert not any(is_hopeless(much[:n], 24, level) for n in range(24))
    assert is_hopeless(much[:6], 6, level)
