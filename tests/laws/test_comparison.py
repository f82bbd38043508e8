"""Law: a comparison is symmetric; a planted effect is found at its stated power, a planted null is not."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.stats.paired import compare, detectable_effect, paired, pairs_to_detect
from headway.stats.simultaneous import LEVEL, POWER

EXPERIMENTS = 4_000


def of(arm, baseline):
    """The comparison of two lists of values, seeds being their positions."""
    return compare(paired(dict(enumerate(arm)), dict(enumerate(baseline))))


def planted(n_pairs, effect, *, spread=0.3):
    """Comparisons of simulated arms that differ by `effect`; what a seed does to both is large and cancels."""
    random = np.random.default_rng(n_pairs)
    seeds = 5 + 2 * random.standard_normal((EXPERIMENTS, n_pairs))
    return [
        of(shared + effect + noise, shared)
        for shared, noise in zip(seeds, spread * random.standard_normal((EXPERIMENTS, n_pairs)), strict=True)
    ]


def tolerance(share):
    """Four standard deviations of a share of the simulated experiments."""
    return 4 * math.sqrt(share * (1 - share) / EXPERIMENTS)


values = st.lists(
    st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)).map(lambda pair: tuple(round(x, 3) for x in pair)),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=200)
@given(values)
def test_swapping_negates_the_difference_and_keeps_the_evidence(pairs):
    arm, baseline = zip(*pairs, strict=True)
    there, back = of(arm, baseline), of(baseline, arm)
    assert back.difference == -there.difference
    assert back.p == there.p
    assert back.detectable == there.detectable
    if there.interval is None:
        assert back.interval is None
    else:
        assert back.interval == (-there.interval[1], -there.interval[0])


@settings(max_examples=50)
@given(values, st.randoms(use_true_random=False))
def test_the_order_of_seeds_does_not_matter(pairs, random):
    items = list(enumerate(pairs))
    shuffled = random.sample(items, len(items))
    first, second = (
        paired({s: a for s, (a, _) in order}, {s: b for s, (_, b) in order}) for order in (items, shuffled)
    )
    assert compare(first) == compare(second)


@pytest.mark.slow
@pytest.mark.parametrize("n_pairs", [2, 3, 5, 10])
def test_a_planted_effect_is_found_at_its_stated_power(n_pairs):
    found = [c.p < LEVEL for c in planted(n_pairs, 0.3 * detectable_effect(n_pairs))]
    assert np.mean(found) == pytest.approx(POWER, abs=tolerance(POWER))


@pytest.mark.slow
@pytest.mark.parametrize("n_pairs", [2, 3, 5, 10])
def test_a_planted_null_is_found_at_the_level_only(n_pairs):
    comparisons = planted(n_pairs, 0.0)
    assert np.mean([c.p < LEVEL for c in comparisons]) == pytest.approx(LEVEL, abs=tolerance(LEVEL))
    covered = np.mean([c.interval[0] < 0 < c.interval[1] for c in comparisons])
    assert covered == pytest.approx(1 - LEVEL, abs=tolerance(LEVEL))


def test_the_stated_size_is_the_detectable_one_of_the_true_spread():
    stated = [c.detectable for c in planted(5, 0.0)]
    # As often too large as too small.
    assert np.median(stated) == pytest.approx(0.3 * detectable_effect(5), rel=0.04)


def test_the_advised_number_of_seeds_has_the_power_and_one_fewer_has_not():
    n = pairs_to_detect(0.9)
    effect = 0.9 * 0.3
    enough, fewer = (np.mean([c.p < LEVEL for c in planted(k, effect)]) for k in (n, n - 1))
    assert enough > POWER - tolerance(POWER)
    assert fewer < POWER + tolerance(POWER)
    assert detectable_effect(n) <= 0.9 < detectable_effect(n - 1)
