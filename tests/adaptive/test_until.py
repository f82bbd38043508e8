"""Seeds are added until questions are settled: looks as planned, whoever adds them, and whatever happens meanwhile."""

import io
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console
from support import planted_effects
from support.planted_effects import experiment, hands, settle, wished
from support.quadratic import wait_until

from headway.adaptive.messages import where_it_stands
from headway.errors import UserError
from headway.report.progress import status_table
from headway.stats.results import build
from headway.stats.verdicts import scope
from headway.store.directory import Store
from headway.store.lease import is_held
from headway.store.look_plans import stored_plan

HALF = wished(until="0.5%")
SHORT = wished(until="0.5%", at_most=4)


def seeds_of(path):
    """How many seeds each arm has."""
    found = {}
    for run in Store.open(path).runs():
        found[run.name] = found.get(run.name, 0) + (run.status == "done")
    return found


def by_hand(path, of, seeds):
    hands(path, of, print).run(of.select(seeds=seeds).runs)


def looks_of(path):
    """What was found at each look, without when."""
    return {look.n_seeds: (look.outcomes, look.intervals) for look in stored_plan(path).history}


def test_a_planted_difference_is_told_apart_early_and_its_arm_gets_no_more_seeds(tmp_path):
    of = experiment({"plain": 0, "worse": 3, "near": 0.45})
    told, ending = settle(tmp_path / "d", of, HALF)
    before = {path: path.read_bytes() for path in (tmp_path / "d").rglob("[!.]*.json")}
    assert settle(tmp_path / "d", of, HALF)[1] == ending
    assert {path: path.read_bytes() for path in (tmp_path / "d").rglob("[!.]*.json")} == before, "nothing is run again"
    seeds = seeds_of(tmp_path / "d")
    assert seeds["worse"] == 3
    assert seeds["plain"] == seeds["near"] > 3
    ends = [intervals["near - plain"] for _, intervals in looks_of(tmp_path / "d").values()]
    widths = [high - low for low, high in ends]
    assert len(widths) > 1
    assert widths[-1] < widths[0], "intervals shrink from look to look"
    assert told[0] == (
        "plan for 2 comparisons of evaluation MSE: add seeds until each has an answer within 0.5 %; interim analyses "
        "at 3, 4, 6, 8 and 12 seeds; family-wise error rate 5 %"
    )
    assert told[1:3] == ["next interim analysis: 3 seeds, 9 more runs", "interim analysis 1 of 5, 3 seeds:"]
    assert "next interim analysis: 4 seeds, 2 more runs" in told
    assert "  1 of 2 had been settled before" in told
    assert ending[0].startswith("worse vs plain: worse, evaluation MSE +3.")
    assert "(simultaneous 95 % CI " in ending[0]
    assert ending[0].endswith("; 3 seeds)")


def test_arms_that_are_alike_are_the_same_or_open_at_the_end(tmp_path):
    _, (same,) = settle(tmp_path / "same", experiment({"plain": 0, "alike": 1e-3}), wished(until="1%"))
    assert same.startswith("alike vs plain: as good within 1 %, evaluation MSE ")
    tight = wished(until="0.05%", at_most=4)
    _, (still_open,) = settle(tmp_path / "open", experiment({"plain": 0, "alike": 1e-3}), tight)
    assert still_open.startswith("alike vs plain: no clear difference, evaluation MSE ")
    assert "; 4 seeds)" in still_open
    assert seeds_of(tmp_path / "open") == {"plain": 4, "alike": 4}


def test_declared_contrasts_are_the_questions_and_arms_without_one_get_no_seeds(tmp_path):
    of = experiment(
        {"a-1": 0, "a-2": 0.01, "b-1": 3, "b-2": 3.01, "other": 0},
        contrasts={"b-a": {"better": "b-*", "than": "a-*"}},
    )
    told, ending = settle(tmp_path / "d", of, HALF)
    assert told[0] == "no comparison includes other, so no seeds are added there"
    assert told[1].startswith("plan for 1 contrast of evaluation MSE: add seeds until each has an answer")
    assert seeds_of(tmp_path / "d") == {"a-1": 3, "a-2": 3, "b-1": 3, "b-2": 3}
    assert ending[0].startswith("b-a: differs from 0, evaluation MSE +3.")


