"""Whether a number lies above a bound in every layer: golden values, and what holds of the intervals."""

import numpy as np
import pytest

from headway.stats.lm.claims import every_layer

RISES = np.array([[0.02, 0.03, 0.01], [-0.03, -0.01, -0.02], [0.05, 0.04, 0.06], [0.01, -0.02, 0.0]]).T


def test_golden_values() -> None:
    (one,) = every_layer([RISES])
    expected = [(-0.000749, 0.040749), (-0.040749, 0.000749), (0.029251, 0.070749), (-0.026162, 0.019496)]
    np.testing.assert_allclose(one.together, expected, atol=1e-6)
    assert one.least == pytest.approx((-0.040749, 0.000749), abs=1e-6)
    assert not one.deny(0.0)
    assert one.deny(0.001)
    assert not one.confirm(0.0)
    assert one.confirm(-0.05)


def test_more_arms_widen_what_holds_for_all_at_once_and_not_what_each_layer_says_alone() -> None:
    (alone,) = every_layer([RISES])
    many = every_layer([RISES] * 8)
    assert all(np.ptp(one.together, axis=1).min() > np.ptp(alone.together, axis=1).min() for one in many)
    np.testing.assert_allclose(np.ptp(many[0].alone, axis=1), np.ptp(alone.alone, axis=1), rtol=0.1)


def test_arms_may_have_other_numbers_of_seeds_and_layers() -> None:
    rng = np.random.default_rng(0)
    small, large = every_layer([RISES, 0.02 + 0.01 * rng.normal(size=(12, 2))])
    assert small.together.mean(1).tolist() == pytest.approx(RISES.mean(0).tolist())
    assert large.together.shape == (2, 2)
    assert np.ptp(large.together, axis=1).max() < np.ptp(small.together, axis=1).min()
    assert large.confirm(0.0)


def test_a_layer_without_any_change_is_judged_by_the_others_and_nothing_without_any() -> None:
    still = RISES.copy()
    still[:, 1] = -0.02
    (one,) = every_layer([still])
    assert np.ptp(one.together[1]) > 0
    (none,) = every_layer([np.full((3, 2), -1.0)])
    assert not none.deny(0.0)
    assert not none.confirm(-2.0)
    assert every_layer([]) == []
