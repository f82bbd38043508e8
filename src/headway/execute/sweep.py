"""Many runs at a few places, until every run has ended; `ExecutionOptions` says which places.

Iterating `run_all` starts workers, collects them and records what became of them. Each item is a `Snapshot`, which
shows how far all runs are as values for a live table. The queue decides which run is next; a place starts and stops
its worker. A run that is initialised from another run waits until that run is done. Runs of one batch are one item: a
worker is started on one of them, and works on all.

Other processes may work on the same directory: they join the work by taking a lease. For this process they are workers
like any other, but they can neither be asked to stop nor be killed from here: whoever started them does that. A run
that one of them holds is waited for, and taken over if they give it up.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.base.text import size
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.errors import ResultsError, StorageFailed
from headway.execute.parents import RunDependencies
from headway.execute.places import LOST, WORKER, LocalPlace, Place, Worker, WorkerOptions, lasting, local_places
from headway.execute.queue import Assignment, Progress, Queue, Snapshot, work_per_step
from headway.execute.ray_cluster import bytes_of, ray_cluster
from headway.execute.ray_places import AllRayPlaces
from headway.execute.stop import FROM_PARENT, SignalHandler
from headway.execute.work import DONE, ELSEWHERE, FAILED, STOPPED
from headway.store import storage
from headway.store.batches import needed_bytes
from headway.store.environment import Slot, check_device
from headway.store.lease import Holder, Lease, LeaseHeld, last_holder, release_left
from headway.store.run import Run, Status, read, unreliable_run, update
from headway.store.watch import Watch
from headway.train.loop import TrainerChoice


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """The user's request for places.

    Attributes:
        workers: the number of runs at a time; None: one for each core, or each GPU.
        trainer: the trainer of in-context models.
        together: the number of runs of one shape in a batch, for new runs: `auto`, or a number.
        device: the device: `auto`, `cpu`, `cuda` or `cuda:N`.
        runs_per_gpu: the number of runs that share a GPU.
        ray: `auto` or the address of a Ray cluster; None: this machine.
        trust_code: True to run training commands of a directory that somebody else made.
        command: the command that starts a worker.
    """

    workers: int | None = None
    trainer: TrainerChoice = "auto"
    together: str | int = "auto"
    device: str = "auto"
    runs_per_gpu: int = 1
    ray: str | None = None
    trust_code: bool = False
    command: tuple[str, ...] = WORKER

    def trusting(self, experiment: Experiment) -> "ExecutionOptions":
        """Return these options; commands of an experiment that was read from a user's own file are trusted."""
        return replace(self, trust_code=self.trust_code or experiment.code is not None)

    def check_trusted(self, directory: Path, arms: Iterable[Arm]) -> None:
        """Raise ResultsError if a directory would run commands that this user has not typed.

        Raises:
            ResultsError: naming one.
        """
        for arm in arms:
            arm.resolved_spec.check_trusted(directory, trust_code=self.trust_code)

    def here(self, *, runs: int, uses_gpu: bool) -> tuple[LocalPlace, ...]:
        """The places of this machine.

        Raises:
            UserError: when there is no worker, or no such device.
        """
        return local_places(
            "cpu" if self.ray else self.device,
            workers=self.workers,
            runs=runs,
            uses_gpu=uses_gpu,
            runs_per_gpu=1 if self.ray else self.runs_per_gpu,
            command=self._worker,
        )

    @contextlib.contextmanager
    def site(
        self,
        directory: Path,
        here: tuple[LocalPlace, ...],
        *,
        uses_gpu: bool,
        files: Iterable[Path],
        tell: Callable[[str], object],
    ) -> Iterator["Executors"]:
        """Provide the places that are asked for, in the block.

        Args:
            directory: the results directory.
            here: the places of this machine.
            uses_gpu: True if the runs include any that a GPU can compute.
            files: the files that runs read.
            tell: the function that is given messages about the nodes.

        Raises:
            UserError: when there is no such cluster.
        """
        if self.ray is None:
            yield Executors(slots=tuple(place.slot for place in here), places=lasting(here))
            return
        if not self.device.startswith("cuda"):  # whether nodes have GPUs is not known here
            check_device(self.device, workers=self.workers, runs_per_gpu=self.runs_per_gpu)
        with ray_cluster(self.ray) as cluster:
            if not cluster.has_token:
                tell(
                    "Ray: the cluster has no token, so everybody who reaches its ports can run programs on its nodes. "
                    "To give it a token, run `ray get-auth-token --generate` before `ray start --head`"
                )
            places = AllRayPlaces(
                cluster,
                directory,
                device=self.device,
                workers=self.workers,
                runs_per_gpu=self.runs_per_gpu,
                uses_gpu=uses_gpu,
                files={str(path): n for path in files if (n := bytes_of(str(path), os.getcwd())) >= 0},
                command=self._worker,
                tell=tell,
            )
            yield Executors(slots=(), places=places)

    @property
    def _worker(self) -> tuple[str, ...]:
        return (*self.command, *WorkerOptions(trainer=self.trainer).to_args())


