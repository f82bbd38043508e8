"""The queue: it knows neither items nor places; order, failures, losses, places that come and go."""

import random
from dataclasses import dataclass, field
from unittest.mock import Mock

import pytest
from support.faults import Cluster

from headway.execute.queue import Assignment, Queue


def a_place(**how) -> Mock:
    return Mock(**{"ready": True, **how})


@dataclass
class Notes:
    """Callbacks that note what they were asked; a code of 1 brings an item back."""

    taken: dict[str, Mock] = field(default_factory=dict)
    joined: dict[str, Mock] = field(default_factory=dict)
    impossible: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)

    def begin(self, item, place):
        if item in self.impossible:
            return None
        if item in self.joined:
            return Assignment(worker=self.joined[item], place=None)
        self.taken[item] = Mock(ended=None)
        self.order.append(item)
        return Assignment(worker=self.taken[item], place=place)

    def has_settled(self, item, code):
        return code == 0


def begun(notes=None, **lengths: float) -> tuple[Notes, Queue]:
    notes = notes or Notes()
    return notes, Queue(lengths.items(), notes.begin, notes.has_settled)


def test_the_longest_come_first_and_equal_ones_in_their_order():
    (notes, queue), places = begun(a=1.0, b=5.0, c=1.0, d=9.0), [a_place(), a_place()]
    while queue.poll(places):
        for worker in notes.taken.values():
            worker.ended = 0
    assert notes.order == ["d", "b", "a", "c"]
    assert not queue.poll(places)


def test_a_place_has_one_worker_at_a_time():
    (notes, queue), place = begun(a=1.0, b=1.0), a_place()
    for _ in range(3):
        assert queue.poll([place])
    assert (notes.order, len(list(queue.workers()))) == (["a"], 1)
    notes.taken["a"].ended = 0
    queue.poll([place])
    assert notes.order == ["a", "b"]


def test_what_does_not_settle_comes_back_in_its_place():
    (notes, queue), place = begun(long=2.0, short=1.0), a_place()
    queue.poll([place])
    notes.taken["long"].ended = 1
    queue.poll([place])
    assert notes.order == ["long", "long"]


def test_who_came_by_himself_fills_no_place_and_is_not_stopped():
    (notes, queue), place = begun(Notes(joined={"theirs": Mock(ended=None)}), theirs=9.0, mine=1.0), a_place()
    queue.poll([place])
    assert notes.order == ["mine"]
    assert [item for item, _ in queue.workers()] == ["mine"]
    notes.joined["theirs"].ended = 1  # given up: it is to go on here
    notes.taken["mine"].ended = 0
    del notes.joined["theirs"]
    assert queue.poll([place])
    assert notes.order == ["mine", "theirs"]


def test_what_cannot_be_started_is_left_out_and_the_place_takes_the_next():
    notes, queue = begun(Notes(impossible={"a"}), a=2.0, b=1.0)
    queue.poll([a_place()])
    assert notes.order == ["b"]


def test_places_may_come_and_go():
    (notes, queue), first, second = begun(a=3.0, b=2.0, c=1.0), a_place(), a_place()
    queue.poll([])
    assert notes.order == []
    queue.poll([first])
    queue.poll([first, second])
    assert notes.order == ["a", "b"]
    notes.taken["a"].ended = 0
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


def test_only_a_place_that_is_ready_gets_an_item_and_no_more_are_asked_than_it_takes():
    notes, places, done = Notes(), [a_place(ready=False), a_place(ready=False), a_place(ready=False)], set()
    lengths, may_begin = {"a": 2.0, "b": 1.0, "c": 1.0}, lambda item: item != "c" or "a" in done
    queue = Queue(lengths.items(), notes.begin, notes.has_settled, may_begin=may_begin)
    queue.poll(places)
    assert (notes.order, [place.make_ready.call_count for place in places]) == ([], [1, 1, 0])
    places[1].ready = True
    queue.poll(places)
    assert notes.order == ["a"]
    assert [place.make_ready.call_count for place in places] == [2, 1, 0], (
        "the place before is still asked, for the other"
    )
    places[0].ready = True
    queue.poll(places)
    assert notes.order == ["a", "b"]
    queue.poll(places)
    assert places[2].make_ready.call_count == 0, "what waits for another needs no place yet"
    done.add("a")
    queue.poll(places)
    assert places[2].make_ready.call_count == 1
