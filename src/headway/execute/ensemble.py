"""A batch of runs that one process trains as one program, each run in its own folder.

The worker of a run works on the whole batch, and owns all unfinished members or none. Each member is recorded, stored,
evaluated and sealed by itself; a member that fails ends alone. The program has a row for each member, whatever became
of it, and rows never mix. So a batch that was disturbed ends with the same bits as one that was not. A member whose
checkpoint is ahead of the others' enters when the others have reached it.
"""

import contextlib
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from headway.base.files import appending
from headway.config.run import RunSpec
from headway.errors import ResultsError
from headway.execute.stop import StopRequest
from headway.execute.work import DONE, ELSEWHERE, OpenStudy, OwnedRun
from headway.store.lease import Lease, LeaseHeld
from headway.store.run import Run
from headway.store.run_writer import stored_step
from headway.store.storage import exit_code
from headway.store.storage import outcome as outcome_of_storage
from headway.train.loop import Study

OpenTogether = Callable[[Sequence[RunSpec], Collection[int]], Sequence[Study]]
"""Opens the studies of runs of one shape; rows are put in at these steps."""


def work_together(path: Path, open_together: OpenTogether, *, parent: int | None = None) -> int:
    """Train and evaluate the run in a folder, which has a batch, together with what is left of its batch.

    Members that failed before are left alone, unless this one did, too: then all are tried again.

    Args:
        path: the run folder.
        open_together: the function that opens the studies of a batch.
        parent: the process to stop with; None to outlive any.

    Returns:
        The exit code of the run in the folder, as `headway.execute.work` lists them; the others' folders tell of them.

    Raises:
        ResultsError: when the folder holds no run.
    """
    run = Run.open(path)
    if run.status == "done":
        return DONE
    assert run.batch is not None, "a run alone is the business of `work`"
    with _Patient(parent).heard() as stop_request, contextlib.ExitStack() as held:
        try:
            rows = [_Row.of(folder, run, held) for folder in run.batch.folders(path)]
        except LeaseHeld as error:
            print(f"{path}: {error}, which is a run of its batch")
            return ELSEWHERE
        except OSError as error:
            print(outcome_of_storage(path, error))
            return exit_code(error)
        return _Rounds(rows, stop_request, open_together).codes().get(path, DONE)


class _Patient(StopRequest):
    """Requests to stop, kept until the end of a round: a step that is broken off is broken off for all members."""

    @property
    def patient(self) -> bool:
        """Always True; a second signal interrupts nevertheless."""
        return True

    @patient.setter
    def patient(self, _value: bool) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class _Member:
    """An unfinished run of a batch, owned by this process, and its log."""

    run: Run
    lease: Lease
    log: IO[str]


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A row of the program: what it is of, and who it is, unless nobody reads it."""

    spec: RunSpec
    member: _Member | None = None

    @classmethod
    def of(cls, folder: Path, first: Run, held: contextlib.ExitStack) -> "_Row":
        """Return the row of a member; the member's lease is held until the batch ends, if it still has work.

        A member that left the batch, moved aside or damaged, gets the row of another run. The content of that row
        changes no bit of the others.

        Raises:
            LeaseHeld: when another process has it.
            OSError: when its lease or its log cannot be written.
        """
        run = _of_batch(folder, first)
        if run is None or not _is_left(run, first):
            return cls(spec=first.spec if run is None else run.spec)
        lease = held.enter_context(Lease.take(folder / "lease"))
        run = _of_batch(folder, first)  # its former owner may have finished it since
        if run is None or not _is_left(run, first):
            return cls(spec=first.spec if run is None else run.spec)
        log = held.enter_context(open(appending(folder / "log.txt"), "a", encoding="utf-8", buffering=1))  # noqa: SIM115
        return cls(spec=run.spec, member=_Member(run=run, lease=lease, log=log))


def _of_batch(folder: Path, first: Run) -> Run | None:
    """A member of the batch of a run; None where it is none any more, or cannot be read."""
    try:
        run = Run.open(folder)
        run.check_name()
        return run if run.batch == first.batch else None
    except ResultsError:
        if folder == first.path:
            raise
        return None


def _is_left(run: Run, first: Run) -> bool:
    return run.status != "done" and (run.status != "failed" or first.status == "failed")


class _Rounds:
    """The members of a batch, gone through in rounds: an event of each, so that all stand at one step after it."""

    def __init__(self, rows: Sequence[_Row], stop_request: StopRequest, open_together: OpenTogether):
        self._rows, self._stop_request, self._open_together = rows, stop_request, open_together
        self._batch_id = next(iter(batch.id for row in rows if row.member and (batch := row.member.run.batch)), "")
        self._members = {number: row.member for number, row in enumerate(rows) if row.member is not None}
        self._joins = {number: stored_step(member.run.path, member.run.id) for number, member in self._members.items()}
        self._waiting = dict(self._joins)
        self._owned = {n: OwnedRun(member.run, member.lease, stop_request) for n, member in self._members.items()}
        self._goings: dict[int, Generator[bool, None, int]] = {}
        self._measures: dict[int, bool] = {}
        """Map each started member to whether it may measure its row before its next step."""
        self._studies: Sequence[Study] = ()
        self._broken: Exception | None = None
        self._codes: dict[Path, int] = {}

    def codes(self) -> dict[Path, int]:
        """Work on them to their ends; the exit codes."""
        for number, step in self._waiting.items():
            self._members[number].lease.progress(step, 0.0)
        while self._goings or self._waiting:
            if not self._goings and self._stop_request.stop:
                self._stop()
                break
            reached = [self._studies[number].trainer.step for number in self._goings]
            front = min(reached or self._waiting.values())
            for number in [number for number, step in self._waiting.items() if step <= front]:
                self._put_in(number, self._waiting.pop(number))
            # Those first that measure what is in their rows: the first of the others moves them all.
            for number in sorted(self._goings, key=lambda number: not self._measures[number]):
                self._next(number)
        return self._codes

    def _put_in(self, number: int, step: int) -> None:
        """Put in a member that resumes from a step which the others have reached."""
        self._goings[number] = self._owned[number].going(self._opening(number))
        self._next(number)
        if number in self._goings and self._studies[number].trainer.step != step:
            self._goings.pop(number).close()  # its checkpoint was damaged since it was looked at: another time
            self._codes[self._members[number].run.path] = ELSEWHERE

    def _opening(self, number: int) -> OpenStudy:
        def open_study(_spec: RunSpec, _stored: Any) -> Study:
            if self._broken is not None:  # what ends one of them at its beginning ends them all
                raise self._broken
            try:
                if not self._studies:
                    self._studies = self._open_together([row.spec for row in self._rows], set(self._joins.values()))
            except Exception as error:
                self._broken = error
                raise
            study = self._studies[number]
            return replace(study, execution={**study.execution, "batch": self._batch_id})

        return open_study

    def _next(self, number: int) -> None:
        """The next event of a member; one that has ended leaves."""
        member = self._members[number]
        try:
            with contextlib.redirect_stdout(member.log):
                self._measures[number] = next(self._goings[number])
        except StopIteration as end:
            self._codes[member.run.path] = int(end.value)
            del self._goings[number]

    def _stop(self) -> None:
        """Record members that were not put in yet as stopped at the step where they are stored."""
        for number, step in self._waiting.items():
            with contextlib.redirect_stdout(self._members[number].log):
                self._codes[self._members[number].run.path] = self._owned[number].stopped_before(step)
