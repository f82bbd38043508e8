"""Runs: a slot of a Ray cluster as a place: its actor, which begins when the cluster has room for it, and its work."""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import shortened
from headway.runs.lease_files import Holder
from headway.runs.places import LOST, WORKER
from headway.runs.ray_cluster import RayCluster, RayNode
from headway.runs.ray_copies import CopyWorker
from headway.runs.ray_slot import RaySlot
from headway.runs.work import ELSEWHERE

_REST_S = 15.0
_IDLE_S = 10.0
"""An actor with nothing to do for so long gives its share of the cluster back."""
_TRIES = 3
_AT_ONCE = 4
"""Calls that an actor hears at once: one works on a run while others ask it to stop."""


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
        """Its worker's exit code, or LOST when its node is gone; see `headway.runs.places.Worker`."""
        if self.code is None and self.ray.wait([self.reference], timeout=0)[0]:
            try:
                self.code = self.ray.get(self.reference)
            except self.ray.exceptions.RayError:
                self.code = LOST
                self.lost()
        return self.code

    def ask_to_stop(self) -> None:
        """Ask it to store where it is."""
        if self.ended is None:
            self.actor.ask_to_stop.remote()

    def kill(self) -> None:
        """End it."""
        if self.ended is None:
            self.actor.kill.remote()

    def has(self, lease: Holder) -> bool:
        """Whether a lease is held: nobody else was started on the run."""
        return not lease.released


@dataclass(eq=False, kw_only=True)
class RayPlace:
    """A slot of a node.

    Attributes:
        cluster: that has it.
        node: where.
        on_gpu: whether it is a share of a GPU, and which.
        command: what starts a worker there.
        copies: whether it works on copies.
        refuse: told why nothing more is to be started at its node.
        rests_until: nothing is started there before, by the monotonic clock.
    """

    cluster: RayCluster
    node: RayNode
    on_gpu: float
    command: tuple[str, ...]
    copies: bool
    refuse: Callable[[RayNode, str], None]
    rests_until: float = 0.0
    _actor: Any = field(default=None, repr=False)
    beginning: Any = field(default=None, repr=False)
    _asked_at: float = 0.0
    _needed_at: float = 0.0
    _failed: int = 0
    _worker: RayWorker | CopyWorker | None = field(default=None, repr=False)

    @property
    def ready(self) -> bool:
        """Whether its actor has begun: the cluster may be busy with other things for hours."""
        return self._actor is not None and self.beginning is None

    def make_ready(self) -> None:
        """Ask the cluster for its actor."""
        self._needed_at = time.monotonic()
        if self._actor is None:
            needs = {"num_gpus": self.on_gpu, "num_cpus": 0} if self.on_gpu else {"num_cpus": 1}
            kind = self.cluster.on(self.node, RaySlot, max_concurrency=_AT_ONCE, **needs)
            lasts = self.command[: len(WORKER)] == WORKER
            self._actor = kind.remote("cuda" if self.on_gpu else "cpu", 1, self.command, lasts, os.getcwd())
            self.beginning, self._asked_at = self._actor.__ray_ready__.remote(), self._needed_at

    def begun(self) -> None:
        """Its actor has begun, or never will."""
        try:
            self.cluster.ray.get(self.beginning)
            self.beginning, self._failed = None, 0
        except self.cluster.ray.exceptions.RayError as error:
            self._lose()
            self._failed += 1
            if self._failed >= _TRIES:
                why = shortened(str(error).strip().rpartition("\n")[2])
                self.refuse(self.node, f"its actor did not begin, {_TRIES} times ({why})")

    @property
    def waits_s(self) -> float:
        """For how long it has been waiting for its actor to begin."""
        return 0.0 if self.beginning is None else time.monotonic() - self._asked_at

    def start(self, run: Path, *, log: Path, options: Sequence[str] = ()) -> RayWorker | CopyWorker:
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
        if self.copies:
            self._worker = CopyWorker.begun(ray, actor, run, lambda why: self.refuse(self.node, why), self._lose)
        else:
            self._worker = RayWorker(ray, actor, actor.work.remote(str(run.absolute())), self._lose)
        return self._worker

    def _lose(self) -> None:
        """Its actor is gone: likely the node too, which is told later; until then nothing is to be lost there again."""
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
        """Whether the actor has not ended with its process; one that was not heard of yet may live."""
        state = self.cluster.ray._private.state.actors(self._actor._actor_id.hex())
        return bool(state) and state.get("State") != "DEAD"
