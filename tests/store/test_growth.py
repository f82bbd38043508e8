"""A results directory grows with its file, and refuses only what would change a run that is there."""

import json
import re

import pytest
from support import quadratic
from support.processes import FORK, forked, joined

from headway.errors import ResultsError
from headway.store.directory import Store
from headway.store.lease import Lease

ARMS = {"slow": {}, "fast": {"training": {"learning_rate": 0.1}}}


def grown(directory, **document):
    """The directory with a folder for each run of the document that it is given."""
    of = quadratic.experiment(**document)
    return Store.with_runs(directory, of, of.select(controls="*").runs)[0]


@pytest.fixture
def store(tmp_path):
    return grown(tmp_path / "results")


@pytest.mark.parametrize(
    "change",
    [
        {"arms": {**ARMS, "faster": {"training": {"learning_rate": 0.2}}}},
        {"arms": {"fast": ARMS["fast"], "slow": {"label": "at leisure"}}},
        {"controls": {"long": {"training": {"steps": 120}}, "wide": {"model": {"n_heads": 4}}}},
        {"groups": {"both": {"arms": ["slow", "fast"], "baseline": "fast"}}},
        {"baseline": "fast"},
        {"question": "Still?"},
        {"seeds": 7},
        {"seeds": [3]},
        {"logging": {"every": 50}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_changes_no_run_is_taken_and_the_document_is_the_latest(store, change):
    before = {path: path.read_bytes() for path in store.path.glob("runs/*/*/run.json")}
    of = quadratic.experiment(**change)
    again = Store.create(store.path, of)
    assert again.experiment.dump() == of.dump()
    assert {path: path.read_bytes() for path in before} == before
    assert len(before) == 8


def test_the_same_document_is_not_written_again(store):
    before = (store.path / "experiment.yaml").stat()
    grown(store.path)
    after = (store.path / "experiment.yaml").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)


def test_what_changes_a_run_is_refused_with_the_run_and_the_keys(store):
    before = (store.path / "experiment.yaml").read_text()
    asked = quadratic.experiment(controls={"long": {"training": {"steps": 130}}})
    run = store.run("fast+long", 0)
    with pytest.raises(ResultsError) as raised:
        Store.create(store.path, asked)
    assert str(raised.value) == (
        f"{store.path}: arm fast+long seed 0 was run as {run.id}, and with this file it would be "
        f"{asked.arm('fast+long').spec(0).id}: it differs in training.steps (120 -> 130) (as 3 other runs would); "
        "choose another directory, or make these keys equal, or put these runs aside with "
        f"`headway drop {store.path} fast+long slow+long`"
    )
    assert (store.path / "experiment.yaml").read_text() == before


def test_every_key_that_differs_is_named_up_to_eight(store):
    other = quadratic.experiment(task={"kind": "regression", "d_x": 3, "n_pairs": 3, "noise_variance": 0.5})
    both = r"task\.d_x \(2 -> 3\) and task\.noise_variance \(0\.0 -> 0\.5\) \(as 7 other"
    with pytest.raises(ResultsError, match=both):
        Store.create(store.path, other)
    training = {"optimizer": "adam", "learning_rate": 0.5, "batch_size": 3, "steps": 7}
    evaluation = {"every": 9, "prompts": 3, "prompts_during": 2}
    with pytest.raises(ResultsError, match=r" and 1 more \(as 7 other runs would\)"):
        Store.create(store.path, quadratic.experiment(training=training, evaluation=evaluation))


def test_an_arm_that_has_runs_here_stays_in_the_file(store):
    fewer = {"arms": {"slow": {}}, "controls": {}}
    with pytest.raises(ResultsError) as raised:
        Store.create(store.path, quadratic.experiment(**fewer))
    assert str(raised.value) == (
        f"{store.path} has runs of fast, fast+long and slow+long, and the file has no such arm; keep it there, or put "
        f"these runs aside with `headway drop {store.path} fast fast+long slow+long`"
    )
    store.drop("fast", "fast+long", "slow+long")
    assert [arm.name for arm in Store.create(store.path, quadratic.experiment(**fewer)).experiment.arms] == ["slow"]


def test_a_damaged_run_is_no_reason_to_refuse(store):
    for run in store.runs():
        file = run.path / "run.json"
        file.write_text("{bad" if run.seed else file.read_text().replace("5", "6"))
    assert Store.create(store.path, quadratic.experiment(steps=61)).experiment.arm("slow").spec(0).declared_steps == 61


def test_the_group_of_a_run_is_that_of_the_document(store):
    assert {run.group for run in store.runs()} == {None}
    groups = {"both": {"arms": ["slow", "fast"], "baseline": "fast"}}
    again = Store.create(store.path, quadratic.experiment(groups=groups))
    assert {run.group for run in again.runs()} == {"both"}
    assert again.run("slow", 0).group == again.records()[0]["group"] == "both"
    assert json.loads((store.path / "runs/slow/seed-0/run.json").read_text())["group"] is None


def grow_at_once(directory, name, barrier, outcomes):
    barrier.wait()
    try:
        grown(directory, arms={**ARMS, name: {}})
        outcomes.put((name, None))
    except ResultsError as error:
        outcomes.put((name, str(error)))


@pytest.mark.slow
def test_of_two_that_add_different_arms_at_once_none_loses_an_arm_unsaid(store):
    for _ in range(3):
        barrier, outcomes = FORK.Barrier(2), FORK.Queue()
        processes = forked(grow_at_once, [(store.path, name, barrier, outcomes) for name in ("here", "there")])
        said = dict(outcomes.get(timeout=60) for _ in processes)
        joined(processes)
        (won,) = [name for name, refusal in said.items() if refusal is None]
        (lost,) = set(said) - {won}
        assert said[lost].startswith(f"{store.path} has runs of {won} and {won}+long, and ")
        now = Store.open(store.path)
        assert {run.name for run in now.runs()} == {arm.full_name for arm in now.experiment.arms}
        now.drop(won, f"{won}+long", delete=True)
        Store.create(store.path, quadratic.experiment())


def test_whoever_changes_a_directory_for_too_long_is_named(store, monkeypatch):
    monkeypatch.setattr("headway.store.growth._PATIENCE_S", 0.1)
    with Lease.take(store.path / ".lease"), pytest.raises(ResultsError, match="changed by another process: proc"):
        Store.create(store.path, quadratic.experiment(seeds=4))


def test_dropped_runs_are_moved_aside_and_made_anew(store):
    quadratic.train_here(store.run("slow", 1))
    moved = store.drop("slow")
    assert [path.relative_to(store.path).as_posix() for path in moved] == ["dropped/slow/seed-0", "dropped/slow/seed-1"]
    assert not (store.path / "runs/slow").exists()
    assert {run.name for run in store.runs()} == {"fast", "slow+long", "fast+long"}
    again = grown(store.path)
    assert again.run("slow", 1).status == "waiting"
    (twice,) = again.drop("slow", seeds=1)
    assert twice == store.path / "dropped/slow/seed-1-1"
    moved[1].rename(store.path / "runs/slow/seed-1")
    assert again.run("slow", 1).status == "done", "it is the run that it was"


def test_a_run_that_is_worked_on_is_not_dropped_nor_any_other(store):
    run = store.run("slow", 1)
    with (
        quadratic.taken(run),
        pytest.raises(ResultsError, match=rf"{re.escape(str(run.path))} cannot be dropped: proc"),
    ):
        store.drop("fast", "slow")
    assert len(store.runs()) == 8
    assert len(store.drop("fast", "slow")) == 4, "nothing stayed locked"


def test_what_cannot_be_dropped_is_answered_with_what_can(store):
    with pytest.raises(ResultsError, match=r"has no runs of arm 'slwo'; did you mean slow"):
        store.drop("slwo")
    with pytest.raises(ResultsError, match=r"arm slow has no run of seeds 5 and 6; it has seeds 0 and 1$"):
        store.drop("slow", seeds=[5, 6])
    for wrong in ("1", [], [0.5], [True], -1):
        with pytest.raises(ResultsError, match=r"^seeds .*: give seeds, such as 2 or \[0, 2\]"):
            store.drop("slow", seeds=wrong)
    with pytest.raises(ResultsError, match=r"no runs of arm 'slwo'; did you mean slow\?"):
        store.run("slwo", 0)
    assert len(store.runs()) == 8
