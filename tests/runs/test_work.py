"""One run, worked on: stopped, gone on with, taken over, failed."""

import os
import signal
from dataclasses import replace

import pytest
import quadratic

from headway.errors import UserError
from headway.runs import work as work_module
from headway.runs.folder import Run
from headway.runs.stop import FROM_PARENT
from headway.runs.work import DONE, ELSEWHERE, FAILED, STOPPED, work
from headway.train import checkpoint


def stopping_at(step: int, number: signal.Signals = signal.SIGTERM, times: int = 1):
    """A study that sends its own process a signal when it gets to a step."""

    def opened(spec, stored):
        study = quadratic.study(spec, stored)
        trainer = study.trainer
        advance = trainer.advance

        def advance_and_signal(n):
            losses = advance(n)
            if trainer.step - n < step <= trainer.step:
                for _ in range(times):
                    os.kill(os.getpid(), number)
            return losses

        trainer.advance = advance_and_signal
        return study

    return opened


@pytest.fixture
def run(tmp_path):
    return quadratic.fresh_run(tmp_path / "results")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stores_a_checkpoint_at_the_next_milestone_and_interrupts(run, number):
    assert work(run.path, stopping_at(17, number)) == STOPPED
    stopped = Run.open(run.path)
    assert stopped.status == "interrupted"
    assert stopped.message == f"stopped at step 20 by {number.name}; run again to go on"
    assert checkpoint.load(run.path / "checkpoint")[0].step == 20
    assert stopped.records()[-1]["step"] == 20


def test_a_stop_by_the_process_that_started_it_is_told_apart(run):
    assert work(run.path, stopping_at(17, FROM_PARENT)) == STOPPED
    assert Run.open(run.path).message == "stopped at step 20 with `headway run`; run again to go on"


def test_the_second_signal_interrupts_at_once(run):
    assert work(run.path, stopping_at(17, times=2)) == STOPPED
    stopped = Run.open(run.path)
    assert stopped.message == "stopped by SIGTERM; run again to go on"
    assert checkpoint.load(run.path / "checkpoint")[0] is None


def test_an_interrupted_run_ends_with_the_same_bits_and_its_times_add_up(run, tmp_path):
    undisturbed = quadratic.fresh_run(tmp_path / "undisturbed")
    assert quadratic.train_here(undisturbed) == DONE
    assert work(run.path, stopping_at(17)) == STOPPED
    counted = checkpoint.load(run.path / "checkpoint")[0].counters
    assert work(run.path, stopping_at(40)) == STOPPED
    assert quadratic.train_here(run) == DONE
    assert quadratic.lasting(run) == quadratic.lasting(undisturbed)
    done = Run.open(run.path)
    assert done.message == ""
    assert done.metrics["wall_s"] > counted["wall_s"] > 0
    assert done.records()[-1]["wall_s"] > counted["wall_s"]


def test_a_stop_during_the_conclusion_goes_on_with_the_conclusion(run, tmp_path):
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
    undisturbed = quadratic.fresh_run(tmp_path / "undisturbed")
    quadratic.train_here(undisturbed)
    assert quadratic.lasting(run) == quadratic.lasting(undisturbed)


def test_checkpoints_come_by_the_clock(run, monkeypatch):
    monkeypatch.setattr(work_module, "CHECKPOINT_EVERY_S", 0.0)
    quadratic.train_here(run)
    assert {int(path.stem) for path in (run.path / "checkpoint").iterdir()} == {56, 60}


def test_a_done_run_is_not_touched(run):
    quadratic.train_here(run)
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    assert quadratic.train_here(run) == DONE
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


def test_a_run_that_another_process_works_on_is_left_alone(run, capfd):
    with quadratic.taken(run):
        assert quadratic.train_here(run) == ELSEWHERE
    assert f"process {os.getpid()}" in capfd.readouterr().out
    assert Run.open(run.path).status == "waiting"


def test_whoever_is_taken_over_stops_and_changes_nothing(run, monkeypatch):
    monkeypatch.setattr("headway.runs.lease._BEAT_S", 1000.0)  # it stays silent until it is taken over

    def opened(spec, stored):
        study = quadratic.study(spec, stored)
        taken_over = quadratic.at_step(10, lambda: quadratic.take_over(run))
        return replace(study, measures=(*study.measures, taken_over))

    assert work(run.path, opened) == ELSEWHERE
    assert Run.open(run.path).status == "done"
    assert "took over" in (run.path / "log.txt").read_text()


def test_a_divergence_fails_with_the_step_and_what_to_lower(tmp_path):
    run = quadratic.fresh_run(
        tmp_path / "results", training={"optimizer": "sgd", "learning_rate": 1e6, "batch_size": 1, "steps": 60}
    )
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
        (
            UserError("no bias here; leave it out"),
            "no bias here; leave it out",
            False,
        ),
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


def test_going_on_elsewhere_says_that_bits_may_differ(run):
    def another(spec, stored):
        assert stored["trainer"] == "quadratic"
        study = quadratic.study(spec, stored)
        return replace(study, execution={**study.execution, "instruction_set": "avx2"})

    work(run.path, stopping_at(17))
    assert work(run.path, another) == DONE
    done = Run.open(run.path)
    assert done.message == "bits may differ: from step 20 on instruction_set None -> avx2"
    assert done.execution["changes"] == ["from step 20 on instruction_set None -> avx2"]


def test_a_run_from_the_start_is_told_of_no_former_execution(run):
    def opened(spec, stored):
        assert stored == {}
        return quadratic.study(spec, stored)

    assert work(run.path, opened) == DONE
