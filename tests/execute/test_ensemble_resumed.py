"""Batches that are killed: whatever becomes of members, they end with the bits of a batch that nobody disturbed."""

import json
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from support.parity import DOCUMENT, environment, prepared, worked

from headway import api
from headway.config.load import resolve
from headway.errors import UserError
from headway.execute.join import Joining
from headway.execute.sweep import ExecutionOptions
from headway.store import batches, verify
from headway.store.batches import Making, estimated_bytes
from headway.store.environment import Slot, slots
from headway.store.run import Run
from headway.store.run_writer import stored_step

KILLED = """
import os, signal, sys
from pathlib import Path
from headway.execute import work
from headway.execute.worker import main
from headway.train.lm.ensemble import Ensemble

metrics, records = Path(sys.argv.pop(1)), int(sys.argv.pop(1))
work.CHECKPOINT_EVERY_S = 0.0
whole = Ensemble.advance


def advance(self, n):
    if metrics.exists() and metrics.read_text().count("\\n") >= records:
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(self, 1)


Ensemble.advance = advance
sys.exit(main(sys.argv[1:]))
"""
"""A worker that stores each step, and is killed before the next one when a run has so many records."""


def killed(path, records):
    """Work on a run and its batch, until the process is killed once the run has so many records."""
    command = [sys.executable, "-c", KILLED, str(path / "metrics.jsonl"), str(records), str(path), "--device", "cpu"]
    assert subprocess.run(command, env=environment(), check=False).returncode == -signal.SIGKILL


def steps_of(path):
    """The steps that are recorded, whole lines alone."""
    found = path / "metrics.jsonl"
    return [json.loads(line)["step"] for line in found.read_text().split("\n")[:-1]] if found.exists() else []


def bits_of_h2(runs):
    return {key: bits(path) for key, path in runs.items() if key[0] == "h2"}


