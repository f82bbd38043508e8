"""Places where runs are worked on, one run at a time each.

A place starts workers; a worker may be a process here or elsewhere. The queue, the sweep (`headway.execute.sweep`) and
the timing of arms know only the protocols `Worker` and `Place`. There are three kinds of place: this machine; a
Ray cluster (`headway.execute.ray_places`); and workers that join (`headway.execute.joined`).

`PersistentPlace` keeps its process for the next run where that changes no bit, since starting a process takes about as
long as a small in-context run. The process is told one run after the other, and reports how each ended. A run that
used torch, failed, or has another number of threads leaves the process in a state that a new process would not have.
The process then restarts itself (`headway.execute.work`).
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from headway.base.files import appending
from headway.execute.stop import FROM_PARENT
from headway.store.environment import Slot, cores, slots
from headway.store.lease import Holder

LOST = 69
"""EX_UNAVAILABLE of sysexits.h: the place of a worker is gone, and its run resumes at another place."""

WORKER = (sys.executable, "-m", "headway.runs.worker")


class Worker(Protocol):
    """A worker that was started on a run."""

    @property
    def ended(self) -> int | None:
        """Its exit code, a signal's number below zero if one killed it; None while it works."""

    def ask_to_stop(self) -> None:
        """Ask it to store where it is and end; asked again, it ends at once. Nothing if it has ended."""

    def kill(self) -> None:
        """End it with everything that it started. Nothing if it has ended."""

    def has(self, lease: Holder) -> bool:
        """Return whether this worker holds a lease."""


class Place(Protocol):
    """A place where one run at a time is worked on."""

    @property
    def ready(self) -> bool:
        """True if a run can begin at the place at once."""

    def make_ready(self) -> None:
        """Become ready for a waiting run, if the place is not ready; it is called again and again."""

    def start(self, run: Path, *, log: Path, options: Sequence[str] = ()) -> Worker:
        """Start a worker on a run folder; what it prints is added to `log`.

        Raises:
            OSError: when it cannot be started.
        """

    def rest(self) -> None:
        """End what is kept for further runs, since none is to be started for now; a further start is possible."""


@dataclass(frozen=True, kw_only=True)
class LocalWorker:
    """A process of this machine, which ends when this one does."""

    process: subprocess.Popen[bytes]

    @property
    def ended(self) -> int | None:
        """The exit code of the process, or None while it runs."""
        return self.process.poll()

    def ask_to_stop(self) -> None:
        """Ask it to store where it is and end."""
        if self.ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, FROM_PARENT)

    def kill(self) -> None:
        """End its process group."""
        if self.ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def has(self, lease: Holder) -> bool:
        """Return whether a lease is that of the worker's process."""
        return lease.pid == self.process.pid


@dataclass(frozen=True, kw_only=True)
class LocalPlace:
    """A share of this machine: some of its cores, or a GPU."""

    slot: Slot
    command: tuple[str, ...] = WORKER
    """The command that starts a worker; the run folder and options follow."""

    @property
    def ready(self) -> bool:
        """Always True, since the machine is at hand."""
        return True

    def make_ready(self) -> None:
        """Do nothing, since the place is ready."""

    @property
    def whole(self) -> "LocalPlace":
        """This place with all cores, for a worker that has the machine to itself."""
        return replace(self, slot=replace(self.slot, threads=cores()))

    def start(self, run: Path, *, log: Path, options: Sequence[str] = ()) -> LocalWorker:
        """Start a process on a run folder.

        Raises:
            OSError: when it cannot be started.
        """
        return LocalWorker(process=self.process(run, log, options))

    def process(
        self, run: Path, log: Path, options: Sequence[str] = (), *, keep: int | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process on a run folder; with `keep`, it gets this descriptor and reads runs from standard input.

        Raises:
            OSError: when it cannot be started.
        """
        with open(appending(log), "ab") as output:
            # In a process group of its own: the terminal's Ctrl-C reaches us alone, and we stop the workers.
            return subprocess.Popen(
                # Whole, since a path that begins with a dash would be taken for an option.
                [*self.command, str(run.absolute()), *self.slot.options, *options, "--parent", str(os.getpid())],
                env=os.environ | self.slot.environment,
                stdin=subprocess.DEVNULL if keep is None else subprocess.PIPE,
                stdout=output,
                stderr=output,
                process_group=0,
                pass_fds=() if keep is None else (keep,),
            )

    def rest(self) -> None:
        """Do nothing, since every process ends with its run."""


def local_places(
    device: str = "auto",
    *,
    workers: int | None = None,
    runs: int,
    uses_gpu: bool = True,
    runs_per_gpu: int = 1,
    command: Sequence[str] = WORKER,
) -> tuple[LocalPlace, ...]:
    """The places of this machine, as many as runs are worked on at once.

    Args:
        device: `auto`, `cpu`, `cuda` or `cuda:N`; GPUs take one run each, or so many as is said.
        workers: how many at most; by default one for each core, or for each run if there are fewer. Each has the cores
            divided by their number as threads.
        runs: how many there are to be worked on.
        uses_gpu: whether there are runs among them that a GPU can compute.
        runs_per_gpu: how many share a GPU.
        command: what starts a worker, with options such as `--trainer torch`.

    Raises:
        UserError: when there is no worker, or no such device.
    """
    found = slots(device, workers=workers, runs=runs, uses_gpu=uses_gpu, runs_per_gpu=runs_per_gpu)
    return tuple(LocalPlace(slot=slot, command=tuple(command)) for slot in found)


_ENDING_S = 5.0


@dataclass(kw_only=True)
class _Served:
    """A process that is told runs, and its answers."""

    process: subprocess.Popen[bytes]
    answers: int
    read: bytes = b""
    ends: bool = False
    """Whether the process has announced that it takes no more runs."""

    def code(self) -> int | None:
        """Return how the last run ended, once, or the process's own exit code when it has ended."""
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

    place: "PersistentPlace"
    served: _Served
    code: int | None = None

    @property
    def ended(self) -> int | None:
        """The exit code of the run, or None while it runs."""
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
        """Return whether a lease is that of the worker's process."""
        return lease.pid == self.served.process.pid


@dataclass(kw_only=True)
class PersistentPlace:
    """A share of this machine with one process for run after run.

    Attributes:
        place: where the process is.
    """

    place: LocalPlace
    _served: _Served | None = field(default=None, repr=False)

    @property
    def ready(self) -> bool:
        """Always True, since the place starts its process when a run comes."""
        return True

    def make_ready(self) -> None:
        """Do nothing, since the place is ready."""

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


def lasting(places: Sequence[LocalPlace]) -> tuple[PersistentPlace, ...]:
    """Return places whose processes continue with the next run."""
    return tuple(PersistentPlace(place=place) for place in places)
