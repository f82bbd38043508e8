"""One run, worked on: stopped, gone on with, taken over, failed."""

import os
import signal
from dataclasses import replace

import pytest
from support import quadratic

from headway.errors import UserError
from headway.execute.stop import FROM_PARENT
from headway.execute.work import DONE, ELSEWHERE, FAILED, STOPPED, work
from headway.store import checkpoint
from headway.store.run import Run


def stopping_at(step: int, *numbers: signal.Signals):
    """A study that sends its own process signals (SIGTERM if none is named) when it gets to a step."""

    def opened(spec, stored):
        study = quadratic.study(spec, stored)
        trainer = study.trainer
        advance = trainer.advance

        def advance_and_signal(n):
            losses = advance(n)
            if trainer.step - n < step <= trainer.step:
                for number in numbers or (signal.SIGTERM,):
                    os.kill(os.getpid(), number)
            return losses

        trainer.advance = advance_and_signal
        return study

    return opened


@pytest.fixture
def run(tmp_path):
    return quadratic.fresh_run(tmp_path / "results")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the run leaves when nothing stops it."""
    whole = quadratic.fresh_run(tmp_path_factory.mktemp("undisturbed"))
    assert quadratic.train_here(whole) == DONE
    return quadratic.lasting(whole)


@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGINT, "by SIGINT"), (signal.SIGTERM, "by SIGTERM"), (FROM_PARENT, "with `headway run`")],
)
def test_a_signal_stores_a_checkpoint_at_the_next_milestone_and_interrupts(run, number, said):
    assert work(run.path, stopping_at(17, number)) == STOPPED
    stopped = Run.open(run.path)
    assert stopped.status == "interrupted"
    assert stopped.message == f"stopped at step 20 {said}; run again to resume"
    assert checkpoint.load(run.path / "checkpoint")[0].step == 20
    assert stopped.records()[-1]["step"] == 20


@pytest.mark.parametrize(
    "numbers",
    [
        (signal.SIGTERM, signal.SIGTERM),
        (FROM_PARENT, signal.SIGTERM),
        (signal.SIGHUP, signal.SIGTERM, FROM_PARENT),
        (signal.SIGUSR1, FROM_PARENT),  # a scheduler's, to every process of a tree, and what the parent makes of it
    ],
)
def test_signals_that_come_together_are_one_wish(run, numbers):
    assert work(run.path, stopping_at(17, *numbers)) == STOPPED
    assert Run.open(run.path).message.startswith("stopped at step 20 ")
    assert checkpoint.load(run.path / "checkpoint")[0].step == 20


@pytest.mark.parametrize(
    ("patience", "numbers"),
    [
        ("TOGETHER_S", (signal.SIGTERM, signal.SIGTERM)),
        ("ASKED_AGAIN_S", (signal.SIGTERM, FROM_PARENT, FROM_PARENT)),
    ],
)
def test_who_asks_again_after_a_while_interrupts_at_once(run, monkeypatch, patience, numbers):
    monkeypatch.setattr(f"headway.execute.stop.{patience}", 0.0)
    assert work(run.path, stopping_at(17, *numbers)) == STOPPED
    stopped = Run.open(run.path)
    assert stopped.message == "stopped by SIGTERM; run again to resume"
    assert checkpoint.load(run.path / "checkpoint")[0] is None


def test_an_interrupted_run_ends_with_the_same_bits_and_its_times_add_up(run, undisturbed):
    assert work(run.path, stopping_at(17)) == STOPPED
    counted = checkpoint.load(run.path / "checkpoint")[0].counters
    assert work(run.path, stopping_at(40)) == STOPPED
    assert quadratic.train_here(run) == DONE
    assert quadratic.lasting(run) == undisturbed
    done = Run.open(run.path)
    assert done.message == ""
    for clock in ("wall_s", "processor_s"):
        assert done.metrics[clock] > counted[clock] > 0
    assert done.records()[-1]["wall_s"] > counted["wall_s"]


def test_far_from_any_milestone_it_stores_where_it_is_and_ends_with_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("headway.train.loop._CHUNK_S", 0.0)  # a step at a time
    undisturbed, run = (
        quadratic.fresh_run(tmp_path / name, steps=200, logging={"every": 100}, evaluation={"every": 100})
        for name in ("undisturbed", "run")
    )
    assert quadratic.train_here(undisturbed) == DONE
    for step in (57, 60, 90, 130, 199):
        assert work(run.path, stopping_at(step)) == STOPPED
        assert Run.open(run.path).message == f"stopped at step {step} by SIGTERM; run again to resume"
        assert checkpoint.load(run.path / "checkpoint")[0].unrecorded.since == run.records()[-1]["step"] < step
    assert quadratic.train_here(run) == DONE
    assert quadratic.lasting(run) == quadratic.lasting(undisturbed)


def test_a_signal_while_it_measures_is_not_kept_waiting(run, undisturbed):
    def opened(spec, stored):
        study = quadratic.study(spec, stored)
        return replace(study, measures=(quadratic.at_step(21, measuring), *study.measures))

    def measuring():
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("it went on measuring")

    assert work(run.path, opened) == STOPPED
    assert Run.open(run.path).message == "stopped at step 21 by SIGTERM; run again to resume"
    assert run.records()[-1]["step"] == 20
    assert checkpoint.load(run.path / "checkpoint")[0].step == 21
    assert quadratic.train_here(run) == DONE
    assert quadratic.lasting(run) == undisturbed


def test_a_signal_in_the_first_step_which_may_compile_a_model_interrupts_at_once(run):
    assert work(run.path, stopping_at(20)) == STOPPED

    def opened(spec, stored):
        study = quadratic.study(spec, stored)

        def advance(_n):
            os.kill(os.getpid(), signal.SIGTERM)
            raise AssertionError("it went on compiling")

        study.trainer.advance = advance
        return study

    assert work(run.path, opened) == STOPPED
    assert Run.open(run.path).message == "stopped by SIGTERM; run again to resume"
    assert checkpoint.load(run.path / "checkpoint")[0].step == 20


def test_a_stop_during_the_conclusion_goes_on_with_the_conclusion(run, undisturbed):
    def opened(spec, stored):
        study = quadratic.study(spec, stored)

        def conclude():
            os.kill(os.getpid(), signal.SIGTERM)
            return study.conclude()

        return replace(study, conclude=conclude)

    assert work(run.path, opened) == STOPPED
    assert Run.open(run.path).status == "interrupted"
    assert checkpoint.load(run.path / "checkpoint")[0].step == 60
    assert quadratic.train_here(run) == DONE
    assert quadratic.lasting(run) == undisturbed


def test_a_run_that_another_process_works_on_or_that_is_done_is_left_alone(run, capfd):
    with quadratic.taken(run):
        assert quadratic.train_here(run) == ELSEWHERE
    assert f"process {os.getpid()}" in capfd.readouterr().out
    assert Run.open(run.path).status == "waiting"
    quadratic.train_here(run)
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    assert quadratic.train_here(run) == DONE
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


def test_whoever_is_taken_over_stops_and_changes_nothing(run, monkeypatch):
    monkeypatch.setattr("headway.store.lease._BEAT_S", 1000.0)  # it stays silent until it is taken over

    def opened(spec, stored):
        study = quadratic.study(spec, stored)
        taken_over = quadratic.at_step(10, lambda: quadratic.take_over(run))
        return replace(study, measures=(*study.measures, taken_over))

    assert work(run.path, opened) == ELSEWHERE
    assert Run.open(run.path).status == "done"
    assert "took over" in (run.path / "log.txt").read_text()


def test_a_divergence_fails_with_the_step_and_what_to_lower(tmp_path):
    training = {"optimizer": "sgd", "learning_rate": 1e6, "batch_size": 1, "steps": 60}
    run = quadratic.fresh_run(tmp_path / "results", training=training)
    assert quadratic.train_here(run) == FAILED
    failed = Run.open(run.path)
    assert failed.status == "failed"
    assert "the loss of step " in failed.message
    assert failed.message.endswith("; lower training.learning_rate (it is 1000000.0)")
    assert failed.metrics == {}
    assert failed.records()[-1]["step"] == 1


@pytest.mark.parametrize(
    ("error", "message", "traced"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero; log.txt says where", True),
        (UserError("no bias here; leave it out"), "no bias here; leave it out", False),
        (PermissionError(13, "Permission denied"), "Permission denied; log.txt says where", True),
    ],
)
def test_an_error_is_the_outcome_of_the_run_and_the_next_try_may_succeed(run, error, message, traced):
    def opened(spec, stored):
        raise error

    assert work(run.path, opened) == FAILED
    failed = Run.open(run.path)
    assert failed.status == "failed"
    assert message in failed.message
    assert ("Traceback" in (run.path / "log.txt").read_text()) is traced
    assert quadratic.train_here(run) == DONE
    assert Run.open(run.path).message == ""


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ({}, {"instruction_set": "avx2"}, "instruction_set None -> avx2"),
        (
            {"instruction_sets": {"ATen": "AVX2"}},
            {"instruction_sets": {"ATen": "AVX512"}},
            "instruction_sets.ATen AVX2 -> AVX512",
        ),
        ({}, {"instruction_sets": {"ATen": "AVX512"}}, None),
    ],
)
def test_going_on_in_another_execution_is_told_and_in_an_unknown_one_is_not(run, before, after, change):
    def executed(there, opened):
        def opened_there(spec, stored):
            study = opened(spec, stored)
            return replace(study, execution={**study.execution, **there})

        return opened_there

    work(run.path, executed(before, stopping_at(17)))
    assert work(run.path, executed(after, quadratic.study)) == DONE
    done = Run.open(run.path)
    assert done.message == (f"bits may differ: from step 20 on {change}" if change else "")
    assert done.execution.get("changes", []) == ([f"from step 20 on {change}"] if change else [])
