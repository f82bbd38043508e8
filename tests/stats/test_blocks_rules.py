"""The rules of today: no interval is narrower than that of a paired t test, and every plan is judged by them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from headway.base.identity import signed
from headway.stats.blocks import block_test
from headway.stats.sequential import RULES, look_plan
from headway.stats.warnings import judged_anew
from headway.store.look_plans import StoredPlan, keep_plan, stored_plan

STAR = np.hstack([-np.ones((3, 1)), np.eye(3)])
PLAN = StoredPlan(looks=(3, 4, 6), margin=0.5, level=0.05, metric="eval_mse", asked={}, are_declared=True, rules=RULES)


def test_a_plan_of_former_rules_is_judged_by_those_of_today_and_says_so(tmp_path):
    keep_plan(tmp_path, PLAN)
    assert not [*judged_anew(stored_plan(tmp_path).rules)]
    file = tmp_path / "looks/plan.json"
    content = json.loads(file.read_text())
    del content["rules"]
    file.write_text(json.dumps(signed(content)))
    plan = stored_plan(tmp_path)
    assert (plan.rules, look_plan(plan).rules) == (1, RULES)
    (said,) = judged_anew(plan.rules)
    assert "made with version 1 of Headway's rules" in said.sentence
    longer = keep_plan(tmp_path, replace(plan, looks=(3, 4, 6, 8), level=0.07))
    assert (longer.looks, longer.rules) == ((3, 4, 6, 8), 1)


def test_no_interval_is_narrower_than_that_of_its_own_t_test():
    rng = np.random.default_rng(1)
    for _ in range(20):
        y = rng.normal(size=(4, 4))
        alone = [block_test(y[[0, arm]], np.array([[-1.0, 1.0]]), level=0.01).contrasts[0] for arm in (1, 2, 3)]
        for one, other in zip(block_test(y, STAR, level=0.01).contrasts, alone, strict=True):
            assert one.bound * one.se >= other.bound * other.se - 1e-9
            assert (one.p_family < 0.01) == (not one.interval[0] <= 0 <= one.interval[1])


def test_arms_that_go_alike_with_their_seeds_count_with_all_degrees_of_freedom():
    y = np.random.default_rng(0).normal(size=(4, 400))
    assert block_test(y, STAR).spread.likeness == pytest.approx(1, abs=0.05)
    y[0] *= 8  # a baseline that varies more is all that the residuals show: one arm's worth of freedom of three
    assert block_test(y, STAR).spread.likeness == pytest.approx(1 / 3, abs=0.05)
