"""Roots are where scipy finds them."""

import math

import pytest
from scipy.optimize import brentq
from scipy.special import polygamma

from headway.stats.simultaneous import root


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (lambda x: x**3 - 2, 0.0, 2.0),
        (lambda x: math.exp(-x) - 1e-6, 0.0, 40.0),
        (lambda x: math.atan(x - 3), -50.0, 8.0),
        (lambda u: float(polygamma(1, math.exp(u))) - 0.5, -20.0, 20.0),
        (lambda u: float(polygamma(1, math.exp(u))) - 400.0, -20.0, 20.0),
        (lambda x: x, 0.0, 1.0),
        (lambda x: x - 1, 0.0, 1.0),
    ],
)
def test_it_is_where_scipy_finds_it(function, low, high):
    assert root(function, low, high, within=1e-13) == pytest.approx(brentq(function, low, high, xtol=1e-13), abs=1e-11)


def test_one_sign_at_both_ends_is_told():
    with pytest.raises(ValueError, match="one sign at both ends"):
        root(lambda x: 1 + x * x, -1.0, 1.0)
