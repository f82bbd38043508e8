"""Law: a plan of looks says anything wrong in at most 5 of 100 experiments, though arms leave when they are settled."""

import sys

import numpy as np
import pytest
from support.house import ROOT
from support.many_families import FAMILIES

sys.path.append(str(ROOT / "benchmarks"))

from calibration import followed, runs, same_until, verdicts_until

from headway.stats.sequential import LookPlan, looks_until


@pytest.mark.slow
def test_nothing_is_the_same_that_differs_by_the_margin():
    assert same_until("order", "normal", 2.0, 500, 0) / 500 <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("arms", "n", "margin"), [(2, 3, 2.0), (4, 6, 1.0)])
def test_so_many_more_seeds_settle_a_difference_as_often_as_is_stated(arms, n, margin):
    n_open, stated, settled = followed(arms, n, margin, None, 300, 0)
    assert settled / n_open == pytest.approx(stated / n_open, abs=0.13)
    n_open, _, settled = followed(arms, n, margin, 0.5, 200, 1)
    assert settled / n_open > 0.6


def test_an_arm_that_is_settled_takes_no_more_runs():
    weights, rng = FAMILIES["4 arms"], np.random.default_rng(0)
    drawn = runs(rng, 4, 12, spread="normal") + np.array([0, 60.0, 60.0, 0.0])[:, None]
    outcomes, n_runs = verdicts_until(LookPlan(looks=looks_until(12), margin=0.01), drawn, weights)
    assert outcomes == ["apart", "apart", "open"]
    assert n_runs == 12 + 12 + 3 + 3
