"""Broken files in a run folder: each is a stated recovery, and the run ends with the same bits."""

import io
import shutil
import sys

import pytest
from rich.console import Console
from support import quadratic, stored
from support.stored import flip, replace, truncate

from headway.errors import ResultsError
from headway.execute import work as work_module
from headway.execute.sweep import run_all
from headway.execute.work import DONE, work
from headway.report.progress import status_table
from headway.stats import regression, results
from headway.store.directory import Store
from headway.store.run import Run


def stopped_run(directory) -> Run:
    """A run that was stopped at step 40, with checkpoints of steps 35 and 40."""
    run = quadratic.fresh_run(directory)

    def opened(spec, stored):
        study = quadratic.study(spec, stored)
        trainer = study.trainer
        advance = trainer.advance

        def advance_until_42(n):
            if trainer.step >= 40:
                raise RuntimeError("enough")
            return advance(n)

        trainer.advance = advance_until_42
        return study

    work(run.path, opened)
    assert sorted(int(path.stem) for path in run.path.glob("checkpoint/*.json")) == [35, 40]
    return run


def cross_out_a_line(path):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:4], "#" * 20 + "\n", *lines[5:]]))


DAMAGES = {
    "a byte of the newest arrays changed": (lambda p: flip(p / "checkpoint/000000040.safetensors"), 35),
    "the newest arrays missing": (lambda p: (p / "checkpoint/000000040.safetensors").unlink(), 35),
    "the newest commit truncated": (lambda p: truncate(p / "checkpoint/000000040.json", 30), 35),
    "all arrays truncated": (lambda p: [truncate(path, 50) for path in p.glob("checkpoint/*.safetensors")], 0),
    "the records missing": (lambda p: (p / "metrics.jsonl").unlink(), 0),
    "the records empty": (lambda p: truncate(p / "metrics.jsonl", 0), 0),
    "a record in the middle damaged": (lambda p: cross_out_a_line(p / "metrics.jsonl"), 0),
}


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch):
    monkeypatch.setattr(work_module, "CHECKPOINT_EVERY_S", 0.0)


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_said_and_the_run_ends_with_the_same_bits(tmp_path, whole, name):
    damage, goes_on_from = DAMAGES[name]
    run = stopped_run(tmp_path / "results")
    damage(run.path)
    assert quadratic.train_here(run) == DONE
    done = Run.open(run.path)
    assert f"resuming from step {goes_on_from}" in done.message
    assert done.message in (run.path / "log.txt").read_text().replace("\n", "; ")
    assert quadratic.lasting(run) == quadratic.lasting(Store.open(whole).run("slow", 0))


@pytest.mark.parametrize("kept", [-1, -20])
def test_half_a_line_is_written_again_and_half_a_checkpoint_was_never_there(tmp_path, whole, kept):
    run = stopped_run(tmp_path / "results")
    with open(run.path / "metrics.jsonl", "ab") as file:
        file.write(b'{"step": 45, "wall_s": 0.2, "train_mse": 0.1234}'[:kept])
    (run.path / "checkpoint" / "000000042.safetensors").write_bytes(b"half")
    (run.path / "checkpoint" / ".000000042.json.0123.tmp").write_bytes(b"{")
    assert quadratic.train_here(run) == DONE
    assert Run.open(run.path).message == ""
    assert not [*run.path.rglob(".*"), *run.path.rglob("000000042*")]
    assert quadratic.lasting(run) == quadratic.lasting(Store.open(whole).run("slow", 0))