def test_contrasts_that_are_declared_later_are_no_part_of_the_plan(tmp_path):
    effects = {"plain": 0, "worse": 3, "more": 5}
    settle(tmp_path / "d", experiment(effects, contrasts={"first": "worse - plain"}), HALF)
    later = experiment(effects, contrasts={"first": "worse - plain", "second": "more - plain"})
    told, _ = settle(tmp_path / "d", later, HALF)
    assert told[0] == "second: added after an answer was known, so not part of the plan"
    assert list(stored_plan(tmp_path / "d").asked) == ["first"]


def test_results_say_what_was_settled_and_leave_what_was_planned_as_it_is(tmp_path):
    effects = {"plain": 0, "worse": 3, "near": 0.45, "never": 5}
    asked = {"first": "worse - plain", "second": "near - plain"}
    settle(tmp_path / "d", experiment(effects, contrasts=asked), SHORT)
    store = Store.open(tmp_path / "d")
    found = {one.name: one for one in build(store).contrasts}
    *_, (outcomes, intervals) = looks_of(tmp_path / "d").values()
    assert {name: one.outcome for name, one in found.items()} == outcomes
    assert found["second"].interval == pytest.approx(intervals["second"])
    assert (found["first"].n_pairs, found["second"].n_pairs) == (3, 4)

    Store.create(tmp_path / "d", experiment(effects, contrasts=asked | {"late": "worse - near"}))
    later = {one.name: one for one in build(Store.open(tmp_path / "d")).contrasts}
    assert (found["first"].look, found["second"].look, found["first"].late) == (1, 2, False)
    late = later.pop("late")
    assert late.late
    assert late.sentence.endswith("; added after an answer was known")
    assert later == found


def test_status_says_where_a_plan_stands(tmp_path):
    of = experiment({"plain": 0, "worse": 3, "alike": 1e-3})
    by_hand(tmp_path / "d", of, 2)
    assert list(where_it_stands(tmp_path / "d")) == []
    settle(tmp_path / "d", of, wished(until="0.05%", at_most=6))
    said = list(where_it_stands(tmp_path / "d"))
    assert said == [
        "plan for 2 comparisons of evaluation MSE: add seeds until each has an answer within 0.05 %; "
        "interim analyses at 3, 4 and 6 seeds",
        "interim analysis 3 of 3, 6 seeds: 1 of 2 settled; open: alike - plain; the plan has ended",
    ]
    written = io.StringIO()
    Console(file=written, width=200).print(status_table(Store.open(tmp_path / "d")))
    assert "\n".join(said) in written.getvalue()
    (tmp_path / "d/looks/after-6.json").unlink()
    _, said = where_it_stands(tmp_path / "d")
    assert said == "interim analysis 2 of 3, 4 seeds: 1 of 2 settled; open: alike - plain"
    for file in (tmp_path / "d/looks").glob("after-*"):
        file.unlink()
    assert list(where_it_stands(tmp_path / "d"))[1] == "no interim analysis has been made yet"


@pytest.mark.slow
def test_seeds_by_hand_after_the_end_change_no_interval_of_the_plan(tmp_path):
    of = experiment({"plain": 0, "worse": 3, "alike": 1e-3})
    settle(tmp_path / "d", of, wished(until="0.05%", at_most=6))
    assert seeds_of(tmp_path / "d") == {"plain": 6, "worse": 3, "alike": 6}
    before = build(Store.open(tmp_path / "d"))
    by_hand(tmp_path / "d", of, 8)
    after = build(Store.open(tmp_path / "d"))

    def said(found):
        return [(c.arm, c.estimate, c.interval, c.p_family, c.detectable) for c in found.judged]

    assert said(after) == said(before)
    assert after.families[0] == before.families[0]
    assert [one.seeds for one in after.judged] == [one.seeds for one in before.judged] == [(0, 1, 2), tuple(range(6))]
    assert [one.look for one in after.judged] == [1, 3]
    (warning,) = after.warnings
    assert warning.startswith("Verdicts leave out seeds beyond the end of the plan (2 after 6 seeds).")


