"""Runs: one run, worked on by this process from wherever it stands to its end.

The process owns the folder by a lease. Whatever happens to it, the folder says so: done, failed with a message,
interrupted; and if it could not say anything, its lease shows that it is gone. Working again goes on from the
last checkpoint.
"""

import contextlib
import os
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.declare.run import RunSpec
from headway.errors import Diverged, HeadwayError, LeaseLost, ResultsError
from headway.files import Content, appending, json_text, plain, write_text
from headway.runs import seal, second
from headway.runs.callbacks import listeners
from headway.runs.course import Course
from headway.runs.execution import changes, surroundings
from headway.runs.folder import Run, Status
from headway.runs.folder_written import update
from headway.runs.lease import Lease, LeaseHeld
from headway.runs.memory import is_out_of_memory, out_of_memory
from headway.runs.recorder import Recorder
from headway.runs.stop import Stop, Wishes
from headway.runs.storage import exit_code, is_of_storage, what_blocks
from headway.runs.storage import outcome as outcome_of_storage
from headway.train import checkpoint
from headway.train.checkpoint import Checkpoint
from headway.train.loop import Study
from headway.train.process_memory import peak_bytes

DONE, FAILED, ELSEWHERE, STOPPED = 0, 1, 75, 130
"""Exit codes, with those of `storage`: EX_TEMPFAIL of sysexits.h for a run that another process works on."""

CHECKPOINT_EVERY_S = 60.0

OpenStudy = Callable[[RunSpec, Mapping[str, Any]], Study]
"""Opens the study of a run; the mapping is the execution to be repeated, empty for a run from the start."""


def work(path: Path, open_study: OpenStudy, *, parent: int | None = None) -> int:
    """Train and judge the run in a folder, unless it is done or another process is at it.

    Args:
        path: the run folder.
        open_study: what opens its study.
        parent: the process to stop with; None to outlive any.

    Returns:
        An exit code: DONE, FAILED, DISK_FULL, UNREACHABLE, ELSEWHERE or STOPPED.

    Raises:
        ResultsError: when the folder holds no run.
    """
    if Run.open(path).status == "done":
        return DONE
    try:
        lease = Lease.take(path / "lease")
        with Wishes(parent).heard() as wishes, lease, _output_to(path / "log.txt"):
            run = Run.open(path)  # its former owner may have finished it since
            return DONE if run.status == "done" else OwnedRun(run, lease, wishes).outcome(open_study)
    except LeaseHeld as held:
        _say(f"{path}: {held}")
        return ELSEWHERE
    except OSError as error:  # before the work began: from there on it has an outcome
        _say(outcome_of_storage(path, error))
        return exit_code(error)


