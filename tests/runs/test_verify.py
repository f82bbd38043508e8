"""Whole directories: read whole, named where damaged, sealed where they were made before there were seals."""

import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest
import quadratic
import stored
from typer.testing import CliRunner

from headway.base.files import Content, json_text
from headway.base.identity import is_as_signed, signed
from headway.cli.options import app
from headway.errors import HeadwayError, ResultsError
from headway.stats import regression, results
from headway.store import document as resolved
from headway.store import integrity
from headway.store.directory import Store
from headway.store.run import Run
from headway.store.verify import verify

BEFORE = Path(__file__).parents[1] / "before"


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


def damages(path, **how):
    return [damage for looked in verify(path, **how) for damage in looked.damages]


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


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
    assert damages(path) == []
    assert len(found) == 5
    assert sum(looked.n_files for looked in found) == 1 + 4 * 9
    done = CliRunner().invoke(app, ["verify", str(path)])
    assert done.exit_code == 0
    assert re.fullmatch(r"4 runs: 37 files \(0\.0 MB\) read, everything is as it was written\n", done.output)


def test_each_damage_is_a_line_and_the_exit_is_an_error(path):
    flip(path / "runs/slow/seed-0/heads/000000010.safetensors")
    (path / "runs/slow/seed-0/metrics.jsonl").unlink()
    (path / "runs/fast/seed-1/run.json").unlink()
    done = CliRunner().invoke(app, ["verify", str(path)])
    anew = "puts the run aside, and `headway run` trains it anew"
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
        f"{file} is not as it was written; `headway compare {path}` computes it anew",
        f"{path}/timings/slow.json is not as it was written; `headway run` with --timing measures it again",
    ]
    said = results.write(Store.open(path)).warnings
    assert said[0] == (
        f"{path}/timings/slow.json is damaged and left out; `headway run` with --timing measures it again"
    )
    assert damages(path) == found[1:], "it was computed anew"


@pytest.mark.parametrize("content", [None, b"name: [", b""])
def test_runs_are_looked_at_where_the_document_is_damaged(path, content):
    document = path / "experiment.yaml"
    document.unlink() if content is None else document.write_bytes(content)
    flip(path / "runs/slow/seed-0/metrics.jsonl")
    found = damages(path)
    assert len(found) == 2
    assert "experiment.yaml" in found[0]
    assert "slow/seed-0/metrics.jsonl does not have the content" in found[1]


def test_what_is_no_results_directory_is_an_error(tmp_path):
    with pytest.raises(ResultsError, match="no results directory of Headway"):
        list(verify(tmp_path))


def test_an_interrupted_run_is_looked_at_as_it_would_be_gone_on_with(path):
    run = path / "runs/slow/seed-0"
    stored.rewrite(run, status="interrupted", seal=None)
    assert damages(path) == []
    flip(run / "metrics.jsonl")
    assert damages(path) == [
        f"{run}: metrics.jsonl does not have the content that was recorded until step 60",
    ]


@pytest.mark.parametrize("name", ["icl", "text"])
def test_a_directory_of_before_is_accepted_with_a_note_and_sealed_when_asked(tmp_path, name, monkeypatch):
    monkeypatch.setattr(regression, "estimator_errors", lambda *_: {"baselines": {}, "curves": {}})
    old = Path(shutil.copytree(BEFORE / name, tmp_path / name))
    before = [run.metrics for run in Store.open(old).runs()]
    note = "made before runs were sealed, so not every damage is noticed; `headway verify"
    assert note in results.write(Store.open(old)).warnings[0]
    done = CliRunner().invoke(app, ["verify", str(old)])
    assert done.exit_code == 0, done.output
    assert "not sealed, since it was made before; --adopt does so" in done.output
    assert not list(old.rglob("seal.json"))
    sealed = CliRunner().invoke(app, ["verify", str(old), "--adopt"])
    assert sealed.exit_code == 0
    assert "sealed as it is" in sealed.output
    assert [run.metrics for run in Store.open(old).runs()] == before
    assert not any(note in warning for warning in results.write(Store.open(old)).warnings)
    assert damages(old) == []
    for file in (next(old.glob("runs/*/*/heads/*")), old / "experiment.yaml"):
        flip(file)
    assert len(damages(old, adopt=True)) >= 2, "what is damaged is not sealed again"


def test_a_damaged_run_of_before_is_not_sealed(tmp_path):
    old = Path(shutil.copytree(BEFORE / "text", tmp_path / "old"))
    samples = old / "runs/few/seed-0/samples.jsonl"
    samples.write_bytes(samples.read_bytes().replace(b"{", b"[", 1))
    (damage,) = damages(old, adopt=True)
    assert f"{samples}: line 1 is damaged" in damage
    assert not (samples.parent / "seal.json").exists()
    assert Store.open(old).run("few", 0).status == "damaged"
    assert Store.open(old).run("few", 1).status == "done"


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
    assert f"`headway run FILE --out {path}` with the file that it was run from writes it anew" in message
    found = results.write(store)
    assert found.warnings[0].startswith(f"{document} is not as Headway wrote it: it is damaged, or it was edited;")
    assert {comparison.n_pairs for comparison in found.comparisons} <= {0}
    Store.create(path, quadratic.experiment())
    assert {run.status for run in Store.open(path).runs()} == {"done"}
    assert damages(path) == []


