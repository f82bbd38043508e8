"""What has been asked for in a results directory, and `headway run DIR`, which goes on with it."""

import shutil
import subprocess
import sys

import pytest
from support import quadratic
from support.processes import FORK, forked, joined
from support.typed import typed
from typer.testing import CliRunner

import headway
from headway.cli.options import app
from headway.errors import ResultsError, UserError
from headway.store import document
from headway.store.directory import Store, asked_in, is_directory


@pytest.fixture
def directory(tmp_path):
    """Of a document with three seeds, of which one arm has two and the other one."""
    of = quadratic.brief(seeds=3)
    pairs = [(arm, seed) for arm, seed in of.runs if (arm.full_name, seed) in (("fast", 0), ("slow", 0), ("slow", 2))]
    assert len(pairs) == 3
    Store.with_runs(tmp_path / "results", of, pairs)
    return tmp_path / "results"


def names(experiment) -> list[tuple[str, int]]:
    return sorted((arm.full_name, seed) for arm, seed in experiment.runs)


def headway_run(*arguments):
    command = [sys.executable, "-m", "headway", "run", *map(str, arguments), "--no-figures", "--workers", "1"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def test_a_directory_is_told_from_an_experiment(directory, tmp_path):
    assert is_directory(directory)
    assert is_directory(str(directory))
    assert not any(map(is_directory, ("icl-heads", tmp_path / "nowhere", "nowhere.yaml", {"name": "mapping"})))


def test_what_was_asked_for_are_the_runs_that_are_there(directory):
    assert names(asked_in(directory)) == [("fast", 0), ("slow", 0), ("slow", 2)]
    assert names(asked_in(directory).select()) == [("fast", 0), ("slow", 0), ("slow", 2)]
    assert names(asked_in(directory).select(seeds=1)) == [("fast", 0), ("slow", 0)]
    assert names(asked_in(directory).select(arms="slow")) == [("slow", 0), ("slow", 2)]


def test_runs_under_controls_are_asked_for_where_they_are_there(tmp_path):
    of = quadratic.experiment().select(controls="long")
    Store.create(tmp_path / "results", of)
    assert names(asked_in(tmp_path / "results")) == names(quadratic.experiment()), "without runs the whole document"
    Store.with_runs(tmp_path / "results", of, of.runs[:3])
    assert names(asked_in(tmp_path / "results")) == sorted((arm.full_name, seed) for arm, seed in of.runs[:3])


@pytest.mark.slow
def test_run_goes_on_with_a_directory_repeats_nothing_and_trains_anew_what_was_dropped(directory):
    done = headway_run(directory)
    assert done.returncode == 0, done.stderr
    runs = Store.open(directory).runs()
    assert [run.status for run in runs] == ["done"] * 3
    before = [(run.path / "run.json").stat().st_mtime_ns for run in runs]
    assert headway.run(directory, figures=False).path == directory
    assert [(run.path / "run.json").stat().st_mtime_ns for run in Store.open(directory).runs()] == before
    dropped = CliRunner().invoke(app, ["drop", str(directory), "slow", "--seeds", "0"])
    assert f"`headway run {directory}` trains it again" in dropped.output
    assert Store.open(directory).gone() == [], "nobody misses it"
    shutil.rmtree(runs[-1].path)
    assert names(asked_in(directory)) == [("fast", 0), ("slow", 0), ("slow", 2)], "dropped or gone, it was asked for"
    done = headway_run(directory)
    assert done.returncode == 0, done.stderr
    assert [run.status for run in Store.open(directory).runs()] == ["done"] * 3
    assert document.runs_of(directory) == ({("fast", 0), ("slow", 0), ("slow", 2)}, set())


@pytest.mark.parametrize("option", [("--set", "training.steps=3"), ("--scale", "paper"), ("--out", "elsewhere")])
def test_what_would_change_it_is_refused(directory, option):
    done = typed("run", directory, *option)
    assert done.returncode == 2
    assert f"{directory} is a results directory" in done.stderr
    assert f"leave {option[0]} out, or begin another experiment from a file" in done.stderr
    with pytest.raises(UserError, match="leave out out"):
        headway.run(directory, "elsewhere")


def test_an_arm_that_the_document_does_not_have_cannot_be_trained_anew(directory, monkeypatch):
    foreign = directory / "runs/foreign"
    shutil.copytree(directory / "runs/fast", foreign)
    dropped = CliRunner().invoke(app, ["drop", str(directory), "foreign"])
    assert dropped.output == (
        f"moved 1 run of foreign (seed 0) to {directory}/dropped; `headway compare` and `headway report` leave it out, "
        f"and nothing trains it again, since {directory}/experiment.yaml has no arm foreign\n"
    )
    assert names(asked_in(directory)) == [("fast", 0), ("slow", 0), ("slow", 2)]
    Store.create(directory, quadratic.brief(seeds=3, question="Still?"))
    assert "foreign" not in (directory / "experiment.yaml").read_text()


def test_one_write_names_all_runs_before_their_folders_are_made_and_a_kill_loses_none(tmp_path, monkeypatch):
    of, path = quadratic.brief(seeds=100), tmp_path / "results"
    written, write = [], document._write
    monkeypatch.setattr(document, "_write", lambda *given: (written.append(given), write(*given)))
    with monkeypatch.context() as patch:
        patch.setattr(Store, "_add", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Store.with_runs(path, of, of.runs)
    assert len(written) == 1
    assert "runs:\n    fast: 0-99\n    slow: 0-99\n" in (path / "experiment.yaml").read_text()
    assert len(Store.open(path).gone()) == 200
    Store.with_runs(path, asked_in(path), asked_in(path).runs)
    assert Store.open(path).gone() == []
    Store.with_runs(path, of, of.runs)
    assert len(written) == 1, "nothing is written that is there"


def add_at_once(directory, seeds, barrier):
    barrier.wait()
    of = quadratic.brief(seeds=seeds)
    Store.with_runs(directory, quadratic.brief(seeds=3), of.runs)


def test_of_two_that_ask_for_different_runs_at_once_both_are_named(tmp_path):
    Store.create(tmp_path / "results", quadratic.brief(seeds=3))
    barrier = FORK.Barrier(2)
    joined(forked(add_at_once, [(tmp_path / "results", seeds, barrier) for seeds in ([0, 1, 2], [2, 3, 7])]))
    assert document.named(tmp_path / "results") == {(arm, seed) for arm in ("fast", "slow") for seed in (0, 1, 2, 3, 7)}
    assert Store.open(tmp_path / "results").gone() == []


def test_a_run_that_was_moved_back_by_hand_counts_and_is_named_when_it_goes_on(directory):
    (moved,) = Store.open(directory).drop("slow", seeds=0)
    moved.rename(directory / "runs/slow/seed-0")
    assert len(Store.open(directory).runs()) == 3
    Store.with_runs(directory, asked_in(directory), asked_in(directory).runs)
    assert document.runs_of(directory) == ({("fast", 0), ("slow", 0), ("slow", 2)}, set())


def test_a_document_of_a_stranger_that_names_endless_runs_names_no_more_than_a_million(directory):
    document._change(directory, {"runs": {"slow": "0-99999999999999999,0-1", "../x": "1", "fast": ["0"]}})
    assert document.named(directory) == {("slow", 0), ("slow", 1), ("fast", 0)}


def test_an_arm_whose_runs_are_missing_stays_in_the_file(directory):
    shutil.rmtree(directory / "runs/fast")
    with pytest.raises(ResultsError, match=r"has runs of fast, and the file has no such arm; keep it there, or put"):
        Store.create(directory, quadratic.brief(seeds=3, arms={"slow": {}}, baseline="slow"))
    Store.open(directory).drop("fast")
    Store.create(directory, quadratic.brief(seeds=3, arms={"slow": {}}, baseline="slow"))
    assert document.runs_of(directory) == ({("slow", 0), ("slow", 2)}, set())
