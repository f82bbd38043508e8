"""Paired differences, their intervals, p-values and power, against worked examples and scipy."""

import math
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from scipy import stats
from support.tolerance import nearly

from headway.stats.evidence import Comparison
from headway.stats.paired import compare, detectable_effect, holm, paired, pairs_to_detect
from headway.stats.simultaneous import median_widening


def of(arm, baseline):
    return compare(paired(dict(enumerate(arm)), dict(enumerate(baseline))))


def test_the_fields_are_those_of_results_json():
    assert [field.name for field in fields(Comparison)] == [
        *("metric", "control", "rule", "n_pairs", "means", "difference", "relative", "estimate", "interval", "se"),
        *("freedom", "bound", "p", "p_family", "outcome", "detectable", "seeds_for_margin"),
        *("doubts", "seeds", "look", "unit", "seed_s", "seeds_to_settle", "chance_to_settle", "of_errors"),
        *("arm", "baseline", "group", "verdict"),
    ]


def test_an_example_by_hand():
    # Differences 1, 2, 3, 4, 10: mean 4, variance (9 + 4 + 1 + 0 + 36)/4 = 12.5, standard error sqrt(12.5/5).
    c = of([11, 12, 13, 14, 20], [10, 10, 10, 10, 10])
    error = math.sqrt(2.5)
    assert c.n_pairs == 5
    assert c.difference == 4
    assert c.relative == 0.4
    # The table's t for 4 degrees of freedom at 97.5 % is 2.776445.
    assert c.interval == pytest.approx((4 - 2.776445 * error, 4 + 2.776445 * error), rel=1e-6)
    # t = 4/1.5811 = 2.5298; with 4 degrees of freedom P(T > t) = 1/2 - u(1 + (1 - u^2)/2)/2, u = t/sqrt(4 + t^2).
    u = 4 / error / math.sqrt(4 + 16 / 2.5)
    assert c.p == pytest.approx(1 - u * (1 + (1 - u * u) / 2), rel=1e-12)
    assert c.detectable == pytest.approx(1.681997 * math.sqrt(12.5) * median_widening(4), rel=1e-6)


def test_it_is_the_paired_t_test_of_scipy():
    random = np.random.default_rng(0)
    for n in (2, 3, 10, 40):
        arm, baseline = random.standard_normal((2, n))
        c, theirs = of(arm, baseline), stats.ttest_rel(arm, baseline)
        assert c.p == nearly(theirs.pvalue)
        assert c.interval == nearly(tuple(theirs.confidence_interval(0.95)))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 10, 30, 300])
def test_the_detectable_effect_has_80_percent_power(n):
    noncentrality = detectable_effect(n) * math.sqrt(n)
    bound = stats.t.ppf(0.975, n - 1)
    # Over the spread s^2 = chi^2/df that the test estimates, P(Z + noncentrality > bound s).
    powers = stats.norm.sf(
        bound * np.sqrt(stats.chi2.ppf((np.arange(20_000) + 0.5) / 20_000, n - 1) / (n - 1)) - noncentrality
    )
    assert powers.mean() == pytest.approx(0.8, abs=1e-5)


def test_published_sample_sizes():
    # Paired t test, two-sided 5 %, 80 % power (G*Power 3.1): effects of .2, .5, .8 and 1 need these pairs.
    assert [pairs_to_detect(effect) for effect in (0.2, 0.5, 0.8, 1.0)] == [199, 34, 15, 10]
    assert pairs_to_detect(1e6) == 2
    # Far out, (1.959964 + 0.841621)^2 / effect^2.
    assert pairs_to_detect(1e-4) == pytest.approx(7.848880e8, rel=1e-5)


def test_seeds_for_one_percent_follow_from_spread_and_level():
    c = of([10.1, 9.8, 10.3, 9.9], [10.0, 10.0, 10.0, 10.0])
    spread = np.std([0.1, -0.2, 0.3, -0.1], ddof=1)
    seeds, low, high = c.seeds_for_margin
    assert seeds == pairs_to_detect(0.1 / spread)
    assert detectable_effect(seeds) * spread <= 0.1 < detectable_effect(seeds - 1) * spread
    # In 80 of 100 cases the spread is what four pairs show, times these.
    assert low == pairs_to_detect(0.1 / (spread * np.sqrt(3 / stats.chi2.ppf(0.9, 3))))
    assert high == pairs_to_detect(0.1 / (spread * np.sqrt(3 / stats.chi2.ppf(0.1, 3))))
    assert low < seeds < high


def test_no_pair():
    c = of([], [])
    assert c.n_pairs == 0
    assert {c.difference, c.relative, c.interval, c.p, c.detectable, c.seeds_for_margin} == {None}


def test_one_pair_has_a_difference_and_nothing_else():
    c = of([0.5], [1.0])
    assert (c.n_pairs, c.difference, c.relative) == (1, -0.5, -0.5)
    assert {c.interval, c.p, c.p_family, c.detectable, c.seeds_for_margin} == {None}


@pytest.mark.parametrize("shift", [0.0, 0.1, -3.0])
def test_differences_that_are_all_alike_are_no_evidence_of_certainty(shift):
    baseline = np.array([0.7, 1.3, 2.9])
    c = of(baseline + shift, baseline)  # 0.1 is rounded otherwise in each sum
    assert c.difference == pytest.approx(shift)
    assert {c.interval, c.p, c.detectable, c.seeds_for_margin} == {None}


def test_only_seeds_that_both_have_are_paired():
    pairs = paired({0: 1.0, 3: 2.0, 7: 5.0}, {7: 4.0, 1: 9.0, 0: 3.0})
    assert pairs.seeds == (0, 7)
    assert pairs.arm.tolist() == [1.0, 5.0]
    assert pairs.baseline.tolist() == [3.0, 4.0]


def test_values_that_are_not_finite_are_left_out():
    nan, inf = math.nan, math.inf
    pairs = paired(
        {0: 1.0, 1: nan, 2: 1.0, 3: None, 4: 2.0, 5: 1e200}, {0: 1.0, 1: 1.0, 2: inf, 3: 1.0, 4: 1.0, 5: 1.0}
    )
    assert pairs.seeds == (0, 4)


def test_a_baseline_of_mean_zero_has_no_percentages():
    c = of([1.0, 2.5], [-1.0, 1.0])
    assert c.relative is None
    assert c.seeds_for_margin is None
    assert c.p is not None


def test_a_negative_baseline_keeps_the_sign_of_the_difference():
    assert of([-1.0], [-2.0]).relative == 0.5


def test_holm_on_a_worked_example():
    # Holm 1979, step down: .01 x 4, .02 x 3, .03 x 2, .04 x 1; the second is carried on, for none falls below it.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    # .005 x 4 = .02 and .012 x 3 = .036 pass at 5 %; .03 x 2 = .06 does not, and takes .04 with it.
    assert holm([0.005, 0.03, 0.04, 0.012]) == pytest.approx([0.02, 0.06, 0.06, 0.036])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([None, None]) == [None, None]
    assert holm([]) == []


def test_importing_it_loads_no_torch():
    code = "import sys, headway.stats.paired; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