def test_a_label_that_was_edited_is_said(path):
    document = path / "experiment.yaml"
    document.write_text(document.read_text().replace("baseline: slow", "baseline: fast"))
    (warning,) = results.write(Store.open(path)).warnings
    assert "is not as Headway wrote it" in warning


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
    noted = json.loads((path / integrity.CHECKED).read_text())
    assert noted["runs"] == {}, "what has just been written may be written again within a tick"
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


def test_a_run_that_lost_its_run_json_is_named_and_left_as_it_is(path):
    folder = path / "runs/slow/seed-0"
    (folder / "run.json").unlink()
    before = sorted(folder.rglob("*"))
    store = Store.open(path)
    assert store.add(store.experiment.arm("slow"), 0).status == "damaged"
    assert [run.status for run in store.runs()] == ["damaged", "done", "done", "done"]
    assert sorted(folder.rglob("*")) == before
    store.drop("slow", seeds=[0])
    assert store.add(store.experiment.arm("slow"), 0).status == "waiting"


def test_what_is_put_beside_a_run_is_free(path):
    (path / "runs/slow/seed-0/notes.txt").write_text("mine")
    (path / "runs/slow/seed-0/log.txt").write_text("shorter")
    assert damages(path) == []


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
    rest = {
        "its line": text,
        "its line and more": text.replace("slow", "slower", 1),
        "all of it": "[",
        "the file": None,
    }
    if rest[lost] is None:
        document.unlink()
    else:
        document.write_text(rest[lost])
    assert any("`headway run FILE --out" in damage for damage in damages(path))
    if lost == "its line":
        assert "it is damaged, or it was edited" in " ".join(results.build(Store.open(path)).warnings)
    assert damages(path, adopt=True)  # what was sealed is not taken as of before
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


def test_a_finished_run_whose_folder_is_gone_is_missed_until_somebody_says_so(path):
    store = Store.open(path)
    assert [store.runs() and store.gone(), Store.open(path).gone()] == [[], []]
    shutil.rmtree(path / "runs/slow/seed-0")
    (missed,) = damages(path)
    assert (
        "runs/slow/seed-0: it was finished here before, and its folder is gone; `headway run` trains it anew" in missed
    )
    assert "slow/seed-0: finished here before" in " ".join(results.build(Store.open(path)).warnings)
    assert damages(path, adopt=True) == damages(path) == []
    Store.open(path).drop("slow")
    assert damages(path) == []  # what was put aside is not missed


@pytest.mark.parametrize("seal_too", [False, True])
def test_a_run_that_was_sealed_is_never_taken_for_one_of_before(path, seal_too, monkeypatch):
    run = path / "runs/slow/seed-0"
    monkeypatch.setattr(integrity, "_COARSE_NS", 0)
    Store.open(path).runs()  # which remembers that it is sealed
    content = json.loads((run / "run.json").read_text())
    del content["digest"], content["seal"]
    (run / "run.json").write_text(json.dumps(content))
    if seal_too:
        (run / "seal.json").unlink()
    assert any("it was sealed, and its run.json says nothing of that" in damage for damage in damages(path))
    assert any("it was sealed" in damage for damage in damages(path, adopt=True))
    assert Store.open(path).run("slow", 0).status == "damaged"


@pytest.mark.parametrize("name", ["run.json", "seal.json", "metrics.jsonl"])
def test_a_pipe_holds_nobody(path, name):
    file = path / "runs/slow/seed-0" / name
    file.unlink()
    os.mkfifo(file)
    os.mkfifo(path / ".checked.json")
    assert any("it is no ordinary file" in damage or "is a pipe and no file" in damage for damage in damages(path))
    assert Store.open(path).run("slow", 0).status == "damaged"


@pytest.mark.parametrize(
    ("text", "said"), [("[" * 100_000, "too deep"), ('{"schema": ' + "9" * 5_000 + "}", "thousands of digits")]
)
def test_odd_json_is_said_in_words_and_made_again_where_it_is_derived(path, text, said):
    (path / ".checked.json").write_text(text)
    assert damages(path) == []
    (path / "runs/slow/seed-0/run.json").write_text(text)
    assert any(said in damage for damage in damages(path))


def test_a_timing_that_is_gone_is_missed_until_somebody_says_so(path):
    (path / "timings").mkdir()
    (path / "timings/slow.json").write_text(json_text(signed({"arm": "slow", "step_s": 1.0})))
    results.write(Store.open(path))
    assert (resolved.timed(path), damages(path)) == (["slow"], [])
    (path / "timings/slow.json").unlink()
    said = f"{path}/timings/slow.json is gone; `headway run` with --timing measures it again"
    assert damages(path) == [said]
    assert said in results.write(Store.open(path)).warnings
    assert damages(path, adopt=True) == [said]
    assert damages(path) == []
