"""Shares of seeds: McNemar's mid-p, Wilson's and Newcombe's intervals, and their sentences."""

import itertools
from math import comb

import numpy as np
import pytest

from headway.stats.cells import Cells
from headway.stats.contrasts import Question, judged
from headway.stats.sequential import Looking, LookPlan, looks_until
from headway.stats.shares import Share, compare_shares, difference_interval, mid_p
from headway.stats.verdicts import Solver, share_finding, share_of_seeds


def slow_mid_p(b, c):
    """Of all ways in which b + c coins fall: those less likely than this one, and half of those as likely."""
    n, chances = b + c, [comb(b + c, k) / 2 ** (b + c) for k in range(b + c + 1)]
    mine = chances[min(b, c)]
    less = sum(p for k, p in enumerate(chances) if abs(k - n / 2) > abs(b - n / 2))
    alike = sum(p for k, p in enumerate(chances) if abs(k - n / 2) == abs(b - n / 2))
    return less + alike / 2 if b != c else max(less + alike, 1.0) if mine else 1.0


@pytest.mark.parametrize(("b", "c"), [p for p in itertools.product(range(7), repeat=2) if p[0] != p[1]])
def test_mid_p_by_its_definition(b, c):
    assert mid_p(b, c) == pytest.approx(slow_mid_p(b, c))


def any_of_24_misses(interval, n, rng):
    """The share of 2,000 maps of 24 arms, each with its own true share, in which an interval misses."""
    ends = np.array([interval(Share(yes=yes, n=n)) for yes in range(n + 1)])
    true = rng.beta(0.5, 0.5, size=(2_000, 24))
    low, high = ends[rng.binomial(n, true)].transpose(2, 0, 1)
    return ((true < low) | (true > high)).any(1).mean()


@pytest.mark.parametrize("n", [8, 16, 32])
def test_the_intervals_of_a_map_hold_for_all_of_its_arms_at_once(n):
    rng = np.random.default_rng(0)
    assert any_of_24_misses(lambda share: share.interval_among(24), n, rng) <= 0.06
    assert any_of_24_misses(lambda share: share.interval, n, rng) > 0.5


def test_wilson_at_the_ends():
    low, high = Share(yes=0, n=64).interval
    assert low == 0
    assert high == pytest.approx(0.0566, abs=1e-4)
    assert Share(yes=64, n=64).interval == pytest.approx((1 - 0.0566, 1.0), abs=1e-4)


@pytest.mark.parametrize("cells", [(36, 12, 2, 0), (20, 20, 5, 5), (0, 0, 0, 9), (1, 0, 7, 2)])
def test_swapping_the_sides_negates_the_interval(cells):
    both, first, second, neither = cells
    low, high = difference_interval(*cells)
    assert difference_interval(both, second, first, neither) == pytest.approx((-high, -low))
    assert -1 <= low <= (first - second) / sum(cells) <= high <= 1


def found(first, second, n):
    return compare_shares({s: float(s in first) for s in range(n)}, {s: float(s in second) for s in range(n)})


def test_a_planted_difference_is_told_and_none_is_not():
    assert found(range(9), range(1), 10).outcome == "apart"
    assert found(range(5), range(5, 10), 10).outcome == "open"
    assert found(range(0), range(0), 10).p == 1.0
    assert found(range(1), range(0), 1).outcome == "few"


def test_sentences():
    can, cannot, unknown = (Solver(label=n, possible=p) for n, p in (("4 heads", True), ("1 head", False), ("h", None)))
    said = share_finding(found(range(60), range(0), 64), can, cannot, task="parity")
    assert said == (
        "4 heads vs 1 head: better, parity solved in 60 of 64 seeds (95 % CI 85 to 98 %) against 0 of 64 seeds "
        "(95 % CI 0 to 6 %); in theory 1 head cannot solve it"
    )
    said = share_finding(found(range(3), range(1, 4), 8), unknown, can, task="parity")
    assert said.startswith("h vs 4 heads: no clear difference (p = 1.00), parity solved in 3 of 8 seeds (")
    said = share_finding(found(range(8), range(0), 8), cannot, cannot, task="it")
    assert said.count("in theory 1 head cannot solve it") == 1
    said = share_finding(found(range(4), range(4), 4), can, can, task="it")
    assert "it solved in 4 of 4 seeds (95 % CI 51 to 100 %) against 4 of 4 seeds (" in said
    said = share_finding(found(range(2), range(0), 8), can, cannot, task="it")
    assert said.startswith("4 heads vs 1 head: settled by theory, it solved in 2 of 8 seeds (")
    said = share_finding(found(range(0), range(0), 8), can, cannot, task="it")
    assert said.startswith("4 heads vs 1 head: no clear difference (p = 1.00), ")
    nothing = share_finding(found((), (), 0), can, cannot, task="it")
    assert nothing == "4 heads vs 1 head: cannot be compared in it, since no seed has a result for every arm"


