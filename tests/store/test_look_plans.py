"""Plans of looks in a directory: written once, read by everybody, and only ever made longer."""

import json
import shutil
from dataclasses import replace
from multiprocessing.pool import ThreadPool

import pytest
from support import quadratic

from headway.base.identity import signed
from headway.errors import ResultsError
from headway.stats import results
from headway.store import document as resolved
from headway.store import look_plans
from headway.store.directory import Store
from headway.store.look_plans import LookMade, Seen, StoredPlan, damages, keep, keep_plan, seen, stored_plan
from headway.store.verify import directory_warnings, verify

ASKED = {"q": {"slow": 1.0, "fast": -1.0}}
PLAN = StoredPlan(looks=(3, 4, 6), margin=0.5, level=0.05, metric="eval_mse", asked=ASKED, are_declared=True)


def test_a_plan_is_read_back_with_the_looks_that_were_made(tmp_path):
    found = keep_plan(tmp_path, PLAN)
    assert replace(found, made="") == PLAN
    assert found.made.startswith("20")
    look = LookMade(n_seeds=3, outcomes={"q": "open"}, intervals={"q": (-1.0, 2.0)}, made="now")
    keep(tmp_path, "after-3", look)
    assert stored_plan(tmp_path).history == (look,)
    assert (found.at_most, found.arms, found.seeds) == (6, ("slow", "fast"), range(6))


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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *(
            (content, r"cannot be read \(")
            for content in ("", "[]", {}, {"schema": 1}, {"schema": 1, "looks": "three"})
        ),
        ({"schema": 2}, "another version of Headway wrote it; use that one, or another"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path, content, said):
    assert stored_plan(tmp_path) is None
    (tmp_path / "looks").mkdir()
    (tmp_path / "looks/plan.json").write_text(content if isinstance(content, str) else json.dumps(signed(content)))
    with pytest.raises(ResultsError, match=f"plan.json: {said}"):
        stored_plan(tmp_path)


def test_a_directory_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "looks").write_text("a file")
    with pytest.raises(ResultsError, match=r"plan.json cannot be (written|read)"):
        keep_plan(tmp_path, PLAN)


LOOK = LookMade(n_seeds=3, outcomes={"q": "open"}, intervals={"q": None}, made="now")


@pytest.fixture
def planned(tmp_path):
    """A directory with a plan, a look that was made, and verdicts that were given before."""
    of = quadratic.experiment(seeds=4)
    Store.with_runs(tmp_path / "d", of, of.runs)
    keep(tmp_path / "d", "seen-2", Seen(n_seeds=2))
    keep_plan(tmp_path / "d", PLAN)
    keep(tmp_path / "d", "after-3", LOOK)
    return tmp_path / "d"


def verified(path):
    return [damage for looked in verify(path) for damage in looked.damages]


def change(file, **changes):
    """Change what a signed file says, and sign it anew."""
    file.write_text(json.dumps(signed({**json.loads(file.read_text()), **changes})))


def test_what_is_kept_stands_in_the_document_and_is_whole(planned):
    assert set(resolved.anchors(planned)) == {"plan", "after-3", "seen-2"}
    assert {len(states) for states in resolved.anchors(planned).values()} == {1}
    assert list(damages(planned)) == verified(planned) == []
    assert resolved.doubt(planned) == ""
    assert Store.open(planned).experiment.dump() == quadratic.experiment(seeds=4).dump()


@pytest.mark.parametrize(
    ("key", "value"),
    [("looks", [3, 6]), ("margin", 5.0), ("level", 0.2), ("metric", "w"), ("asked", {"q": {"a": 1.0}})],
)
def test_a_plan_that_was_changed_gives_no_verdict_though_it_is_signed_anew(planned, key, value):
    change(planned / "looks/plan.json", **{key: value})
    said = (
        f"{planned}/looks/plan.json is not as it was written; put it back from a copy, or train the experiment "
        "again in another directory"
    )
    assert verified(planned) == list(damages(planned)) == [said]
    for judges in (stored_plan, lambda path: results.build(Store.open(path)), lambda path: keep_plan(path, PLAN)):
        with pytest.raises(ResultsError, match="until then there are no verdicts of this plan"):
            judges(planned)


@pytest.mark.parametrize("lost", ["looks", "looks/plan.json"])
def test_a_plan_that_is_gone_gives_no_verdict(planned, lost):
    shutil.rmtree(planned / lost) if lost == "looks" else (planned / lost).unlink()
    assert f"{planned}/looks/plan.json is missing" in " ".join(verified(planned))
    with pytest.raises(ResultsError, match=r"plan.json is missing; put it back from a copy, or"):
        results.build(Store.open(planned))


@pytest.mark.parametrize("name", ["after-3", "seen-2"])
def test_what_was_looked_at_is_told_where_it_is_lost_and_still_counts(planned, name):
    (planned / f"looks/{name}.json").unlink()
    (said,) = damages(planned)
    assert f"{name}.json is missing" in said
    assert verified(planned) == [said]
    assert said in list(directory_warnings(planned))
    assert 2 in seen(planned)
    assert stored_plan(planned).looks == PLAN.looks
    keep(planned, name, LOOK if name == "after-3" else Seen(n_seeds=2))
    assert list(damages(planned)) == [], "it was said again"


