"""A batch of runs that one process trains as one program, each run in its own folder.

The worker of a run works on the whole batch, and owns all unfinished members or none. Each member is recorded, stored,
evaluated and sealed by itself; a member that fails ends alone. The program has a row for each member, whatever became
of it, and rows never mix. So a batch that was disturbed ends with the same bits as one that was not. A member whose
checkpoint is ahead of the others' enters when the others have reached it.
"""

import contextlib
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import replace
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
        specs, members = list[RunSpec](), list[_Member]()
        try:
            for row, folder in enumerate(run.batch.folders(path)):
                now, lease = _owned(folder, run, held)
                specs.append(run.spec if now is None else now.spec)
                if now is not None and lease is not None:
                    file = open(appending(folder / "log.txt"), "a", encoding="utf-8", buffering=1)  # noqa: SIM115
                    log = held.enter_context(file)
                    members.append(_Member(row=row, run=now, lease=lease, log=log, stop_request=stop_request))
        except LeaseHeld as error:
            print(f"{path}: {error}, which is a run of its batch")
            return ELSEWHERE
        except OSError as error:
            print(outcome_of_storage(path, error))
            return exit_code(error)
        return _Rounds(specs, members, run.batch.id, open_together).codes(stop_request).get(path, DONE)


class _Patient(StopRequest):
    """Requests to stop, kept until the end of a round: a step that is broken off is broken off for all members."""

    @property
    def patient(self) -> bool:
        """Always True; a second signal interrupts nevertheless."""
        return True

    @patient.setter
    def patient(self, _value: bool) -> None:
        pass


def _owned(folder: Path, first: Run, held: contextlib.ExitStack) -> tuple[Run | None, Lease | None]:
    """Return a member of the batch of a run, and its lease if it still has work, held until the batch ends.

    A member that left the batch, moved aside or damaged, is None. Its row gets another run, which changes no bit of the
    others.

    Raises:
        LeaseHeld: when another process has it.
        OSError: when its lease cannot be written.
    """
    run, lease = _of_batch(folder, first), None
    if run is not None and _is_left(run, first):
        lease = held.enter_context(Lease.take(folder / "lease"))
        run = _of_batch(folder, first)  # its former owner may have finished it since
    return run, lease if run is not None and _is_left(run, first) else None


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


class _Member:
    """An unfinished run of a batch, owned by this process.

    Attributes:
        row: the number of its row in the program.
        path: its folder.
        lease: its lease.
        log: its log.
        owned: its work.
        joins_at: the step at which it enters.
        going: its work while it is in the program.
        measures: True if it may measure its row before its next step.
    """

    going: Generator[bool, None, int]

    def __init__(self, *, row: int, run: Run, lease: Lease, log: IO[str], stop_request: StopRequest):
        self.row, self.path, self.lease, self.log = row, run.path, lease, log
        self.owned = OwnedRun(run, lease, stop_request)
        self.joins_at = stored_step(run.path, run.id)
        self.measures = False


class _Rounds:
    """The members of a batch, gone through in rounds: an event of each, so that all stand at one step after it."""

    def __init__(
        self, specs: Sequence[RunSpec], members: Sequence[_Member], batch_id: str, open_together: OpenTogether
    ):
        self._specs, self._batch_id, self._open_together = specs, batch_id, open_together
        self._joins = {member.joins_at for member in members}
        self._waiting, self._at_work = list(members), list[_Member]()
        self._studies: Sequence[Study] = ()
        self._broken: Exception | None = None
        self._codes: dict[Path, int] = {}

    def codes(self, stop_request: StopRequest) -> dict[Path, int]:
        """Work on them to their ends; the exit codes."""
        for member in self._waiting:
            member.lease.progress(member.joins_at, 0.0)
        while self._at_work or self._waiting:
            if not self._at_work and stop_request.stop:
                self._stop()
                break
            reached = [self._step_of(member) for member in self._at_work]
            front = min(reached or [member.joins_at for member in self._waiting])
            for member in [member for member in self._waiting if member.joins_at <= front]:
                self._waiting.remove(member)
                self._put_in(member)
            # Those first that measure what is in their rows: the first of the others moves them all.
            for member in sorted(self._at_work, key=lambda member: not member.measures):
                self._next(member)
        return self._codes

    def _step_of(self, member: _Member) -> int:
        return self._studies[member.row].trainer.step

    def _put_in(self, member: _Member) -> None:
        """Put in a member that resumes from a step which the others have reached."""
        member.going = member.owned.going(self._opening(member.row))
        self._at_work.append(member)
        self._next(member)
        if member in self._at_work and self._step_of(member) != member.joins_at:
            member.going.close()  # its checkpoint was damaged since it was looked at: another time
            self._leave(member, ELSEWHERE)

    def _opening(self, row: int) -> OpenStudy:
        def open_study(_spec: RunSpec, _stored: Any) -> Study:
            if self._broken is not None:  # what ends one of them at its beginning ends them all
                raise self._broken
            try:
                if not self._studies:
                    self._studies = self._open_together(self._specs, self._joins)
            except Exception as error:
                self._broken = error
                raise
            study = self._studies[row]
            return replace(study, execution={**study.execution, "batch": self._batch_id})

        return open_study

    def _next(self, member: _Member) -> None:
        """The next event of a member; one that has ended leaves."""
        try:
            with contextlib.redirect_stdout(member.log):
                member.measures = next(member.going)
        except StopIteration as end:
            self._leave(member, int(end.value))

    def _leave(self, member: _Member, code: int) -> None:
        self._at_work.remove(member)
        self._codes[member.path] = code

    def _stop(self) -> None:
        """Record members that were not put in yet as stopped at the step where they are stored."""
        for member in self._waiting:
            with contextlib.redirect_stdout(member.log):
                self._codes[member.path] = member.owned.stopped_before(member.joins_at)
