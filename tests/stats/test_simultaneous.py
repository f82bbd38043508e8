"""Points and roots of simultaneous bounds, beside scipy's."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import qmc

from headway.stats import simultaneous
from headway.stats.simultaneous import LargestT, bound_alone, root


@pytest.mark.parametrize("dimensions", [1, 2, 7, 48, 300])
def test_points_are_those_of_scipy(dimensions):
    made = simultaneous._sobol_points(dimensions)
    known = qmc.Sobol(dimensions, rng=np.random.default_rng(0)).random_base2(15)
    assert np.array_equal(made[np.lexsort(made.T)], known[np.lexsort(known.T)])


def test_bounds_are_the_roots_of_scipy():
    random = np.random.default_rng(1)
    for level in (0.2, 0.05, 1e-4):
        arms = int(random.integers(3, 9))
        largest = LargestT.of(np.corrcoef(random.normal(size=(arms, arms + 2))))
        freedom = float(random.uniform(2, 40))
        ends = bound_alone(freedom, level), 1.0001 * bound_alone(freedom, level / arms)
        known = brentq(lambda q, of=largest, n=freedom, p=level: of.p(q, n) - p, *ends)
        assert largest.bound(freedom, level) == pytest.approx(known, rel=1e-10)


@pytest.mark.parametrize(("low", "high"), [(1.0, 3.0), (-1.0, 1.0), (0.0, 1.5)])
def test_an_end_or_the_middle_may_be_the_root(low, high):
    assert root(lambda x: x - 1, low, high) == pytest.approx(1)