class OwnedRun:
    """A run in the hands of its owner."""

    def __init__(self, run: Run, lease: Lease, wishes: Wishes):
        self._run, self._lease, self._wishes = run, lease, wishes
        self._began = time.perf_counter()
        self._contents: dict[str, Content] = {}

    def outcome(self, open_study: OpenStudy) -> int:
        """Do the work; whatever ends it is recorded."""
        steps = self.going(open_study)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return int(end.value)

    def going(self, open_study: OpenStudy) -> Generator[bool, None, int]:
        """The same, to be gone through: it pauses when its study is open, and after each event; gives the exit code.

        Each pause says whether the run may measure, before its next step, what its trainer holds now.
        """
        try:
            yield from self._work(open_study)
        except Stop as stop:
            return self._ended(STOPPED, "interrupted", f"stopped {stop}; run again to go on")
        except LeaseLost as lost:
            _say(str(lost))
            return ELSEWHERE
        except Diverged as error:
            rate = self._run.config["training"].get("learning_rate")
            return self._ended(FAILED, "failed", f"{error}; lower training.learning_rate (it is {rate})")
        except HeadwayError as error:
            return self._ended(FAILED, "failed", str(error))
        except Exception as error:  # noqa: BLE001 - whatever a study raises is the outcome of this run
            if blocked := what_blocks(self._run.path, error):
                return self._ended(FAILED, "failed", blocked)
            _say(traceback.format_exc())
            if isinstance(error, OSError) and is_of_storage(error, self._run.path):
                return self._ended(exit_code(error), "failed", outcome_of_storage(self._run.path, error))
            if is_out_of_memory(error):
                return self._ended(FAILED, "failed", out_of_memory(self._run))
            return self._ended(FAILED, "failed", f"{type(error).__name__}: {error}; log.txt says where")
        return DONE

    def stopped_before(self, step: int) -> int:
        """Record that it was stopped before it was put into its batch, at the step where it is stored; an exit code."""
        how = self._wishes.fulfilled()
        return self._ended(
            STOPPED, "interrupted", f"stopped {how}, before its batch came to step {step}; run again to go on"
        )

    def _ended(self, code: int, status: Status, message: str) -> int:
        _say(message)
        try:
            update(self._run, self._lease, status=status, message=message)
        except LeaseLost as lost:
            _say(str(lost))
            return ELSEWHERE
        except OSError as error:
            # Whoever started this process learns it from the exit code, everyone else from the dead lease.
            _say(f"this could not be recorded: {error}")
        return code

    def _work(self, open_study: OpenStudy) -> Generator[bool, None, None]:
        with Recorder(self._run.path, self._lease, self._run.id) as recorder:
            resumed = recorder.resumed
            study = open_study(self._run.spec, self._run.execution if resumed else {})
            self._start(study, resumed)
            notes = recorder.recoveries + [f"bits may differ: {c}" for c in self._run.execution.get("changes", ())]
            for note in notes:
                _say(note)
            base = resumed.counters if resumed else {}
            yield resumed is None or resumed.unrecorded is not None
            training_s = yield from Course(
                study,
                recorder,
                self._lease,
                self._wishes,
                steps=self._run.steps,
                log_every=self._run.log_every,
                store_every_s=CHECKPOINT_EVERY_S,
                count=lambda training_s: self._count(study, base, training_s),
                keeps_weights=self._run.keeps_weights,
                tell=listeners(self._run, _say),
            ).to_the_end()
            self._contents |= recorder.contents
        conclusion = study.conclude()
        self._lease.check()
        if conclusion.curves:
            self._write("curves.json", json_text(conclusion.curves))
        counters = self._count(study, base, training_s)
        training_s = counters.pop("training_s")
        last = self._run.records()[-1]
        metrics = {
            **{name: last.get(name) for name in study.carried},
            **conclusion.metrics,
            **{f"{name}_per_s": n / training_s for name, n in self._amounts(conclusion.metrics).items() if training_s},
            **counters,
        }
        if (first := second.finished(self._run)) and self._is_kept(first, metrics, notes):
            return
        sealed = self._sealed()
        self._run = update(
            self._run, self._lease, status="done", message="; ".join(notes), metrics=plain(metrics), seal=sealed
        )

    def _is_kept(self, first: Run, metrics: Mapping[str, Any], notes: list[str]) -> bool:
        """Compare the result of somebody who was faster with this one; whether the folder holds it as it was."""
        differing = second.differences(first, metrics, {**self._contents, **self._stored()})
        said = second.said(first, self._run.execution, differing)
        _say(said or f"finished twice, with the same bits; the result of {first.execution.get('host')} is kept")
        if not second.is_whole(first):  # its files were written over by these, which are the same but for times
            notes += [said] if said else []
            return False
        if said:
            update(first, self._lease, message=said)
        return True

    def _write(self, name: str, text: str) -> None:
        """Write a file of the folder, and remember what it holds for the seal."""
        self._lease.check()
        write_text(self._run.path / name, text)
        self._contents[name] = Content.of(text.encode())

    def _sealed(self) -> str:
        """Seal the folder, before its run.json says that it is done; the digest of the seal."""
        stored = self._stored()
        self._lease.check()
        return seal.write(self._run.path, {**self._contents, **stored})

    def _stored(self) -> dict[str, Content]:
        """What the files of the checkpoints hold."""
        found = checkpoint.contents(self._run.path / "checkpoint")
        return {f"checkpoint/{name}": content for name, content in found.items()}

    def _start(self, study: Study, resumed: Checkpoint | None) -> None:
        """Put the trainer where it goes on, and record how it is executed from here."""
        execution: dict[str, Any] = {**study.execution, **surroundings()}
        if resumed:
            self._check_corpus(execution)
            study.trainer.restore(resumed.step, resumed.state)
            before = {key: value for key, value in self._run.execution.items() if key != "changes"}
            changed = [f"from step {resumed.step} on {change}" for change in changes(before, execution)]
            if changed := [*self._run.execution.get("changes", ()), *changed]:
                execution["changes"] = changed
        for name, text in study.files.items():
            self._write(name, text)
        self._run = update(
            self._run,
            self._lease,
            status="running",
            message="",
            metrics={},
            execution=execution,
            counted_steps=study.steps,
            seal=None,
        )

    def _check_corpus(self, execution: Mapping[str, Any]) -> None:
        """See that a run goes on with the text that it began with; a run on drawn data has none."""
        before, now = self._run.execution.get("corpus"), execution.get("corpus")
        if before != now:
            raise ResultsError(
                f"the tokens of its corpus are not those that the run began with ({before} then, {now} now): the text "
                "or its tokenizer was changed; put them back, or delete the run's folder to run it again"
            )

    def _amounts(self, metrics: Mapping[str, Any]) -> dict[str, int]:
        """What is told per second of training."""
        return {"steps": self._run.steps, **({"tokens": metrics["tokens"]} if "tokens" in metrics else {})}

    def _count(self, study: Study, base: Mapping[str, Any], training_s: float) -> dict[str, Any]:
        """Seconds and memory until now, with those of the processes whose work this one goes on with."""
        memory = {"peak_memory_bytes": peak_bytes(), **study.memory()}
        return {
            "wall_s": round(base.get("wall_s", 0.0) + time.perf_counter() - self._began, 3),
            "training_s": base.get("training_s", 0.0) + training_s,
            **{name: max(base.get(name, 0), size) for name, size in memory.items()},
        }


def _say(text: str) -> None:
    """A line for log.txt."""
    # On a full disk there is no log; what matters is in run.json and in the exit code.
    with contextlib.suppress(OSError):
        print(text, flush=True)


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Send what this process and its native code print to the end of a file."""
    former = [os.dup(descriptor) for descriptor in (1, 2)]
    log = open(appending(path), "a", encoding="utf-8", buffering=1)  # noqa: SIM115 - closed below, where a full disk is no error
    try:
        for descriptor in (1, 2):
            os.dup2(log.fileno(), descriptor)
        with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            yield
    finally:
        for descriptor, kept in zip((1, 2), former, strict=True):
            os.dup2(kept, descriptor)
            os.close(kept)
        with contextlib.suppress(OSError):
            log.close()