EDITED = "run.json is not as it was written"
DONE_DAMAGES = {
    "run.json cut": (lambda p: (p / "run.json").write_text("{bad"), "run.json: cannot be read"),
    "run.json gone": (lambda p: (p / "run.json").unlink(), "its run.json is missing, and other parts of a run"),
    "a status of its own": (lambda p: replace(p / "run.json", '"done"', '"perfect"'), EDITED),
    "the configuration edited": (lambda p: replace(p / "run.json", '"d_x": 2', '"d_x": 3'), EDITED),
    "a record in the middle": (lambda p: cross_out_a_line(p / "metrics.jsonl"), "metrics.jsonl has"),
    "a digit of a record": (
        lambda p: replace(p / "metrics.jsonl", '"step": 15', '"step": 16'),
        "metrics.jsonl does not have the content that was written",
    ),
    "the records missing": (lambda p: (p / "metrics.jsonl").unlink(), "metrics.jsonl is missing"),
    "the curves": (lambda p: truncate(p / "curves.json", -3), "curves.json has"),
    "the checkpoint missing": (
        lambda p: shutil.rmtree(p / "checkpoint"),
        "checkpoint/000000060.json is missing (and 1 other file)",
    ),
    "a folder for the checkpoint": (
        lambda p: ((p / "checkpoint/000000060.safetensors").unlink(), (p / "checkpoint/000000060.safetensors").mkdir()),
        "checkpoint/000000060.safetensors is a folder, not a file",
    ),
    "the heads": (
        lambda p: truncate(p / "heads/000000010.safetensors", 40),
        "heads/000000010.safetensors has 40 bytes instead of 96",
    ),
    "heads of another step": (
        lambda p: shutil.copy(p / "heads/000000010.safetensors", p / "heads/000000020.safetensors"),
        "heads/000000020.safetensors was not there when the run was finished",
    ),
    "heads swapped": (
        lambda p: swap(p / "heads/000000010.safetensors", p / "heads/000000050.safetensors"),
        "heads/000000010.safetensors does not have the content that was written (and 1 other file)",
    ),
    "the seal gone": (lambda p: (p / "seal.json").unlink(), "seal.json is missing, though run.json says"),
    "the seal edited": (lambda p: replace(p / "seal.json", ": 96", ": 97"), "seal.json: it is not as it was"),
    "done without a seal": (lambda p: stored.rewrite(p, seal=None), "done without a seal"),
}
"""What is damaged, and what is said of it."""


def swap(one, other):
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def content(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A directory with a done run of each arm and seed."""
    of = quadratic.experiment()
    store = Store.create(tmp_path_factory.mktemp("whole") / "results", of)
    for arm, seed in of.runs:
        assert quadratic.train_here(store.add(arm, seed)) == DONE
    return store.path


@pytest.mark.parametrize("name", DONE_DAMAGES)
def test_a_damaged_run_is_said_left_alone_and_left_out(tmp_path, whole, name, monkeypatch):
    damage, said = DONE_DAMAGES[name]
    store = Store.open(shutil.copytree(whole, tmp_path / "results"))
    path = store.path / "runs" / "slow" / "seed-0"
    damage(path)
    before = content(path)
    runs = [store.add(arm, seed) for arm, seed in store.experiment.runs]
    assert [run.status for run in runs] == ["damaged", "done", "done", "done"]
    for _ in run_all(runs, quadratic.places(1)):
        pass
    assert content(path) == before
    run = store.run("slow", 0)
    for part in (said, str(path), f"`headway drop {store.path} slow --seeds 0` moves the run aside, and `headway run`"):
        assert part in run.message
    with pytest.raises(ResultsError) as raised:
        _ = run.spec
    assert str(raised.value) == run.message
    monkeypatch.setattr(regression, "estimator_errors", lambda *_: {"baselines": {}, "curves": {}})
    found = results.build(store)
    assert found.comparisons[0].n_pairs == 1
    assert found.warnings[0] == f"slow: Headway leaves out a damaged run: {run.message}"
    shown = io.StringIO()
    Console(file=shown, width=600).print(status_table(store))
    if "does not have the content" not in run.message:  # it looks at sizes alone
        assert f"slow seed 0 damaged: {run.message}\n" in shown.getvalue()


def test_a_damaged_run_holds_up_no_other(tmp_path, whole):
    store = Store.open(shutil.copytree(whole, tmp_path / "results"))
    DONE_DAMAGES["run.json cut"][0](store.path / "runs/slow/seed-0")
    shutil.rmtree(store.path / "runs/fast/seed-1")
    runs = [store.add(arm, seed) for arm, seed in store.experiment.runs]
    assert [run.status for run in runs] == ["damaged", "done", "done", "waiting"]
    for _ in run_all(runs, quadratic.places(1)):
        pass
    assert [run.status for run in store.runs()] == ["damaged", "done", "done", "done"]


def test_a_run_json_that_is_damaged_while_its_worker_runs_stops_nothing(tmp_path):
    run = quadratic.fresh_run(tmp_path / "results")
    script = "import sys, pathlib; pathlib.Path(sys.argv[1], 'run.json').write_text('{')"
    for snapshot in run_all([run], quadratic.places(1, (sys.executable, "-c", script))):
        last = snapshot.runs[0]
    assert last.status == "damaged"
    assert "run.json: cannot be read" in last.message
