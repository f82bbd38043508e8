"""Runs that one worker takes along: each in its own folder, whatever becomes of the others."""

import json
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from support.parity import DOCUMENT, prepared, worked
from support.tolerance import nearly

from headway import api
from headway.base.identity import digest
from headway.config.load import resolve
from headway.errors import UserError
from headway.execute.work import ELSEWHERE
from headway.store.batches import RunBatch, checked_together
from headway.store.environment import slots
from headway.store.lease import Lease, is_held
from headway.store.run import Run

FASTER = {"training": {"learning_rate": 0.03}}
ARMS = {"h2": {}, "faster": FASTER, "wild": DOCUMENT["arms"]["wild"], "h1": {"model": {"n_heads": 1}}}


def made(out, together="auto", said=None, **changes):
    short = {**DOCUMENT["training"], "steps": 30}
    return prepared(out, together, said, **{"training": short, "evaluation": {"every": 15}, "arms": ARMS, **changes})


@pytest.fixture
def runs(tmp_path):
    return made(tmp_path / "out")


def batch_of(path):
    return Run.open(path).batch


def test_runs_of_one_shape_that_are_made_at_once_are_a_batch(runs):
    members = [(arm, seed) for seed in (0, 1, 2) for arm in ("h2", "faster", "wild")]
    assert {batch_of(path) for (arm, _), path in runs.items() if arm != "h1"} == {RunBatch(members=tuple(members))}
    assert {batch_of(path) for (arm, _), path in runs.items() if arm == "h1"} == {
        RunBatch(members=(("h1", 0), ("h1", 1), ("h1", 2)))
    }
    assert {Run.open(path).execution["threads"] for path in runs.values()} == {1}, "small steps, whatever the workers"
    assert batch_of(runs["h2", 1]).folders(runs["h1", 0])[1] == runs["faster", 0]


@pytest.mark.parametrize(("together", "sizes"), [("1", {1: 9}), (2, {2: 6, 1: 3}), (4, {3: 9}), (7, {6: 6, 3: 3})])
def test_those_of_one_seed_stay_together_where_they_fit(tmp_path, together, sizes):
    """So the halves of a pair are executed alike: of three arms with three seeds, runs by the size of their batch."""
    batches = [batch_of(path) for (arm, _), path in made(tmp_path / "out", together).items() if arm != "h1"]
    assert Counter(len(batch.members) if batch else 1 for batch in batches) == sizes


@pytest.mark.slow
def test_runs_that_are_made_later_or_anew_are_batches_of_their_own(tmp_path):
    """What is asked for later changes nothing of those that exist."""
    first = made(tmp_path / "out", arms={"h2": {}}, seeds=2)
    said = []
    later = made(tmp_path / "out", "1", said, arms={"h2": {}}, seeds=4)
    assert {seed: len(batch.members) if (batch := batch_of(path)) else 1 for (_, seed), path in later.items()} == {
        0: 2, 1: 2, 2: 1, 3: 1
    }  # fmt: skip
    assert said == [
        "--batch-runs 1 holds for new runs: existing runs keep their batches, since a batch changes how sums are "
        "rounded; `headway drop` moves runs aside, to be trained again"
    ]
    assert worked(first["h2", 0]) == 0
    store = api.open(tmp_path / "out")
    store.drop("h2", seeds=[1])
    again = made(tmp_path / "out", arms={"h2": {}}, seeds=6)
    assert batch_of(again["h2", 1]) == batch_of(again["h2", 4]) == RunBatch(members=(("h2", 1), ("h2", 4), ("h2", 5)))
    assert batch_of(again["h2", 0]) == RunBatch(members=(("h2", 0), ("h2", 1)))


def test_a_batch_that_a_killed_process_made_in_part_is_completed(tmp_path):
    whole = made(tmp_path / "out", arms={"h2": {}})
    batch = batch_of(whole["h2", 0])
    for seed in (0, 2):
        shutil.rmtree(whole["h2", seed])
    assert {batch_of(path) for path in made(tmp_path / "out", arms={"h2": {}}).values()} == {batch}
    shutil.rmtree(whole["h2", 0])
    with Lease.take(whole["h2", 1] / "lease"):  # somebody has begun it
        pass
    assert batch_of(made(tmp_path / "out", arms={"h2": {}})["h2", 0]) is None


