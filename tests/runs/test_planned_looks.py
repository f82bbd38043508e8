"""Plans of looks in a directory: written once, read by everybody, and only ever made longer."""

from dataclasses import replace
from multiprocessing.pool import ThreadPool

import pytest

from headway.errors import ResultsError
from headway.runs.planned_looks import LookMade, Picked, StoredPlan, StoredSearch, keep, keep_plan, stored, stored_plan

PLAN = StoredPlan(
    looks=(3, 4, 6), margin=0.5, level=0.05, metric="eval_mse", asked={"q": {"a": 1.0, "b": -1.0}}, are_declared=True
)


def test_a_directory_without_a_plan_has_none(tmp_path):
    assert stored_plan(tmp_path) is None
    assert stored(tmp_path, "search", StoredSearch) is None


def test_a_plan_is_read_back_with_the_looks_that_were_made(tmp_path):
    found = keep_plan(tmp_path, PLAN)
    assert replace(found, made="") == PLAN
    assert found.made.startswith("20")
    look = LookMade(n_seeds=3, outcomes={"q": "open"}, intervals={"q": (-1.0, 2.0)}, made="now")
    keep(tmp_path, "after-3", look)
    assert stored_plan(tmp_path).history == (look,)
    assert (found.at_most, found.arms, found.seeds) == (6, ("a", "b"), range(6))
    assert found.asked_digest == PLAN.asked_digest != replace(PLAN, asked={}).asked_digest


def test_of_many_writers_one_decides(tmp_path):
    plans = [replace(PLAN, margin=float(n)) for n in range(1, 9)]
    with ThreadPool(8) as pool:
        found = pool.map(lambda plan: keep_plan(tmp_path, plan), plans)
    assert len({plan.margin for plan in found}) == 1


def test_a_plan_becomes_longer_and_never_shorter(tmp_path):
    first = keep_plan(tmp_path, PLAN)
    longer = replace(PLAN, looks=(3, 4, 6, 8), level=0.07)
    assert keep_plan(tmp_path, longer).looks == (3, 4, 6, 8)
    assert keep_plan(tmp_path, PLAN).looks == (3, 4, 6, 8)
    assert stored_plan(tmp_path).made == first.made
    assert keep_plan(tmp_path, replace(PLAN, looks=(5, 20))).looks == (3, 4, 6, 8), "it is another plan"


def test_a_search_and_what_it_picked_are_read_back(tmp_path):
    search = StoredSearch(arms=("a", "b"), new_seeds=(4,), metric="eval_mse", margin=1.0, at_most=12, made="then")
    assert keep(tmp_path, "search", search) == search
    picked = Picked(arm="a", chances={"a": 0.8, "b": 0.2}, finalists=("a", "b"), made="then")
    assert keep(tmp_path, "picked", picked) == stored(tmp_path, "picked", Picked) == picked


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 1}', '{"schema": 1, "looks": "three"}'])
def test_what_cannot_be_read_is_told(tmp_path, content):
    (tmp_path / "looks").mkdir()
    (tmp_path / "looks/plan.json").write_text(content)
    with pytest.raises(ResultsError, match=r"plan.json: cannot be read \("):
        stored_plan(tmp_path)


def test_another_schema_is_told(tmp_path):
    (tmp_path / "looks").mkdir()
    (tmp_path / "looks/plan.json").write_text('{"schema": 2}')
    with pytest.raises(ResultsError, match=r"plan.json: another version of Headway wrote it; use that one, or another"):
        stored_plan(tmp_path)


def test_a_directory_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "looks").write_text("a file")
    with pytest.raises(ResultsError, match=r"plan.json cannot be (written|read)"):
        keep_plan(tmp_path, PLAN)
