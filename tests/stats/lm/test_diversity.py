"""R^2 of one series on others: against slow definitions, golden values, and what cannot be told."""

import itertools

import numpy as np
import pytest
from support.tolerance import assert_same, nearly

from headway.stats.lm import diversity
from headway.stats.lm.diversity import FEWEST, associate, p_of_swaps, r_squared, swapped_shares
from headway.stats.lm.verdicts import untested

LOSSES = [
    [9.0, 6.1, 4.2, 3.4, 3.0, 2.5],
    [9.2, 5.7, 4.5, 3.1, 3.2, 2.4],
    [8.8, 6.0, 4.0, 3.6, 2.9, 2.8],
    [9.1, 6.3, 3.9, 3.3, 2.7, 2.6],
]
DIVERSITIES = [
    [0.10, 0.31, 0.43, 0.52, 0.55, 0.60],
    [0.09, 0.35, 0.41, 0.55, 0.53, 0.61],
    [0.11, 0.32, 0.45, 0.49, 0.57, 0.57],
    [0.10, 0.29, 0.46, 0.53, 0.58, 0.59],
]


def slow_r_squared(y: np.ndarray, x: np.ndarray) -> float:
    design = np.concatenate([np.ones((len(y), 1)), x], axis=1)
    fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return 1 - ((y - fitted) ** 2).sum() / ((y - y.mean()) ** 2).sum()


def related(rng: np.random.Generator, n_seeds: int, n: int = 40, share: float = 0.5) -> tuple[list, list]:
    """Losses that fall and diversities that rise; of what seeds do by themselves, they have a share in common."""
    time, common = np.linspace(0, 1, n), rng.normal(size=(n_seeds, n))
    ys = [5 - 3 * time + 0.1 * (np.sqrt(share) * c + np.sqrt(1 - share) * rng.normal(size=n)) for c in common]
    xs = [np.stack([0.2 + 0.5 * time + 0.02 * c, 0.1 * time**2 + 0.01 * rng.normal(size=n)], axis=1) for c in common]
    return ys, xs


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_r_squared_is_that_of_least_squares(scale: float) -> None:
    rng = np.random.default_rng(0)
    for n in (5, 40, 300):
        x = rng.normal(size=(n, 2)) * [scale, 1.0] + [5 * scale, -3]
        y = x @ [1 / scale, 2.0] + rng.normal(size=n) + 7
        assert r_squared(y, x) == nearly(slow_r_squared(y, x))


def test_a_regressor_that_does_not_vary_or_says_the_same_twice_says_nothing() -> None:
    # One pair of heads has no variance over pairs.
    rng = np.random.default_rng(1)
    x = np.stack([rng.normal(size=50), np.zeros(50)], axis=1)
    y = x[:, 0] + rng.normal(size=50)
    alone = np.corrcoef(y, x[:, 0])[0, 1] ** 2
    assert r_squared(y, x) == pytest.approx(alone)
    assert r_squared(y, np.stack([x[:, 0], 3 * x[:, 0]], axis=1)) == pytest.approx(alone)
    assert r_squared(y, np.full((50, 1), 0.1)) == 0.0


def test_what_cannot_be_told_is_none() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(30, 2))
    assert associate([], []) is None
    assert associate([np.ones(30)], [x]) is None
    assert associate([np.full(30, np.nan)], [x]) is None
    short = FEWEST - 1
    assert associate([x[:short, 0]], [x[:short]]) is None


def test_seeds_are_swapped_as_by_hand() -> None:
    shares = swapped_shares(np.array(LOSSES), np.array(DIVERSITIES)[:, :, None])
    assert shares is not None
    y, x = np.array(LOSSES) - np.mean(LOSSES, 0), np.array(DIVERSITIES) - np.mean(DIVERSITIES, 0)
    slow = [[slow_r_squared(one, other[:, None]) for other in x] for one in y]
    assert_same(shares, slow)
    own = np.diag(shares).mean()
    assert own == pytest.approx(0.928601, abs=1e-6)
    assert shares[~np.eye(4, dtype=bool)].mean() == pytest.approx(0.226965, abs=1e-6)
    assert p_of_swaps(shares) == pytest.approx(1 / 24)
    assert min(r_squared(np.array(a), np.array(b)[:, None]) for a, b in zip(LOSSES, DIVERSITIES, strict=True)) > 0.993


def test_the_p_of_few_seeds_is_over_all_permutations_and_of_many_over_some() -> None:
    rng = np.random.default_rng(3)
    for n in (4, 6):
        shares = rng.uniform(size=(n, n))
        sums = [sum(shares[i, to] for i, to in enumerate(one)) for one in itertools.permutations(range(n))]
        assert p_of_swaps(shares) == pytest.approx(np.mean(np.array(sums) >= np.trace(shares) - 1e-9))
    assert len(diversity._permutations(7)) == 5_040
    assert p_of_swaps(np.eye(9)) == pytest.approx(1 / 5_001)
    assert p_of_swaps(np.eye(9)) == p_of_swaps(np.eye(9))


def test_what_is_planted_is_found_and_how_much_of_it_is_no_chance() -> None:
    found = associate(*related(np.random.default_rng(4), 5))
    assert found is not None
    assert found.r2 > 0.9
    assert found.p is not None
    assert found.p < 0.05
    assert found.r2_own is not None
    assert found.r2_swapped is not None
    assert found.r2_own > 0.4 > 0.15 > found.r2_swapped
    assert found.beyond == pytest.approx(0.5, abs=0.12)
    assert found.beyond_interval is not None
    assert found.beyond_interval[0] < found.beyond < found.beyond_interval[1]
    assert found.per_series_beyond is not None
    assert np.mean(found.per_series_beyond) == pytest.approx(found.beyond)


def test_two_trends_explain_each_other_and_what_seeds_do_by_themselves_does_not() -> None:
    ys, xs = related(np.random.default_rng(5), 5, share=0.0)
    found = associate(ys, xs)
    assert found is not None
    assert found.r2 > 0.9
    assert found.p is not None
    assert found.p > 0.05
    assert found.beyond == pytest.approx(0.0, abs=0.06)


@pytest.mark.parametrize("n_seeds", [1, 2, 3])
def test_fewer_than_four_seeds_give_no_p_and_no_finding(n_seeds: int) -> None:
    found = associate(*related(np.random.default_rng(6), n_seeds))
    assert found is not None
    assert (found.p, found.beyond, found.beyond_interval, found.per_series_beyond) == (None,) * 4
    assert found.r2 > 0.9
    assert len(found.per_series) == n_seeds
    assert (found.r2_own is None) == (found.r2_swapped is None) == (n_seeds < 3)
    seeds = "1 seed" if n_seeds == 1 else f"{n_seeds} seeds"
    assert untested(n_seeds) == f"cannot be tested with {seeds}: the test needs 4"


def test_seeds_that_all_do_the_same_have_nothing_of_their_own() -> None:
    (y, *_), (x, *_) = related(np.random.default_rng(7), 1)
    found = associate([y] * 4, [x] * 4)
    assert found is not None
    assert found.r2 == pytest.approx(r_squared(y, x))
    assert (found.r2_own, found.p) == (None, None)
