"""The plan that a directory is judged by, the questions that it asks, and the table that it is followed over."""

import pytest
from support.quadratic import experiment

from headway.adaptive.until import asked_of, extended
from headway.config.load import load
from headway.errors import UserError
from headway.stats.sequential import LookPlan, levels, looks_of
from headway.store.directory import Store
from headway.store.look_plans import StoredPlan, keep, keep_plan

PLAN = StoredPlan(
    looks=(3, 4, 6), margin=0.5, level=0.05, metric="eval_mse", asked={"q": {"fast": 1, "slow": -1}}, are_declared=False
)


@pytest.fixture
def store(tmp_path):
    of = experiment(steps=2).select(seeds=[0, 2])
    return Store.with_runs(tmp_path / "d", of, of.runs)[0]


def test_without_a_plan_there_is_one_look_at_all_seeds_and_a_stored_plan_is_the_plan(store):
    looks = looks_of(store)
    assert looks.plan_of(2) == LookPlan(looks=(2,), margin=1.0)
    assert looks.plan_of(0).looks == (1,)
    assert (looks.seeds, looks.asked, looks.awaits_what_has_no_folder) == ((), None, False)
    keep_plan(store.path, PLAN)
    looks = looks_of(store)
    assert looks.plan_of(2) == LookPlan(looks=(3, 4, 6), margin=0.5)
    assert looks.seeds == (0, 1, 2, 3, 4, 5)
    assert looks.asked == PLAN.asked


def test_after_a_search_the_fresh_seeds_are_judged(store):
    keep(store.path, "plan", StoredPlan(**{**vars(PLAN), "first_seed": 7}))
    assert looks_of(store).seeds == (7, 8, 9, 10, 11, 12)


def test_contrasts_are_asked_where_there_are_some_and_else_comparisons():
    order = load("head-progression")
    asked, declared = asked_of(order, [arm.name for arm in order.arms])
    assert declared
    assert set(asked) == {one.name for one in order.contrasts}
    asked, declared = asked_of(load("icl-heads"), ["h1", "h2", "h8"])
    assert not declared
    assert asked == {"h1 - h2": {"h1": 1, "h2": -1}, "h8 - h2": {"h8": 1, "h2": -1}}
    contrasts = {"first": "slow - fast", "all": {"better": ["slow", "fast"], "than": ["mid"]}}
    arms = {"slow": {}, "fast": {"training": {"learning_rate": 0.1}}, "mid": {"training": {"learning_rate": 0.07}}}
    some = experiment(arms=arms, contrasts=contrasts).select(arms=["slow", "fast"])
    assert asked_of(some, ["slow", "fast"]) == ({"first": {"slow": 1.0, "fast": -1.0}}, True)


def test_going_on_leaves_former_looks_their_levels():
    longer = extended(PLAN, 12)
    assert longer.looks == (3, 4, 6, 8, 12)
    assert longer.level == pytest.approx(0.1)
    assert levels(longer.looks, longer.level)[:3] == pytest.approx(levels(PLAN.looks, PLAN.level), rel=1e-6)
    with pytest.raises(UserError, match=r"^at most 48 seeds: the plan of this directory ends at 6, .* to 40 %"):
        extended(PLAN, 48)
