"""Runs: many runs at a few places, until all have settled.

Iterating `run_all` is what starts workers, collects them and notes what became of them; each item shows how far all
runs are. What is next is the affair of the queue, how a worker is started and stopped that of its place. Other
processes may work on the same directory: a run that one of them holds is waited for, and taken over if they give it
up.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from headway.errors import ResultsError, StorageFailed
from headway.runs.folder import Run, Status, damaged, read
from headway.runs.folder_written import update
from headway.runs.joined import JoinedPlace
from headway.runs.lease import Lease, LeaseHeld, last_holder, release_left
from headway.runs.lease_files import Holder
from headway.runs.lines import Lines
from headway.runs.memory import estimated_bytes
from headway.runs.places import LOST, Place, Worker
from headway.runs.progress import Progress, Snapshot, work_per_step
from headway.runs.queue import AtWork, Queue
from headway.runs.stop import FROM_PARENT, Interruptions
from headway.runs.storage import (
    DISK_FULL,
    UNREACHABLE,
    disk_full,
    exit_code,
    failure,
    is_of_storage,
    outcome,
    unreachable,
    why_no_room,
)
from headway.runs.taken_along import TakenAlong
from headway.runs.work import ELSEWHERE, STOPPED

_LOOK_EVERY_S = 0.25
_SOON_S = 0.02
"""When a run has ended others soon do, and a place that waits for its next run is idle; then each look waits longer."""
_ASKED_FOR_S = (20.0, 5.0)
"""How long workers may take to end when they are asked, and when they are asked again; then they are killed."""
_KILLED_FOR_S = 5.0
_MOST_LOST = 5
"""A run whose place was lost so often, and that got no further meanwhile, is the likely reason."""


def run_all(runs: Sequence[Run], places: Iterable[Place]) -> Generator[Snapshot, None, None]:
    """Work on runs until each is done or has failed, longest first, and show how far they are.

    Runs that are done or damaged are left alone, those that failed before are tried once more. A run that fails does
    not stop the others, but for those that start from it: these fail with its name. An exception in the iteration
    (Ctrl-C), or closing it, stops the workers, which store where they are; use `contextlib.closing` where that is to
    happen at once. SIGTERM, SIGHUP and SIGUSR1 then act like Ctrl-C.

    Where a run cannot be stored, and its directory has no room for another one either, all workers are stopped; the
    last snapshot says why (`to_the_end` raises it).

    Args:
        runs: what to work on.
        places: where, a run at a time each; gone through at every look, since some may come and go.
    """
    release_left()  # what an earlier sweep of this process had, while its disk was full
    sweep = _Sweep(runs, places)
    with Interruptions().heard() as interruptions:
        try:
            while sweep.look():
                yield sweep.snapshot()
                sweep.wait()
            if sweep.stopped:
                interruptions.ending = True
                sweep.stop(interruptions)
            yield sweep.snapshot(last=True)
        finally:
            interruptions.ending = True
            sweep.stop(interruptions)


def to_the_end(runs: Sequence[Run], places: Iterable[Place]) -> Generator[Snapshot, None, None]:
    """As `run_all`, for whoever cannot do without the results.

    Raises:
        StorageFailed: after the last snapshot, where the directory cannot be stored any more.
    """
    stopped = ""
    with contextlib.closing(run_all(runs, places)) as snapshots:
        for snapshot in snapshots:
            stopped = snapshot.stopped
            yield snapshot
    if stopped:
        raise StorageFailed(stopped)


class _Sweep:
    """Runs, and the workers of this process on them.

    Attributes:
        stopped: why all of it ends before its end; empty while it goes on.
    """

    def __init__(self, runs: Sequence[Run], places: Iterable[Place]):
        self._runs, self._places, self._joined = runs, places, JoinedPlace()
        self._began = time.monotonic()
        self._by_path: dict[Path, Run] = {}
        self._work_per_step: dict[Path, float] = {}
        self._along = TakenAlong()
        self._reached: dict[Path, int] = {}
        self._counted: dict[Path, int] = {}
        self._before: dict[Path, int] = {}
        """When the run.json of a run had been written last when all this began."""
        self._written: dict[Path, int] = {}
        """When the run.json of a run had been written last before a worker was started on it."""
        self._lost: dict[Path, tuple[int, int]] = {}
        """How often a run was lost with its place without getting further, and how far it was."""
        self._settled: dict[Path, Run] = {}
        self._stopping, self._news, self.stopped = False, False, ""
        self._pause_s = _SOON_S
        for run in runs:
            if run.status in ("done", "damaged"):
                self._settled[run.path] = run
            else:
                self._work_per_step[run.path] = work_per_step(run)
                self._by_path[run.path] = run
                self._before[run.path] = _written_ns(run)
        self._lines = Lines(list(self._by_path.values()), lambda run: max(1, run.steps) * self._work_per_step[run.path])
        self._queue = Queue(
            ((path, self._lines.work_until_the_end(run)) for path, run in self._by_path.items()), self, self._may_begin
        )
        self._shown: Snapshot | None = None
        self._shown_at = self._began

    def look(self) -> bool:
        """Collect what ended, start what can be started; whether anything is left."""
        self._news = False
        try:
            left = self._queue.look(self._places)
        except OSError as error:  # of leases and places: what is wrong with a run is its outcome
            directory = self._runs[0].path.parents[2]
            if not is_of_storage(error, directory):
                raise
            left, self.stopped = False, str(failure(directory, error))
        return left and not self.stopped

    def wait(self) -> None:
        """Let some time go by until the next look: little where runs have just ended, then more and more."""
        self._pause_s = min(_SOON_S if self._news else 2 * self._pause_s, _LOOK_EVERY_S)
        time.sleep(self._pause_s)

    def stop(self, interruptions: Interruptions) -> None:
        """End all workers: first so that they store where they are, at last by force."""
        self._stopping = True
        for within_s in _ASKED_FOR_S:
            self._end(lambda worker: worker.ask_to_stop(), within_s, interruptions)
        self._end(lambda worker: worker.kill(), _KILLED_FOR_S, interruptions)
        self._queue.stopped()
        for place in self._places:
            place.rest()

    def _end(self, how: Callable[[Worker], None], within_s: float, interruptions: Interruptions) -> None:
        """Do something to the workers that are left, and wait for their end for so long."""
        left = [worker for _, worker in self._queue.workers() if worker.ended is None]
        for worker in left:
            how(worker)
        until, heard = time.monotonic() + within_s, interruptions.impatient
        # Another Ctrl-C is impatience: go on to what is harsher.
        with contextlib.suppress(KeyboardInterrupt):
            while any(worker.ended is None for worker in left) and time.monotonic() < until:
                if interruptions.impatient > heard:
                    return
                time.sleep(0.02)

    def snapshot(self, *, last: bool = False) -> Snapshot:
        """How far all runs are, as of now or, but for the last one, since the blink of an eye."""
        if last or self._shown is None or time.monotonic() - self._shown_at >= _LOOK_EVERY_S:
            self._shown, self._shown_at = self._looked_at(), time.monotonic()
        return self._shown

    def _looked_at(self) -> Snapshot:
        elapsed_s = time.monotonic() - self._began
        n_places = sum(place.ready for place in self._places)
        holders = {path: last_holder(path / "lease") for path in self._by_path if self._queue.worker(path)}
        waiting = [path for path in self._by_path if path not in self._settled and path not in holders]
        ours = {holder.worker for path, holder in holders.items() if holder and path in self._written}
        self._along.look(waiting, ours)
        runs = tuple(self._progress(run, holders.get(run.path)) for run in self._runs)
        return Snapshot(runs=runs, workers=n_places, elapsed_s=elapsed_s, stopped=self.stopped)

    def _may_begin(self, path: Path) -> bool:
        """Whether a run need not wait for the one that it starts from, be it that it never can begin."""
        run = self._by_path[path]
        if self.stopped:
            return False
        return bool(self._lines.why_never(run, self._settled)) or self._lines.may_start(run, self._settled)

    def begin(self, path: Path, place: Place) -> AtWork | None:
        """See who has a run, and start a worker if nobody does; see `headway.runs.queue.Overseer`."""
        if why_never := self._lines.why_never(self._by_path[path], self._settled):
            self._settle(self._by_path[path], "failed", why_never)
            return None
        if joined := self._joined.found(path):
            return AtWork(worker=joined, place=None)
        run, now = self._by_path[path], _written(path)
        if now.status == "done" or (now.status == "failed" and _written_ns(run) != self._before[path]):  # by others
            self._settled[path] = now
            return None
        try:
            self._written[path] = _written_ns(run)
            return AtWork(worker=place.start(path, log=path / "log.txt"), place=place)
        except OSError as error:
            said = outcome(path, error) if is_of_storage(error, path) else str(error)
            self._settled[path] = replace(run, status="failed", message=f"its worker could not be started: {said}")
            self._see_room(run, exit_code(error))
            return None

    def has_settled(self, path: Path, code: int) -> bool:
        """Learn from the folder what became of a run whose worker has ended; write it there if the worker could not."""
        self._news = True
        now = _written(path)
        if path not in self._written:  # it was worked on by others
            if now.status in ("done", "failed", "damaged"):
                self._settled[path] = now
            return path in self._settled
        written_ns = self._written.pop(path)
        self._see_room(now, code)
        if now.status in ("done", "damaged"):
            self._settled[path] = now
        elif code == ELSEWHERE or (code == LOST and self._may_go_on(now)):
            return self._stopping
        elif now.status in ("failed", "interrupted") and _written_ns(now) != written_ns:
            self._settled[path] = now
        else:
            self._settle(now, "interrupted" if self._stopping else "failed", _cause_of_death(now, code))
        return path in self._settled

    def _see_room(self, run: Run, code: int) -> None:
        """End everything where a run could not be stored, and others could not be either."""
        directory = run.path.parents[2]
        if self.stopped or code not in (DISK_FULL, UNREACHABLE) or not directory.is_dir():
            return
        needed = (estimated_bytes(run.spec) or 0) if code == DISK_FULL and run.status != "damaged" else 0
        if error := why_no_room(directory, needed):
            self.stopped = str(failure(directory, error))

    def _may_go_on(self, run: Run) -> bool:
        """Whether a run whose place was lost is to go on at another."""
        holder = last_holder(run.path / "lease")
        step, (times, before) = holder.step if holder else 0, self._lost.get(run.path, (0, -1))
        self._lost[run.path] = (1, step) if step > before else (times + 1, before)
        return self._lost[run.path][0] <= _MOST_LOST

    def _settle(self, run: Run, status: Status, message: str) -> None:
        self._settled[run.path] = replace(run, status=status, message=message)
        # A full or read-only disk is why the worker could not write it either; then it stands in our snapshots only.
        with contextlib.suppress(OSError):
            try:
                with Lease.take(run.path / "lease") as lease:
                    update(run, lease, status=status, message=message)
            except LeaseHeld:
                if not (self._stopping or self.stopped):
                    del self._settled[run.path]  # and it is waited for

    def _progress(self, run: Run, holder: Holder | None) -> Progress:
        """How far a run is; `holder` is who has it, where a worker is on it."""
        worker = self._queue.worker(run.path)
        settled = self._settled.get(run.path) or (None if worker else self._along.ended(run.path))
        if worker and holder and not worker.has(holder):
            holder = None  # our worker has not got the lease yet
        if not worker and not settled:
            holder = self._along.holder(run.path)
        works = bool(worker or holder)
        if works:
            self._reached[run.path] = holder.step if holder else 0
        elif run.path not in self._reached:  # looked at once: of many runs most wait
            stored = None if settled else last_holder(run.path / "lease")
            self._reached[run.path] = stored.step if stored else 0
        steps = self._steps(run, works)
        return Progress(
            name=run.name,
            seed=run.seed,
            status=settled.status if settled else "running" if works else "waiting",
            message=settled.message if settled else "",
            step=steps if settled and settled.status == "done" else self._reached[run.path],
            steps=steps,
            steps_per_s=holder.steps_per_s if holder else None,
            work_per_step=self._work_per_step.get(run.path, 0.0),
            # Who it is is told of those that others work on.
            worker=holder.worker if holder and worker and run.path not in self._written else "",
            held_s=holder.held_s if holder else None,
        )

    def _steps(self, run: Run, works: bool) -> int:
        """The steps of a run; where its corpus decides them, its worker writes them down when it has opened it."""
        known = self._settled.get(run.path) or run
        if known.steps:
            return known.steps
        if works and not self._counted.get(run.path):
            self._counted[run.path] = _written(run.path).steps
        return self._counted.get(run.path, 0)


def _written(path: Path) -> Run:
    """A run with the status that was written last; `damaged` if its run.json was removed or damaged meanwhile."""
    try:
        return read(path)
    except ResultsError as error:
        return damaged(path, str(error) if path.is_dir() else unreachable(path))


def _written_ns(run: Run) -> int:
    try:
        return (run.path / "run.json").stat().st_mtime_ns
    except OSError:
        return 0


def _cause_of_death(run: Run, code: int) -> str:
    path = run.path
    if code == DISK_FULL:
        return disk_full(path)
    if code == UNREACHABLE:
        return unreachable(path)
    if code == LOST:
        return f"its place was lost {_MOST_LOST + 1} times, and it got no further; run again to go on"
    if code in (STOPPED, -FROM_PARENT):  # the latter before the worker listens to signals
        return "stopped before it began; run again to go on"
    if code >= 0:
        return f"its process ended with exit code {code}; {path / 'log.txt'} says more"
    name = signal.Signals(-code).name
    reason = ", as happens when memory runs out" if -code == signal.SIGKILL else ""
    if reason and (needed := estimated_bytes(run.spec)):
        reason += f" (it needs about {needed / 1e9:.1f} GB)" if needed > 1e8 else ""
    return f"its process was killed by {name}{reason}; run again to go on"
