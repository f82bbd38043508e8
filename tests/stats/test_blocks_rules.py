"""Versions of the rules: what is planned keeps the one that it began with, and a value of 0 undoes no plan."""

import json
from dataclasses import replace

import numpy as np

from headway.base.identity import signed
from headway.stats.blocks import block_test, run_plan
from headway.stats.cells import Cells
from headway.stats.contrasts import Question, judged
from headway.stats.sequential import RULES, Looking, LookPlan, look_plan
from headway.store.look_plans import StoredPlan, keep_plan, stored_plan

STAR = np.hstack([-np.ones((2, 1)), np.eye(2)])
PLAN = StoredPlan(looks=(3, 4, 6), margin=0.5, level=0.05, metric="eval_mse", asked={}, are_declared=True, rules=RULES)


def asked(values, plan):
    """What is said of arms against the first, by a plan."""
    values = np.array(values)
    arms, there = tuple("abc"[: len(values)]), np.ones(values.shape, bool)
    cells = Cells(arms=arms, seeds=tuple(range(values.shape[1])), values=values, ended=there, asked=there)
    weights = [{arm: 1.0, "a": -1.0} for arm in arms[1:]]
    question = Question(
        of="comparisons", metric="eval_loss_nats", control=None, differences=weights, cells=cells, runs={}
    )
    return judged(question, Looking(margin=0.5, plan=plan, seeds=tuple(range(12))))


def test_a_plan_that_tells_no_rules_began_with_the_first(tmp_path):
    keep_plan(tmp_path, PLAN)
    assert stored_plan(tmp_path).rules == RULES == look_plan(PLAN).rules
    file = tmp_path / "looks/plan.json"
    content = json.loads(file.read_text())
    del content["rules"]
    file.write_text(json.dumps(signed(content)))
    assert look_plan(stored_plan(tmp_path)).rules == 1
    longer = keep_plan(tmp_path, replace(stored_plan(tmp_path), looks=(3, 4, 6, 8), level=0.07))
    assert (longer.looks, longer.rules) == ((3, 4, 6, 8), 1)


def test_an_open_plan_is_judged_by_its_own_rules():
    y = np.random.default_rng(0).normal(size=(3, 6))
    y[2] *= 30
    halves = {}
    for rules in (1, RULES):
        *_, state = run_plan(replace(LookPlan.until(12, 0.1), rules=rules), y, STAR)
        halves[rules] = state.contrasts[0].bound * state.contrasts[0].se
        assert state.test.wild == ((2,) if rules == RULES else ())
    assert halves[1] > 4 * halves[RULES]


def test_no_interval_of_an_interim_analysis_is_narrower_than_that_of_its_own_t_test():
    rng = np.random.default_rng(1)
    for _ in range(20):
        y = rng.normal(size=(4, 4))
        weights = np.hstack([-np.ones((3, 1)), np.eye(3)])
        alone = [block_test(y[[0, arm]], np.array([[-1.0, 1.0]]), level=0.01).contrasts[0] for arm in (1, 2, 3)]
        for one, other in zip(block_test(y, weights, level=0.01, is_interim=True).contrasts, alone, strict=True):
            assert one.bound * one.se >= other.bound * other.se - 1e-9
            assert (one.p_family < 0.01) == (not one.interval[0] <= 0 <= one.interval[1])


def test_a_baseline_that_varies_more_is_judged_by_its_own_spread():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(4, 8))
    weights = np.hstack([-np.ones((3, 1)), np.eye(3)])
    assert (block_test(y, weights).odd, block_test(y, weights).baseline_seeds) == ((), 7)
    y[0] *= 8
    found = block_test(y, weights)
    assert found.odd == (0,)
    assert [one.freedom for one in found.contrasts] == [7.0] * 3
    assert found.spread is None
    assert (block_test(y, weights, rules=1).odd, block_test(y, weights, rules=1).baseline_seeds) == ((), None)