def test_pairs_that_no_seed_tells_apart_take_nothing_from_the_others():
    """The chance that anything is told where nothing is stays below its level, however rare it is to solve."""
    random = np.random.default_rng(3)
    none = np.zeros((6, 32), bool)
    planted = np.concatenate([none[:1], random.random((1, 32)) < 0.3, none])
    _, found = looked_at(planted)
    assert [one.outcome for one in found] == ["apart"] + ["open"] * 6
    assert found[0].p_family == found[0].p
    wrong = sum(
        any(one.outcome == "apart" for one in looked_at(random.random((5, 32)) < share)[1])
        for share in (0.02, 0.1, 0.5, 0.9)
        for _ in range(100)
    )
    assert wrong <= 0.05 * 400


def test_a_share_between_none_and_all_is_never_written_as_either():
    some = compare_shares({s: float(s > 0) for s in range(300)}, {s: float(s == 0) for s in range(300)})
    said = share_finding(some, Solver(label="a"), Solver(label="b"), task="it")
    shares = "299 of 300 seeds (95 % CI 98 to 99.9 %) against 1 of 300 seeds (95 % CI 0.1 to 2 %)"
    assert said == f"a vs b: better, it solved in {shares}"
    for n in (200, 1000, 100_000):
        for value in (1 / n, 1 - 1 / n):
            assert 0 < float(share_of_seeds(value)) < 1


def looked_at(solved, plan=None, unfinished=()):
    """The family and every arm against the first, of yes and no by arm and seed, at the seeds that ended."""
    values = np.array(solved, float)
    ended = np.ones(values.shape, bool)
    for arm, seed in unfinished:
        ended[arm, seed] = False
        values[arm, seed] = np.nan
    arms = tuple(f"a{at}" for at in range(len(values)))
    cells = Cells(arms=arms, seeds=tuple(range(values.shape[1])), values=values, ended=ended, asked=np.ones_like(ended))
    differences = [{arm: 1.0, "a0": -1.0} for arm in arms[1:]]
    question = Question(of="comparisons", metric="solved", control=None, differences=differences, cells=cells, runs={})
    looks = Looking(margin=1.0, plan=plan, seeds=tuple(range(plan.looks[-1])) if plan else ())
    return judged(question, looks)


def test_two_seeds_and_unfinished_runs_give_no_verdict():
    _, (two,) = looked_at([[0, 0], [1, 1]])
    assert (two.outcome, two.p, two.interval) == ("few", None, None)
    family, (waiting,) = looked_at([[0] * 12, [1] * 12], unfinished=[(1, 11)])
    assert (family.look, waiting.look, waiting.p, waiting.outcome) == (None, None, None, "open")
    assert "no verdict yet" in share_finding(waiting, Solver(label="b"), Solver(label="a"), task="parity")
    _, (told,) = looked_at([[0] * 12, [1] * 12])
    assert told.outcome == "apart"


def test_shares_are_judged_at_the_looks_of_a_plan_and_at_its_levels():
    plan = LookPlan(looks=looks_until(12), margin=1.0)
    family, (eight,) = looked_at([[0] * 9, [1] * 7 + [0, 1]], plan)
    assert (family.look, eight.n_pairs, eight.outcome) == (4, 8, "apart")
    family, (six,) = looked_at([[0] * 7, [1] * 5 + [0, 1]], plan)
    assert (family.look, six.n_pairs, family.level) == (3, 6, pytest.approx(plan.level_at(3)))
    assert (six.p, six.outcome) == (pytest.approx(mid_p(5, 0)), "open")
    assert mid_p(5, 0) < 0.05
