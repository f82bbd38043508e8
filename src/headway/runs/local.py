"""Runs: many runs at a few places: what is next, what is held elsewhere, what has settled.

Iterating `run_all` is what starts workers, collects them and notes what became of them; each item shows how far all
runs are. How a worker is started and stopped is the affair of its place. Other processes may work on the same
directory: a run that one of them holds is waited for, and taken over if they give it up.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.errors import ResultsError
from headway.runs.folder import Run, Status, damaged, read, update
from headway.runs.lease import Lease, LeaseHeld, last_holder
from headway.runs.memory import estimated_bytes
from headway.runs.places import Place, Worker
from headway.runs.progress import Progress, Snapshot, work_per_step
from headway.runs.stop import FROM_PARENT, Interruptions
from headway.runs.storage import DISK_FULL, UNREACHABLE, disk_full, is_of_storage, outcome, unreachable
from headway.runs.watching import Watch
from headway.runs.work import ELSEWHERE, STOPPED

_LOOK_EVERY_S = 0.25
_ASKED_FOR_S = (20.0, 5.0)
"""How long workers may take to end when they are asked, and when they are asked again; then they are killed."""
_KILLED_FOR_S = 5.0


def run_all(runs: Sequence[Run], places: Sequence[Place]) -> Generator[Snapshot, None, None]:
    """Work on runs until each is done or has failed, longest first, and show how far they are.

    Runs that are done or damaged are left alone, those that failed before are tried once more. A run that fails does
    not stop the others. An exception in the iteration (Ctrl-C), or closing it, stops the workers, which store where
    they are; use `contextlib.closing` where that is to happen at once. SIGTERM and SIGHUP then act like Ctrl-C.

    Args:
        runs: what to work on.
        places: where, a run at a time each.
    """
    sweep = _Sweep(runs, places)
    with Interruptions().heard() as interruptions:
        try:
            while sweep.look():
                yield sweep.snapshot()
                time.sleep(_LOOK_EVERY_S)
            yield sweep.snapshot()
        finally:
            interruptions.ending = True
            sweep.stop(interruptions)


@dataclass(frozen=True, kw_only=True)
class _Work:
    """A worker on a run at a place, and when its run.json had been written last before it began."""

    run: Run
    place: Place
    written_ns: int
    worker: Worker


class _Sweep:
    """Runs, and the workers of this process on them."""

    def __init__(self, runs: Sequence[Run], places: Sequence[Place]):
        self._runs, self._free, self._n_places = runs, list(places), len(places)
        self._began, self._watch = time.monotonic(), Watch()
        self._work_per_step: dict[Path, float] = {}
        self._counted: dict[Path, int] = {}
        self._waiting: list[Run] = []
        self._working: dict[Path, _Work] = {}
        self._elsewhere: dict[Path, Run] = {}
        self._settled: dict[Path, Run] = {}
        for run in runs:
            if run.status in ("done", "damaged"):
                self._settled[run.path] = run
            else:
                self._work_per_step[run.path] = work_per_step(run)
                self._waiting.append(run)
        self._waiting.sort(key=lambda run: -max(1, run.steps) * self._work_per_step[run.path])

    def look(self) -> bool:
        """Collect what ended, start what can be started; whether anything is left."""
        for path, work in list(self._working.items()):
            if (code := work.worker.ended) is not None:
                del self._working[path]
                self._free.append(work.place)
                self._collect(work, code, stopping=False)
        for path, run in list(self._elsewhere.items()):
            if not self._watch.is_held(path / "lease"):
                del self._elsewhere[path]
                now = _written(path)
                if now.status in ("done", "failed", "damaged"):
                    self._settled[path] = now
                else:
                    self._waiting.append(run)
        while self._waiting and self._free:
            self._start(self._waiting.pop(0))
        return bool(self._working or self._waiting or self._elsewhere)

    def stop(self, interruptions: Interruptions) -> None:
        """End all workers: first so that they store where they are, at last by force."""
        for within_s in _ASKED_FOR_S:
            self._end(lambda worker: worker.ask_to_stop(), within_s, interruptions)
        self._end(lambda worker: worker.kill(), _KILLED_FOR_S, interruptions)
        for work in self._working.values():
            if (code := work.worker.ended) is not None:
                self._collect(work, code, stopping=True)
        self._working.clear()

    def _end(self, how: Callable[[Worker], None], within_s: float, interruptions: Interruptions) -> None:
        """Do something to the workers that are left, and wait for their end for so long."""
        left = [work.worker for work in self._working.values() if work.worker.ended is None]
        for worker in left:
            how(worker)
        until, heard = time.monotonic() + within_s, interruptions.impatient
        # Another Ctrl-C is impatience: go on to what is harsher.
        with contextlib.suppress(KeyboardInterrupt):
            while any(worker.ended is None for worker in left) and time.monotonic() < until:
                if interruptions.impatient > heard:
                    return
                time.sleep(0.02)

    def snapshot(self) -> Snapshot:
        """How far all runs are."""
        elapsed_s = time.monotonic() - self._began
        return Snapshot(
            runs=tuple(self._progress(run) for run in self._runs), workers=self._n_places, elapsed_s=elapsed_s
        )

    def _start(self, run: Run) -> None:
        if self._watch.is_held(run.path / "lease"):
            self._elsewhere[run.path] = run
            return
        place = self._free[0]
        try:
            written_ns = _written_ns(run)
            worker = place.start(run.path, log=run.path / "log.txt")
        except OSError as error:
            said = outcome(run.path, error) if is_of_storage(error, run.path) else str(error)
            self._settled[run.path] = replace(run, status="failed", message=f"its worker could not be started: {said}")
            return
        self._free.remove(place)
        self._working[run.path] = _Work(run=run, place=place, written_ns=written_ns, worker=worker)

    def _collect(self, work: _Work, code: int, *, stopping: bool) -> None:
        """Learn from the folder what became of a run whose worker has ended; write it there if the worker could not."""
        now = _written(work.run.path)
        if code == ELSEWHERE:
            self._elsewhere[now.path] = work.run
        elif now.status in ("done", "damaged") or (
            now.status in ("failed", "interrupted") and _written_ns(now) != work.written_ns
        ):
            self._settled[now.path] = now
        else:
            self._settle(now, "interrupted" if stopping else "failed", _cause_of_death(now, code))

    def _settle(self, run: Run, status: Status, message: str) -> None:
        self._settled[run.path] = replace(run, status=status, message=message)
        # A full or read-only disk is why the worker could not write it either; then it stands in our snapshots only.
        with contextlib.suppress(OSError):
            try:
                with Lease.take(run.path / "lease") as lease:
                    update(run, lease, status=status, message=message)
            except LeaseHeld:
                self._elsewhere[run.path] = self._settled.pop(run.path)

    def _progress(self, run: Run) -> Progress:
        settled = self._settled.get(run.path)
        active = run.path in self._working or run.path in self._elsewhere
        holder = last_holder(run.path / "lease")
        steps = self._steps(run)
        if run.path in self._working and holder and not self._working[run.path].worker.has(holder):
            holder = None  # our worker has not got the lease yet
        return Progress(
            name=run.name,
            seed=run.seed,
            status=settled.status if settled else "running" if active else "waiting",
            message=settled.message if settled else "",
            step=steps if settled and settled.status == "done" else holder.step if holder else 0,
            steps=steps,
            steps_per_s=holder.steps_per_s if holder and active else None,
            work_per_step=self._work_per_step.get(run.path, 0.0),
        )

    def _steps(self, run: Run) -> int:
        """The steps of a run; where its corpus decides them, its worker writes them down when it has opened it."""
        known = self._settled.get(run.path) or run
        if known.steps:
            return known.steps
        begun = run.path in self._working or run.path in self._elsewhere
        if begun and not self._counted.get(run.path):
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
    if code in (STOPPED, -FROM_PARENT):  # the latter before the worker listens to signals
        return "stopped before it began; run again to go on"
    if code >= 0:
        return f"its process ended with exit code {code}; {path / 'log.txt'} says more"
    name = signal.Signals(-code).name
    reason = ", as happens when memory runs out" if -code == signal.SIGKILL else ""
    if reason and (needed := estimated_bytes(run.spec)):
        reason += f" (it needs about {needed / 1e9:.1f} GB)" if needed > 1e8 else ""
    return f"its process was killed by {name}{reason}; run again to go on"
