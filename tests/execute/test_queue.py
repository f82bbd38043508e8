"""The queue: it knows neither items nor places; order, failures, losses, places that come and go."""

import random
from dataclasses import dataclass, field

import pytest
from support.faults import Cluster

from headway.execute.queue import Assignment, Queue


@dataclass
class Slow:
    """A worker that ends with a code when it is told."""

    code: int | None = None

    @property
    def ended(self) -> int | None:
        return self.code

    def ask_to_stop(self) -> None: ...

    def kill(self) -> None: ...

    def has(self, lease) -> bool:
        return True


@dataclass(eq=False)
class Anywhere:
    """A place that starts whatever it is given."""

    started: list[str] = field(default_factory=list)

    def start(self, run, *, log, options=()):
        raise AssertionError("the hands start workers")

    ready = True

    def make_ready(self) -> None:
        """Nothing: it is."""

    def rest(self) -> None: ...


@dataclass
class Notes:
    """Callbacks that note what they were asked; a code of 1 brings an item back."""

    taken: dict[str, Slow] = field(default_factory=dict)
    joined: dict[str, Slow] = field(default_factory=dict)
    impossible: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)

    def begin(self, item, place):
        if item in self.impossible:
            return None
        if item in self.joined:
            return Assignment(worker=self.joined[item], place=None)
        self.taken[item] = Slow()
        self.order.append(item)
        return Assignment(worker=self.taken[item], place=place)

    def has_settled(self, item, code):
        return code == 0


def test_the_longest_come_first_and_equal_ones_in_their_order():
    notes, places = Notes(), [Anywhere(), Anywhere()]
    queue = Queue({"a": 1.0, "b": 5.0, "c": 1.0, "d": 9.0}.items(), notes.begin, notes.has_settled)
    while queue.poll(places):
        for worker in notes.taken.values():
            worker.code = 0
    assert notes.order == ["d", "b", "a", "c"]
    assert not queue.poll(places)


def test_a_place_has_one_worker_at_a_time():
    notes, place = Notes(), Anywhere()
    queue = Queue({"a": 1.0, "b": 1.0}.items(), notes.begin, notes.has_settled)
    for _ in range(3):
        assert queue.poll([place])
    assert (notes.order, len(list(queue.workers()))) == (["a"], 1)
    notes.taken["a"].code = 0
    queue.poll([place])
    assert notes.order == ["a", "b"]


def test_what_does_not_settle_comes_back_in_its_place():
    notes, place = Notes(), Anywhere()
    queue = Queue({"long": 2.0, "short": 1.0}.items(), notes.begin, notes.has_settled)
    queue.poll([place])
    notes.taken["long"].code = 1
    queue.poll([place])
    assert notes.order == ["long", "long"]


def test_who_came_by_himself_fills_no_place_and_is_not_stopped():
    notes, place = Notes(joined={"theirs": Slow()}), Anywhere()
    queue = Queue({"theirs": 9.0, "mine": 1.0}.items(), notes.begin, notes.has_settled)
    queue.poll([place])
    assert notes.order == ["mine"]
    assert [item for item, _ in queue.workers()] == ["mine"]
    notes.joined["theirs"].code = 1  # given up: it is to go on here
    notes.taken["mine"].code = 0
    del notes.joined["theirs"]
    assert queue.poll([place])
    assert notes.order == ["mine", "theirs"]


def test_what_cannot_be_started_is_left_out_and_the_place_takes_the_next():
    notes, place = Notes(impossible={"a"}), Anywhere()
    queue = Queue({"a": 2.0, "b": 1.0}.items(), notes.begin, notes.has_settled)
    queue.poll([place])
    assert notes.order == ["b"]


def test_places_may_come_and_go():
    notes, first, second = Notes(), Anywhere(), Anywhere()
    queue = Queue({"a": 3.0, "b": 2.0, "c": 1.0}.items(), notes.begin, notes.has_settled)
    queue.poll([])
    assert notes.order == []
    queue.poll([first])
    queue.poll([first, second])
    assert notes.order == ["a", "b"]
    notes.taken["a"].code = 0
    queue.poll([second])
    assert notes.order == ["a", "b"], "the place of a is gone"


@pytest.mark.parametrize("seed", range(3))
def test_of_runs_that_fail_get_lost_and_come_back_each_settles_once_and_places_are_hardly_idle(seed):
    cluster = Cluster(n_slots=random.Random(seed).randrange(20, 60), n_runs=3_000, seed=seed)
    found = cluster.outcome()
    assert found.done + found.failed == 3_000
    assert found.failed > 20
    assert found.lost > 50
    assert found.idle_share < 0.05
    assert found.queue_s_per_run < 0.001


@dataclass(eq=False)
class Beginning(Anywhere):
    """A place that is ready some time after it was asked to be."""

    ready: bool = False
    asked: int = 0

    def make_ready(self) -> None:
        self.asked += 1


def test_only_a_place_that_is_ready_gets_an_item_and_no_more_are_asked_than_it_takes():
    notes, places = Notes(), [Beginning(), Beginning(), Beginning()]
    queue = Queue(
        {"a": 2.0, "b": 1.0, "c": 1.0}.items(),
        notes.begin,
        notes.has_settled,
        may_begin=lambda item: item != "c" or "a" in done,
    )
    done: set[str] = set()
    queue.poll(places)
    assert (notes.order, [place.asked for place in places]) == ([], [1, 1, 0])
    places[1].ready = True
    queue.poll(places)
    assert notes.order == ["a"]
    assert [place.asked for place in places] == [2, 1, 0], "the place before is still asked, for the other"
    places[0].ready = True
    queue.poll(places)
    assert notes.order == ["a", "b"]
    queue.poll(places)
    assert places[2].asked == 0, "what waits for another needs no place yet"
    done.add("a")
    queue.poll(places)
    assert places[2].asked == 1
