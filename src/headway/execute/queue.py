"""The queue of items: waiting, in work, or ended.

It knows neither what an item is, nor what a place is made of. A place starts a worker on an item, and a worker tells
that it has ended. Callbacks tell what became of an item. So a queue serves a simulation as well as run folders.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from typing import Generic, TypeVar

from headway.execute.places import Place, Worker

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
            if (code := begun.worker.ended) is not None:
                self._collect(item, code)
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
            wanted = self._beginnable() if wanted is None else wanted
            if wanted > 0:
                place.make_ready()
                wanted -= 1

    def _beginnable(self) -> int:
        """How many items wait for nothing but a place, as far as it matters for a poll."""
        return sum(1 for _ in islice((item for *_, item in self._waiting if self._may_begin(item)), _ASKED_AT_ONCE))

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

    def _collect(self, item: Item, code: int) -> None:
        place = self._begun.pop(item).place
        if place is not None:
            self._busy.remove(id(place))
        if not self._has_settled(item, code):
            heapq.heappush(self._waiting, (-self._work[item], self._order[item], item))


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
