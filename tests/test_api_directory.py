"""A results directory in Python: labels and units of its frame, its verdicts, and what a notebook shows."""

import json

import pytest
from support.fabricate import fabricate, small
from typer.testing import CliRunner

import headway
from headway.base.files import write_json
from headway.cli.options import app
from headway.stats.results import read, write


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    experiment = small("icl-heads", **{"arms.h1.label": "one_head <b>"}).select(arms=["h1", "h2"], seeds=3)
    path = fabricate(tmp_path_factory.mktemp("api") / "results", experiment)
    write(headway.open(path))
    return path


def test_a_frame_has_labels_and_units(directory):
    frame = headway.open(directory).frame()
    assert list(frame["label"].unique()) == ["one_head <b>", "2 heads"]
    assert frame.attrs["units"]["eval_mse"] == "y squared"
    assert set(frame.attrs["units"]) <= set(frame.columns)


def test_its_results_are_those_that_compare_writes(directory):
    assert headway.open(directory).results() == read(directory)
    (row,) = headway.open(directory).results().verdicts.rows
    assert (row.comparison, row.seeds) == ("one_head <b> vs 2 heads", 3)


def test_a_notebook_shows_the_verdicts_and_no_label_is_markup(directory):
    opened = headway.open(directory)
    shown = opened._repr_html_()
    assert "6 done" in shown
    assert opened.results()._repr_html_() in shown
    (row,) = opened.results().verdicts.rows
    assert f"<td>{row.verdict}</td>" in shown
    assert "one_head &lt;b&gt; vs 2 heads" in shown
    assert "<b>" not in shown.replace("<p><b>icl-heads</b></p>", "")


def test_a_notebook_and_the_command_show_a_directory_without_finished_runs(tmp_path):
    experiment = small("icl-heads").select(arms=["h1", "h2"], seeds=1)
    waiting = dict.fromkeys([("h1", 0), ("h2", 0)], "waiting")
    path = fabricate(tmp_path / "results", experiment, waiting)
    ended = CliRunner().invoke(app, ["compare", str(path), "--format", "csv"])
    assert ended.stdout.count("\n") == 1
    assert "the table is empty" in ended.stderr
    shown = headway.open(path)._repr_html_()
    assert "2 waiting" in shown
    assert "No comparison has a pair of finished seeds yet" in shown


def test_the_command_prints_the_same_table_alone(directory):
    table = headway.open(directory).results().verdicts
    for form in ("latex", "csv", "markdown"):
        ended = CliRunner().invoke(app, ["compare", str(directory), "--format", form])
        assert (ended.exit_code, ended.stdout) == (0, table.written(form))
    assert json.loads((directory / "results.json").read_text())["labels"]["h1"] == "one_head <b>"


def test_results_of_a_file_without_labels_are_read(directory, tmp_path):
    content = json.loads((directory / "results.json").read_text())
    del content["labels"], content["digest"]
    write_json(tmp_path / "results.json", content)
    (row,) = read(tmp_path).verdicts.rows
    assert row.comparison == "h1 vs h2"