@pytest.mark.slow
def test_seeds_that_were_run_by_hand_are_recounted_as_looks(tmp_path):
    of = experiment({"plain": 0, "alike": 1e-3})
    by_hand(tmp_path / "d", of, 5)
    told, _ = settle(tmp_path / "d", of, HALF)
    assert told[1:3] == [
        "5 seeds had finished before the plan of interim analyses was made. Its analyses at "
        "3 and 4 seeds therefore count as done. Verdicts from before the plan no longer hold.",
        "A verdict at 5 seeds came before the plan, so the rate of false positives is 8.6 %.",
    ]
    assert set(told[1:3]) <= set(build(Store.open(tmp_path / "d")).warnings), "and for good"
    straight = settle(tmp_path / "straight", of, HALF)
    assert looks_of(tmp_path / "d") == looks_of(tmp_path / "straight")
    assert "before the plan" not in "".join(straight[0])


def test_looks_that_were_skipped_are_made_on_the_seeds_that_they_would_have_had(tmp_path):
    of = experiment({"plain": 0, "near": 0.45})
    budget = hands(tmp_path / "d", of, print)
    _, first = wished(until="0.1%").begin(budget)
    by_hand(tmp_path / "d", of, 3)
    settle(tmp_path / "d", of, wished(until="0.1%", at_most=6))
    by_hand(tmp_path / "e", of, 6)
    settle(tmp_path / "e", of, wished(until="0.1%", at_most=6))
    assert first.seeds == (0, 1, 2)
    assert looks_of(tmp_path / "d") == looks_of(tmp_path / "e")


@pytest.mark.slow
def test_a_plan_that_goes_on_says_what_that_costs(tmp_path):
    of = experiment({"plain": 0, "alike": 1e-3})
    settle(tmp_path / "d", of, wished(until="0.02%", at_most=3))
    made = looks_of(tmp_path / "d")
    told, ending = settle(tmp_path / "d", of, wished(until="0.02%", at_most=6))
    assert told[0] == (
        "the plan of this directory ended at 3 seeds and now ends at 6; this raises its rate of false positives from 5 "
        "to 10 %"
    )
    plan = stored_plan(tmp_path / "d")
    assert (plan.looks, plan.level) == ((3, 4, 6), pytest.approx(0.1))
    assert made.items() <= looks_of(tmp_path / "d").items()
    assert "; 6 seeds)" in ending[0]
    found = build(Store.open(tmp_path / "d"))
    assert found.warnings == (
        "The plan of interim analyses was to end at 3 seeds and now ends at 6. This raises the plan's rate of "
        "false positives to 10 %.",
    )
    said = scope(found.families[0], found.judged)
    assert said.startswith("The comparison has a 90 % interval, at interim analysis 3 of 3.")
    with pytest.raises(UserError, match=r"^at most 60 seeds: the plan of this directory ends at 6, .* to 100 %"):
        settle(tmp_path / "d", of, wished(until="0.02%", at_most=60))


def test_an_arm_whose_runs_all_fail_holds_nothing_up(tmp_path):
    of = experiment({"plain": 0, "diverges": 95, "near": 0.45})
    _, ending = settle(tmp_path / "d", of, HALF)
    seeds = seeds_of(tmp_path / "d")
    assert seeds["diverges"] == 0
    assert len([run for run in Store.open(tmp_path / "d").runs() if run.name == "diverges"]) == 3
    said = "diverges vs plain: cannot be compared in evaluation MSE, since no seed has a result for every arm"
    assert ending[0] == said
    assert seeds["near"] > 3


def test_runs_that_failed_are_tried_again_by_a_later_call(tmp_path, monkeypatch):
    of = experiment({"plain": 0, "worse": 3})
    with monkeypatch.context() as patch:
        patch.setattr(planted_effects, "FAILS", 2.0)
        _, ending = settle(tmp_path / "d", of, SHORT)
    assert ending[0].startswith("worse vs plain: cannot be compared in ")
    told, ending = settle(tmp_path / "d", of, SHORT)
    changed = "the results of 3 seeds have changed since their interim analysis: runs were repeated or dropped, or "
    assert f"{changed}the rules changed" in told
    assert ending[0].startswith("worse vs plain: worse, ")


