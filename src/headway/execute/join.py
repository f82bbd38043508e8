"""Workers that join the work on a directory, and the time at which a user's work ends.

Any process that sees a directory may join, on any machine, for as long as it likes. It takes runs by their leases like
every other process, so no process has to know another. With nothing left to do, it checks again, since a directory may
have grown. It leaves alone runs that failed before it came. It also leaves alone runs that failed in its own hands,
even if the failure could not be written down.

`deadline` is the time at which a user's work ends: after a duration, or at a time of day.
"""

import errno
import re
import tempfile
import time
from collections.abc import Callable, Collection, Generator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from headway.base.text import counted
from headway.config.plugins import allow
from headway.errors import ResultsError, UserError, shortened
from headway.execute.places import WORKER, lasting
from headway.execute.queue import Snapshot
from headway.execute.stop import SignalHandler
from headway.execute.sweep import ExecutionOptions, run_all
from headway.store.batches import check_and_prepare, check_batches
from headway.store.directory import Store
from headway.store.environment import check_device
from headway.store.lease import is_held
from headway.store.run import Run, check_schema
from headway.store.storage import stored

_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|min|m|h|d)\s*")
_LONGEST_S = 10 * 365 * 86400.0


def deadline(text: str, now: datetime | None = None) -> float:
    """Until when one works, by the clock of this process that nobody sets.

    Args:
        text: `1h50m` from now, `18:30` today, or `2026-11-23 08:00`.
        now: the time of day.

    Raises:
        UserError: when it is none of these, or past.
    """
    given, now = shortened(text.strip()), now or datetime.now()
    if re.fullmatch(rf"({_PART.pattern})+", text.strip()):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    else:
        then = _time_of(text.strip(), now)
        if then is None:
            raise UserError(f"until {given}: give a duration, such as 1h50m, or a time: 18:30, or 2026-11-23 08:00")
        seconds = (then - now.astimezone(then.tzinfo) if then.tzinfo else then - now).total_seconds()
        if seconds <= 0:
            raise UserError(f"until {given}: this is past, now is {now:%Y-%m-%d %H:%M}; give a later time, or 1h50m")
    if not 0 < seconds <= _LONGEST_S:
        raise UserError(f"until {given}: give a time above 0 and below ten years")
    return time.monotonic() + seconds


def _time_of(text: str, now: datetime) -> datetime | None:
    with suppress(ValueError):
        return datetime.combine(now, datetime.strptime(text, "%H:%M").time(), now.tzinfo)
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    return None


_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, kw_only=True)
class Left:
    """The runs that were not done when a process stopped working.

    Attributes:
        waiting: the number of runs that nobody works on.
        elsewhere: the number of runs that others work on.
        failed: the number of runs that failed, before or meanwhile.
        failed_here: the number of runs that failed under this worker.
        gone: the number of runs that the directory's document names, and that have no folder.
    """

    waiting: int
    elsewhere: int
    failed: int
    failed_here: int
    gone: int = 0

    @property
    def undone(self) -> int:
        """The number of runs that wait or are worked on, and so may give work to a process that joins."""
        return self.waiting + self.elsewhere

    def __str__(self) -> str:
        parts = (
            (self.waiting, "waiting"),
            (self.elsewhere, "worked on by others"),
            (self.failed, "failed (`headway run` tries again)"),
            (self.gone, "without a folder (`headway run` trains them again)"),
        )
        return ", ".join(f"{counted(n, 'run')} {what}" for n, what in parts if n) or "nothing is left"


