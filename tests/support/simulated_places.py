"""A cluster that takes no time: slots of nodes that are lost and come back, runs of 1 to 100 s that fail and go on."""

import random
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headway.execute.places import LOST
from headway.execute.queue import Assignment, Queue

LOOK_EVERY_S = 0.25


@dataclass(eq=False, slots=True)
class SimulatedRun:
    """What is left of a run; its checkpoints come every 10 s."""

    left_s: float
    fails: bool


@dataclass(eq=False, slots=True)
class WorkerOfNode:
    """Works on a run from a moment on, until it is through or its node is lost."""

    cluster: "Cluster"
    run: SimulatedRun
    node: "Node"
    since: float
    generation: int

    @property
    def ended(self) -> int | None:
        now = self.cluster.now
        if self.node.generation != self.generation:
            worked = max(0.0, self.node.lost_at - self.since)
            self.cluster.busy_s += worked
            self.run.left_s -= worked - worked % 10.0
            return LOST
        if now - self.since < self.run.left_s:
            return None
        self.cluster.busy_s += self.run.left_s
        return 1 if self.run.fails else 0

    def ask_to_stop(self) -> None: ...

    def kill(self) -> None: ...

    def has(self, lease: Any) -> bool:
        return True


@dataclass(eq=False, slots=True)
class Node:
    """Some slots that are lost together, and come back a minute later."""

    slots: tuple["SlotOfNode", ...] = ()
    generation: int = 0
    lost_at: float = -1e9


@dataclass(eq=False, slots=True)
class SlotOfNode:
    """A place of a simulated node."""

    node: Node

    def start(self, run: Any, *, log: Any, options: Any = ()) -> WorkerOfNode:
        raise AssertionError("the cluster starts workers")

    ready = True

    def make_ready(self) -> None:
        """Nothing: it is."""

    def rest(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of all runs, and what it took."""

    done: int
    failed: int
    lost: int
    idle_share: float
    queue_s_per_run: float
    simulated_s: float
    peak_bytes: int


class Cluster:
    """Nodes of ten slots, and the hands of a queue on them."""

    def __init__(self, *, n_slots: int, n_runs: int, seed: int = 0):
        self._chance = random.Random(seed)
        self.nodes = [Node() for _ in range(n_slots // 10)]
        for node in self.nodes:
            node.slots = tuple(SlotOfNode(node) for _ in range(10))
        lengths = [self._chance.uniform(1.0, 100.0) for _ in range(n_runs)]
        self.runs = [SimulatedRun(length, self._chance.random() < 0.02) for length in lengths]
        self.now = self.busy_s = 0.0
        self.done = self.failed = self.lost = 0

    def begin(self, item: int, place: SlotOfNode) -> Assignment:
        worker = WorkerOfNode(self, self.runs[item], place.node, self.now, place.node.generation)
        return Assignment(worker=worker, place=place)

    def has_settled(self, item: int, code: int) -> bool:
        self.done += code == 0
        self.failed += code == 1
        self.lost += code == LOST
        return code != LOST

    def places(self) -> Iterator[SlotOfNode]:
        for node in self.nodes:
            if self.now - node.lost_at > 60.0:
                yield from node.slots

    def outcome(self, *, memory: bool = False) -> Outcome:
        """Go through all of it."""
        if memory:
            tracemalloc.start()
        began = time.thread_time()
        queue = Queue(((number, run.left_s) for number, run in enumerate(self.runs)), self)
        own_s, there_s = time.thread_time() - began, 0.0
        while True:
            began = time.thread_time()
            is_left = queue.look(self.places())
            own_s += time.thread_time() - began
            if not is_left:
                break
            there_s += LOOK_EVERY_S * sum(1 for _ in self.places())
            self.now += LOOK_EVERY_S
            if self._chance.random() < 0.01:
                node = self._chance.choice(self.nodes)
                node.generation, node.lost_at = node.generation + 1, self.now
        peak = tracemalloc.get_traced_memory()[1] if memory else 0
        tracemalloc.stop()
        return Outcome(
            done=self.done,
            failed=self.failed,
            lost=self.lost,
            idle_share=1 - self.busy_s / there_s,
            queue_s_per_run=own_s / len(self.runs),
            simulated_s=self.now,
            peak_bytes=peak,
        )
