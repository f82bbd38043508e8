"""The moderated block test: its golden values, its laws, and what it says of arms that are missing or wild."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support.many_families import exact_star_bound, exact_star_p
from support.tolerance import nearly

from headway.stats.blocks import _residuals, block_test, prior_freedom

STAR = np.array([[100.2, 99.6, 100.4], [101.5, 100.9, 101.3], [100.1, 100.3, 99.9], [99.0, 99.9, 98.7]])


def against_first(n):
    """Each arm but the first less the first."""
    return np.hstack([-np.ones((n - 1, 1)), np.eye(n - 1)])


def near(value, within=1e-6):
    return pytest.approx(value, abs=within)


def test_two_arms_are_the_paired_t_test():
    y = np.array([[1.0, 1.3, 1.1], [0.9, 1.1, 0.8]])
    (one,) = block_test(y, np.array([[-1.0, 1.0]])).contrasts
    assert (one.estimate, one.se, one.freedom) == (near(-0.2), near(0.057735), 2)
    assert (one.p, one.bound, one.detectable) == (near(0.074180), near(4.302653), near(0.326404 * 1.201123))
    assert one.interval == (near(-0.448414), near(0.048414))
    assert one.p == nearly(stats.ttest_rel(y[1], y[0]).pvalue)
    assert one.p_family == one.p


@pytest.mark.slow
def test_a_complete_star():
    found = block_test(STAR, against_first(4))
    assert (found.spread.mean_square, found.spread.freedom) == (near(0.226389), 6)
    assert found.spread.prior_freedom == near(3.806125)
    assert found.spread.likeness == near(0.349391)
    for one in found.contrasts:
        assert one.freedom == near(2.096349)
        assert one.bound == near(exact_star_bound(3, one.freedom), 3e-3)
    second = block_test(STAR, against_first(4), level=0.0125).contrasts[1]
    assert second.bound == near(exact_star_bound(3, second.freedom, 0.0125), 1e-2)


def test_four_arms_of_which_spreads_are_alike():
    arms = np.array([[2.90, 2.93, 2.88], [2.87, 2.92, 2.86], [2.95, 2.94, 2.91], [2.89, 2.95, 2.87]])
    found = block_test(arms, against_first(4))
    assert found.spread.mean_square == near(0.000258, 5e-7)
    assert [one.se for one in found.contrasts] == [near(x) for x in (0.012019, 0.012824, 0.012561)]
    assert [one.freedom for one in found.contrasts] == [near(2.191562)] * 3
    assert [one.p for one in found.contrasts] == [near(x) for x in (0.227051, 0.133136, 1.0)]
    assert [one.p_family for one in found.contrasts] == [near(x, 2e-3) for x in (0.40977, 0.25006, 1.0)]
    assert [one.detectable for one in found.contrasts] == [near(x, 3e-4) for x in (0.101143, 0.107919, 0.105708)]
    arms[3, 2] = np.nan
    missing = block_test(arms, against_first(4))
    assert missing.spread.mean_square == near(0.0002875, 5e-8)
    assert [(one.n_pairs, one.freedom) for one in missing.contrasts] == [(3, near(5 / 3)), (3, near(5 / 3)), (2, 1)]
    assert [one.se for one in missing.contrasts] == [near(x) for x in (0.012649, 0.013416, 0.015)]
    assert missing.correlation[0, 2] == near(0.408248)


@pytest.mark.parametrize(
    ("variances", "freedom", "expected"),
    [
        ([0.2, 0.5, 1, 4, 9], [2] * 5, 3.634225),
        ([1, 1.1, 0.9, 1.2], [2] * 4, math.inf),
        ([0.01, 0.5, 1, 40], [2] * 4, 0.673709),  # the specification has .673705, its own formula this
        ([0.01, 0.5, 1, 40], [2, 2, 1, 2], 0.693894),
    ],
)
def test_how_alike_spreads_are(variances, freedom, expected):
    assert prior_freedom(np.array(variances, float), np.array(freedom, float)) == near(expected)


def test_a_star_is_dunnetts_test():
    # scipy's has no seeds: a family without any effect of them, and with as many degrees of freedom, agrees with it.
    assert exact_star_p(2.682870, 3, 12) == near(0.05)
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(4, 4))
    theirs = stats.dunnett(*samples[1:], control=samples[0], rng=np.random.default_rng(1)).pvalue
    pooled = samples.var(1, ddof=1).mean()
    t = (samples[1:].mean(1) - samples[0].mean()) / math.sqrt(pooled * 2 / 4)
    assert theirs == pytest.approx([exact_star_p(abs(x), 3, 12) for x in t], abs=2e-3)


arms = st.integers(2, 5).flatmap(
    lambda k: st.lists(
        st.lists(st.integers(-3000, 3000).map(lambda x: x / 1000), min_size=k, max_size=k), min_size=3, max_size=6
    )
)


@pytest.mark.slow
@settings(max_examples=60)
@given(arms)
def test_laws(rows):
    y = np.array(rows).T
    weights = against_first(len(y))
    plain = block_test(y, weights)
    back = block_test(y, -weights)
    shifted = block_test(y + np.arange(y.shape[1]) + 7, weights)
    turned = block_test(y[:, ::-1], weights)
    for one, other, moved, same in zip(
        plain.contrasts, back.contrasts, shifted.contrasts, turned.contrasts, strict=True
    ):
        assert other.estimate == near(-one.estimate, 1e-9)
        if one.interval is None:
            continue
        assert other.interval == (near(-one.interval[1], 1e-6), near(-one.interval[0], 1e-6))
        assert same.interval == (near(one.interval[0], 1e-6), near(one.interval[1], 1e-6))
        if moved.interval is not None:  # a spread as small as rounding may vanish in a larger number
            assert moved.interval == (near(one.interval[0], 1e-4), near(one.interval[1], 1e-4))


def test_too_few_seeds_and_no_spread_have_no_interval():
    one_seed = block_test(STAR[:2, :1], np.array([[-1.0, 1.0]])).contrasts[0]
    assert (one_seed.n_pairs, one_seed.interval, one_seed.detectable) == (1, None, None)
    assert one_seed.estimate == near(1.3)
    alike = block_test(np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]), np.array([[-1.0, 1.0]])).contrasts[0]
    assert (alike.n_pairs, alike.estimate, alike.interval) == (3, 1.0, None)
    none = block_test(np.full((2, 3), np.nan), np.array([[-1.0, 1.0]])).contrasts[0]
    assert none.n_pairs == 0
    assert none.estimate is None


@settings(max_examples=200)
@given(st.data())
def test_what_arms_and_seeds_leave_over_is_what_least_squares_leaves(data):
    """Against the whole design matrix, whose size is that of all cells times all arms and seeds."""
    n_arms, n_seeds = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    known = rng.random((n_arms, n_seeds)) < data.draw(st.floats(0.2, 1.0))
    known[rng.integers(n_arms), rng.integers(n_seeds)] = True
    y = np.where(known, 100 + 10.0 ** rng.uniform(-2, 2) * rng.normal(size=known.shape), 0)
    arms, seeds = np.nonzero(known)
    design = np.hstack([np.eye(n_arms)[arms], np.eye(n_seeds)[seeds]])
    wanted = y[arms, seeds] - y[arms, seeds].mean()
    fitted, _, rank, _ = np.linalg.lstsq(design, wanted, rcond=1e-10)
    rest, freedom = _residuals(y, known)
    assert freedom == len(arms) - rank
    assert (rest**2).sum() == pytest.approx(
        ((wanted - design @ fitted) ** 2).sum(), rel=1e-9, abs=1e-18 * len(arms) * 1e4
    )


def test_thousands_of_seeds_are_no_matter():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(3, 20_000)) + rng.normal(size=20_000)
    found = block_test(y, against_first(3))
    assert found.spread.mean_square == pytest.approx(1.0, rel=0.03)
    assert found.spread.freedom == 2 * (20_000 - 1)
