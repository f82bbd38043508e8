"""The best of many arms: halved by seeds, told with its chance, and judged on seeds that did not choose it."""

import numpy as np
import pytest
from scipy import stats
from support.planted_effects import experiment, hands, settle, wished

from headway.adaptive.messages import where_it_stands
from headway.adaptive.until import SearchContext
from headway.errors import UserError
from headway.stats.answer import answer
from headway.stats.results import Results, build
from headway.store.directory import Store
from headway.store.look_plans import Picked, RoundMade, StoredSearch, folder_of, keep, stored, stored_plan

EFFECTS = {"a0": 0.0, "a1": 1.0, "a2": -2.0, "a3": 0.5, "a4": 2.0}


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    path = tmp_path_factory.mktemp("best") / "d"
    return path, *settle(path, experiment(EFFECTS), wished(best=True, budget="18"))


def test_halving_finds_the_best_and_says_what_it_did(searched):
    path, told, ending = searched
    assert told[0] == (
        "searching the best of 5 arms by evaluation MSE in 17 runs: 1 seed for 5, 2 seeds for 3 and 3 seeds for 2; "
        "then two to four finalists get fresh seeds, at most 12 each: 6 to 48 runs more, which a budget of runs does "
        "not count"
    )
    assert told[1].startswith("round 1 of 3: 3 of 5 arms are left after 1 seed: a2")
    assert told[3] == "round 3 of 3: 1 of 2 arms are left after 6 seeds: a2"
    assert ending[0].startswith("picked a2 of 5 arms; if arms scatter normally with an unknown spread, the chance to ")
    assert "the chance to be the best is over 99 % for a2, " in ending[0]
    assert ending[0].endswith("; if arms form groups, it is less certain")
    assert stored(path, "picked", Picked).arm == "a2"


def test_verdicts_rest_on_fresh_seeds_alone(searched):
    path, told, ending = searched
    plan = stored_plan(path)
    finalists = stored(path, "picked", Picked).finalists
    assert plan.first_seed == 6
    assert list(plan.asked) == [f"a2 - {other}" for other in finalists[1:]]
    fresh = {(run.name, run.seed) for run in Store.open(path).runs() if run.seed >= 6}
    assert {name for name, _ in fresh} == set(finalists)
    assert any(line.startswith("look 1 of 5, 3 seeds:") for line in told)
    assert ending[2].startswith(f"a2 - {finalists[1]}: −")
    assert ": told apart after 3 seeds" in ending[2]
    n = sum(name == "a2" for name, _ in fresh)
    assert ending[-1].startswith(f"on {n} fresh seeds, a2 has 0.9")
    assert " y squared (95 % interval 0.9" in ending[-1]


def test_what_was_picked_stands_in_the_results_with_its_chance_and_its_fresh_estimate(searched):
    path, _, ending = searched
    built = build(Store.open(path))
    found = built.search
    assert (found.picked, found.n_runs, len(found.arms)) == ("a2", 17, 5)
    assert found.chances == stored(path, "picked", Picked).chances
    assert found.finalists[0] == "a2"
    assert found.first_fresh == 6
    fresh = [run.metrics["eval_mse"] for run in Store.open(path).runs() if run.name == "a2" and run.seed >= 6]
    assert (found.fresh.n_seeds, found.fresh.mean) == (len(fresh), pytest.approx(np.mean(fresh)))
    low, high = stats.t.interval(0.95, len(fresh) - 1, np.mean(fresh), stats.sem(fresh))
    assert found.fresh.interval == pytest.approx((low, high))
    assert {(c.arm, c.outcome, c.seeds[0]) for c in found.comparisons} == {("a2", "apart", 6)}
    assert found.sentences[:2] == (ending[0], ending[-1])
    assert found.sentences[2].startswith(f"on fresh seeds, a2 beats {found.finalists[1]} by ")
    assert found.sentences[-1].startswith(
        "95 % intervals" if len(found.comparisons) > 1 else "a 95 % interval, at look"
    )
    assert Results.from_json(built.to_json()) == built
    assert {one.outcome for one in built.judged} <= {"none", "apart"}
    assert all("pairs of seeds yet" not in said for said in answer(built))


def test_a_search_that_goes_on_says_so_and_elsewhere_there_is_none(tmp_path, searched):
    of = experiment(EFFECTS)
    by_hand = hands(tmp_path / "d", of, print)
    by_hand.run(of.select(seeds=1).runs)
    assert build(Store.open(tmp_path / "d")).search is None
    keep(tmp_path / "d", "search", stored(searched[0], "search", StoredSearch))
    assert list(where_it_stands(tmp_path / "d")) == ["searching the best of 5 arms: 0 of 3 rounds are made"]
    assert next(where_it_stands(searched[0])) == "searching the best of 5 arms: 3 of 3 rounds are made"
    found = build(Store.open(tmp_path / "d")).search
    assert (found.picked, found.sentences) == (
        None,
        ("the search among 5 arms is not over; `headway run` with --best goes on with it",),
    )


