"""Plans of looks: their levels against published ones, and what looking without a plan costs."""

import numpy as np
import pytest

from headway.stats.sequential import error_of, levels, looks_until


@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        ((3,), [0.05]),
        ((3, 6), [0.025, 0.033577]),
        ((2, 3, 5), [0.020000, 0.017345, 0.029516]),
        ((3, 5, 8, 12), [0.012500, 0.012256, 0.018539, 0.027059]),
        ((3, 4, 6, 8, 12), [0.012500, 0.008730, 0.013129, 0.015889, 0.026657]),
        ((3, 4, 6, 8, 12, 16), [0.009375, 0.006389, 0.009616, 0.011568, 0.019448, 0.024332]),
        # Five equal looks, as published by Lan and DeMets.
        ((1, 2, 3, 4, 5), [0.010000, 0.012704, 0.015916, 0.019328, 0.022875]),
    ],
)
def test_levels(looks, expected):
    assert levels(looks) == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize(
    ("looks", "expected"),
    [((3, 5), 0.080), ((3, 6), 0.083), ((3, 10), 0.089), ((3, 5, 10), 0.110), (tuple(range(3, 11)), 0.148)],
)
def test_what_looking_without_a_plan_costs(looks, expected):
    assert error_of(looks) == pytest.approx(expected, abs=6e-4)


def test_a_walk_without_an_effect_crosses_any_bound_in_five_of_a_hundred():
    looks, rng = looks_until(12), np.random.default_rng(0)
    steps = np.diff([0, *looks])
    walks = np.cumsum(rng.normal(size=(200_000, len(looks))) * np.sqrt(steps), axis=1) / np.sqrt(looks)
    from scipy.stats import norm

    bounds = norm.isf(np.array(levels(looks)) / 2)
    assert (np.abs(walks) >= bounds).any(1).mean() == pytest.approx(0.05, abs=0.002)


def test_a_plan_ends_where_it_is_to_end():
    assert looks_until(3) == (3,)
    assert looks_until(5) == (3, 4, 5)
    assert looks_until(2) == (2,)
