"""A plan of looks, followed: what is settled stays, what is open goes on, and nothing is said between looks."""

import numpy as np
import pytest

from headway.stats.blocks import ContrastEstimate, judge
from headway.stats.sequential import LookPlan, follow, needed_arms, reading

STAR = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])


def runs(n, effects, spread=0.5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n) + np.array(effects)[:, None] + spread * rng.normal(size=(len(effects), n))


@pytest.mark.parametrize(
    ("interval", "margin", "expected"),
    [
        ((0.3, 0.9), 1.0, "small"),
        ((0.3, 1.9), 1.0, "apart"),
        ((-1.9, -1.1), 1.0, "apart"),
        ((-0.4, 0.6), 1.0, "same"),
        ((-0.4, 1.6), 1.0, "open"),
    ],
)
def test_readings(interval, margin, expected):
    middle, half = np.mean(interval), (interval[1] - interval[0]) / 2
    judged = ContrastEstimate(n_seeds=4, estimate=float(middle), se=1.0, freedom=6.0, bound=float(half))
    assert reading(judged, margin) == expected


def test_two_seeds_settle_nothing():
    judged = ContrastEstimate(n_seeds=2, estimate=50.0, se=0.1, freedom=5.0, bound=3.0)
    assert reading(judged, 1.0) == "few"


def test_before_the_first_look_nothing_is_said():
    found = follow(LookPlan.until(12, 1.0), runs(2, [0, 5, 0]), STAR)
    assert found.look is None
    assert [one.outcome for one in found.contrasts] == ["few", "few"]
    assert found.open == (0, 1)


def test_a_large_effect_is_settled_at_the_first_look_and_keeps_its_verdict():
    y = runs(12, [0, 9, 0.2])
    first, later = follow(LookPlan.until(12, 1.0), y[:, :3], STAR), follow(LookPlan.until(12, 1.0), y, STAR)
    assert first.look == 0
    assert first.contrasts[0].outcome == "apart"
    assert later.contrasts[0] == first.contrasts[0]
    assert later.contrasts[1].n_seeds > 3


def test_seeds_between_two_looks_change_no_verdict():
    y = runs(5, [0, 9, 0.2])
    plan = LookPlan.until(12, 0.1)
    assert [one.judged for one in follow(plan, y, STAR).contrasts] == [
        one.judged for one in follow(plan, y[:, :4], STAR).contrasts
    ]


def test_seeds_by_hand_of_an_arm_that_nothing_waits_for_change_no_interval():
    y = runs(12, [0, 9, 0.2])
    plan = LookPlan.until(12, 0.01)
    planned = y.copy()
    planned[1, 3:] = np.nan  # settled at three seeds
    of_plan, by_hand = follow(plan, planned, STAR), follow(plan, y, STAR)
    assert of_plan.look == by_hand.look == 4
    assert by_hand.contrasts == of_plan.contrasts
    assert by_hand.family.residual_variance == of_plan.family.residual_variance


def test_an_arm_that_is_settled_may_stop_and_a_failed_run_holds_nothing_up():
    y = runs(4, [0, 9, 0.2])
    y[1, 3] = np.nan  # settled at three seeds
    found = follow(LookPlan.until(12, 0.1), y, STAR)
    assert found.look == 1
    y[2, 3] = np.nan
    assert follow(LookPlan.until(12, 0.1), y, STAR).look == 0, "the other is open, and its run has not ended"
    ended = np.isfinite(y)
    ended[2, 3] = True
    failed = follow(LookPlan.until(12, 0.1), y, STAR, ended)
    assert failed.look == 1
    assert failed.contrasts[1].n_seeds == 3


def test_a_look_is_judged_at_its_own_level():
    y, plan = runs(4, [0, 0.3, 0.2]), LookPlan.until(12, 0.01)
    found = follow(plan, y, STAR)
    assert found.family.level == pytest.approx(0.008730, abs=1e-6)
    assert found.contrasts[0].judged == judge(y, STAR, level=plan.level_at(1)).contrasts[0]


def test_a_plan_of_one_look_is_judged_at_the_full_level():
    assert LookPlan(looks=(5,), margin=1.0).level_at(0) == pytest.approx(0.05)


def test_arms_that_open_contrasts_need():
    assert needed_arms(STAR, (1,)) == (0, 2)
    assert needed_arms(STAR, ()) == ()
