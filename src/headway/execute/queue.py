"""The queue of items: waiting, in work, or ended; and how far runs are, as values for a live table.

The queue knows neither what an item is, nor what a place is made of. A place starts a worker on an item, and a worker
tells that it has ended. Callbacks tell what became of an item. So a queue serves a simulation as well as run folders.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import Generic, TypeVar

from headway.errors import UserError
from headway.execute.places import Place, Worker
from headway.store.run import Run, Status

Item = TypeVar("Item", bound=Hashable)
_ASKED_AT_ONCE = 256
"""Places that are asked to become ready in a poll."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """A worker on an item, and the place that it fills; None for one that has come by itself and fills none."""

    worker: Worker
    place: Place | None


class Queue(Generic[Item]):
    """Items that are worked on, those with the most work first, until each has settled.

    Args:
        items: the items, each with its work, in any unit.
        begin: the function that starts a worker on an item, at this place if none is at it already. It returns None if
            nothing is left to do.
        has_settled: the function that is given an item whose worker has ended, and the exit code. It returns False if
            the item must be tried again.
        may_begin: the function that tells if an item no longer waits for others to settle.
    """

    def __init__(
        self,
        items: Iterable[tuple[Item, float]],
        begin: Callable[[Item, Place], Assignment | None],
        has_settled: Callable[[Item, int], bool],
        may_begin: Callable[[Item], bool] = lambda _: True,
    ):
        self._begin, self._has_settled, self._may_begin = begin, has_settled, may_begin
        self._work = dict(items)
        # The order in which they were given decides among equals, and comes back with an item that does.
        self._order = {item: number for number, item in enumerate(self._work)}
        self._waiting = [(-work, self._order[item], item) for item, work in self._work.items()]
        heapq.heapify(self._waiting)
        self._begun: dict[Item, Assignment] = {}
        self._busy: set[int] = set()
        """Places that are filled, by identity: equal ones are not the same."""

    def worker(self, item: Item) -> Worker | None:
        """Who works on an item."""
        begun = self._begun.get(item)
        return begun.worker if begun else None

    def workers(self) -> Iterator[tuple[Item, Worker]]:
        """Those that this queue has started, not those that came by themselves."""
        return ((item, begun.worker) for item, begun in list(self._begun.items()) if begun.place is not None)

    def poll(self, places: Iterable[Place]) -> bool:
        """Collect what has ended, start what can be started; whether anything is left.

        Args:
            places: the current places; there may be more or fewer than at the last poll.
        """
        for item, begun in list(self._begun.items()):
            if (code := begun.worker.ended) is None:
                continue
            del self._begun[item]
            self._busy.discard(id(begun.place))
            if not self._has_settled(item, code):
                heapq.heappush(self._waiting, (-self._work[item], self._order[item], item))
        if self._waiting:
            self._fill_all(places)
        return bool(self._waiting or self._begun)

    def _fill_all(self, places: Iterable[Place]) -> None:
        """Start waiting items at ready places, and get as many further places ready as items are left."""
        busy, wanted = self._busy, None
        for place in places:
            if id(place) in busy:
                continue
            if place.ready:
                if not self._fill(place):
                    return
                wanted = None if wanted is None else wanted - 1
                continue
            if wanted is None:
                # Items that wait for nothing but a place, as far as it matters for a poll.
                beginnable = (item for *_, item in self._waiting if self._may_begin(item))
                wanted = len(list(islice(beginnable, _ASKED_AT_ONCE)))
            if wanted > 0:
                place.make_ready()
                wanted -= 1

    def stopped(self) -> None:
        """Collect those that have ended when all were asked to; nothing comes back."""
        for item, worker in self.workers():
            if (code := worker.ended) is not None:
                self._has_settled(item, code)
        self._begun.clear()
        self._busy.clear()
        self._waiting.clear()

    def _fill(self, place: Place) -> bool:
        """Give a place the next item that needs one; whether there was one."""
        later = []
        try:
            while self._waiting:
                entry = heapq.heappop(self._waiting)
                item = entry[-1]
                if not self._may_begin(item):
                    later.append(entry)
                    continue
                begun = self._begin(item, place)
                if begun is None:
                    continue
                self._begun[item] = begun
                if begun.place is not None:
                    self._busy.add(id(begun.place))
                    return True
            return False
        finally:
            for entry in later:
                heapq.heappush(self._waiting, entry)


def seconds_of_all(left: Sequence[float], works: Sequence[bool], workers: int) -> float:
    """Return the seconds until all items end, if a free worker takes the longest item that waits.

    Args:
        left: the seconds that each item takes from here.
        works: True if a worker has the item already.
        workers: the number of workers.

    Examples:
        >>> seconds_of_all([4.0, 8.0, 8.0, 1.0], [True, True, False, False], workers=2)
        12.0
    """
    free = list(compress(left, works))
    free += [0.0] * max(workers - len(free), not free)
    heapq.heapify(free)
    for seconds in sorted(compress(left, (not at_work for at_work in works)), reverse=True):
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far one run is.

    `work_per_step` weighs its steps against those of other runs. `steps_per_s` is its recent rate, None when it is
    not running. `worker` is who works on it, where that is to be told, and `held_s` for how long. `folder` is its
    folder, which has its records. `worked_s` is how long a worker has had the run, from start-up to evaluation, and
    `from_step` the step at which the worker began.
    """

    name: str
    seed: int
    status: Status
    message: str
    step: int
    steps: int
    steps_per_s: float | None
    work_per_step: float
    worker: str = ""
    held_s: float | None = None
    folder: Path | None = None
    worked_s: float = 0.0
    from_step: int = 0

    @property
    def work(self) -> float:
        """The work from the step at which a worker began."""
        return self.work_per_step * (self.steps - self.from_step)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the last step, at the recent rate."""
        return (self.steps - self.step) / self.steps_per_s if self.steps_per_s else None


def work_per_step(run: Run) -> float:
    """Return the forward FLOPs of a training step, to weigh a run against other runs."""
    try:
        # A command's cost is not known: its runs weigh the same.
        return float(run.spec.budget.flops_per_example * run.spec.budget.batch_size) or 1.0
    except UserError:  # a damaged run; or its worker says what is wrong
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """How far all runs are, in the order in which they were given; `elapsed_s` since this process began with them."""

    runs: tuple[Progress, ...]
    workers: int
    elapsed_s: float

    def count(self, status: Status) -> int:
        """Runs of a status."""
        return sum(run.status == status for run in self.runs)

    @property
    def seconds_left(self) -> float | None:
        """About how long all of it takes from here, if what waits runs at the rate of what runs; None at first.

        Examples:
            >>> half = dict(message="", step=50, steps=100, work_per_step=1.0)
            >>> one = Progress(name="a", seed=0, status="running", steps_per_s=10.0, **half)
            >>> other = Progress(name="a", seed=1, status="waiting", steps_per_s=None, **half)
            >>> Snapshot(runs=(one, other), workers=1, elapsed_s=5.0).seconds_left
            10.0
        """
        ahead = [run for run in self.runs if run.status in ("waiting", "running")]
        running: Sequence[Progress] = [run for run in ahead if run.steps_per_s]
        done = [run for run in self.runs if run.status == "done" and run.worked_s and run.work]
        if not ahead:
            return 0.0
        if done:  # they have the seconds of start-up and evaluation, too
            pace = sum(run.worked_s for run in done) / sum(run.work for run in done)
            left = [max(0.0, pace * run.work - run.worked_s) for run in ahead]
        elif running:
            pace = len(running) / sum(run.work_per_step * (run.steps_per_s or 0.0) for run in running)
            left = [run.seconds_left or pace * run.work_per_step * (run.steps - run.step) for run in ahead]
        else:
            return None
        return seconds_of_all(left, [run.status == "running" for run in ahead], self.workers)