@dataclass(frozen=True, kw_only=True)
class Executors:
    """The places where runs are worked on, and the slots of this machine (none if runs are elsewhere)."""

    slots: tuple[Slot, ...]
    places: Iterable[Place]


_POLL_EVERY_S = 0.25
_SOON_S = 0.02
"""When a run has ended others soon do, and a place that waits for its next run is idle; then each poll waits longer."""
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

    Where a run cannot be stored, and its directory has no room for another one either, all workers are stopped.

    Args:
        runs: the runs to work on.
        places: the places, each for one run at a time; the iterable is read at every poll, since places may come and
            go.

    Raises:
        StorageFailed: after the last snapshot, where the directory cannot be stored any more.
    """
    release_left()  # what an earlier sweep of this process had, while its disk was full
    sweep = _Sweep(runs, places)
    with SignalHandler().heard() as interruptions:
        try:
            while sweep.poll():
                yield sweep.snapshot()
                sweep.wait()
            if sweep.stopped:
                interruptions.ending = True
                sweep.stop(interruptions)
            yield sweep.snapshot(last=True)
            if sweep.stopped:
                raise StorageFailed(sweep.stopped)
        finally:
            interruptions.ending = True
            sweep.stop(interruptions)


@dataclass(frozen=True, kw_only=True)
class JoinedWorker:
    """Another process that has a run, or some of its batch."""

    runs: tuple[Path, ...]
    watch: Watch

    @property
    def is_at_work(self) -> bool:
        """True if a run is held; all runs are checked, so that those of a lost machine are given up at once."""
        held = [self.watch.is_held(run / "lease") for run in self.runs]
        return any(held)

    @property
    def ended(self) -> int | None:
        """None while one of the runs is held; then the exit code by the status of the first."""
        if self.is_at_work:
            return None
        status = _written(self.runs[0]).status
        return DONE if status == "done" else FAILED if status in ("failed", "damaged") else ELSEWHERE

    def ask_to_stop(self) -> None:
        """Do nothing, since the worker works for another process."""

    def kill(self) -> None:
        """Do nothing, since the worker works for another process."""

    def has(self, lease: Holder) -> bool:
        """Return whether a lease is held; its holder is the worker."""
        return not lease.released


@dataclass(kw_only=True, eq=False)
class RunState:
    """A run while it is worked on.

    Attributes:
        run: the run as it was given.
        work_per_step: the weight of its steps.
        before_ns: the time of its run.json when the sweep began.
        written_ns: the time of its run.json before a worker was started on it; None while no worker of this process has
            it.
        released: the run as its worker has let it go, while others of its batch go on.
        reached: the step that it has reached; None if nobody has looked.
        counted_steps: the number of its steps, where its corpus decides that; 0 while it is unknown.
        first_seen: the time at which it was first seen with a worker; None before.
        last_seen: the time at which it was last seen with one.
        first_step: the step at which that worker began.
    """

    run: Run
    work_per_step: float = 0.0
    before_ns: int = 0
    written_ns: int | None = None
    released: Run | None = None
    reached: int | None = None
    counted_steps: int = 0
    first_seen: float | None = None
    last_seen: float = 0.0
    first_step: int = 0

    @property
    def path(self) -> Path:
        """The folder of the run."""
        return self.run.path


@dataclass(kw_only=True, eq=False)
class Unit:
    """The runs that one worker takes: a run, or those of its batch that are to be worked on.

    Attributes:
        members: the runs.
        started_on: the run that a worker was started on.
        times_lost: the number of times that it was lost with its place without getting further.
        lost_at: the step at which it was lost first of these times.
    """

    members: list[RunState]
    started_on: RunState | None = None
    times_lost: int = 0
    lost_at: int = -1

    @property
    def run(self) -> Run:
        """The first of the runs."""
        return self.members[0].run


class _Sweep:
    """Runs, and the workers of this process on them.

    Attributes:
        stopped: the reason why all workers stop early; empty while they continue.
    """

    def __init__(self, runs: Sequence[Run], places: Iterable[Place]):
        self._places, self._watch = places, Watch()
        self._states = [RunState(run=run) for run in runs]
        self._directory = runs[0].path.parents[2] if runs else Path()
        self._settled = {run.path: run for run in runs if run.status in ("done", "damaged")}
        self._units: dict[Path, Unit] = {}
        self._stopping, self._news, self.stopped = False, False, ""
        self._pause_s = _SOON_S
        self._began = self._shown_at = time.monotonic()
        self._shown: Snapshot | None = None
        open_states = {state.path: state for state in self._states if state.path not in self._settled}
        batches: dict[Path | str, Unit] = {}
        for path, state in open_states.items():
            state.work_per_step = work_per_step(state.run)
            state.before_ns = _written_ns(state.run)
            key = path if state.run.batch is None else state.run.batch.id
            unit = self._units[path] = batches.setdefault(key, Unit(members=[]))
            unit.members.append(state)
        self._dependencies = RunDependencies(
            [state.run for state in open_states.values()],
            lambda run: max(1, run.steps) * open_states[run.path].work_per_step,
        )
        self._queue = Queue(
            ((unit, self._work_of(unit)) for unit in batches.values()), self.begin, self.has_settled, self._may_begin
        )

    def _work_of(self, unit: Unit) -> float:
        return sum(self._dependencies.work_until_the_end(state.path) for state in unit.members)

    def poll(self) -> bool:
        """Collect what ended, start what can be started; whether anything is left."""
        self._news = False
        try:
            left = self._queue.poll(self._places)
        except OSError as error:  # of leases and places: what is wrong with a run is its outcome
            if not storage.is_of_storage(error, self._directory):
                raise
            left, self.stopped = False, str(storage.failure(self._directory, error))
        return left and not self.stopped

    def wait(self) -> None:
        """Let some time go by until the next poll: little where runs have just ended, then more and more."""
        self._pause_s = min(_SOON_S if self._news else 1.25 * self._pause_s, _POLL_EVERY_S)
        time.sleep(self._pause_s)

    def stop(self, interruptions: SignalHandler) -> None:
        """End all workers: first so that they store where they are, at last by force."""
        self._stopping = True
        for within_s in _ASKED_FOR_S:
            self._end(lambda worker: worker.ask_to_stop(), within_s, interruptions)
        self._end(lambda worker: worker.kill(), _KILLED_FOR_S, interruptions)
        self._queue.stopped()
        for place in self._places:
            place.rest()

    def _end(self, how: Callable[[Worker], None], within_s: float, interruptions: SignalHandler) -> None:
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
        now = time.monotonic()
        if last or self._shown is None or now - self._shown_at >= _POLL_EVERY_S:
            n_places = sum(place.ready for place in self._places)
            runs = tuple(self._progress(state) for state in self._states)
            self._shown, self._shown_at = Snapshot(runs=runs, workers=n_places, elapsed_s=now - self._began), now
        return self._shown

    def _may_begin(self, unit: Unit) -> bool:
        """Return whether a run need not wait for its parent; it need not if it can never start."""
        return not self.stopped and not self._dependencies.waits(unit.run, self._settled)

    def begin(self, unit: Unit, place: Place) -> Assignment | None:
        """See who has a run, and start a worker if nobody does; None if nothing is left to do."""
        path = unit.run.path
        if why_never := self._dependencies.why_never(unit.run, self._settled):
            self._settle(unit.run, "failed", why_never)
            if path in self._settled:
                return None
            # Another process has it, be it to write the same: nobody settles a run that has left the queue.
            return Assignment(worker=JoinedWorker(runs=(path,), watch=self._watch), place=None)
        batch = unit.run.batch
        others = [member for member in batch.folders(path) if member != path] if batch else []
        joined = JoinedWorker(runs=(path, *others), watch=self._watch)
        if joined.is_at_work:
            return Assignment(worker=joined, place=None)
        left = {state: now for state in unit.members if (now := self._undone(state)) is not None}
        if not left:
            return None
        # One that failed before: its worker tries all of the batch that did.
        failed_before = [state for state, now in left.items() if now.status == "failed"]
        first = (failed_before or list(left))[0]
        try:
            for state in left:
                state.written_ns = _written_ns(state.run)
            unit.started_on = first
            return Assignment(worker=place.start(first.path, log=first.path / "log.txt"), place=place)
        except OSError as error:
            is_of_storage = storage.is_of_storage(error, first.path)
            reason = storage.outcome(first.path, error) if is_of_storage else str(error)
            for state in left:
                message = f"its worker could not be started: {reason}"
                self._settled[state.path] = replace(state.run, status="failed", message=message)
            self._see_room(first.run, storage.exit_code(error))
            return None

    def _undone(self, state: RunState) -> Run | None:
        """A run as its folder says it, unless it has settled: others may have done it, or failed."""
        if state.path in self._settled:
            return None
        now = _written(state.path)
        if now.status == "done" or (now.status == "failed" and _written_ns(state.run) != state.before_ns):
            self._settled[state.path] = now
            return None
        return now

    def has_settled(self, unit: Unit, code: int) -> bool:
        """Learn what became of a run and its batch, whose worker has ended; write it down if the worker could not."""
        self._news = True
        started_on, unit.started_on = unit.started_on, None
        left = [state for state in unit.members if state.path not in self._settled]
        left.sort(key=lambda state: state is not started_on)
        again = code == ELSEWHERE or (code == LOST and self._may_go_on(unit))
        is_told = False
        if started_on is not None:
            self._see_room(_written(started_on.path), code)
        for state in left:
            now, written_ns = _written(state.path), state.written_ns
            state.written_ns = None
            if written_ns is None:  # it was worked on by others
                if now.status in ("done", "failed", "damaged"):
                    self._settled[state.path] = now
                continue
            has_told = now.status in ("failed", "interrupted") and _written_ns(now) != written_ns
            if now.status in ("done", "damaged") or (has_told and not again):
                self._settled[state.path] = now
                is_told = is_told or state is started_on
            # What its worker said is of the run that it was started on; the others' folders tell of them.
            elif not again and not (is_told and code in (DONE, FAILED)):
                self._settle(now, "interrupted" if self._stopping else "failed", _cause_of_death(now, code))
            state.released = None
        return all(state.path in self._settled for state in unit.members)

    def _see_room(self, run: Run, code: int) -> None:
        """End everything where a run could not be stored, and others could not be either."""
        if self.stopped or code not in (storage.DISK_FULL, storage.UNREACHABLE) or not self._directory.is_dir():
            return
        needed = needed_bytes(run) if code == storage.DISK_FULL and run.status != "damaged" else 0
        if error := storage.why_no_room(self._directory, needed):
            self.stopped = str(storage.failure(self._directory, error))

    def _may_go_on(self, unit: Unit) -> bool:
        """Return whether a run whose place was lost resumes at another, with its batch."""
        holders = [last_holder(state.path / "lease") for state in unit.members]
        step = max((holder.step for holder in holders if holder), default=0)
        if step > unit.lost_at:
            unit.times_lost, unit.lost_at = 0, step
        unit.times_lost += 1
        return unit.times_lost <= _MOST_LOST

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

    def _progress(self, state: RunState) -> Progress:
        """How far a run is."""
        run, settled = state.run, self._settled.get(state.path)
        worker = None if settled else self._queue.worker(self._units[state.path])
        holder = last_holder(state.path / "lease") if worker else None
        if worker and holder and not worker.has(holder):
            holder = None  # our worker has not got the lease yet
        if holder and holder.released and run.batch is not None:
            settled, holder = self._released(state), None
        works = worker is not None and settled is None
        if works:
            state.reached = holder.step if holder else 0
        elif state.reached is None:  # looked at once: of many runs most wait
            stored = None if settled else last_holder(state.path / "lease")
            state.reached = stored.step if stored else 0
        assert state.reached is not None
        if works:
            state.last_seen = time.monotonic()
            if state.first_seen is None:
                state.first_seen, state.first_step = state.last_seen, state.reached
        steps = self._steps(state, works)
        return Progress(
            name=run.name,
            seed=run.seed,
            status=settled.status if settled else "running" if works else "waiting",
            message=settled.message if settled else "",
            step=steps if settled and settled.status == "done" else state.reached,
            steps=steps,
            steps_per_s=holder.steps_per_s if holder else None,
            work_per_step=state.work_per_step,
            # Who it is is told of those that others work on.
            worker=holder.worker if holder and worker and state.written_ns is None else "",
            held_s=holder.held_s if holder else None,
            folder=state.path,
            worked_s=0.0 if state.first_seen is None else state.last_seen - state.first_seen,
            from_step=state.reached if state.first_seen is None else state.first_step,
        )

    def _released(self, state: RunState) -> Run | None:
        """A run that its worker has let go while it works on others of the batch."""
        if state.released is None and (now := _written(state.path)).status in ("done", "failed"):
            state.released = now
        return state.released

    def _steps(self, state: RunState, works: bool) -> int:
        """The steps of a run; where its corpus decides them, its worker writes them down when it has opened it."""
        latest = self._settled.get(state.path) or state.run
        if latest.steps:
            return latest.steps
        if works and not state.counted_steps:
            state.counted_steps = _written(state.path).steps
        return state.counted_steps


def _written(path: Path) -> Run:
    """A run with the status that was written last; `damaged` if its run.json was removed or damaged meanwhile."""
    try:
        return read(path)
    except ResultsError as error:
        return unreliable_run(path, str(error) if path.is_dir() else storage.unreachable(path))


def _written_ns(run: Run) -> int:
    try:
        return (run.path / "run.json").stat().st_mtime_ns
    except OSError:
        return 0


def _cause_of_death(run: Run, code: int) -> str:
    path = run.path
    if code == storage.DISK_FULL:
        return storage.disk_full(path)
    if code == storage.UNREACHABLE:
        return storage.unreachable(path)
    if code == LOST:
        return f"its worker was lost {_MOST_LOST + 1} times without progress; run again to resume"
    if code in (STOPPED, -FROM_PARENT):  # the latter before the worker listens to signals
        return "stopped before it began; run again to resume"
    if code >= 0:
        return f"its process ended with exit code {code}; {path / 'log.txt'} says more"
    name = signal.Signals(-code).name
    reason, needed = "", needed_bytes(run)
    if -code == signal.SIGKILL:
        needs = f" (it needs about {size(needed)})" if needed > 1e8 else ""
        reason = f", as happens when memory runs out{needs}"
    return f"its process was killed by {name}{reason}; run again to resume"
