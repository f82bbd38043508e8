"""Directories that a former version wrote: opened, finished and reported; nothing in them is renumbered or lost."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import headway
from headway.stats import results
from headway.store.directory import Store
from headway.store.records import run_folders
from headway.store.run import Run
from headway.store.verify import verify

BEFORE = Path(__file__).parents[1] / "before"


@pytest.fixture(params=["icl", "text"])
def old(request, tmp_path):
    return Path(shutil.copytree(BEFORE / request.param, tmp_path / request.param))


def test_runs_have_the_ids_and_weights_that_they_were_stored_with(old):
    for file in old.glob("runs/*/*/run.json"):
        run = Run.open(file.parent)
        assert run.spec.id == run.id == json.loads(file.read_text())["id"]
        if run.status == "done":
            run.check()
            assert run.weights()


def test_nothing_is_damaged_or_missed(old):
    assert [looked.damages for looked in verify(old)] == [()] * (1 + len(run_folders(old)))
    assert Store.open(old).gone() == []


def test_a_document_that_names_earlier_experiments_is_compared_without_them(old):
    without = results.build(Store.open(old))
    file = old / "experiment.yaml"
    content = file.read_bytes().partition(b"\n")[2].replace(b"\nheadway:\n", b"\nprior: results/earlier\nheadway:\n")
    assert b"\nprior:" in content
    file.write_bytes(b"# SHA-256 of what follows: " + hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    told = "Headway no longer uses `prior` of experiment.yaml. Intervals may differ from those of earlier versions."
    found = results.build(Store.open(old))
    assert set(found.warnings) == {told, *without.warnings}
    assert replace(found, warnings=without.warnings, cautions=without.cautions) == without


@pytest.mark.slow
def test_what_was_missing_is_finished_and_what_was_done_is_not_repeated(old):
    store = headway.open(old)
    before = {(run.name, run.seed): (run.status, run.metrics) for run in store.runs()}
    lines = {path: path.read_bytes() for path in old.glob("runs/*/*/metrics.jsonl")}
    done = {key for key, (status, _) in before.items() if status == "done"}
    assert 0 < len(done) < len(store.experiment.runs)
    headway.run(store.experiment, old, workers=2, timing=False)
    after = {(run.name, run.seed): run for run in store.runs()}
    assert {run.status for run in after.values()} == {"done"}
    assert {(arm.full_name, seed) for arm, seed in store.experiment.runs} == set(after)
    for key in done:
        assert after[key].metrics == before[key][1]
    # A run that was interrupted goes on from its checkpoint: what was recorded until there stands.
    for path, content in lines.items():
        assert path.read_bytes().startswith(content)
    assert "interrupted" not in json.loads((old / "results.json").read_text())["warnings"]
    assert (old / "report.html").stat().st_size > 100_000
