"""Runs: a place of this machine whose process goes on with the next run, where that changes no bit.

Starting a process takes about as long as a small in-context run. So the process is told one run after the other, and
says how each ended. A run that used torch, failed or began with another number of threads leaves it in a state that
another one would not have begun in: the process then begins anew by itself (`headway.runs.serving`).
"""

import contextlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headway.runs.devices import Slot
from headway.runs.lease_files import Holder
from headway.runs.places import LocalPlace, LocalWorker

_ENDING_S = 5.0


@dataclass(kw_only=True)
class _Served:
    """A process that is told runs, and what it has answered."""

    process: subprocess.Popen[bytes]
    answers: int
    read: bytes = b""
    ends: bool = False
    """Whether it said that it does nothing more."""

    def code(self) -> int | None:
        """How the run that it was told last ended, taken once; the process's own exit code when it has ended."""
        ended = self.process.poll()  # looked at first: what it answered before its end is then there to be read
        with contextlib.suppress(BlockingIOError):
            self.read += os.read(self.answers, 4096)
        line, newline, rest = self.read.partition(b"\n")
        if newline:
            self.read = rest
            code, *words = line.split()
            self.ends = words == [b"ends"]
            return int(code)
        return ended

    def close(self) -> None:
        """Let it end, which takes a moment."""
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            self.process.wait(_ENDING_S)
        except subprocess.TimeoutExpired:
            LocalWorker(process=self.process).kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self.answers)


@dataclass(kw_only=True)
class LastingWorker:
    """The work of a lasting process on one run."""

    place: "LastingPlace"
    served: _Served
    code: int | None = None

    @property
    def ended(self) -> int | None:
        """How its run ended; see `headway.runs.places.Worker`."""
        if self.code is None:
            self.code = self.served.code()
            if self.code is not None and (self.served.ends or self.served.process.poll() is not None):
                self.place.rest()  # after which nothing is held by it
        return self.code

    def ask_to_stop(self) -> None:
        """Ask the process to store where it is; it ends then."""
        if self.ended is None:
            LocalWorker(process=self.served.process).ask_to_stop()

    def kill(self) -> None:
        """End its process group."""
        if self.ended is None:
            LocalWorker(process=self.served.process).kill()

    def has(self, lease: Holder) -> bool:
        """Whether a lease is that of its process."""
        return lease.pid == self.served.process.pid


@dataclass(kw_only=True)
class LastingPlace:
    """A share of this machine with one process for run after run.

    Attributes:
        place: where the process is.
    """

    place: LocalPlace
    _served: _Served | None = field(default=None, repr=False)

    @property
    def ready(self) -> bool:
        """Always."""
        return True

    def make_ready(self) -> None:
        """Nothing: it is."""

    @property
    def slot(self) -> Slot:
        """The share."""
        return self.place.slot

    def start(self, run: Path, *, log: Path, options: Sequence[str] = ()) -> LastingWorker | LocalWorker:
        """Tell the process a run; one that has options gets a process of its own.

        Raises:
            OSError: when it cannot be started.
        """
        if options:
            return self.place.start(run, log=log, options=options)
        if self._served is None or self._served.process.poll() is not None or not self._tell(run):
            self.rest()
            self._served = self._begun(run, log)
        assert self._served is not None
        return LastingWorker(place=self, served=self._served)

    def rest(self) -> None:
        """Let the process end."""
        if self._served is not None:
            self._served.close()
            self._served = None

    def _tell(self, run: Path) -> bool:
        assert self._served is not None
        assert self._served.process.stdin is not None
        try:
            self._served.process.stdin.write(os.fsencode(run.absolute()) + b"\0")
            self._served.process.stdin.flush()
        except OSError:
            return False  # it was ended by somebody else
        return True

    def _begun(self, run: Path, log: Path) -> _Served:
        answers, theirs = os.pipe()
        os.set_blocking(answers, False)
        try:
            process = self.place.process(run, log, ("--answers", str(theirs)), keep=theirs)
        except OSError:
            os.close(answers)
            raise
        finally:
            os.close(theirs)
        return _Served(process=process, answers=answers)


def lasting(places: Sequence[LocalPlace]) -> tuple[LastingPlace, ...]:
    """Places whose processes go on with the next run."""
    return tuple(LastingPlace(place=place) for place in places)
