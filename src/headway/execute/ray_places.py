"""The slots of a Ray cluster as places: more when nodes join, fewer when they leave.

A slot's place is an actor, which starts when the cluster has room for it. All nodes see the results directory, and the
actor works on run folders as any worker does.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from headway.base.text import counted, listed
from headway.errors import UserError, shortened
from headway.execute.places import LOST, WORKER, LocalPlace, PersistentPlace, Worker
from headway.execute.ray_cluster import RayCluster, RayNode, why_not
from headway.execute.work import ELSEWHERE
from headway.store.environment import Slot
from headway.store.lease import Holder

_REST_S = 15.0
_IDLE_S = 10.0
"""An actor with nothing to do for so long gives its share of the cluster back."""
_TRIES = 3
_AT_ONCE = 4
"""Calls that an actor hears at once: one works on a run while others ask it to stop."""


_POLL_A_RUN_EVERY_S = 0.02


class RaySlot:
    """The actor of a slot, which works there on one run after the other.

    Args:
        device: the device of its place.
        threads: the threads of a worker.
        command: the command that starts a worker, which continues with the next run if it is Headway's own.
        folder: the folder in which the relative paths begin that runs name, if the node has it.
    """

    def __init__(self, device: str, threads: int, command: tuple[str, ...] = WORKER, folder: str = ""):
        with contextlib.suppress(OSError):
            os.chdir(folder or ".")
        place = LocalPlace(slot=Slot(device=device, threads=threads), command=command)
        self._place: Any = PersistentPlace(place=place) if command[: len(WORKER)] == WORKER else place
        self._worker: Worker | None = None

    def work(self, run: str) -> int:
        """Work on a run in its folder; return the worker's exit code."""
        self._worker = self._place.start(Path(run), log=Path(run) / "log.txt")
        while (code := self._worker.ended) is None:
            time.sleep(_POLL_A_RUN_EVERY_S)
        return code

    def ask_to_stop(self) -> None:
        """Ask the worker to store where it is."""
        if self._worker is not None:
            self._worker.ask_to_stop()

    def kill(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()

    def rest(self) -> None:
        """End the work here."""
        self._place.rest()


@dataclass(eq=False)
class RayWorker:
    """The actor of a slot at work on a run in its folder."""

    ray: Any
    actor: Any
    reference: Any
    lost: Callable[[], None]
    code: int | None = None

    @property
    def ended(self) -> int | None:
        """The exit code of the worker, LOST if its node is gone, or None while it runs."""
        if self.code is None and self.ray.wait([self.reference], timeout=0)[0]:
            try:
                self.code = self.ray.get(self.reference)
            except self.ray.exceptions.RayError:
                self.code = LOST
                self.lost()
        return self.code

    def ask_to_stop(self) -> None:
        """Ask the actor to store where it is."""
        if self.ended is None:
            self.actor.ask_to_stop.remote()

    def kill(self) -> None:
        """End the actor's work on the run."""
        if self.ended is None:
            self.actor.kill.remote()

    def has(self, lease: Holder) -> bool:
        """Return whether a lease is held; no other worker was started on the run."""
        return not lease.released


@dataclass(eq=False, kw_only=True)
class RayPlace:
    """A slot of a node.

    Attributes:
        cluster: the cluster of the node.
        node: the node.
        on_gpu: the share of a GPU that the slot has; 0 for a slot of a processor.
        command: the command that starts a worker there.
        refuse: the function that is given the reason why the node gets no more runs.
        rests_until: the time before which nothing is started there, by the monotonic clock.
    """

    cluster: RayCluster
    node: RayNode
    on_gpu: float
    command: tuple[str, ...]
    refuse: Callable[[RayNode, str], None]
    rests_until: float = 0.0
    _actor: Any = field(default=None, repr=False)
    beginning: Any = field(default=None, repr=False)
    _asked_at: float = 0.0
    _needed_at: float = 0.0
    _failed: int = 0
    _worker: RayWorker | None = field(default=None, repr=False)

    @property
    def ready(self) -> bool:
        """True if the actor has started: the cluster may be busy with other work for hours."""
        return self._actor is not None and self.beginning is None

    def make_ready(self) -> None:
        """Ask the cluster for its actor."""
        self._needed_at = time.monotonic()
        if self._actor is None:
            needs = {"num_gpus": self.on_gpu, "num_cpus": 0} if self.on_gpu else {"num_cpus": 1}
            kind = self.cluster.on(self.node, RaySlot, max_concurrency=_AT_ONCE, **needs)
            self._actor = kind.remote("cuda" if self.on_gpu else "cpu", 1, self.command, os.getcwd())
            self.beginning, self._asked_at = self._actor.__ray_ready__.remote(), self._needed_at

    def begun(self) -> None:
        """Note that the actor has started, or that it never will."""
        try:
            self.cluster.ray.get(self.beginning)
            self.beginning, self._failed = None, 0
        except self.cluster.ray.exceptions.RayError as error:
            self._lose()
            self._failed += 1
            if self._failed >= _TRIES:
                why = shortened(str(error).strip().rpartition("\n")[2])
                self.refuse(self.node, f"its actor failed to start {_TRIES} times ({why})")

    @property
    def waits_s(self) -> float:
        """Return the seconds that the place has been waiting for its actor to start."""
        return 0.0 if self.beginning is None else time.monotonic() - self._asked_at

    def start(self, run: Path, *, log: Path, options: Sequence[str] = ()) -> RayWorker:
        """Have the actor of this slot work on a run.

        Raises:
            OSError: when its folder cannot be read.
        """
        assert not options
        del log
        ray, actor = self.cluster.ray, self._actor
        if not (self.ready and self._lives()):
            self._lose()
            return RayWorker(ray, None, None, self._lose, code=ELSEWHERE)
        self._worker = RayWorker(ray, actor, actor.work.remote(str(run.absolute())), self._lose)
        return self._worker

    def _lose(self) -> None:
        """Give up the actor: its node is likely lost too, and no actor is started there until Ray tells so."""
        self._actor, self.beginning, self.rests_until = None, None, time.monotonic() + _REST_S

    def rest(self) -> None:
        """Let the actor end; what it has started ends with it."""
        if self._actor is not None:
            if self.ready:
                with contextlib.suppress(self.cluster.ray.exceptions.RayError):
                    self.cluster.ray.get(self._actor.rest.remote(), timeout=5)
            self.cluster.ray.kill(self._actor)
            self._actor, self.beginning = None, None

    def spare(self) -> None:
        """Let the actor end if nothing was to be done for a while: others may wait for its share of the cluster."""
        now = time.monotonic()
        if self._worker is not None and self._worker.code is None:
            self._needed_at = now
        elif now - self._needed_at > _IDLE_S:
            self.rest()

    def _lives(self) -> bool:
        """Return whether the actor may still live: its process has not ended, or Ray has not heard of it yet."""
        state = self.cluster.ray._private.state.actors(self._actor._actor_id.hex())
        return bool(state) and state.get("State") != "DEAD"


_POLL_EVERY_S = 2.0
_LATE_S, _BUSY_S = 5.0, 15.0
"""An actor that has not started after the first time waits for others; after the second, this is reported."""


class AllRayPlaces:
    """The slots of all usable nodes, current whenever they are iterated.

    Args:
        cluster: the cluster that Headway joined.
        directory: the results directory.
        device: the device: `auto`, `cpu` or `cuda`.
        workers: the largest number of workers.
        runs_per_gpu: the number of runs that share a GPU.
        uses_gpu: True if the runs include any that a GPU can compute.
        files: the size in bytes of each file that runs read, by path.
        command: the command that starts a worker.
        tell: the function that is given messages about the nodes.
    """

    def __init__(
        self,
        cluster: RayCluster,
        directory: Path,
        *,
        device: str = "auto",
        workers: int | None = None,
        runs_per_gpu: int = 1,
        uses_gpu: bool = True,
        files: Mapping[str, int] | None = None,
        command: tuple[str, ...] = WORKER,
        tell: Callable[[str], object] = lambda _: None,
    ):
        self._cluster, self._directory, self._workers, self._command = cluster, directory, workers, command
        self._device, self._runs_per_gpu, self._uses_gpu = device, runs_per_gpu, uses_gpu
        self._files, self._tell = files or {}, tell
        self._places: dict[str, list[RayPlace]] = {}
        self._refused: set[str] = set()
        self._looked_at = -_POLL_EVERY_S
        self._said_busy = self._said_how = False

    def __iter__(self) -> Iterator[RayPlace]:
        if time.monotonic() - self._looked_at >= _POLL_EVERY_S:
            self._look()
            self._looked_at = time.monotonic()
        places = self._all()
        self._hear([place for place in places if place.beginning is not None])
        now = time.monotonic()
        # Those that have begun, then those that may soon: where others have what a slot needs, another is asked for.
        order = sorted(
            (place for place in places if place.rests_until <= now),
            key=lambda place: 0 if place.ready else 2 if place.waits_s > _LATE_S else 1,
        )
        yield from order[: self._workers]

    def _all(self) -> list[RayPlace]:
        return [place for there in self._places.values() for place in there]

    def _hear(self, waiting: list[RayPlace]) -> None:
        """Learn which actors have started; report once that the cluster is busy."""
        if waiting:
            asked = {place.beginning: place for place in waiting}
            begun, _ = self._cluster.ray.wait(list(asked), num_returns=len(asked), timeout=0)
            for reference in begun:
                asked[reference].begun()
        late = sum(place.waits_s > _BUSY_S for place in waiting)
        if late and not self._said_busy:
            self._said_busy = True
            self._tell(
                f"Ray: the cluster is busy; {late} of {counted(len(self._all()), 'slot')} have not started within "
                f"{_BUSY_S:.0f} s, since other programs use the nodes. Runs go to the slots that have started"
            )

    def _look(self) -> None:
        """Learn which nodes exist, and ask new nodes for their resources."""
        first = not self._places
        for place in self._all():
            place.spare()
        nodes = {node.id: node for node in self._cluster.nodes()}
        for gone in self._places.keys() - nodes.keys():
            self._tell(f"Ray node {self._places.pop(gone)[0].node.host} ({gone[:8]}) is gone; its runs move elsewhere")
        new = tuple(node for id, node in nodes.items() if id not in self._places and id not in self._refused)
        usable = self._usable(new, first=first) if new else []
        for node in usable:
            self._places[node.id] = self._slots(node)
            if not first:
                self._tell(f"Ray node {node.host} ({node.id[:8]}) joined with {counted(node.cpus, 'core')}")
        if first and not any(self._places.values()):
            self._places.clear()
            if self._refused:
                raise UserError("ray: no node is left, for the reasons above; repair one, or start others")
            raise UserError(f"ray: no node has a slot for device {self._device}; give another, or start more nodes")

    def _usable(self, nodes: tuple[RayNode, ...], *, first: bool) -> list[RayNode]:
        """Return the nodes with the same Headway that see the results directory; refuse the others.

        Raises:
            UserError: when a node has another Headway at first, or no node sees the directory.
        """
        reports, blind = self._reported(nodes)
        for node, said in reports.items():
            if why := why_not(node, said):
                if first:
                    raise UserError(f"ray: {why}")
                self._refuse(node, why)
        same = [node for node in reports if node.id not in self._refused]
        usable = [node for node in same if node not in blind]
        if same and not usable and not self._places:
            hosts = listed([f"{node.host} ({blind[node]})" for node in same])
            raise UserError(
                f"ray: {self._directory} cannot be seen and written by {hosts}; give a directory in a folder that all "
                "nodes share"
            )
        if not self._said_how:
            self._said_how = True
            sees = "it sees" if len(usable) == 1 else "they see"
            self._tell(f"{counted(len(usable), 'Ray node')}: {sees} {self._directory}")
        for node in same:
            if node in blind:
                self._refuse(node, f"it cannot see and write {self._directory} ({blind[node]})")
        return usable

    def _reported(self, nodes: tuple[RayNode, ...]) -> tuple[Mapping[RayNode, Mapping[str, str]], dict[RayNode, str]]:
        """Return what nodes report of themselves, and why those that do not see the results directory do not."""
        token, blind = secrets.token_hex(8), {}
        probe = self._directory.absolute() / f".probe-{token}"
        try:
            probe.write_text(token)
            reports = self._cluster.looked(nodes, probe, token, self._files)
            for node, said in reports.items():
                wrote = Path(f"{probe}-{said['host']}-{said['pid']}").exists()
                if not (said["sees"] and said["writes"] and wrote):
                    blind[node] = said["why_not"] or "it is another directory there"
            return reports, blind
        finally:
            for file in self._directory.glob(f"{probe.name}*"):
                file.unlink(missing_ok=True)

    def _refuse(self, node: RayNode, why: str) -> None:
        """Start nothing more there."""
        self._refused.add(node.id)
        self._places.pop(node.id, None)
        self._tell(f"Ray node {node.host} ({node.id[:8]}) is not used: {why}")

    def _slots(self, node: RayNode) -> list[RayPlace]:
        wants_gpu = self._uses_gpu and (self._device.startswith("cuda") or (self._device == "auto" and node.gpus))
        n, share = (node.gpus * self._runs_per_gpu, 1 / self._runs_per_gpu) if wants_gpu else (node.cpus, 0.0)
        slot = partial(RayPlace, cluster=self._cluster, node=node, command=self._command, refuse=self._refuse)
        return [slot(on_gpu=share) for _ in range(n)]