def written(path):
    """When each file was written last, but the note of what was read whole, which grows as files become old."""
    return {file: file.stat().st_mtime_ns for file in path.rglob("*.json") if not file.name.startswith(".")}


def test_again_nothing_is_run_and_the_same_is_said(searched):
    path, _, ending = searched
    before = written(path)
    assert settle(path, experiment(EFFECTS), wished(best=True, budget="999"))[1] == ending
    assert written(path) == before


def test_a_search_that_was_interrupted_goes_on_with_the_rounds_that_were_made(tmp_path, searched):
    path, _, ending = searched
    goal = wished(best=True, budget="18")
    ends = iter([1, 1, 0])

    class Interrupted(Exception):
        pass

    def interrupted(self, wanted):
        if next(ends) == 0:
            raise Interrupted
        return train(self, wanted)

    train = SearchContext.train
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SearchContext, "train", interrupted)
        with pytest.raises(Interrupted):
            settle(tmp_path / "d", experiment(EFFECTS), goal)
    rounds = sorted(file.name for file in folder_of(tmp_path / "d").glob("round-*"))
    assert rounds == ["round-1.json", "round-2.json"]
    assert settle(tmp_path / "d", experiment(EFFECTS), goal)[1] == ending
    for place in (1, 2, 3):
        kept = [stored(one, f"round-{place}", RoundMade).kept for one in (path, tmp_path / "d")]
        assert kept[0] == kept[1]


def test_a_round_waits_for_a_run_that_another_process_was_stopped_with(tmp_path, searched):
    _, _, ending = searched
    calls = []

    def stopped(self, wanted):
        calls.append(wanted)
        return train(self, wanted[:-1] if len(calls) == 1 else wanted)

    train = SearchContext.train
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SearchContext, "train", stopped)
        assert settle(tmp_path / "d", experiment(EFFECTS), wished(best=True, budget="18"))[1] == ending
    assert calls[1] == calls[0][-1:]


def test_a_round_whose_run_does_not_end_decides_nothing(tmp_path):
    train = SearchContext.train
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            SearchContext, "train", lambda self, wanted: train(self, [one for one in wanted if one[0] != "a2"])
        )
        told, ending = settle(tmp_path / "d", experiment(EFFECTS), wished(best=True, budget="18"))
    assert told[-1] == "stopped: 1 run of the round did not end; the same command goes on"
    assert ending[0].startswith("the search is in round 1 of 3: ")
    assert not stored(tmp_path / "d", "round-1", RoundMade)


def test_a_search_is_of_the_same_arms_and_not_judged_until_something(searched):
    path, _, _ = searched
    with pytest.raises(UserError, match=r"holds a search among 5 arms, and 2 were chosen; choose all of its arms"):
        settle(path, experiment(EFFECTS).select(arms=["a0", "a1"]), wished(best=True, budget="18"))
    with pytest.raises(UserError, match=r"^this directory has the plan of a search; go on with that"):
        settle(path, experiment(EFFECTS), wished(until="1%"))


def test_one_arm_or_too_few_runs_are_refused(tmp_path):
    of = experiment(EFFECTS)
    with pytest.raises(UserError, match=r"^the best of a1: it is the only arm that was chosen; choose two or more$"):
        settle(tmp_path / "d", of.select(arms=["a1"]), wished(best=True, budget="18"))
    with pytest.raises(UserError) as error:
        settle(tmp_path / "d", of, wished(best=True, budget="9"))
    assert str(error.value) == (
        "budget 9 runs: searching among 5 arms takes 3 rounds and 10 runs at least; give more, or choose fewer arms"
    )
    assert not (tmp_path / "d").exists()


def test_a_directory_that_was_looked_at_is_not_searched(tmp_path):
    of = experiment({"plain": 0, "worse": 3})
    settle(tmp_path / "d", of, wished(until="1%"))
    with pytest.raises(UserError, match=r"has a plan of looks, and what was looked at cannot be searched"):
        settle(tmp_path / "d", of, wished(best=True, budget="18"))


def test_a_time_is_as_many_runs_as_fit_beside_a_first_look_at_finalists(tmp_path):
    of, guessed = experiment(EFFECTS), dict.fromkeys(EFFECTS, 60.0)
    told, _ = settle(tmp_path / "d", of, wished(best=True, budget="15min"), guessed=guessed)
    assert told[0].startswith("searching the best of 5 arms by evaluation MSE in 17 runs: ")
    with pytest.raises(UserError, match=r"^budget 8 min 00 s \(about 4 runs, and finalists\): searching among 5 arms"):
        settle(tmp_path / "e", of, wished(best=True, budget="8min"), guessed=guessed)
    with pytest.raises(UserError, match=r"^budget 15 min 00 s: how long a run takes is not known yet; give"):
        settle(tmp_path / "f", of, wished(best=True, budget="15min"))
