"""Runs: places where runs are worked on, one run at a time each.

A place starts workers; what a worker is, a process here or elsewhere, is its own affair. The queue, what looks after
run folders (`headway.runs.local`) and the timing of arms know no more of it than stands in the two protocols. There
are three: this machine, here; a Ray cluster (`headway.runs.ray_places`); and whoever joins (`headway.runs.joined`).
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from headway.files import appending
from headway.runs.devices import Slot, slots
from headway.runs.execution import cores
from headway.runs.lease_files import Holder
from headway.runs.stop import FROM_PARENT

LOST = 69
"""EX_UNAVAILABLE of sysexits.h: the place of a worker is gone, and its run goes on at another."""

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
        """Whether it is who holds a lease."""


class Place(Protocol):
    """Where one run at a time is worked on."""

    @property
    def ready(self) -> bool:
        """Whether a run can begin there at once."""

    def make_ready(self) -> None:
        """A run is there for it: see that it becomes ready, if it is not; it is asked again and again."""

    def start(self, run: Path, *, log: Path, options: Sequence[str] = ()) -> Worker:
        """Start a worker on a run folder; what it prints is added to `log`.

        Raises:
            OSError: when it cannot be started.
        """

    def rest(self) -> None:
        """Nothing is to be started for now: what is kept for further runs ends. Started again, it goes on."""


@dataclass(frozen=True, kw_only=True)
class LocalWorker:
    """A process of this machine, which ends when this one does."""

    process: subprocess.Popen[bytes]

    @property
    def ended(self) -> int | None:
        """Its exit code; see `Worker`."""
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
        """Whether a lease is that of its process."""
        return lease.pid == self.process.pid


@dataclass(frozen=True, kw_only=True)
class LocalPlace:
    """A share of this machine: some of its cores, or a GPU."""

    slot: Slot
    command: tuple[str, ...] = WORKER
    """What starts a worker; the run folder and options follow."""

    @property
    def ready(self) -> bool:
        """Always."""
        return True

    def make_ready(self) -> None:
        """Nothing: it is."""

    @property
    def whole(self) -> "LocalPlace":
        """The same with all cores, for a worker that has the machine to itself."""
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
        """A process on a run folder; with `keep`, it has this descriptor and is told more on its standard input.

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
        """Nothing: every process ends with its run."""


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
