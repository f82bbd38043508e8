"""Relative paths of an experiment lead from where its results were begun, too: any folder resumes them."""

import json

import pytest
from support import small_text

import headway
from headway.base import files
from headway.data.tokenizer import bytes_tokenizer
from headway.errors import UserError
from headway.store.directory import Store

TEXT = "A heron stood in the reeds and waited for a fish.\n<|endoftext|>\n" * 40
TASK = {"kind": "text", "corpus": "train.txt", "validation": "held.txt", "tokenizer": "./folder", "n_ctx": 8}


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """Make a directory of runs that wait, in one folder, and go to another."""
    monkeypatch.setattr(files, "BEGUN_IN", [files.Path()])
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    for name in ("a", "b", "a/folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "train.txt").write_text(TEXT)
    (tmp_path / "a" / "held.txt").write_text(TEXT.replace("heron", "stork"))
    bytes_tokenizer().save(tmp_path / "a" / "folder")
    monkeypatch.chdir(tmp_path / "a")
    training = {**small_text.CONTENT["training"], "steps": 2}
    experiment = small_text.experiment(task=TASK, training=training, samples=None).select(arms=["falling"])
    Store.with_runs("../work", experiment, experiment.runs)
    monkeypatch.chdir(tmp_path / "b")
    return tmp_path


@pytest.mark.slow
def test_a_run_is_resumed_from_another_folder_and_no_result_names_one(begun):
    store = headway.run("../work", workers=1, timing=False)
    (run,) = store.runs()
    assert run.status == "done"
    assert run.config["task"]["corpus"] == "train.txt"
    for name in ("results.json", "report.html"):
        assert str(begun) not in (begun / "work" / name).read_text()
    read = headway.xray(run.path, draws=0)
    assert "held.txt" in json.dumps(read.to_json())
    assert str(begun) not in json.dumps(read.to_json())


def test_a_missing_file_is_an_error_that_names_both_folders(begun):
    (begun / "a" / "train.txt").unlink()
    with pytest.raises(UserError) as error:
        headway.run("../work", workers=1)
    assert f"task.corpus train.txt: there is no such file or folder (from {begun / 'b'} and {begun / 'a'})" in str(
        error.value
    )


def test_a_file_of_the_working_directory_comes_first(begun):
    Store.open("../work")
    assert files.located("train.txt") == begun / "a" / "train.txt"
    (begun / "b" / "train.txt").write_text(TEXT)
    assert files.located("train.txt") == files.Path("train.txt")
