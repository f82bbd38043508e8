"""Whole directories: read whole, named where something is damaged or missing, refused where nothing is sealed."""

import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest
from support import quadratic, stored
from support.stored import flip
from support.typed import typed
from typer.testing import CliRunner

from headway.base.files import Content, json_text
from headway.base.identity import is_as_signed, signed
from headway.cli.options import app
from headway.errors import HeadwayError, ResultsError
from headway.stats import regression, results
from headway.store import document as resolved
from headway.store import integrity
from headway.store.directory import Store, asked_in
from headway.store.run import Run
from headway.store.verify import verify

VERBS = ("status", "compare", "report", "verify")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    of = quadratic.experiment()
    store = Store.create(tmp_path_factory.mktemp("whole") / "results", of)
    for arm, seed in of.runs:
        assert quadratic.train_here(store.add(arm, seed)) == 0
    return store.path


@pytest.fixture
def path(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(regression, "estimator_errors", lambda *_: {"baselines": {}, "curves": {}})
    return Path(shutil.copytree(whole, tmp_path / "results"))


def damages(path):
    return [damage for looked in verify(path) for damage in looked.damages]


def test_a_seal_says_what_every_file_was_written_with(path):
    run = path / "runs/slow/seed-0"
    content = json.loads((run / "seal.json").read_text())
    assert is_as_signed(content)
    assert content["digest"] == json.loads((run / "run.json").read_text())["seal"] == Run.open(run).seal
    there = {file.relative_to(run).as_posix() for file in run.rglob("*") if file.is_file()}
    sealed = {name: Content(**found) for name, found in content["files"].items()}
    assert there - sealed.keys() == {"run.json", "seal.json", "log.txt", "lease/000001.json"}
    assert sealed == {name: Content.of_file(run / name) for name in sealed}


def test_a_whole_directory_is_sound(path):
    found = list(verify(path))
    assert [looked.damages for looked in found] == [()] * 5
    assert sum(looked.n_files for looked in found) == 1 + 4 * 9
    done = CliRunner().invoke(app, ["verify", str(path)])
    assert done.exit_code == 0
    assert re.fullmatch(r"4 runs: 37 files \(0\.0 MB\) read, everything is as it was written\n", done.output)


def test_each_damage_is_a_line_and_the_exit_is_an_error(path):
    flip(path / "runs/slow/seed-0/heads/000000010.safetensors")
    (path / "runs/slow/seed-0/metrics.jsonl").unlink()
    (path / "runs/fast/seed-1/run.json").unlink()
    done = CliRunner().invoke(app, ["verify", str(path)])
    anew = "moves the run aside, and `headway run` trains it again"
    assert sorted(done.output.splitlines()) == [
        f"damaged: {path}/runs/fast/seed-1: its run.json is missing, and other parts of a run are there; "
        f"`headway drop {path} fast --seeds 1` {anew}",
        f"damaged: {path}/runs/slow/seed-0/heads/000000010.safetensors does not have the content that was written; "
        f"`headway drop {path} slow --seeds 0` {anew}",
        f"damaged: {path}/runs/slow/seed-0/metrics.jsonl is missing; `headway drop {path} slow --seeds 0` {anew}",
    ]
    assert isinstance(done.exception, HeadwayError)
    assert str(done.exception) == "4 runs: 28 files (0.0 MB) read, 3 damages"


def test_what_is_beside_the_runs_is_looked_at_too(path):
    (path / "estimators").mkdir()
    results.write(Store.open(path))
    (file,) = (path / "estimators").glob("*.json")
    flip(file)
    (path / "timings").mkdir()
    (path / "timings/slow.json").write_text("{")
    found = damages(path)
    assert found == [
        f"{file} is not as it was written; `headway compare {path}` computes it again",
        f"{path}/timings/slow.json is not as it was written; `headway run` with --timing measures it again",
    ]
    said = results.write(Store.open(path)).warnings
    assert said[0] == (
        f"{path}/timings/slow.json is damaged and left out; `headway run` with --timing measures it again"
    )
    assert damages(path) == found[1:], "it was computed anew"


@pytest.mark.parametrize("content", [None, b"name: [", b""])
def test_runs_are_looked_at_where_the_document_is_damaged(path, content):
    (path / "experiment.yaml").unlink()
    if content is not None:
        (path / "experiment.yaml").write_bytes(content)
    flip(path / "runs/slow/seed-0/metrics.jsonl")
    found = damages(path)
    assert len(found) == 2
    assert "experiment.yaml" in found[0]
    assert "slow/seed-0/metrics.jsonl does not have the content" in found[1]


def test_an_interrupted_run_is_looked_at_as_it_would_be_gone_on_with(path):
    run = path / "runs/slow/seed-0"
    stored.rewrite(run, status="interrupted", seal=None)
    assert damages(path) == [
        f"{run}: its run.json says that it is interrupted, and its seal that it was finished; `headway run {path}` "
        "finishes it again",
    ]
    (run / "seal.json").unlink()
    assert damages(path) == []
    flip(run / "metrics.jsonl")
    assert damages(path) == [
        f"{run}: metrics.jsonl does not have the content that was recorded until step 60",
    ]


def test_a_directory_without_any_seal_is_refused_by_every_verb(path):
    stored.strip(path)
    file = path / "runs/slow/seed-0/run.json"
    content = json.loads(file.read_text())
    content["metrics"]["eval_mse"] = 0.0
    file.write_text(json.dumps(content))
    said = (
        f"error: {path}/experiment.yaml has no seal: a development version of Headway made it, or its seal was "
        "removed; train the experiment again with this version, in another directory\n"
    )
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for words in (*((verb, path) for verb in VERBS), ("drop", path, "slow"), ("run", path), ("worker", path)):
        done = typed(*words)
        assert (done.returncode, done.stderr) == (2, said), words
    with pytest.raises(ResultsError, match=r"experiment\.yaml has no seal"):
        Store.create(path, quadratic.experiment())
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_a_run_without_a_seal_in_a_sealed_directory_is_damaged(path):
    run = path / "runs/slow/seed-0"
    stored.unseal(run)
    said = (
        f"{run}: run.json has no seal: a development version of Headway made the run, or its seal was removed; "
        f"`headway drop {path} slow --seeds 0` moves the run aside, and `headway run` trains it again"
    )
    assert damages(path) == [said]
    assert Store.open(path).run("slow", 0).message == said


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize(
    ("lost", "seeds"),
    [
        (["runs/fast"], "0-1"),
        (["runs/fast/seed-1"], "1"),
        (["runs/fast/seed-1", "runs/slow/seed-1"], "1"),
        (["runs"], "0-1"),
    ],
)
def test_a_run_that_the_document_names_is_missed_whatever_the_cache_says(path, lost, seeds, by_hand, monkeypatch):
    monkeypatch.setattr(integrity, "_COARSE_NS", 0)
    Store.open(path).runs()
    (path / ".checked.json").unlink()
    (path / "dropped").mkdir()
    for name in lost:
        shutil.rmtree(path / name) if not by_hand else (path / name).rename(path / "dropped" / name.replace("/", "-"))
    assert damages(path)[0] == (
        f"{path}/runs/fast: folders of seeds that experiment.yaml lists are missing: {seeds}; `headway run {path}` "
        f"trains what is missing, and `headway drop {path} fast --seeds {seeds}` drops it"
    )
    done = CliRunner().invoke(app, ["verify", str(path)])
    assert isinstance(done.exception, HeadwayError)
    assert damages(path)[0] in results.build(Store.open(path)).warnings
    status = CliRunner().invoke(app, ["status", str(path)]).output
    assert f"fast: folders of seeds that experiment.yaml lists are missing: {seeds};" in " ".join(status.split())
    gone, asked = Store.open(path).gone(), asked_in(path)
    Store.with_runs(path, asked, asked.runs)
    assert Store.open(path).gone() == damages(path) == []
    assert {f"{run.name}/seed-{run.seed}" for run in Store.open(path).runs() if run.status == "waiting"} == set(gone)


def test_a_run_that_is_missing_can_be_dropped_and_is_missed_no_more(path):
    shutil.rmtree(path / "runs/fast/seed-1")
    done = CliRunner().invoke(app, ["drop", str(path), "fast", "--seeds", "0-1"])
    assert done.output == (
        f"fast/seed-1 had no folder; removed from {path}/experiment.yaml; moved 1 run of fast "
        f"(seed 0) to {path}/dropped; `headway run {path}` trains them again, and `headway compare` and `headway "
        "report` leave them out until then\n"
    )
    assert damages(path) == []
    assert resolved.runs_of(path) == ({("slow", 0), ("slow", 1)}, {("fast", 0), ("fast", 1)})


def test_a_run_that_the_document_does_not_know_of_is_said_until_it_is_named(path):
    of = quadratic.experiment(seeds=3)
    older = (path / "experiment.yaml").read_bytes()
    Store.with_runs(path, of, of.runs)
    (path / "experiment.yaml").write_bytes(older)
    shutil.rmtree(path / "runs/slow/seed-2")
    said = (
        "experiment.yaml does not list fast seed 2: somebody added folders, or restored an older document; "
        f"`headway run {path}` lists them again"
    )
    assert damages(path) == [said]
    assert said in results.build(Store.open(path)).warnings
    Store.with_runs(path, asked_in(path), asked_in(path).runs)
    assert damages(path) == []


def test_a_document_that_lost_its_list_of_runs_is_not_as_it_was_written(path):
    document = path / "experiment.yaml"
    text, note, end = document.read_text().rpartition("  runs:\n")
    assert note
    document.write_text(text)
    shutil.rmtree(path / "runs/fast")
    assert "experiment.yaml is not as Headway wrote it" in damages(path)[0]
    with pytest.raises(ResultsError, match=r"is not as Headway wrote it: .* with the file that it was run from"):
        asked_in(path)
    document.write_text(text + note + end.replace("fast: 0-1", "fast: '0'"))
    assert "experiment.yaml is not as Headway wrote it" in damages(path)[0]
    Store.create(path, quadratic.experiment())
    assert Store.open(path).gone() == ["fast/seed-0"]
    assert resolved.doubt(path) == ""


def test_a_directory_of_the_first_sealed_version_is_read_and_names_its_runs_when_it_goes_on(path):
    stored.first_sealed(path)
    store = Store.open(path)
    assert {run.status for run in store.runs()} == {"done"}
    assert not any(looked.damages for looked in verify(path))
    asked = asked_in(path)
    Store.with_runs(path, asked, asked.runs)
    assert resolved.named(path) == {("fast", 0), ("fast", 1), ("slow", 0), ("slow", 1)}
    assert "seals" not in (path / "experiment.yaml").read_text()
    shutil.rmtree(path / "runs/fast/seed-1")
    assert len(damages(path)) == 1
    stored.first_sealed(path)
    Store.open(path).drop("slow", seeds=0)
    assert resolved.runs_of(path) == ({("fast", 0), ("slow", 1)}, {("slow", 0)})


def test_a_changed_document_is_not_what_was_run(path):
    document = path / "experiment.yaml"
    text = document.read_text()
    assert "noise_variance" not in text
    document.write_text(text.replace("d_x: 2", "d_x: 2\n  noise_variance: 1000.0"))
    store = Store.open(path)
    assert {run.status for run in store.runs()} == {"damaged"}
    message = store.run("slow", 0).message
    assert "it was run as run1-" in message
    assert "differs in task.noise_variance (0.0 -> 1000.0)" in message
    assert f"`headway run FILE --out {path}` with the file that it was run from writes it again" in message
    found = results.write(store)
    assert found.warnings[0].startswith(f"{document} is not as Headway wrote it: it is damaged, or it was edited;")
    assert {comparison.n_pairs for comparison in found.comparisons} <= {0}
    Store.create(path, quadratic.experiment())
    assert {run.status for run in Store.open(path).runs()} == {"done"}
    assert damages(path) == []


def test_every_bit_of_the_line_above_a_document_is_its_own_witness(path):
    document = path / "experiment.yaml"
    whole = document.read_bytes()
    assert resolved.doubt(path) == ""
    for at in range(whole.index(b"\n") + 40):
        for bit in range(8):
            document.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            assert "is not as Headway wrote it" in resolved.doubt(path)


def test_files_are_read_again_only_where_they_changed(path, monkeypatch):
    read = []
    of_file = Content.of_file
    monkeypatch.setattr(Content, "of_file", lambda file, until=None: read.append(file.name) or of_file(file, until))
    Store.open(path).runs()
    assert len(read) == 4 * 7
    assert not (path / integrity.CHECKED).exists(), "what has just been written may be written again within a tick"
    monkeypatch.setattr(integrity, "_COARSE_NS", 0)
    Store.open(path).runs()
    read.clear()
    assert {run.status for run in Store.open(path).runs()} == {"done"}
    assert read == []
    metrics = path / "runs/slow/seed-0/metrics.jsonl"
    then = metrics.stat()
    flip(metrics)
    os.utime(metrics, ns=(then.st_atime_ns, then.st_mtime_ns))
    assert Store.open(path).run("slow", 0).status == "damaged"
    assert read == ["metrics.jsonl"]
    (path / "runs/slow/seed-1/heads/000000060.safetensors").write_bytes(b"")
    assert "was not there when the run was finished" in Store.open(path).run("slow", 1).message


@pytest.mark.parametrize("note", ["", "[]", '{"schema": 1, "runs": {"slow/seed-0": 3, "fast/seed-0": {"seal": "x"}}}'])
def test_a_damaged_note_is_none(path, note):
    (path / integrity.CHECKED).write_text(note)
    flip(path / "runs/slow/seed-0/metrics.jsonl")
    assert [run.status for run in Store.open(path).runs()] == ["damaged", "done", "done", "done"]


def test_sizes_alone_are_looked_at_for_the_status(path, monkeypatch):
    monkeypatch.setattr(Content, "of_file", None)
    flip(path / "runs/slow/seed-0/metrics.jsonl")
    (path / "runs/slow/seed-1/metrics.jsonl").write_text("short")
    assert [run.status for run in Store.open(path).runs("sizes")] == ["done", "damaged", "done", "done"]


def test_a_finished_run_is_read_once_more_by_a_copy(path, monkeypatch, tmp_path):
    monkeypatch.setattr(integrity, "_COARSE_NS", 0)
    Store.open(path).runs()
    time.sleep(0.01)
    copy = Path(shutil.copytree(path, tmp_path / "copy"))
    run = Run.open(copy / "runs/slow/seed-0")
    assert integrity.Checked(path).unchanged(path / "runs/slow/seed-0", run.seal)[1]
    assert not integrity.Checked(copy).unchanged(run.path, run.seal)[1]
    assert list(integrity.damages(run.path, integrity.read(run.path, run.seal))) == []


@pytest.mark.parametrize("lost", ["its line", "its line and more", "all of it", "the file"])
def test_a_document_that_lost_its_first_line_is_said_and_written_anew_by_the_file(path, lost):
    document = path / "experiment.yaml"
    text = document.read_text().partition("\n")[2]
    document.unlink()
    if lost != "the file":
        changed = {"its line and more": text.replace("slow", "slower", 1), "all of it": "["}
        document.write_text(changed.get(lost, text))
    assert any("`headway run FILE --out" in damage for damage in damages(path))
    if lost == "its line":
        assert "it is damaged, or it was edited" in " ".join(results.build(Store.open(path)).warnings)
    Store.create(path, quadratic.experiment())
    assert damages(path) == []


def test_a_document_of_a_later_headway_is_not_written_over(path):
    resolved.write(path, quadratic.experiment())
    document = path / "experiment.yaml"
    text = document.read_text().partition("\n")[2] + "later: {new: 1}\n"
    document.write_text(f"# SHA-256 of what follows: {Content.of(text.encode()).sha256}\n{text}")
    with pytest.raises(ResultsError, match="cannot be read back; restore it, or choose another directory"):
        Store.create(path, quadratic.experiment())
    assert document.read_text().endswith("later: {new: 1}\n")


@pytest.mark.parametrize("name", ["run.json", "seal.json", "metrics.jsonl"])
def test_a_pipe_holds_nobody(path, name):
    file = path / "runs/slow/seed-0" / name
    file.unlink()
    os.mkfifo(file)
    os.mkfifo(path / ".checked.json")
    assert any("it is not an ordinary file" in damage or "is a pipe, not a file" in damage for damage in damages(path))
    assert Store.open(path).run("slow", 0).status == "damaged"


@pytest.mark.parametrize(
    ("text", "said"), [("[" * 100_000, "nested too deeply"), ('{"schema": ' + "9" * 5_000 + "}", "limit (4300 digits)")]
)
def test_odd_json_is_said_in_words_and_made_again_where_it_is_derived(path, text, said):
    (path / ".checked.json").write_text(text)
    assert damages(path) == []
    (path / "runs/slow/seed-0/run.json").write_text(text)
    assert any(said in damage for damage in damages(path))


def test_a_timing_that_is_gone_is_missed(path):
    (path / "timings").mkdir()
    (path / "timings/slow.json").write_text(json_text(signed({"arm": "slow", "step_s": 1.0})))
    results.write(Store.open(path))
    assert (resolved.timed_arms(path), damages(path)) == (["slow"], [])
    (path / "timings/slow.json").unlink()
    said = f"{path}/timings/slow.json is gone; `headway run` with --timing measures it again"
    assert damages(path) == [said]
    assert said in results.write(Store.open(path)).warnings