@dataclass(frozen=True, kw_only=True)
class Joining:
    """A worker that joins a directory.

    Attributes:
        directory: the results directory.
        options: the places, which are of this machine. `together` has no effect, and a message says so: batches are
            fixed when runs are made.
        until: the deadline of the worker, as `deadline` returns it; None: the worker ends when nothing is left.
    """

    directory: Path
    options: ExecutionOptions = field(default_factory=ExecutionOptions)
    until: float | None = None

    def work(self, watch: Callable[[Generator[Snapshot]], object], tell: Callable[[str], object]) -> Left:
        """Work until nothing is left, or until it is time.

        Raises:
            UserError: when the directory is none, is of a later Headway, or its runs cannot be worked on here.
            StorageFailed: when its disk is full or fails.
            KeyboardInterrupt: on a signal; what was worked on is stored.
        """
        check_schema(self.directory)
        options = self.options
        check_device(options.device, workers=options.workers, runs_per_gpu=options.runs_per_gpu)
        for plugin in allow(self.directory):  # to work on its runs is to run its code
            tell(plugin.sentence)
        store, given_up = Store.open(self.directory), set[Path]()
        options.check_trusted(self.directory, store.experiment.arms)
        with SignalHandler().heard(), stored(self.directory):
            before = {run.path for run in store.runs() if run.status == "failed"}
            while not self._is_time:
                store = store.anew()
                todo = [run for run in _undone(store.runs()) if run.path not in given_up]
                if not todo:
                    break
                check_writable(self.directory, todo[0].path)
                given_up |= self._work_on(todo, watch, tell)
        return self.left(before, given_up)

    def left(self, failed_before: Collection[Path] | None = None, given_up: Collection[Path] = ()) -> Left:
        """Return the runs that are not done.

        Args:
            failed_before: the runs that had failed before one worked; None: nobody asks which failed meanwhile.
            given_up: the runs that failed here, as far as their folders do not say it.
        """
        store = Store.open(self.directory)
        runs = store.runs("sizes")
        undone = [run for run in _undone(runs) if run.path not in given_up]
        held = sum(is_held(run.path / "lease") for run in undone)
        failed = [run for run in runs if run.status == "failed" or (run.path in given_up and run.status != "done")]
        here = 0 if failed_before is None else sum(run.path not in failed_before for run in failed)
        return Left(
            waiting=len(undone) - held, elsewhere=held, failed=len(failed), failed_here=here, gone=len(store.gone())
        )

    @property
    def _is_time(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until

    def _work_on(
        self, todo: list[Run], watch: Callable[[Generator[Snapshot]], object], tell: Callable[[str], object]
    ) -> set[Path]:
        """Work on runs; those that failed."""
        places = self.options.here(runs=len(todo), uses_gpu=any(run.spec.traits.uses_gpu for run in todo))
        check_batches(todo)
        check_and_prepare([(run.name, run.spec) for run in todo], [place.slot for place in places], tell)
        kept = lasting(places) if self.options.command == WORKER else places
        failed: set[Path] = set()
        watch(self._in_time(run_all(todo, kept), failed))
        return failed

    def _in_time(self, snapshots: Generator[Snapshot], failed: set[Path]) -> Generator[Snapshot]:
        """Snapshots until it is time; the runs that have failed are noted."""
        with closing(snapshots):
            for snapshot in snapshots:
                failed.update(
                    self.directory / "runs" / run.name / f"seed-{run.seed}"
                    for run in snapshot.runs
                    if run.status == "failed"
                )
                yield snapshot
                if self._is_time:
                    return


def _undone(runs: Collection[Run]) -> list[Run]:
    return [run for run in runs if run.status in ("waiting", "interrupted", "running")]


def check_writable(directory: Path, run: Path) -> None:
    """Raise ResultsError if this user may not write the folder of a run.

    Raises:
        ResultsError: when not; whatever else a disk may do is told by the runs that it happens to.
    """
    try:
        with tempfile.TemporaryFile(dir=run):
            pass
    except OSError as error:
        if error.errno in _NOT_ALLOWED:
            raise ResultsError(
                f"{directory}: you cannot write there on this machine ({error.strerror}), and a worker has to; make "
                "it writable, or join from a machine where it is"
            ) from None
