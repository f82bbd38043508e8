"""Sobol points are scipy's, bit for bit."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import qmc

from headway.stats.simultaneous import _SOBOL_MOST, sobol_points


@pytest.mark.parametrize("dimensions", [1, 2, 3, 9, 13, _SOBOL_MOST, _SOBOL_MOST + 1])
def test_points_are_those_of_scipy(dimensions: int) -> None:
    for seed, power in ((0, 10), (7, 1), (7, 0)):
        expected = qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(seed)).random_base2(power)
        np.testing.assert_array_equal(sobol_points(dimensions, power, seed), expected)


def test_a_bound_is_found_without_what_takes_long_to_load() -> None:
    code = (
        "import sys, numpy as np; from headway.stats.simultaneous import Family; "
        "Family.of(np.array([[1.0, 0.5], [0.5, 1.0]])).bound(10, 0.05); "
        "print([name for name in ('scipy.stats', 'scipy.optimize', 'torch') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