def bits(path):
    """What must be the same: all but times and memory."""
    run = Run.open(path)
    run.check()
    assert run.status == "done"
    kept = [{k: v for k, v in each.items() if not k.endswith(verify.PASSING)} for each in (*run.records(), run.metrics)]
    return kept, {name: array.tobytes() for name, array in run.weights().items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    runs = prepared(tmp_path_factory.mktemp("undisturbed"))
    assert worked(runs["h2", 0]) == 0
    assert {Run.open(path).status for (arm, _), path in runs.items() if arm == "wild"} == {"failed"}
    return bits_of_h2(runs)


@pytest.mark.slow
def test_members_at_different_steps_have_the_bits_of_an_undisturbed_batch(undisturbed, tmp_path):
    """After two killings one has lost what it did since the first, and one its checkpoint; three have failed."""
    runs = prepared(tmp_path / "out")
    killed(runs["h2", 0], 2)
    shutil.copytree(runs["h2", 1], tmp_path / "early")
    killed(runs["h2", 0], 4)
    shutil.rmtree(runs["h2", 1])
    shutil.copytree(tmp_path / "early", runs["h2", 1])
    shutil.rmtree(runs["h2", 2] / "checkpoint")
    steps = {stored_step(runs["h2", seed], "") for seed in range(3)}
    assert len(steps) == 3
    assert 0 in steps
    assert worked(runs["h2", 1]) == 0
    assert bits_of_h2(runs) == undisturbed


@pytest.mark.slow
def test_a_member_that_is_done_failed_or_put_aside_stays_a_row(undisturbed, tmp_path):
    """One is dropped, one done before; those that had failed are tried again with the one that is left, and fail."""
    runs = prepared(tmp_path / "out")
    killed(runs["h2", 0], 3)
    api.open(tmp_path / "out").drop("h2", seeds=[0])
    api.open(tmp_path / "out").drop("wild", seeds=[1], delete=True)
    assert worked(runs["h2", 2]) == 0
    assert bits(runs["h2", 1]) == undisturbed["h2", 1]
    shutil.rmtree(runs["h2", 1])
    shutil.move(tmp_path / "out" / "dropped" / "h2" / "seed-0", runs["h2", 0])
    assert worked(runs["wild", 0]) == 1, "it diverges again"
    for key in (("h2", 0), ("h2", 2)):
        assert bits(runs[key]) == undisturbed[key]
    assert "training diverged" in Run.open(runs["wild", 2]).message


@pytest.mark.slow
def test_one_that_was_stopped_before_it_was_put_in_says_so_and_goes_on(undisturbed, tmp_path):
    runs = prepared(tmp_path / "out", arms={"h2": {}, "wild": DOCUMENT["arms"]["wild"]})
    killed(runs["h2", 0], 5)
    shutil.rmtree(runs["h2", 1] / "checkpoint")
    stopping = KILLED.replace("SIGKILL", "SIGTERM").replace("work.CHECKPOINT_EVERY_S = 0.0\n", "")
    command = [sys.executable, "-c", stopping, str(runs["h2", 1] / "metrics.jsonl"), "2", str(runs["h2", 0])]
    assert subprocess.run([*command, "--device", "cpu"], env=environment(), check=False).returncode == 130
    ahead = Run.open(runs["h2", 0])
    assert ahead.status == "interrupted"
    assert "before its batch came to step " in ahead.message
    assert worked(runs["h2", 1]) == 0
    assert bits_of_h2(runs) == undisturbed


@pytest.mark.parametrize(
    ("memory", "fit", "told"), [(2.5, 1, "1 run is"), (7.0, 3, "3 runs are"), (100.0, 4, "")], ids=str
)
def test_more_than_fits_into_memory_is_split_and_says_so(monkeypatch, tmp_path, memory, fit, told):
    """Half of the memory is theirs; a run alone is always tried."""
    spec = Run.open(prepared(tmp_path)["h2", 0]).spec
    each = estimated_bytes(spec)
    monkeypatch.setattr(batches.psutil, "virtual_memory", lambda: SimpleNamespace(total=memory * each))
    n, said = batches.how_many(spec, 4)
    assert n == fit
    assert said.startswith("4 runs together need about " if told else "")
    assert said.endswith(f": {told} trained together, the others after them" if told else "")
    assert bool(said) == bool(told)


def test_on_a_gpu_it_is_the_memory_that_is_free_there(monkeypatch, tmp_path):
    """However much the machine has; and nobody looks where one is trained at a time."""
    spec = Run.open(prepared(tmp_path)["h2", 0]).spec
    each = estimated_bytes(spec)
    monkeypatch.setattr(batches.psutil, "virtual_memory", lambda: SimpleNamespace(total=1000 * each))
    n, said = batches.how_many(spec, 4, 5 * each)
    assert n == 2
    assert "half of what is free of the memory of the GPU is" in said
    assert batches.how_many(spec, 4, None) == (4, "")


@pytest.mark.parametrize(("at_most", "says"), [(4, True), ("auto", False)])
def test_who_asks_for_several_reads_why_a_run_is_alone(tmp_path, at_most, says):
    document = {**DOCUMENT, "training": {**DOCUMENT["training"], "grad_accumulation": 2, "steps": 2}}
    said = []
    here = slots("cpu", workers=1, runs=1)
    _, made = api.prepare(resolve(document), tmp_path / "out", here, said.append, at_most)
    assert {run.batch for run in made} == {None}
    assert len(said) == 2 * says, "a sentence for each arm"
    why = "trained alone, and not together with others of its shape: training.grad_accumulation: a run that has to"
    assert all(why in sentence for sentence in said)


@pytest.mark.slow
def test_what_was_split_is_all_trained(monkeypatch, tmp_path):
    """Four fit: of six runs, of two arms, those of two seeds are a batch, and those of the third another one."""
    each = estimated_bytes(resolve(DOCUMENT).arms[0].spec(0))
    monkeypatch.setattr(batches.psutil, "virtual_memory", lambda: SimpleNamespace(total=9 * each))
    said = []
    _, made = api.prepare(resolve(DOCUMENT), tmp_path / "out", slots("cpu", workers=1, runs=1), said.append)
    assert [len(run.batch.members) for run in made] == [4, 4, 4, 4, 2, 2]
    assert said[0].endswith("4 runs are trained together, the others after them")
    for run in (made[0], made[4]):
        assert worked(run.path) == 0
    assert {Run.open(run.path).execution["together"] for run in made[::2]} == {2, 4}
    assert [Run.open(run.path).status for run in made] == ["done", "failed"] * 3


def test_a_batch_that_does_not_fit_into_this_machine_is_not_split(monkeypatch, tmp_path):
    """It was made on a larger one: a part of it would be another program."""
    runs = prepared(tmp_path / "out")
    each = estimated_bytes(Run.open(runs["h2", 0]).spec)
    monkeypatch.setattr(batches.psutil, "virtual_memory", lambda: SimpleNamespace(total=5 * each))
    said = "h2 seed 0 is in a batch of 6 runs, which is trained as one program and needs .* Resume it on a machine"
    with pytest.raises(UserError, match=said):
        prepared(tmp_path / "out")
    joining = Joining(directory=tmp_path / "out", options=ExecutionOptions(workers=1, device="cpu"))
    with pytest.raises(UserError, match=said.replace("h2 seed 0", ".*")):
        joining.work(list, lambda _: None)


@pytest.mark.slow
def test_threads_are_those_that_a_run_was_made_with(tmp_path):
    """A second driver that has other places changes nothing; a batch of small steps has one, whoever makes it."""

    def made(workers):
        here = tuple(Slot(device="cpu", threads=workers) for _ in range(2))
        document = {**DOCUMENT, "arms": {"h2": {}, "alone": {"training": {"grad_accumulation": 2}}}}
        return api.prepare(resolve(document), tmp_path / "out", here)[1]

    made(3)
    assert [run.execution["threads"] for run in made(2)] == [1, 3, 1, 3, 1, 3]
    assert worked(made(2)[0].path, "--threads", "2") == 0
    assert Run.open(made(2)[0].path).execution["threads"] == 1
    spec, batch = made(1)[0].spec, made(1)[0].batch
    assert Making(threads=3).threads_of(spec, None) == 3
    large = spec.model_copy(update={"training": spec.training.model_copy(update={"batch_size": 10_000_000})})
    large.__dict__.pop("budget", None)  # a copy has what was counted for the original
    assert Making(threads=3).threads_of(large, batch) == 3
