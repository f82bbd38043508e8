"""The work of a process on one run: from wherever the run stands to its end.

The process owns the folder by a lease. Whatever happens, the folder records it: done, failed with a message, or
interrupted. If the process could not record it, the lease shows that the process is gone. The next process resumes from
the last checkpoint. Milestones are recorded, the state is stored, and the run is stopped where nothing is lost.

`listeners` are the callbacks of plugins, called with each line that a run logs. A callback changes nothing. A callback
that fails is reported once in log.txt, and is called no more for this run.

`serve` works on one run after the other. It is told each run, and answers with the run's exit code; a second word,
`ends`, marks the last answer of the process. A process may take another run only if that changes no bit of the run.
Native in-context runs leave only imported modules behind, so their process continues. Torch leaves more: its
compilations count against the next one, and its threads are set once. After torch, and after a failed run, the process
replaces itself by a new one. If it could not release a run on a failing disk, it ends, which releases the run.
"""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.base.files import Content, appending, json_text, plain, write_text
from headway.base.identity import without
from headway.config.plugins import directory_of, load_kept
from headway.config.run import WORK, RunSpec
from headway.errors import Diverged, HeadwayError, LeaseLost, ResultsError, UserError
from headway.execute.stop import Stop, StopRequest
from headway.store import checkpoint, integrity
from headway.store.batches import explain_out_of_memory, is_out_of_memory
from headway.store.checkpoint import Checkpoint
from headway.store.environment import changes, processor_seconds, surroundings
from headway.store.lease import Lease, LeaseHeld, release_left
from headway.store.run import Failure, Run, read, update
from headway.store.run_writer import RunWriter
from headway.store.storage import exit_code, is_of_storage, what_blocks
from headway.store.storage import outcome as outcome_of_storage
from headway.train.loop import Beat, Event, Measure, Measurements, Milestone, Study, train
from headway.train.process_memory import forget_peak, give_freed_memory_back, peak_bytes


def listeners(run: "Run", say: Callable[[str], None]) -> Callable[[Mapping[str, Any]], None]:
    """Return the function to call with each logged line of a run; it does nothing without callbacks."""
    try:
        of_directory = load_kept(directory_of(run.path))
    except UserError as error:
        say(f"callbacks are not called: {error}")
        of_directory = ()
    called = [entry for plugin in of_directory for entry in plugin.entries if entry.kind == "callback"]

    def tell(line: Mapping[str, Any]) -> None:
        for entry in tuple(called):
            try:
                entry.value(run, dict(line))
            except Exception as error:  # noqa: BLE001 - whatever it raises, training continues
                called.remove(entry)
                say(f"callback {entry.name} is no longer called: {type(error).__name__}: {error}")

    return tell


_LEAST_S = 1e-6
"""No run is free: some clocks tick too slowly to see a short one, and a value of 0 has no difference in per cent."""


def _is_measuring(event: Event) -> bool:
    return isinstance(event, Beat) and event.measuring


DONE, FAILED, ELSEWHERE, STOPPED = 0, 1, 75, 130
"""Exit codes, with those of `storage`: EX_TEMPFAIL of sysexits.h for a run that another process works on."""

CHECKPOINT_EVERY_S = 60.0

OpenStudy = Callable[[RunSpec, Mapping[str, Any]], Study]
"""Opens the study of a run; the mapping is the execution to be repeated, empty for a run from the start."""


