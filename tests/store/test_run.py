"""A run folder, read: whole, unfinished or damaged."""

import json
from itertools import pairwise

import numpy as np
import pytest
from support import quadratic, stored
from support.tolerance import nearly

from headway.errors import ResultsError
from headway.store.run import Run


@pytest.fixture
def done(tmp_path):
    run = quadratic.fresh_run(tmp_path / "results")
    assert quadratic.train_here(run) == 0
    return Run.open(run.path)


def test_a_done_run_gives_all_that_was_recorded(done):
    assert done.status == "done"
    assert done.message == ""
    assert done.metrics["eval_mse"] == nearly(float(done.weights()["W"].mean()))
    assert done.metrics["nothing"] is None
    assert done.metrics["wall_s"] > 0
    assert 1 < done.metrics["steps_per_s"] < 1e6
    assert 10e6 < done.metrics["peak_memory_bytes"] < 10e9
    assert done.execution["trainer"] == "quadratic"
    assert done.execution["versions"].keys() - {"torch"} == {"python", "headway", "numpy"}
    assert done.curves() == {"line": [1, 2]}
    assert done.head_steps() == [1, 10, 50]
    assert done.head_arrays(10)["qk"].shape == (2, 3)
    records = done.records()
    assert [record["step"] for record in records][:6] == [0, 1, 5, 7, 10, 14]
    assert records[-1]["step"] == 60
    assert all(a["wall_s"] <= b["wall_s"] for a, b in pairwise(records))


def test_what_is_not_there_yet_is_empty_or_said(tmp_path):
    run = quadratic.fresh_run(tmp_path / "results")
    assert (run.records(), run.head_steps(), run.curves(), run.metrics) == ([], [], {}, {})
    with pytest.raises(ResultsError, match="has no checkpoint yet: it is waiting; `headway run` resumes it"):
        run.weights()
    with pytest.raises(ResultsError, match="the run has no record of its heads at step 3; it has those of no step"):
        run.head_arrays(3)


def test_a_last_line_that_was_cut_short_is_left_out_with_a_warning(done):
    whole = done.records()
    metrics = done.path / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-5])
    with pytest.warns(UserWarning, match=f"^{metrics}: the last line was cut short and is left out$"):
        assert done.records() == whole[:-1]


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(done):
    metrics = done.path / "metrics.jsonl"
    lines = metrics.read_text().splitlines(keepends=True)
    metrics.write_text("".join([*lines[:2], lines[2][:7] + "\n", *lines[3:]]))
    with pytest.raises(ResultsError, match="line 3 is damaged"):
        done.records()


def test_an_edited_configuration_is_noticed(done):
    content = json.loads((done.path / "run.json").read_text())
    content["config"]["training"]["learning_rate"] = 0.5
    (done.path / "run.json").write_text(json.dumps(content))
    with pytest.raises(ResultsError, match=r"not as it was written: it is damaged, or it was edited; `headway drop"):
        Run.open(done.path)
    stored.rewrite(done.path, config=content["config"])
    with pytest.raises(ResultsError, match=r"configuration is .* it was edited; `headway drop"):
        _ = Run.open(done.path).spec


def test_a_run_whose_process_is_gone_is_interrupted_though_it_says_running(done):
    stored.rewrite(done.path, status="running")
    gone = Run.open(done.path)
    assert (gone.status, gone.message) == ("interrupted", "its process ended without a message; run again to resume")
    with quadratic.taken(done):
        assert Run.open(done.path).status == "running"


def test_weights_are_those_of_the_last_step(done):
    study = quadratic.study(done.spec)
    study.trainer.advance(60)
    np.testing.assert_array_equal(done.weights()["W"], study.trainer.weights()["W"])