def test_an_arm_alone_is_refused(tmp_path):
    of = experiment({"plain": 0, "worse": 3})
    alone = r"^planted has no comparison of worse alone; choose another arm too, such as plain$"
    with pytest.raises(UserError, match=alone):
        settle(tmp_path / "d", of.select(arms=["worse"]), HALF)
    with pytest.raises(UserError, match=r"^planted has no comparison of plain alone; add an arm to compare it with$"):
        settle(tmp_path / "d", experiment({"plain": 0}), HALF)
    assert not (tmp_path / "d").exists()


def test_what_the_plan_of_a_directory_does_not_allow_is_refused(tmp_path):
    of = experiment({"plain": 0, "worse": 3, "more": 4, "never": 5}).select(arms=["plain", "worse", "more"])
    settle(tmp_path / "d", of, HALF)
    assert {one.arm: one.outcome for one in build(Store.open(tmp_path / "d")).judged} == {
        "worse": "apart",
        "more": "apart",
    }
    fewer, same, seeds = of.select(arms=["plain", "worse"]), of, seeds_of(tmp_path / "d")
    for chosen, goal, said in (
        (fewer, HALF, r"^the plan of .* includes more too; choose all of its arms$"),
        (same, wished(until="1%"), r"^until 1 %: the plan of this directory has the margin 0.5 %, which"),
        (same, wished(until="0.5%", at_most=8), r"^at most 8 seeds: .* directory has 12, .*use that number, or"),
    ):
        with pytest.raises(UserError, match=said):
            settle(tmp_path / "d", chosen, goal)
    assert seeds_of(tmp_path / "d") == seeds
    by_hand(tmp_path / "e", of, 5)
    with pytest.raises(UserError, match=r"^at most 4 seeds: .* has 5 already; give 5 or more, or another directory$"):
        settle(tmp_path / "e", of, SHORT)


def timeless(sentences):
    """Without about how long it would take."""
    return [re.sub(r" \([^()]* of training\)$", "", sentence) for sentence in sentences]


def process(path):
    """A process that settles a directory."""
    return subprocess.Popen(
        [sys.executable, planted_effects.__file__, str(path), "--at-most", "4"],
        env=os.environ | {"PLANTED_S": "0.2", "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_killed_in_the_middle_and_again_the_looks_are_the_same(tmp_path):
    of = experiment({"plain": 0, "near": 0.45})
    straight = settle(tmp_path / "straight", of, SHORT)[1]
    Store.create(tmp_path / "d", of)
    for waits_for in ("runs/near/seed-1", "looks/after-3.json", "runs/near/seed-3"):
        killed = process(tmp_path / "d")
        wait_until(lambda file=tmp_path / "d" / waits_for: file.exists())
        time.sleep(0.3)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    # Its workers see that it is gone a moment later.
    wait_until(lambda: not any(is_held(lease) for lease in (tmp_path / "d").glob("runs/*/seed-*/lease")))
    assert timeless(settle(tmp_path / "d", of, SHORT)[1]) == timeless(straight)
    assert looks_of(tmp_path / "d") == looks_of(tmp_path / "straight")


@pytest.mark.slow
def test_two_processes_share_the_work_and_find_the_same(tmp_path):
    of = experiment({"plain": 0, "near": 0.45})
    straight = settle(tmp_path / "straight", of, SHORT)[1]
    Store.create(tmp_path / "d", of)
    both = [process(tmp_path / "d") for _ in range(2)]
    said = [one.communicate()[0].splitlines() for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert [timeless(sentences) for sentences in said] == [timeless(straight)] * 2
    assert looks_of(tmp_path / "d") == looks_of(tmp_path / "straight")
    assert seeds_of(tmp_path / "d") == seeds_of(tmp_path / "straight")
    assert all("Traceback" not in (run.path / "log.txt").read_text() for run in Store.open(tmp_path / "d").runs())
