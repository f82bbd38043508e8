"""Values paired by seed, their differences before any test, and Holm's correction on worked examples."""

import math

import pytest

from headway.stats.evidence import holm, paired, untested_difference


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


def test_the_sign_of_a_difference_is_kept_below_0():
    assert untested_difference(paired({0: -1.0}, {0: -2.0})).relative == 0.5
    assert untested_difference(paired({0: 1.0, 1: 2.5}, {0: -1.0, 1: 1.0})).relative is None
    assert untested_difference(paired({}, {})).difference is None


def test_holm_on_a_worked_example():
    # Holm 1979, step down: .01 x 4, .02 x 3, .03 x 2, .04 x 1; the second is carried on, for none falls below it.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    # .005 x 4 = .02 and .012 x 3 = .036 pass at 5 %; .03 x 2 = .06 does not, and takes .04 with it.
    assert holm([0.005, 0.03, 0.04, 0.012]) == pytest.approx([0.02, 0.06, 0.06, 0.036])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([None, None]) == [None, None]
    assert holm([]) == []
