"""Chances against draws: uniform where there is nothing, small where there is something, never below what is known."""

import math

import numpy as np
import pytest

from headway.heads.findings import chance, threshold


@pytest.mark.parametrize(("draws", "scale"), [(16, "size"), (8, "size"), (16, "share"), (16, "cosine")])
def test_one_more_draw_has_a_uniform_chance(draws, scale):
    """Maxima of 12 normal values, on the scale on which they have no bounds."""
    random = np.random.default_rng(0)
    plain = random.normal(size=(1500, draws + 1, 12)).max(2) * 0.3 - 1
    values = {"size": np.exp(plain), "share": 1 / (1 + np.exp(-plain)), "cosine": np.tanh(plain)}[scale]
    p = np.array([chance(one[0], one[1:], scale) for one in values])
    for level in (0.05, 0.01):
        assert (p <= level).mean() < level + 3 * math.sqrt(level / 1500)
    assert (p <= 0.3).mean() > 0.1


def test_what_is_far_beyond_every_draw_is_sure():
    drawn = np.random.default_rng(1).normal(0.05, 0.01, 16)
    assert chance(0.9, drawn, "share") < 1e-4
    assert chance(0.9, np.full(16, 0.05), "share") < 1e-4
    assert chance(0.05, drawn, "share") > 0.05


def test_a_draw_that_is_higher_is_no_accident():
    assert chance(0.9, [*[0.01] * 15, 0.95], "share") >= 2 / 17


def test_a_threshold_has_its_chance():
    drawn = np.random.default_rng(2).normal(0.3, 0.02, 16)
    at = threshold(drawn, 0.001)
    assert at > drawn.max()
    assert chance(at, drawn, "size") == pytest.approx(0.001, rel=0.02)


def test_too_few_draws_say_nothing():
    assert chance(0.9, [0.1, 0.1, 0.1], "share") == 1
    assert chance(math.nan, [0.1] * 16, "share") == 1
    assert math.isnan(threshold([0.1] * 3, 0.05))