def work(path: Path, open_study: OpenStudy, *, parent: int | None = None) -> int:
    """Train and evaluate the run in a folder, unless it is done or another process works on it.

    Args:
        path: the run folder.
        open_study: the function that opens the study of the run.
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
        with StopRequest(parent).heard() as stop_request, lease, _output_to(path / "log.txt"):
            run = Run.open(path)  # its former owner may have finished it since
            return DONE if run.status == "done" else OwnedRun(run, lease, stop_request).outcome(open_study)
    except LeaseHeld as held:
        _say(f"{path}: {held}")
        return ELSEWHERE
    except OSError as error:  # before the work began: from there on it has an outcome
        _say(outcome_of_storage(path, error))
        return exit_code(error)


class OwnedRun:
    """A run in the hands of its owner."""

    def __init__(self, run: Run, lease: Lease, stop_request: StopRequest):
        self._run, self._lease, self._stop_request = run, lease, stop_request
        self._began, self._used = time.perf_counter(), processor_seconds()
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
        """Work on the run as `outcome` does, as a generator: pause when the study is open, and after each event.

        Each pause tells whether the run may measure, before its next step, what its trainer holds now. The generator
        returns the exit code.
        """
        try:
            yield from self._work(open_study)
        except Stop as stop:
            return self._ended(STOPPED, f"stopped {stop}; run again to resume")
        except LeaseLost as lost:
            _say(str(lost))
            return ELSEWHERE
        except Diverged as error:
            rate = self._run.config["training"].get("learning_rate")
            sentence = f"{error}; lower training.learning_rate (it is {rate})"
            return self._ended(FAILED, sentence, "diverged")
        except HeadwayError as error:
            return self._ended(FAILED, str(error))
        except Exception as error:  # noqa: BLE001 - whatever a study raises is the outcome of this run
            if blocked := what_blocks(self._run.path, error):
                return self._ended(FAILED, blocked)
            _say(traceback.format_exc())
            if isinstance(error, OSError) and is_of_storage(error, self._run.path):
                return self._ended(exit_code(error), outcome_of_storage(self._run.path, error))
            if is_out_of_memory(error):
                return self._ended(FAILED, explain_out_of_memory(self._run))
            return self._ended(FAILED, f"{type(error).__name__}: {error}; log.txt says where")
        return DONE

    def stopped_before(self, step: int) -> int:
        """Record that the run was stopped while it waited to join its batch, and return the exit code."""
        how = self._stop_request.fulfilled()
        return self._ended(STOPPED, f"stopped {how}, before its batch came to step {step}; run again to resume")

    def _ended(self, code: int, message: str, failure: Failure | None = None) -> int:
        _say(message)
        status = "interrupted" if code == STOPPED else "failed"
        try:
            update(self._run, self._lease, status=status, message=message, failure=failure)
        except LeaseLost as lost:
            _say(str(lost))
            return ELSEWHERE
        except OSError as error:
            # Whoever started this process learns it from the exit code, everyone else from the dead lease.
            _say(f"this could not be recorded: {error}")
        return code

    def _work(self, open_study: OpenStudy) -> Generator[bool, None, None]:
        with RunWriter(self._run.path, self._lease, self._run.id) as writer:
            resumed = writer.resumed
            study = open_study(self._run.spec, self._run.execution if resumed else {})
            self._start(study, resumed)
            notes = writer.recoveries + [f"bits may differ: {c}" for c in self._run.execution.get("changes", ())]
            for note in notes:
                _say(note)
            yield resumed is None or resumed.unrecorded is not None
            try:
                training_s = yield from self._train(study, writer)
            finally:
                study.close()
            self._contents |= writer.contents
        conclusion = study.conclude()
        self._lease.check()
        if conclusion.curves:
            self._write("curves.json", json_text(conclusion.curves))
        counters = self._count(study, resumed, training_s)
        training_s = counters.pop("training_s")
        run = self._run
        last = run.records()[-1]
        if run.execution.get("device") == "cuda":
            counters["device_s"] = training_s / run.execution.get("together", 1)
        amounts = {"steps": run.steps}
        if "tokens" in conclusion.metrics:
            amounts["tokens"] = conclusion.metrics["tokens"]
        metrics = {
            **{name: last.get(name) for name in study.carried},
            **conclusion.metrics,
            **{f"{name}_per_s": n / training_s for name, n in amounts.items() if training_s},
            **counters,
        }
        if self._was_finished(metrics, notes):
            return
        self._contents |= self._stored()
        self._lease.check()
        seal = integrity.write(run.path, self._contents)  # before run.json marks the run as done
        self._run = update(run, self._lease, status="done", message="; ".join(notes), metrics=plain(metrics), seal=seal)

    def _train(self, study: Study, writer: RunWriter) -> Generator[bool, None, float]:
        """Train, record and store, an event at a time; returns the seconds spent in steps.

        After each event it pauses, and says whether it has yet to measure what the trainer holds.

        Raises:
            Stop: when it was asked for, and where it is is stored.
            LeaseLost: when another process owns the folder.
            OSError: when the folder cannot be written.
        """
        run, stop_request, resumed = self._run, self._stop_request, writer.resumed
        if run.keeps_weights:  # a step at which nothing is measured is no milestone
            kept = Measure(due=run.keeps_weights.__contains__, take=Measurements)
            study = replace(study, measures=(*study.measures, kept))
        self._first, self._stored_at, tell = study.trainer.step, time.perf_counter(), listeners(run, _say)
        begun, event = resumed.unrecorded if resumed else None, None
        is_recorded = resumed is not None and begun is None and self._first >= run.steps
        events = () if is_recorded else train(study, steps=run.steps, log_every=run.log_every, begun=begun)
        try:
            for event in events:
                stop_request.patient = True
                self._keep(event, study, writer, tell)
                # A first step, which may compile the model, and measuring, which changes nothing in the trainer, can
                # be given up at any moment.
                stop_request.patient = event.step > self._first and not _is_measuring(event)
                yield _is_measuring(event)
        except Stop as stop:
            if event is None or stop_request.patient or not _is_measuring(event):
                raise
            self._store(event, study, writer)
            raise Stop(f"at step {event.step} {stop}") from None
        stop_request.patient = False
        if stop_request.stop:  # since we looked last
            raise stop_request.fulfilled(f"at step {run.steps}")
        return event.training_s if event else 0.0

    def _keep(self, event: Event, study: Study, writer: RunWriter, tell: Callable[[Mapping[str, Any]], None]) -> None:
        """Record and store what is due, and stop if that was asked for."""
        self._lease.progress(event.step, event.steps_per_s)
        self._lease.check()
        is_last = event.step == self._run.steps
        if isinstance(event, Milestone):
            if event.step in self._run.keeps_weights:
                writer.keep_weights(event.step, study.trainer.weights())
            counted = self._count(study, writer.resumed, event.training_s)
            metrics = {"wall_s": counted["wall_s"], **event.metrics}
            tell(writer.record(event.step, metrics, event.arrays, event.samples))
        stop = self._stop_request.stop
        is_late = time.perf_counter() - self._stored_at >= CHECKPOINT_EVERY_S
        # Not just before a milestone at this step, which may be due too.
        is_due = not _is_measuring(event) and (is_last or is_late)
        if (event.step > self._first or is_last) and (stop or is_due):
            self._store(event, study, writer)
        if stop:
            raise self._stop_request.fulfilled(f"at step {event.step}")

    def _store(self, event: Event, study: Study, writer: RunWriter) -> None:
        checkpoint = Checkpoint(
            step=event.step,
            state=study.trainer.state(),
            counters=self._count(study, writer.resumed, event.training_s),
            unrecorded=event.unrecorded if isinstance(event, Beat) else None,
        )
        writer.checkpoint(checkpoint)
        self._stored_at = time.perf_counter()

    def _was_finished(self, metrics: Mapping[str, Any], notes: list[str]) -> bool:
        """Compare this result with that of a faster process; return whether there is one whose files are intact."""
        first = read(self._run.path)
        if first.status != "done" or first.id != self._run.id:
            return False
        from headway.store import verify  # it loads what only a whole directory needs

        differing = verify.differences(first, metrics, {**self._contents, **self._stored()})
        sentence = verify.said(first, self._run.execution, differing)
        _say(sentence or f"finished twice, with the same bits; the result of {first.execution.get('host')} is kept")
        # Its files were written over by these, which are the same but for times.
        if Run.examine(first.path).status == "damaged":
            notes += [sentence] if sentence else []
            return False
        if sentence:
            update(first, self._lease, message=sentence)
        return True

    def _write(self, name: str, text: str) -> None:
        """Write a file of the folder, and remember what it holds for the seal."""
        self._lease.check()
        write_text(self._run.path / name, text)
        self._contents[name] = Content.of(text.encode())

    def _stored(self) -> dict[str, Content]:
        """Return the content of the checkpoint files, and of what a command has made in its folder."""
        path = self._run.path
        contents = checkpoint.contents(path / "checkpoint")
        made = [file for file in sorted((path / WORK).rglob("*")) if file.is_file() and not file.is_symlink()]
        return {
            **{f"checkpoint/{name}": content for name, content in contents.items()},
            **{file.relative_to(path).as_posix(): Content.of_file(file) for file in made},
        }

    def _start(self, study: Study, resumed: Checkpoint | None) -> None:
        """Put the trainer where it resumes, and record its execution from here."""
        execution: dict[str, Any] = {**study.execution, **surroundings()}
        if resumed:
            self._check_corpus(execution)
            study.trainer.restore(resumed.step, resumed.state)
            before = without(self._run.execution, "changes")
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
            failure=None,
            seal=None,
        )

    def _check_corpus(self, execution: Mapping[str, Any]) -> None:
        """Raise ResultsError if the corpus is not the one that the run began with; a run on drawn data has none."""
        before, now = self._run.execution.get("corpus"), execution.get("corpus")
        if before != now:
            raise ResultsError(
                f"the text or its tokenizer was changed after the run began (tokens {before} then, {now} now); "
                "restore them, or delete the run's folder to run it again"
            )

    def _count(self, study: Study, resumed: Checkpoint | None, training_s: float) -> dict[str, Any]:
        """Return the seconds and memory until now, including those of the processes that this one continues.

        Runs that are trained together share the processor's time.
        """
        base = resumed.counters if resumed else {}
        used_s = (processor_seconds() - self._used) / self._run.execution.get("together", 1)
        memory = {"peak_memory_bytes": peak_bytes(), **study.memory()}
        return {
            "wall_s": round(base.get("wall_s", 0.0) + time.perf_counter() - self._began, 3),
            "processor_s": round(base.get("processor_s", 0.0) + max(used_s, _LEAST_S), 6),
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


_AT_ONCE = 1 << 16


def serve(
    first: Path,
    work_on: Callable[[Path], int],
    *,
    answers: int,
    needs_new_process: Callable[[Path], bool],
    command: Sequence[str],
    environment: Mapping[str, str],
) -> int:
    """Work on a run, and on all that are named on the standard input, until it is closed.

    Args:
        first: the folder of the first run.
        work_on: the function that works on a run and returns its exit code.
        answers: the file descriptor that receives each exit code.
        needs_new_process: the function that tells if a run, given its folder, needs a process of its own.
        command: the command that replaces this process; the folder follows.
        environment: the environment of the new process.
    """
    path, heard = first, b""
    while True:
        code = work_on(path)
        ends = code == STOPPED or not release_left()
        try:
            os.write(answers, b"%d%s\n" % (code, b" ends" if ends else b""))
        except OSError:
            return code  # nobody listens any more
        if ends:
            return code
        while b"\0" not in heard:
            data = os.read(0, _AT_ONCE)
            if not data:
                return code
            heard += data
        folder, _, heard = heard.partition(b"\0")
        path = Path(os.fsdecode(folder))
        _print_to(path / "log.txt")
        if code not in (DONE, ELSEWHERE) or "torch" in sys.modules or needs_new_process(path):
            os.execve(sys.executable, [*command, str(path)], environment)
        give_freed_memory_back()
        forget_peak()


def _print_to(log: Path) -> None:
    """Send what this process prints to a run's log from now on."""
    with contextlib.suppress(OSError):
        descriptor = appending(log)
        for number in (1, 2):
            os.dup2(descriptor, number)
        os.close(descriptor)