def test_who_chooses_a_part_of_a_batch_reads_that_all_of_it_is_trained(tmp_path):
    prepared(tmp_path / "out", arms={"h2": {}, "faster": FASTER})
    chosen = resolve({**DOCUMENT, "arms": {"h2": {}, "faster": FASTER}})
    said = []
    api.prepare(chosen.select(arms=["h2"], seeds=2), tmp_path / "out", slots("cpu", workers=1, runs=1), said.append)
    assert said == [
        "a batch is trained as a whole, so other runs of it (4) are trained too, such as h2 seed 2",
    ]


NO_MEMBERS = [["../x", 0], ["/etc", 0], ["h2", "0/../.."], ["h2", -1], ["h2", True], ["h2", 1]]


@pytest.mark.parametrize("members", [*([one, ["h2", 1]] for one in NO_MEMBERS), [["h2", 1]], [], "ab", None])
def test_a_batch_that_names_anything_but_runs_of_the_directory_is_damage(members):
    """A run.json is data of a stranger."""
    with pytest.raises(TypeError, match="batch is not as it was written"):
        RunBatch.read({"id": digest(members), "members": members})


@pytest.mark.slow
def test_each_has_its_own_folder_and_results_as_if_alone_and_one_that_diverges_ends_alone(runs, tmp_path):
    """And while another process holds one of them, nobody works on the others."""
    with Lease.take(runs["faster", 2] / "lease"):
        assert worked(runs["h2", 1]) == ELSEWHERE
        assert not any(is_held(path / "lease") for key, path in runs.items() if key != ("faster", 2))
    assert worked(runs["h2", 1]) == 0
    found = {key: Run.open(path) for key, path in runs.items()}
    for seed in (0, 1, 2):
        run = found["h2", seed]
        run.check()
        assert run.status == "done"
        assert run.execution["together"] == 9
        assert [record["step"] for record in run.records()] == [0, 10, 15, 20, 30]
        assert run.metrics["steps_per_s"] > 0
        assert found["wild", seed].status == "failed"
        assert "diverged" in found["wild", seed].message
        assert found["h1", seed].status == "waiting"
    assert found["faster", 2].execution["batch"] == found["faster", 2].batch.id
    other = made(tmp_path / "alone", "1")["h2", 1]
    assert worked(other) == 0
    alone, together = Run.open(other), found["h2", 1].metrics
    assert "together" not in alone.execution
    assert together["eval_loss_nats"] == nearly(alone.metrics["eval_loss_nats"], dtype="float32")
    assert together["accuracy"] == alone.metrics["accuracy"]


@pytest.mark.slow
def test_what_is_beyond_the_possible_fails_a_run(runs):
    """A bound that is wrong is a defect."""
    path = runs["h1", 0]
    code = (
        "from headway.config.lm.synthetic import ParityTask\n"
        "ParityTask.best_possible = lambda self, model: {'accuracy': 0.1}\n"
        f"import sys; from headway.execute.worker import main; sys.exit(main([{str(path)!r}, '--device', 'cpu']))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1
    content = json.loads((path / "run.json").read_text())
    assert content["status"] == "failed"
    assert "at 2-bit parity no model of this shape can do better than 0.1; the measurement" in content["message"]


@pytest.mark.parametrize("asked", ["0", "-1", "many", "1.5"])
def test_a_number_of_runs_is_auto_or_at_least_one(asked):
    with pytest.raises(UserError, match="give auto, or a number of runs; 1 trains each alone"):
        checked_together(asked)


@pytest.mark.slow
def test_workers_that_join_train_together_as_headway_run_does(runs):
    """Two at once: what one of them has taken along is left alone by the other, and nothing is trained twice."""
    directory = runs["h2", 0].parents[2]
    command = [sys.executable, "-m", "headway", "worker", str(directory), "--slots", "1", "--device", "cpu"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]
    said = [process.communicate(timeout=240)[0].decode() for process in both]
    found = {key: Run.open(path) for key, path in runs.items()}
    assert {run.status for (arm, _), run in found.items() if arm != "wild"} == {"done"}, said
    assert {run.status for (arm, _), run in found.items() if arm == "wild"} == {"failed"}
    assert max(run.execution.get("together", 1) for run in found.values()) > 1
    for run in found.values():
        run.check()
