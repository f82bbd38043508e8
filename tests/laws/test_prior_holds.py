"""Families with the spread of earlier experiments as a prior err no more often than is said, and detect more."""

import numpy as np
import pytest
from support.many_families import star

from headway.stats.blocks import block_test
from headway.stats.sequential import Prior


def with_prior(n_arms, n, ratio, freedom, *, sweeps, seed):
    """Families that are wrong, those that use the prior, and how much smaller detectable differences are in these.

    Args:
        n_arms: a baseline, and arms that do not differ from it.
        n: the seeds.
        ratio: the spread of runs over that in earlier experiments.
        freedom: of the spread in earlier experiments.
        sweeps: the families.
        seed: of the draws.
    """
    rng, weights = np.random.default_rng(seed), star(n_arms)
    wrong, used, sizes, plain = 0, 0, [], []
    for _ in range(sweeps):
        y = ratio * rng.standard_normal((n_arms, n))
        prior = Prior(variance=rng.chisquare(freedom) / freedom, freedom=freedom, source="")
        test = block_test(y, weights, prior=prior)
        wrong += any(low > 0 or high < 0 for low, high in (c.interval for c in test.contrasts))
        used += test.prior_weight > 0
        if ratio == 1:
            alone = block_test(y, weights)
            plain.append(alone.contrasts[0].detectable)
            sizes += [test.contrasts[0].detectable] if test.prior_weight else []
    return np.array([wrong, used, np.median(plain) / np.median(sizes) if sizes else np.nan])


@pytest.mark.slow
@pytest.mark.parametrize("n_arms", [2, 4])
@pytest.mark.parametrize("ratio", [0.5, 2.0, 6.0])
def test_a_prior_of_another_spread_makes_no_more_false_verdicts(n_arms, ratio):
    wrong, _, _ = with_prior(n_arms, 3, ratio, 10, sweeps=1_500, seed=1)
    assert wrong / 1_500 < 0.06 + 2 * 0.006  # two standard errors of the simulation


@pytest.mark.slow
@pytest.mark.parametrize(("n_arms", "gain", "use"), [(2, 1.6, 0.45), (4, 1.1, 0.45)])
def test_a_prior_of_the_same_spread_makes_detectable_differences_smaller(n_arms, gain, use):
    wrong, used, ratio = with_prior(n_arms, 3, 1.0, 40, sweeps=600, seed=1)
    assert wrong / 600 < 0.06
    assert used / 600 > use
    assert ratio > gain
