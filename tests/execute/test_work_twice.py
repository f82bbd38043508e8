"""A run that two processes finish: the first result is kept, and different bits on equal execution are told."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from support import quadratic, stored

from headway.execute.work import DONE, work
from headway.store import verify
from headway.store.run import Run


@pytest.fixture
def first(tmp_path):
    """The same run, finished by somebody else."""
    run = quadratic.fresh_run(tmp_path / "first")
    quadratic.train_here(run)
    return run


def overtaken(run, first, spoil=lambda study: None, leave=()):
    """Work on a run, in whose folder somebody's result appears while this process judges its own."""

    def opened(spec, given):
        study = quadratic.study(spec, given)
        spoil(study)

        def conclude():
            for path in first.path.iterdir():
                if path.name in (*leave, "lease", "log.txt"):
                    continue
                if path.is_dir():
                    shutil.copytree(path, run.path / path.name, dirs_exist_ok=True)
                else:
                    shutil.copy2(path, run.path / path.name)
            return study.conclude()

        return replace(study, conclude=conclude)

    return work(run.path, opened)


def files(path):
    """What the folder holds but for leases and the log."""
    kept = (file for file in path.rglob("*") if file.is_file() and file.parent.name != "lease")
    return {file.relative_to(path): file.read_bytes() for file in kept if file.name != "log.txt"}


def test_equal_results_are_one_and_the_first_stays_as_it_was(run, first):
    assert overtaken(run, first) == DONE
    kept = Run.open(run.path)
    kept.check()
    assert kept.metrics == Run.open(first.path).metrics
    assert kept.message == ""
    assert "finished twice, with the same bits" in (run.path / "log.txt").read_text()
    theirs, mine = files(first.path), files(run.path)
    assert {path: mine[path] for path in theirs} == theirs


@pytest.fixture
def run(tmp_path):
    return quadratic.fresh_run(tmp_path / "second")


def test_where_the_files_of_the_first_were_written_over_they_are_sealed_again(run, first):
    assert overtaken(run, first, leave=("metrics.jsonl",)) == DONE
    kept = Run.open(run.path)
    kept.check()
    assert (kept.status, kept.message) == ("done", "")
    assert quadratic.lasting(kept) == quadratic.lasting(first)


def flip(study):
    """One bit of the weights, as a cosmic ray does."""
    weights = study.trainer.weights()["W"].view(np.uint32)
    weights[0, 0] ^= 1 << 20


def test_different_bits_on_equal_execution_are_told_as_a_defect(run, first):
    assert overtaken(run, first, spoil=flip) == DONE
    kept = Run.open(run.path)
    kept.check()
    assert kept.metrics == Run.open(first.path).metrics
    for said in ("eval_mse", "heads/", "one of these machines is faulty", "the first result is kept"):
        assert said in kept.message


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"threads": 2, "host": "other"}, "threads 2 -> 1"),
        ({"together": 5, "batch": "0123", "host": "other"}, "batch 0123 -> None, together 5 -> None"),
    ],
)
def test_different_executions_may_differ_and_it_says_in_what(run, first, there, said):
    stored.rewrite(first.path, execution={**Run.open(first.path).execution, **there})
    assert overtaken(run, first, spoil=flip) == DONE
    message = Run.open(run.path).message
    assert f"executed differently ({said})" in message
    assert "finished twice, on other and " in message
    assert "faulty" not in message


def test_an_instruction_set_that_is_not_recorded_makes_no_defect_of_a_machine(first):
    run = Run.open(first.path)
    of_torch = {**run.execution, "instruction_sets": {"ATen": "AVX2"}}
    message = verify.said(run, of_torch, ["eval_mse"])
    assert "one of them does not record its instruction sets, which may differ" in message
    assert "faulty" not in message
    other = replace(run, execution={**run.execution, "instruction_sets": {"ATen": "AVX512"}})
    assert "executed differently (instruction_sets.ATen AVX512 -> AVX2)" in verify.said(other, of_torch, ["eval_mse"])
    assert "faulty" in verify.said(replace(run, execution=of_torch), of_torch, ["eval_mse"])


def test_times_and_memory_are_no_difference(first):
    run = Run.open(first.path)
    slower = {name: value * 2 if name.endswith(("_s", "_bytes")) else value for name, value in run.metrics.items()}
    assert verify.differences(run, slower, {}) == []
    assert verify.differences(run, {**slower, "eval_mse": 0.0}, {}) == ["eval_mse"]
