"""A plan of looks, followed: what is settled stays, what is open goes on, and nothing is said between looks."""

from dataclasses import replace

import numpy as np
import pytest

from headway.stats.blocks import block_test, needed_arms, reading, run_plan
from headway.stats.evidence import Difference
from headway.stats.sequential import LookPlan, looks_until

STAR = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])


def follow(*given):
    """The last state of a plan."""
    return list(run_plan(*given))[-1]


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
    assert reading(Difference.partly_known(n_pairs=4, interval=interval), margin) == expected
    assert reading(Difference.partly_known(n_pairs=2, interval=interval), margin) == "few"


def test_before_the_first_look_nothing_is_said():
    found = follow(LookPlan(looks=looks_until(12), margin=1.0), runs(2, [0, 5, 0]), STAR)
    assert found.look is None
    assert [one.outcome for one in found.contrasts] == ["few", "few"]
    assert found.open == (0, 1)


def test_a_large_effect_is_settled_at_the_first_look_and_keeps_its_verdict():
    y = runs(12, [0, 9, 0.2])
    first, later = (
        follow(LookPlan(looks=looks_until(12), margin=1.0), y[:, :3], STAR),
        follow(LookPlan(looks=looks_until(12), margin=1.0), y, STAR),
    )
    assert first.look == 1
    assert first.contrasts[0].outcome == "apart"
    assert later.contrasts[0] == first.contrasts[0]
    assert later.contrasts[1].n_pairs > 3


def test_seeds_between_two_looks_change_no_verdict():
    y = runs(5, [0, 9, 0.2])
    plan = LookPlan(looks=looks_until(12), margin=0.1)
    assert follow(plan, y, STAR).contrasts == follow(plan, y[:, :4], STAR).contrasts


def test_seeds_by_hand_of_an_arm_that_nothing_waits_for_change_no_interval():
    y = runs(12, [0, 9, 0.2])
    plan = LookPlan(looks=looks_until(12), margin=0.01)
    planned = y.copy()
    planned[1, 3:] = np.nan  # settled at three seeds
    of_plan, by_hand = follow(plan, planned, STAR), follow(plan, y, STAR)
    assert of_plan.look == by_hand.look == 5
    assert by_hand.contrasts == of_plan.contrasts
    assert by_hand.test.spread.mean_square == of_plan.test.spread.mean_square


def test_an_arm_that_is_settled_may_stop_and_a_failed_run_holds_nothing_up():
    y = runs(4, [0, 9, 0.2])
    y[1, 3] = np.nan  # settled at three seeds
    found = follow(LookPlan(looks=looks_until(12), margin=0.1), y, STAR)
    assert found.look == 2
    y[2, 3] = np.nan
    assert follow(LookPlan(looks=looks_until(12), margin=0.1), y, STAR).look == 1, (
        "the other is open, and its run has not ended"
    )
    ended = np.isfinite(y)
    ended[2, 3] = True
    failed = follow(LookPlan(looks=looks_until(12), margin=0.1), y, STAR, ended)
    assert failed.look == 2
    assert failed.contrasts[1].n_pairs == 3


def test_a_look_is_judged_at_its_own_level():
    y, plan = runs(4, [0, 0.3, 0.2]), LookPlan(looks=looks_until(12), margin=0.01)
    found = follow(plan, y, STAR)
    assert found.test.level == pytest.approx(0.008730, abs=1e-6)
    judged = block_test(y, STAR, level=plan.level_at(2)).contrasts[0]
    assert found.contrasts[0] == replace(judged, outcome=found.contrasts[0].outcome, look=2)


def test_arms_that_open_contrasts_need():
    assert needed_arms(STAR, (1,)) == (0, 2)
    assert needed_arms(STAR, ()) == ()
