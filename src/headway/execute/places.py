"""Places where runs are worked on, one run at a time each.

A place starts workers; a worker may be a process here or elsewhere. The queue, the sweep (`headway.execute.sweep`) and
the timing of arms know only the protocols `Worker` and `Place`. There are two kinds of place: this machine, and a
Ray cluster (`headway.execute.ray_places`). Runs of workers that join have no place here (`headway.execute.sweep`).

`WorkerOptions` are the options of the worker process. This module imports no numpy, whose threads a worker sets first.

`PersistentPlace` keeps its process for the next run where that changes no bit, since starting a process takes about as
long as a small in-context run. The process is told one run after the other, and reports how each ended. A run that
used torch, failed, or has another number of threads leaves the process in a state that a new process would not have.
The process then restarts itself (`headway.execute.work`).
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headway.base.files import appending
from headway.execute.stop import FROM_PARENT
from headway.store.environment import Slot, cores, slots
from headway.store.lease import Holder

if TYPE_CHECKING:
    from headway.train.loop import TrainerChoice

LOST = 69
"""EX_UNAVAILABLE of sysexits.h: the place of a worker is gone, and its run resumes at another place."""

WORKER = (sys.executable, "-m", "headway.execute.worker")


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """The options of a worker process.

    Attributes:
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        threads: the number of threads for a run that does not set it.
        trainer: the trainer of in-context models: `auto`, `fused` or `torch`.
        time: the file for timing results: with it, the worker only times some steps.
        answers: the file descriptor for answers: the worker continues with the runs that its standard input names.
        parent: the process that started the worker; the worker stops when that process has ended.
    """

    device: str = "auto"
    threads: int = 1
    trainer: "TrainerChoice" = "auto"
    time: Path | None = None
    answers: int | None = None
    parent: int | None = None

    def to_args(self) -> list[str]:
        """Return the words of the command line; an option at its default is left out."""
        words: list[str] = []
        for option in fields(self):
            value = getattr(self, option.name)
            if value != option.default:
                words += [f"--{option.name}", str(value)]
        return words

    @classmethod
    def from_args(cls, words: Sequence[str] | None) -> tuple[Path, "WorkerOptions"]:
        """Return the run folder and the options of a command line; None: those of this process."""
        parser = argparse.ArgumentParser(prog="python -m headway.execute.worker", description="Train one run.")
        parser.add_argument("run_dir", type=Path, help="the run folder")
        parser.add_argument("--device", help="auto, cpu, cuda or cuda:N")
        parser.add_argument("--threads", type=int, help="threads, for a run that does not say how many")
        parser.add_argument("--trainer", choices=("auto", "fused", "torch"), help="what trains the model")
        parser.add_argument("--time", type=Path, metavar="FILE", help="only time some steps, and write the result")
        parser.add_argument("--answers", type=int, help="continue with the runs of the standard input, and answer here")
        parser.add_argument("--parent", type=int, help="stop when this process, which started this one, has ended")
        parser.set_defaults(**{option.name: option.default for option in fields(cls)})
        values = vars(parser.parse_args(words))
        return values.pop("run_dir"), cls(**values)


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


@dataclass(kw_only=True)
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


class _OfThisMachine:
    """A share of this machine, which is at hand."""

    @property
    def ready(self) -> bool:
        """Always True: a process is started when a run comes."""
        return True

    def make_ready(self) -> None:
        """Do nothing, since the place is ready."""

    def rest(self) -> None:
        """Do nothing, since every process ends with its run."""


@dataclass(frozen=True, kw_only=True)
class LocalPlace(_OfThisMachine):
    """A share of this machine: some of its cores, or a GPU."""

    slot: Slot
    command: tuple[str, ...] = WORKER
    """The command that starts a worker; the run folder and options follow."""

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
        self, run: Path, log: Path, options: Sequence[str] = (), *, answers: int | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process on a run folder; with `answers`, a descriptor, it reads further runs from standard input.

        Raises:
            OSError: when it cannot be started.
        """
        own = WorkerOptions(device=self.slot.device, threads=self.slot.threads, answers=answers, parent=os.getpid())
        # A whole path, since one that begins with a dash would be taken for an option.
        command = [*self.command, str(run.absolute()), *own.to_args(), *options]
        with open(appending(log), "ab") as output:
            # In a process group of its own: the terminal's Ctrl-C reaches us alone, and we stop the workers.
            return subprocess.Popen(
                command,
                env=os.environ | self.slot.environment,
                stdin=subprocess.DEVNULL if answers is None else subprocess.PIPE,
                stdout=output,
                stderr=output,
                process_group=0,
                pass_fds=() if answers is None else (answers,),
            )


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
        device: the device: `auto`, `cpu`, `cuda` or `cuda:N`.
        workers: the largest number of places; by default one for each core, or for each run if there are fewer. The
            cores are divided among them as threads.
        runs: the number of runs.
        uses_gpu: True if the runs include any that a GPU can compute.
        runs_per_gpu: the number of runs that share a GPU.
        command: the command that starts a worker, with options such as `--trainer torch`.

    Raises:
        UserError: when there is no worker, or no such device.
    """
    shares = slots(device, workers=workers, runs=runs, uses_gpu=uses_gpu, runs_per_gpu=runs_per_gpu)
    return tuple(LocalPlace(slot=slot, command=tuple(command)) for slot in shares)


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
class LastingWorker(LocalWorker):
    """The work of a lasting process on one run; asked to stop, the process ends when it has stored where it is."""

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


@dataclass(kw_only=True)
class PersistentPlace(_OfThisMachine):
    """A share of this machine with one process for run after run.

    Attributes:
        place: the place of the process.
    """

    place: LocalPlace
    _served: _Served | None = field(default=None, repr=False)

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
        return LastingWorker(place=self, served=self._served, process=self._served.process)

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
            process = self.place.process(run, log, answers=theirs)
        except OSError:
            os.close(answers)
            raise
        finally:
            os.close(theirs)
        return _Served(process=process, answers=answers)


def lasting(places: Sequence[LocalPlace]) -> tuple[PersistentPlace, ...]:
    """Return places whose processes continue with the next run."""
    return tuple(PersistentPlace(place=place) for place in places)
