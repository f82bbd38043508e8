"""What has been asked for in a results directory, and `headway run DIR`, which goes on with it."""

import json
import shutil
import subprocess
import sys

import pytest
import quadratic

import headway
from headway.errors import ResultsError, UserError
from headway.store.directory import Store, asked_in, is_directory


def small(**changes):
    return quadratic.experiment(
        **{
            "steps": 12,
            "seeds": 3,
            "controls": {},
            "evaluation": {"every": 7, "prompts": 100, "curve": None},
            **changes,
        }
    )


@pytest.fixture
def directory(tmp_path):
    """Of a document with three seeds, of which one arm has two and the other one."""
    of = small()
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


def test_a_directory_of_other_things_is_told(tmp_path):
    done = headway_run(tmp_path)
    assert done.returncode == 2
    assert f"error: {tmp_path} is no results directory of Headway: it has no experiment.yaml" in done.stderr


def test_what_was_asked_for_are_the_runs_that_are_there(directory):
    assert names(asked_in(directory)) == [("fast", 0), ("slow", 0), ("slow", 2)]
    assert names(asked_in(directory).select()) == [("fast", 0), ("slow", 0), ("slow", 2)]
    assert names(asked_in(directory).select(seeds=1)) == [("fast", 0), ("slow", 0)]
    assert names(asked_in(directory).select(arms="slow")) == [("slow", 0), ("slow", 2)]


def test_a_directory_without_runs_goes_on_with_all_of_its_document(tmp_path):
    Store.create(tmp_path / "results", small())
    assert names(asked_in(tmp_path / "results")) == names(small())


def test_runs_under_controls_are_asked_for_where_they_are_there(tmp_path):
    of = quadratic.experiment().select(controls="long")
    Store.with_runs(tmp_path / "results", of, of.runs[:3])
    assert names(asked_in(tmp_path / "results")) == sorted((arm.full_name, seed) for arm, seed in of.runs[:3])


def test_run_goes_on_with_a_directory_and_repeats_nothing(directory):
    done = headway_run(directory)
    assert done.returncode == 0, done.stderr
    runs = Store.open(directory).runs()
    assert [(run.name, run.seed, run.status) for run in runs] == [
        ("slow", 0, "done"),
        ("slow", 2, "done"),
        ("fast", 0, "done"),
    ]
    before = [(run.path / "run.json").stat().st_mtime_ns for run in runs]
    assert headway.run(directory, figures=False).path == directory
    assert [(run.path / "run.json").stat().st_mtime_ns for run in Store.open(directory).runs()] == before
    shutil.rmtree(runs[-1].path)
    assert names(asked_in(directory))[0] == ("fast", 0), "a finished run that is gone was asked for, too"


@pytest.mark.parametrize("option", [("--set", "training.steps=3"), ("--scale", "paper"), ("--out", "elsewhere")])
def test_what_would_change_it_is_refused(directory, option):
    done = headway_run(directory, *option)
    assert done.returncode == 2
    assert f"{directory} is a results directory" in done.stderr
    assert f"leave {option[0]} out, or begin another one from a file" in done.stderr
    with pytest.raises(UserError, match="leave out out"):
        headway.run(directory, "elsewhere")


def test_a_directory_of_a_later_headway_is_not_gone_on_with(directory):
    file = Store.open(directory).runs()[0].path / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema": 7}))
    with pytest.raises(ResultsError, match=r"was written by a later Headway .* go on there with the version"):
        asked_in(directory)
