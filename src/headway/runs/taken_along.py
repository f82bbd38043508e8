"""Runs: what is known of runs that the workers of other runs take along (`headway.runs.together`)."""

from collections.abc import Container, Sequence
from pathlib import Path

from headway.errors import ResultsError
from headway.runs.folder import Run, read
from headway.runs.lease_files import Holder, seen

_LOOKED_AT_ONCE = 100
"""Runs whose leases are read at a look, beside those that are worked on: of thousands most wait."""


class TakenAlong:
    """Runs that no worker was started on and that some worker may have in hand, looked at in turn."""

    def __init__(self) -> None:
        self._held: dict[Path, Holder] = {}
        self._ended: dict[Path, Run] = {}
        self._read: dict[Path, int] = {}
        """The number of the released lease after which a run was read."""
        self._next = 0

    def look(self, waiting: Sequence[Path], workers: Container[str]) -> None:
        """See which of some runs are worked on, by one of these workers (`Holder.worker`), or have ended."""
        first = self._next if self._next < len(waiting) else 0
        self._next = first + _LOOKED_AT_ONCE
        due = {path: None for path in waiting if path in self._held} | dict.fromkeys(waiting[first : self._next])
        for path in due:
            self._see(path, workers)

    def holder(self, path: Path) -> Holder | None:
        """The lease of a run, while it is worked on."""
        return self._held.get(path)

    def ended(self, path: Path) -> Run | None:
        """A run that is done, or that failed while it was taken along."""
        return self._ended.get(path)

    def _see(self, path: Path, workers: Container[str]) -> None:
        sight = seen(path / "lease")
        if sight is None or sight.holder is None:
            return
        held = self._held.pop(path, None)
        if not sight.is_free:
            if sight.holder.worker in workers:
                self._held[path] = sight.holder
            return
        if self._read.get(path) == sight.number and held is None:
            return
        self._read[path] = sight.number
        try:
            run = read(path)
        except ResultsError:
            return  # who begins it says what is wrong
        # What failed before is waiting to be tried again.
        if run.status == "done" or (run.status == "failed" and held is not None):
            self._ended[path] = run
