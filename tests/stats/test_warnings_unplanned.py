"""Seeds that are added by hand: what looking again costs is said, and what lies beyond a plan counts for nothing."""

import pytest
from support.fabricate_text import fabricate_text, head_progression

from headway.stats import results
from headway.stats.sequential import error_of
from headway.store.directory import Store
from headway.store.look_plans import Seen, StoredPlan, keep, keep_plan, seen

ARMS = ["ascending-low", "constant-low", "descending-low"]


def document(seeds: int):
    return head_progression().select(arms=ARMS, seeds=seeds, controls=[])


def grown(tmp_path, *counts: int) -> results.Results:
    """The results after so many seeds, and so many, in one directory."""
    path = tmp_path / "d"
    for n in counts:
        fabricate_text(tmp_path / f"with-{n}", document(n))
        if not path.exists():
            (tmp_path / f"with-{n}").rename(path)
        else:
            for folder in sorted((tmp_path / f"with-{n}").glob("runs/*/seed-*")):
                target = path / folder.relative_to(tmp_path / f"with-{n}")
                if not target.exists():
                    folder.rename(target)
        found = results.write(Store.open(path))
    return found


def said(found: results.Results) -> list[str]:
    return [warning for warning in found.warnings if "Seeds were added" in warning or "beyond the end" in warning]


def test_the_first_verdicts_are_a_look_that_says_nothing(tmp_path):
    assert said(grown(tmp_path, 3, 3)) == []
    assert seen(tmp_path / "d") == (3,)


def test_one_seed_and_two_give_no_verdict_and_are_no_look(tmp_path):
    assert said(grown(tmp_path, 1, 2, 3)) == []
    assert seen(tmp_path / "d") == (3,)


@pytest.mark.slow
def test_looking_again_is_counted_and_said(tmp_path):
    (warning,) = said(grown(tmp_path, 3, 5))
    assert warning == (
        "Seeds were added after a verdict at 3 seeds, and repeated testing raises the rate of false positives to "
        "8.0 %. `headway run` with --until plans interim analyses and corrects for them."
    )
    assert seen(tmp_path / "d") == (3, 5)
    (warning,) = said(grown(tmp_path, 10))
    assert (
        "after a verdict at 3 and 5 seeds, and repeated testing raises the rate of false positives to 11 %." in warning
    )
    assert error_of((3, 5, 10)) == pytest.approx(0.11, abs=5e-4)


def test_a_plan_that_is_stored_takes_the_place_of_such_looks(tmp_path):
    grown(tmp_path, 3, 5)
    asked = {"order": {"descending-low": 1.0, "constant-low": -1.0}}
    plan = StoredPlan(
        looks=(3, 5), margin=0.5, level=0.05, metric="eval_loss_nats", asked=asked, are_declared=False, n_before=5
    )
    keep_plan(tmp_path / "d", plan)
    found = results.write(Store.open(tmp_path / "d"))
    assert said(found) == []
    assert [warning for warning in found.warnings if "before the plan" in warning] == [
        "5 seeds had been run before the plan was made. They count as its interim analyses at 3 and 5 seeds, and "
        "former verdicts at the full level no longer hold.",
    ]
    assert seen(tmp_path / "d") == (3, 5)


def test_seeds_beyond_a_plan_count_for_no_verdict_and_that_is_said(tmp_path):
    before = grown(tmp_path, 3)
    asked = {"order": {"descending-low": 1.0, "constant-low": -1.0}}
    keep_plan(
        tmp_path / "d",
        StoredPlan(looks=(3,), margin=0.5, level=0.05, metric="eval_loss_nats", asked=asked, are_declared=False),
    )
    found = grown(tmp_path, 5)
    assert said(found) == [
        "Verdicts leave out seeds beyond the end of the plan (2 after 3 seeds). `headway run` with --until 0.5% "
        "--max-seeds 5 continues the plan."
    ]
    assert [one.n_pairs for one in found.judged] == [3] * len(before.judged)


def test_a_look_is_noted_once(tmp_path):
    grown(tmp_path, 3)
    note = tmp_path / "d" / "looks" / "seen-3.json"
    first = note.read_bytes()
    results.write(Store.open(tmp_path / "d"))
    assert note.read_bytes() == first
    assert keep(tmp_path / "d", "seen-3", Seen(n_seeds=3)).n_seeds == 3


def repeated(found: results.Results) -> list[str]:
    return [warning for warning in found.warnings if "after a verdict" in warning or "former verdict" in warning]


def test_arms_that_are_added_after_a_verdict_are_named(tmp_path):
    path = tmp_path / "d"
    fabricate_text(path, head_progression().select(arms=ARMS[:2], seeds=3, controls=[]))
    results.write(Store.open(path))
    assert repeated(results.write(Store.open(path))) == []
    fabricate_text(tmp_path / "more", document(3))
    (tmp_path / "more/runs/descending-low").rename(path / "runs/descending-low")
    (warning,) = repeated(results.write(Store.open(path)))
    assert warning.startswith("Arms were added after a verdict (")
    assert "descending" in warning
    assert "the rate of false positives above 5 %" in warning


def test_runs_that_are_dropped_after_a_verdict_are_named(tmp_path):
    grown(tmp_path, 4)
    store = Store.open(tmp_path / "d")
    store.drop("constant-low", seeds=2)
    (warning,) = repeated(results.write(Store.open(tmp_path / "d")))
    assert warning.startswith("Runs of a former verdict are gone: constant-low seed 2. ")
