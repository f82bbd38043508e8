"""Workers that this process did not start: they joined the work by taking a lease.

For the process that waits they are a place like any other. A run that such a worker holds is being worked on, and has
ended when the lease is free. They can neither be asked to stop nor killed from here; whoever started them does that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headway.errors import ResultsError
from headway.execute.work import DONE, ELSEWHERE, FAILED
from headway.store.lease import Holder
from headway.store.run import read
from headway.store.watch import Watch


@dataclass(frozen=True, kw_only=True)
class JoinedWorker:
    """Whoever has a run, or some of its batch."""

    runs: tuple[Path, ...]
    watch: Watch

    @property
    def ended(self) -> int | None:
        """None while one of the runs is held; then the exit code by the status of the first."""
        if _held(self.runs, self.watch):
            return None
        try:
            status = read(self.runs[0]).status
        except ResultsError:
            return FAILED
        return DONE if status == "done" else FAILED if status == "failed" else ELSEWHERE

    def ask_to_stop(self) -> None:
        """Do nothing, since the worker works for another process."""

    def kill(self) -> None:
        """Do nothing, since the worker works for another process."""

    def has(self, lease: Holder) -> bool:
        """Return whether a lease is held; its holder is the worker."""
        return not lease.released


@dataclass(frozen=True, kw_only=True)
class JoinedPlace:
    """Wherever others are."""

    watch: Watch = field(default_factory=Watch)

    @property
    def ready(self) -> bool:
        """Always True, since such a worker has already started."""
        return True

    def make_ready(self) -> None:
        """Do nothing, since the workers are ready."""

    def found(self, *runs: Path) -> JoinedWorker | None:
        """Return the worker that already has a run, or one of its batch; None if there is none."""
        return JoinedWorker(runs=runs, watch=self.watch) if _held(runs, self.watch) else None

    def start(self, run: Path, *, log: Path, options: Sequence[str] = ()) -> JoinedWorker:
        """Wait for whoever has a run; nothing is started."""
        del log, options
        return JoinedWorker(runs=(run,), watch=self.watch)

    def rest(self) -> None:
        """Do nothing, since the workers rest when they want to."""


def _held(runs: Sequence[Path], watch: Watch) -> bool:
    """Return whether a run is held; all runs are checked, so that those of a lost machine are given up at once."""
    held = [watch.is_held(run / "lease") for run in runs]
    return any(held)
