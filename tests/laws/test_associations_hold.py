"""Law: what goes with the loss by chance is found in 1 of 20 experiments, whatever both do in time."""

from collections.abc import Callable

import numpy as np
import pytest

from headway.stats.lm.diversity import associate

SWEEPS = 2_000

Series = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
"""From a generator and a shape (..., point) to series of which each is independent of the others."""


def remembering(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """AR(.8), from its own distribution on."""
    noise = rng.normal(size=shape)
    noise[..., 0] /= np.sqrt(1 - 0.64)
    for at in range(1, shape[-1]):
        noise[..., at] += 0.8 * noise[..., at - 1]
    return noise


def walking(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random walks."""
    return rng.normal(size=shape).cumsum(-1)


def settling(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Exponentials, each with its own rate, plus noise."""
    rate = 4 * np.exp(0.2 * rng.normal(size=(*shape[:-1], 1)))
    return np.exp(-rate * np.linspace(0, 1, shape[-1])) + 0.1 * rng.normal(size=shape)


KINDS = {"AR(.8)": remembering, "random walks": walking, "exponentials": settling}


def p_of(rng: np.random.Generator, series: Series, n: int, n_seeds: int, common: float = 0.0) -> float:
    """Of an experiment: the loss of each seed on two numbers of its heads, a share of its deviations in common."""
    x = series(rng, (n_seeds, 2, n))
    rest = series(rng, (n_seeds, n))
    rest, shared = rest - rest.mean(0), (x - x.mean(0)).sum(1)
    y = np.sqrt(common) * shared / shared.std() + np.sqrt(1 - common) * rest / rest.std()
    trend = 10 * np.exp(-np.linspace(0, 3, n))
    found = associate(list(y + trend), list(x.swapaxes(1, 2) - trend[:, None]))
    assert found is not None
    assert found.p is not None
    return found.p


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "n_seeds"), [(15, 4), (40, 5)])
def test_chance_is_found_in_1_of_20_experiments(kind: str, n: int, n_seeds: int) -> None:
    rng = np.random.default_rng([n, n_seeds])
    found = [p_of(rng, KINDS[kind], n, n_seeds) < 0.05 for _ in range(SWEEPS)]
    assert 0.03 <= np.mean(found) <= 0.07


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "n", "least"), [("exponentials", 15, 0.95), ("AR(.8)", 40, 0.95), ("AR(.8)", 15, 0.7)]
)
def test_half_in_common_is_found(kind: str, n: int, least: float) -> None:
    rng = np.random.default_rng(n)
    found = [p_of(rng, KINDS[kind], n, 5, common=0.5) < 0.05 for _ in range(SWEEPS // 8)]
    assert np.mean(found) >= least


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_beyond_chance_is_nothing_where_nothing_is_in_common(kind: str) -> None:
    rng = np.random.default_rng(0)
    missed = []
    for _ in range(SWEEPS // 4):
        x, y = KINDS[kind](rng, (5, 2, 40)), KINDS[kind](rng, (5, 40))
        found = associate(list(y), list(x.swapaxes(1, 2)))
        assert found is not None
        low, high = found.beyond_interval
        missed.append(not low <= 0 <= high)
    assert np.mean(missed) <= 0.09
