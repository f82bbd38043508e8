"""Sequential halving: what rounds cost, who is kept, and whether the stated chance is the true one."""

from itertools import pairwise

import numpy as np
import pytest

from headway.stats.best_arm import arms_by_round, chances, finalists, new_seeds, ranked


@pytest.mark.parametrize("n", range(2, 70))
def test_rounds_halve_the_arms_until_two_are_left(n):
    left = arms_by_round(n)
    assert len(left) == int(np.ceil(np.log2(n)))
    assert left[-1] == 2
    assert all(now == -(-before // 2) for before, now in pairwise(left))


@pytest.mark.parametrize(("n", "budget"), [(2, 2), (5, 10), (5, 100), (32, 160), (32, 62), (7, 41), (100, 500)])
def test_rounds_cost_alike_and_no_more_than_the_budget(n, budget):
    left, new = arms_by_round(n), new_seeds(n, budget)
    costs = [seeds * arms for seeds, arms in zip(new, left, strict=True)]
    assert min(new) >= 1
    assert budget - max(left) < sum(costs) <= budget
    assert max(costs) <= max(n, budget // len(left) + max(left))


def test_too_few_runs_for_a_seed_each_are_refused():
    with pytest.raises(ValueError, match=r"^61 runs: a seed for each of 32, 16, 8, 4, 2 arms takes 62$"):
        new_seeds(32, 61)


def test_ranks_are_by_the_mean_over_seeds_and_what_failed_comes_last():
    y = np.array([[1.0, 9.0, 1.0], [0.5, 8.0, 0.4], [np.nan, np.nan, np.nan], [2.0, 9.5, 2.0]])
    assert ranked(y) == (1, 0, 3, 2)


def test_a_run_that_failed_at_a_hard_seed_is_no_merit():
    y = np.array([[1.0, 90.0, 1.0], [1.2, np.nan, 1.2]])
    assert ranked(y) == (0, 1)


def search(rng, effects, budget, spread=0.53):
    """The table of a search, and which arm it picked."""
    new = new_seeds(len(effects), budget)
    full = effects[:, None] + spread * rng.normal(size=(len(effects), sum(new))) + rng.normal(size=sum(new))
    y, alive, n = np.full_like(full, np.nan), np.arange(len(effects)), 0
    for seeds in new:
        y[alive, n : n + seeds] = full[alive, n : n + seeds]
        n += seeds
        alive = alive[list(ranked(y[alive, :n]))][: (len(alive) + 1) // 2]
    return y, int(alive[0]), new


def test_chances_add_up_and_go_to_who_is_better():
    y, picked, _ = search(np.random.default_rng(0), np.array([0.0, 1.0, 1.2, 3.0, -1.5]), 50)
    chance = chances(y)
    assert chance.sum() == pytest.approx(1)
    assert chance.argmax() == picked == 4
    assert chance[3] < 0.01


def test_an_arm_of_which_all_runs_failed_has_no_chance():
    y = np.array([[1.0, 1.1, 0.9], [np.nan, np.nan, np.nan], [1.5, 1.6, 1.2]])
    assert chances(y)[1] == 0
    assert chances(np.array([[1.0], [np.nan]])).tolist() == [1, 0]


@pytest.mark.slow
def test_the_stated_chance_of_what_is_picked_is_how_often_it_is_the_best():
    rng, stated, best = np.random.default_rng(1), [], []
    for _ in range(150):
        effects = 0.5 * rng.normal(size=16)
        y, picked, _ = search(rng, effects, 96)
        stated.append(chances(y)[picked])
        best.append(picked == effects.argmin())
    assert np.mean(stated) == pytest.approx(np.mean(best), abs=0.1)
    sure = np.array(stated) > 0.9
    assert np.mean(np.array(best)[sure]) > 0.85


@pytest.mark.slow
def test_the_stated_chance_of_arms_that_are_alike_is_near_that_of_a_guess():
    rng, stated = np.random.default_rng(1), []
    for _ in range(40):
        y, picked, _ = search(rng, 0.02 * rng.normal(size=16), 96)
        stated.append(chances(y)[picked])
    assert np.mean(stated) < 0.2


def test_finalists_are_two_to_four_and_begin_with_what_was_picked():
    assert finalists(1, np.array([0.9, 0.1])) == (1, 0)
    assert finalists(0, np.array([0.97, 0.01, 0.02])) == (0, 2)
    assert finalists(3, np.array([0.2, 0.2, 0.2, 0.2, 0.2])) == (3, 0, 1, 2)
