"""Law: of a family's intervals, all cover in 95 of 100 experiments; what is said to be detectable is found in 80.

The families are simulated by the thousand with `support.many_families`, which has the numbers of `block_test`, as
tests/laws/test_odd_arms.py shows.
"""

import numpy as np
import pytest
from support import many_families
from support.many_families import FAMILIES, missed, star

from headway.stats.blocks import block_test, reading
from headway.stats.cells import Cells
from headway.stats.contrasts import Question, judged
from headway.stats.sequential import Looking

SWEEPS = 4_000


def drawn(n, sweeps=SWEEPS, arms=10, spread=1.0):
    """Runs (family, arm, seed) of arms that do not differ."""
    return spread * np.random.default_rng(n).normal(size=(sweeps, arms, n))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("n", [3, 10])
def test_few_families_of_nothing_have_an_interval_that_misses(name, n):
    weights = FAMILIES[name]
    # With three seeds the degrees of freedom are counted low: 0.001 to 0.014 where all arms vary alike.
    assert (0.0 if n == 3 else 0.015) <= missed(drawn(n, arms=weights.shape[1]), weights) <= 0.065


def scattered(factor):
    """Standard deviations that differ by up to a factor either way."""
    return factor ** np.random.default_rng(0).uniform(-1, 1, (SWEEPS, 10, 1))


SPREADS = {
    "mild": drawn(3) * scattered(1.6),
    "strong": drawn(3) * scattered(2.5),
    "one odd arm": drawn(3) * np.where(np.arange(10) == 3, 3.0, 1.0)[:, None],
    "t3": np.random.default_rng(3).standard_t(3, (SWEEPS, 10, 3)),
}


@pytest.mark.parametrize("spread", SPREADS)
def test_unequal_spreads_and_heavy_tails_err_no_more_often(spread):
    assert missed(SPREADS[spread], FAMILIES["13 comparisons"]) <= 0.065


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "n", "least"),
    [(FAMILIES["order"], 3, 0.7), (FAMILIES["order"], 10, 0.75), (star(2), 3, 0.75)],
    ids=["order-3", "order-10", "two arms-3"],
)
def test_what_is_detectable_is_found_four_times_in_five(weights, n, least):
    y = drawn(n, arms=weights.shape[1])
    # Each family states the median over what its spread may be: the median of families is that of the true spread.
    effect = np.median([block_test(runs, weights).contrasts[0].detectable for runs in y[:300]])
    estimate, half = many_families.judged(y + effect * (weights[0] > 0)[:, None], weights)
    assert least <= (estimate - half > 0)[:, 0].mean() <= 0.86


def answered(y, weights, margin=1.0):
    """What results say of runs, given in per cent: each difference's evidence, by the one function that judges."""
    arms, seeds = tuple(f"a{at}" for at in range(len(y))), tuple(range(y.shape[1]))
    there = np.ones(y.shape, bool)
    cells = Cells(arms=arms, seeds=seeds, values=np.exp(y / 100), ended=there, asked=there)
    differences = [{arm: w for arm, w in zip(arms, row, strict=True) if w} for row in weights]
    asked = Question(
        of="contrasts", metric="eval_loss_nats", control=None, differences=differences, cells=cells, runs={}
    )
    return judged(asked, Looking(margin=margin))[1]


@pytest.mark.parametrize("spread", [0.4, 1.0])
def test_results_say_what_the_family_says(spread):
    (y,) = drawn(4, sweeps=1, spread=spread)
    for weights in (FAMILIES["13 comparisons"], FAMILIES["order"]):
        said, found = answered(y, weights), block_test(y, weights).contrasts
        assert [one.interval for one in said] == [pytest.approx(one.interval) for one in found]
        assert [one.p_family for one in said] == pytest.approx([one.p_family for one in found])
        assert [one.outcome for one in said] == [reading(one, 1.0) for one in found]


def called_the_same(y):
    """The share of families whose first contrast is called the same within 1 %, and told apart."""
    estimate, half = (numbers[:, 0] for numbers in many_families.judged(y, FAMILIES["order"]))
    is_apart = np.abs(estimate) > half
    return np.mean(~is_apart & (np.abs(estimate) + half < 1)), np.mean(is_apart)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_what_differs_by_the_margin_is_seldom_called_the_same(n):
    y = drawn(n, spread=0.4)
    y[:, [2, 5, 8]] += 1.0
    assert called_the_same(y)[0] <= 0.06


def test_arms_that_do_not_differ_are_called_the_same_once_seeds_suffice():
    same, apart = called_the_same(drawn(10, spread=0.4))
    assert same >= 0.9
    assert apart <= 0.08
