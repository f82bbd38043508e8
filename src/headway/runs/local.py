"""Lab: many runs on this machine, a worker process each.

Iterating `run_all` is what starts workers, collects them and notes what became of them; each item shows how far all
runs are. Other processes may work on the same directory: a run that one of them holds is waited for, and taken over if
they give it up.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.errors import ResultsError, UserError
from headway.runs.devices import Slot, slots
from headway.runs.folder import Run, Status, damaged, read, update
from headway.runs.lease import Lease, LeaseHeld, is_held, last_holder
from headway.runs.memory import estimated_bytes
from headway.runs.progress import Progress, Snapshot
from headway.runs.stop import FROM_PARENT
from headway.runs.work import DISK_FULL, ELSEWHERE, STOPPED, disk_full

WORKER = (sys.executable, "-m", "headway.runs.worker")

_LOOK_EVERY_S = 0.25
_STOPPING = ((FROM_PARENT, 20.0), (FROM_PARENT, 5.0), (signal.SIGKILL, 5.0))


def run_all(
    runs: Sequence[Run], *, workers: int | None = None, command: Sequence[str] = WORKER, device: str = "auto"
) -> Generator[Snapshot, None, None]:
    """Work on runs until each is done or has failed, longest first, and show how far they are.

    Runs that are done or damaged are left alone, those that failed before are tried once more. A run that fails does
    not stop the others. An exception in the iteration (Ctrl-C), or closing it, stops the workers, which store where
    they are; use `contextlib.closing` where that is to happen at once. SIGTERM and SIGHUP then act like Ctrl-C.

    Args:
        runs: what to work on.
        workers: processes at a time; by default one for each core, or for each run if there are fewer. Each has
            the cores divided by their number as threads.
        command: what starts a worker, with options such as `--trainer torch`; the run folder and more options follow.
        device: `auto`, `cpu`, `cuda` or `cuda:N`; GPUs take one run each.

    Raises:
        UserError: when there is no worker, or no such device.
    """
    gpu = any(run.status != "damaged" and run.spec.uses_gpu for run in runs)
    sweep = _Sweep(runs, slots(device, workers=workers, runs=len(runs), uses_gpu=gpu), command)
    with _ended_like_ctrl_c():
        try:
            while sweep.look():
                yield sweep.snapshot()
                time.sleep(_LOOK_EVERY_S)
            yield sweep.snapshot()
        finally:
            sweep.stop()


@dataclass(frozen=True, kw_only=True)
class _Worker:
    """A process on a run, and when its run.json had been written last before it began."""

    run: Run
    slot: Slot
    written_ns: int
    process: subprocess.Popen[bytes]


class _Sweep:
    """Runs, and the workers of this process on them."""

    def __init__(self, runs: Sequence[Run], places: Sequence[Slot], command: Sequence[str]):
        self._runs, self._free, self._workers, self._command = runs, list(places), len(places), command
        self._began = time.monotonic()
        self._work_per_step: dict[Path, float] = {}
        self._counted: dict[Path, int] = {}
        self._waiting: list[Run] = []
        self._working: dict[Path, _Worker] = {}
        self._elsewhere: dict[Path, Run] = {}
        self._settled: dict[Path, Run] = {}
        for run in runs:
            if run.status in ("done", "damaged"):
                self._settled[run.path] = run
            else:
                self._work_per_step[run.path] = _work_per_step(run)
                self._waiting.append(run)
        self._waiting.sort(key=lambda run: -max(1, run.steps) * self._work_per_step[run.path])

    def look(self) -> bool:
        """Collect what ended, start what can be started; whether anything is left."""
        for path, worker in list(self._working.items()):
            if worker.process.poll() is not None:
                del self._working[path]
                self._free.append(worker.slot)
                self._collect(worker, stopping=False)
        for path, run in list(self._elsewhere.items()):
            if not is_held(path / "lease"):
                del self._elsewhere[path]
                now = _written(path)
                if now.status in ("done", "failed", "damaged"):
                    self._settled[path] = now
                else:
                    self._waiting.append(run)
        while self._waiting and self._free:
            self._start(self._waiting.pop(0))
        return bool(self._working or self._waiting or self._elsewhere)

    def stop(self) -> None:
        """End all workers: first so that they store where they are, at last by force."""
        for number, grace_s in _STOPPING:
            alive = [worker.process for worker in self._working.values() if worker.process.poll() is None]
            for process in alive:
                with contextlib.suppress(ProcessLookupError):
                    # By force means with everything that it started.
                    (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)
            # Another Ctrl-C is impatience: go on to the next, harsher signal.
            with contextlib.suppress(KeyboardInterrupt):
                _wait(alive, grace_s)
        for worker in self._working.values():
            if worker.process.poll() is not None:
                self._collect(worker, stopping=True)
        self._working.clear()

    def snapshot(self) -> Snapshot:
        """How far all runs are."""
        elapsed_s = time.monotonic() - self._began
        return Snapshot(
            runs=tuple(self._progress(run) for run in self._runs), workers=self._workers, elapsed_s=elapsed_s
        )

    def _start(self, run: Run) -> None:
        if is_held(run.path / "lease"):
            self._elsewhere[run.path] = run
            return
        slot = self._free[0]
        try:
            written_ns = _written_ns(run)
            with open(run.path / "log.txt", "ab") as log:
                # In a process group of its own: the terminal's Ctrl-C reaches us alone, and we stop the workers.
                process = subprocess.Popen(
                    # Whole, since a path that begins with a dash would be taken for an option.
                    [*self._command, os.path.abspath(run.path), *slot.options, "--parent", str(os.getpid())],
                    env=os.environ | slot.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                )
        except OSError as error:
            self._settled[run.path] = replace(run, status="failed", message=f"its worker could not be started: {error}")
            return
        self._free.remove(slot)
        self._working[run.path] = _Worker(run=run, slot=slot, written_ns=written_ns, process=process)

    def _collect(self, worker: _Worker, *, stopping: bool) -> None:
        """Learn from the folder what became of a run whose worker has ended; write it there if the worker could not."""
        now, code = _written(worker.run.path), worker.process.returncode
        if code == ELSEWHERE:
            self._elsewhere[now.path] = worker.run
        elif now.status in ("done", "damaged") or (
            now.status in ("failed", "interrupted") and _written_ns(now) != worker.written_ns
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
        if run.path in self._working and holder and holder.pid != self._working[run.path].process.pid:
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
        return damaged(path, str(error))


def _written_ns(run: Run) -> int:
    return (run.path / "run.json").stat().st_mtime_ns


def _work_per_step(run: Run) -> float:
    try:
        return float(run.spec.budget.flops_per_example * run.spec.training.batch_size)
    except UserError:  # its worker says what is wrong
        return 1.0


def _cause_of_death(run: Run, code: int) -> str:
    path = run.path
    if code == DISK_FULL:
        return disk_full(path)
    if code in (STOPPED, -FROM_PARENT):  # the latter before the worker listens to signals
        return "stopped before it began; run again to go on"
    if code >= 0:
        return f"its process ended with exit code {code}; {path / 'log.txt'} says more"
    name = signal.Signals(-code).name
    reason = ", as happens when memory runs out" if -code == signal.SIGKILL else ""
    if reason and (needed := estimated_bytes(run.spec)):
        reason += f" (it needs about {needed / 1e9:.1f} GB)" if needed > 1e8 else ""
    return f"its process was killed by {name}{reason}; run again to go on"


def _wait(processes: Sequence[subprocess.Popen[bytes]], grace_s: float) -> None:
    deadline = time.monotonic() + grace_s
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))


@contextlib.contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt in the block, unless they are ignored; only a main thread may ask."""
    asked = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    former = {number: signal.getsignal(number) for number in asked if signal.getsignal(number) != signal.SIG_IGN}
    for number in former:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