def test_a_plan_of_another_directory_is_none_of_this_one(planned, tmp_path):
    Store.create(tmp_path / "other", quadratic.experiment())
    shutil.copytree(planned / "looks", tmp_path / "other/looks")
    with pytest.raises(ResultsError, match=r"plan.json was not written here; move it out of the directory"):
        stored_plan(tmp_path / "other")
    assert len(verified(tmp_path / "other")) == 3


def test_a_plan_that_a_former_version_did_without_stays_said(planned):
    (planned / "looks/plan.json").unlink()
    left = {name: states for name, states in resolved.anchors(planned).items() if name != "plan"}
    resolved._change(planned, {"looks": left, "given_up": ["plan"]})
    assert stored_plan(planned) is None
    assert verified(planned) == []
    assert seen(planned) == (2, 3), "a look by a plan that is lost is one without a plan"
    assert any("looks/plan.json: lost here" in said for said in directory_warnings(planned))
    assert keep_plan(planned, replace(PLAN, margin=1.0)).margin == 1.0
    assert any("looks/plan.json: lost here" in said for said in directory_warnings(planned))


def test_a_look_that_rests_on_runs_that_nobody_names_is_said(planned):
    """As where the list was derived from the folders after some were gone; what was dropped is no loss."""
    of = Store.open(planned).experiment
    shutil.rmtree(planned / "runs/fast/seed-2")
    (planned / "experiment.yaml").unlink()
    Store.with_runs(planned, of, of.select(seeds=2).runs)
    assert verified(planned) == [
        f"{planned}/looks/after-3.json depends on missing runs: fast seed 2; `headway run` with its file trains them"
    ]
    Store.open(planned).drop("slow", seeds=1)
    assert len(verified(planned)) == 1
    Store.with_runs(planned, of, of.runs)
    assert verified(planned) == []


def test_a_look_after_which_a_question_was_settled_needs_no_further_seeds_of_its_arms(planned):
    keep(planned, "after-4", replace(LOOK, n_seeds=4))
    keep(planned, "after-6", replace(LOOK, n_seeds=6))
    assert "after-6.json depends on missing runs: fast seeds 4-5 and slow seeds 4-5;" in verified(planned)[0]
    (planned / "looks/after-4.json").unlink()
    resolved._change(planned, {"looks": {k: v for k, v in resolved.anchors(planned).items() if k != "after-4"}})
    keep(planned, "after-4", replace(LOOK, n_seeds=4, outcomes={"q": "same"}))
    assert verified(planned) == []


@pytest.mark.parametrize("longer", [False, True])
@pytest.mark.parametrize("after", range(3))
def test_who_is_killed_while_a_plan_is_written_leaves_the_former_one_or_this(tmp_path, monkeypatch, after, longer):
    Store.create(tmp_path, quadratic.experiment())
    if longer:
        keep_plan(tmp_path, PLAN)
    plan = replace(PLAN, looks=(3, 4, 6, 8)) if longer else PLAN
    steps = iter(range(3))

    def killed(do):
        def step(*given):
            if next(steps) == after:
                raise KeyboardInterrupt
            do(*given)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(look_plans, "write_text", killed(look_plans.write_text))
        patch.setattr(resolved, "note", killed(resolved.note))
        with pytest.raises(KeyboardInterrupt):
            keep_plan(tmp_path, plan)
    found = stored_plan(tmp_path)
    assert found == stored_plan(tmp_path)
    assert (found.looks if found else None) == (plan.looks if after == 2 else PLAN.looks if longer else None)
    assert verified(tmp_path) == []
    assert keep_plan(tmp_path, plan).looks == plan.looks
    assert [len(states) for states in resolved.anchors(tmp_path).values()] == [1]
    (tmp_path / "looks/plan.json").unlink()
    assert "plan.json is missing" in verified(tmp_path)[0]


def test_a_reader_in_the_middle_of_a_write_waits_for_no_one_and_sees_no_damage(planned, monkeypatch):
    whole = dict(resolved.anchors(planned))
    said = iter([{**whole, "plan": ["ffffffffffffffff"]}])
    monkeypatch.setattr(resolved, "anchors", lambda _: next(said, whole))
    assert look_plans.why_not(planned, "plan") == ""


def test_a_document_that_was_lost_or_grows_keeps_what_it_says_of_looks(planned):
    of, before = quadratic.experiment(), resolved.anchors(planned)
    Store.create(planned, quadratic.experiment(baseline="fast"))
    assert resolved.anchors(planned) == before
    Store.with_runs(planned, of, of.runs[:1])
    (planned / "experiment.yaml").unlink()
    Store.create(planned, of)
    assert set(resolved.anchors(planned)) == {"plan", "after-3", "seen-2"}
    assert verified(planned) == []


def test_an_edited_document_is_not_signed_by_who_notes_something_in_it(planned):
    document = planned / "experiment.yaml"
    document.write_text(document.read_text().replace("baseline: slow", "baseline: fast"))
    keep(planned, "after-4", replace(LOOK, n_seeds=4))
    assert "it is damaged, or it was edited" in resolved.doubt(planned)
    assert stored_plan(planned).history[-1].n_seeds == 4
    Store.create(planned, quadratic.experiment())
    assert (set(resolved.anchors(planned)), verified(planned)) == ({"plan", "after-3", "after-4", "seen-2"}, [])


def test_a_document_names_no_file_outside(planned):
    document = planned / "experiment.yaml"
    resolved._change(planned, {"looks": {"../../outside": ["0" * 16], "plan": 3}, "given_up": ["/etc/x", {}]})
    assert document.is_file()
    assert (resolved.anchors(planned), resolved.looks_given_up(planned)) == ({}, [])
