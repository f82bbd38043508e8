"""Leases: a run folder has one owner at a time, alive and writing."""

import itertools
import json
import os
import time
from dataclasses import asdict, replace
from unittest.mock import Mock

import pytest
from support import quadratic
from support.processes import FORK, forked, joined

from headway.errors import LeaseLost, ResultsError
from headway.store import lease as lease_files
from headway.store.lease import Holder, Lease, LeaseHeld, is_held, last_holder
from headway.store.watch import Watch


def ended_process() -> int:
    (process,) = forked(lambda: None, [()])
    process.join()
    return process.pid


def written(directory, number: int = 1, **changes) -> Holder:
    """A lease as another process would have left it."""
    directory.mkdir(exist_ok=True)
    holder = replace(lease_files.this_process(), **changes)
    (directory / f"{number:06d}.json").write_text(json.dumps(asdict(holder)))
    return holder


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "lease"


def test_one_owner_at_a_time_and_the_next_after_release(directory):
    with Lease.take(directory) as first:
        first.check()
        assert is_held(directory)
        with pytest.raises(LeaseHeld, match=f"process {os.getpid()}"):
            Lease.take(directory)
    assert not is_held(directory)
    with Lease.take(directory) as second:
        second.check()
        with pytest.raises(LeaseLost):
            first.check()
    assert sorted(path.name for path in directory.iterdir()) == ["000001.json", "000002.json"]


def test_a_dead_owner_on_this_machine_frees_it_at_once(directory):
    written(directory, pid=ended_process())
    assert not is_held(directory)
    Lease.take(directory).check()


@pytest.mark.parametrize("changes", [{"born": 1}, {"born": 0, "started": 1.0}], ids=["by ticks", "one of before"])
def test_a_later_process_with_the_same_number_is_not_the_owner(directory, changes):
    written(directory, **changes)
    Lease.take(directory).check()


def test_an_owner_that_is_not_yet_collected_by_its_parent_is_dead(directory):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    written(directory, pid=pid)
    assert not is_held(directory)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("changes", [{"machine": "another machine", "pid": 1}, {}], ids=["elsewhere", "here"])
def test_one_look_tells_nothing_of_a_holder_that_may_live(directory, changes):
    written(directory, **changes)
    then = time.time() - 10 * 86_400
    os.utime(directory / "000001.json", (then, then))
    assert is_held(directory), "how old its file says that it is has no meaning"
    with pytest.raises(LeaseHeld):
        Lease.take(directory)


@pytest.mark.parametrize("content", ["", "[" * 60_000], ids=["just being written", "lists in one another"])
def test_a_lease_that_cannot_be_read_is_held(directory, content):
    directory.mkdir()
    (directory / "000001.json").write_text(content)
    assert is_held(directory)
    assert last_holder(directory) is None


@pytest.mark.parametrize("name", ["9" * 250, "9" * 10, "1", "0000002", "٠٠٠٠٠٢", "-00001", "000002.000003"])
def test_a_file_with_another_name_is_no_lease(directory, name):
    directory.mkdir()
    (directory / f"{name}.json").write_text("{}")
    assert not is_held(directory)
    Lease.take(directory).check()
    assert (directory / "000001.json").is_file()


def test_the_last_number_of_a_lease_is_told_and_not_waited_for(directory):
    directory.mkdir()
    (directory / "999999999.json").write_text("{}")
    with pytest.raises(ResultsError, match=r"holds 999999999.json, a number that .* remove .*lease when no process"):
        lease_files.give_up(directory, lease_files.seen(directory))


NO_VALUES = {"pid": -1, "step": 10**400, "started": 10**400, "steps_per_s": float("nan"), "held_s": 1e300, "beat": -1}


@pytest.mark.parametrize("key", NO_VALUES)
def test_what_no_process_writes_is_not_believed_and_is_given_up_after_a_minute(directory, key):
    written(directory, **{key: NO_VALUES[key]})
    assert last_holder(directory) is None
    seconds = itertools.count()
    watch = Watch(lambda: float(next(seconds)))
    while watch.is_held(directory):
        assert next(seconds) < 200
    Lease.take(directory).check()


def test_what_a_later_headway_says_in_a_lease_is_read_past(directory):
    written(directory, steps_per_s=1e-320)
    path = directory / "000001.json"
    path.write_text(path.read_text().replace("{", '{"colour": "green", ', 1))
    holder = last_holder(directory)
    assert (holder.pid, holder.steps_per_s) == (os.getpid(), 0.0), "a rate that has faded is none"


def test_the_owner_that_was_given_up_finds_out(directory):
    lost = Lease.take(directory)
    assert lease_files.give_up(directory, lease_files.seen(directory))
    taken = Lease.take(directory)
    with pytest.raises(LeaseLost, match=f"process {os.getpid()} .* took over .* 60 s"):
        lost.check()
    with pytest.raises(LeaseLost):
        lost._beat()
    taken.check()


def test_a_former_name_is_not_free_for_one_who_sees_the_newer_ones_late(directory, monkeypatch):
    for _ in range(3):
        with Lease.take(directory):
            pass
    monkeypatch.setattr(lease_files.os, "listdir", lambda _: ["000001.json"])
    with pytest.raises(LeaseHeld, match="faster"):
        Lease.take(directory)


def test_of_former_leases_the_last_stay_and_the_others_are_swept(directory):
    for _ in range(40):
        with Lease.take(directory):
            pass
    assert sorted(path.name for path in directory.iterdir()) == [f"{n:06d}.json" for n in range(9, 41)]


def test_where_there_are_no_hard_links_names_are_taken_one_by_one_too(directory, monkeypatch):
    monkeypatch.setattr(lease_files.os, "link", Mock(side_effect=OSError(95, "Operation not supported")))
    with Lease.take(directory) as lease:
        lease.check()
        with pytest.raises(LeaseHeld):
            Lease.take(directory)
        assert not lease_files.follow(directory, 1, lease_files.this_process())
    assert [path.name for path in directory.iterdir()] == ["000001.json"]


def test_a_link_whose_answer_got_lost_is_known_as_ones_own(directory, monkeypatch):
    link = os.link

    def twice(*paths):
        link(*paths)
        link(*paths)  # as a network file system that had no answer tries again

    monkeypatch.setattr(lease_files.os, "link", twice)
    Lease.take(directory).check()


def test_the_start_of_a_process_does_not_move_with_the_clock(directory, monkeypatch):
    with Lease.take(directory):
        monkeypatch.setattr("psutil.Process.create_time", lambda self: 0.0)  # as after the clock was set by years
        assert is_held(directory)


def test_the_owner_finds_out_when_the_folder_is_removed(directory):
    lease = Lease.take(directory)
    for path in directory.iterdir():
        path.unlink()
    with pytest.raises(LeaseLost, match="was removed"):
        lease.check()


def test_beats_tell_how_far_the_run_is(directory, monkeypatch):
    monkeypatch.setattr(lease_files, "_BEAT_S", 0.02)
    with Lease.take(directory) as lease:
        lease.progress(120, 34.5)
        quadratic.wait_until(lambda: is_held(directory) and last_holder(directory).step == 120)
        holder = last_holder(directory)
        assert (holder.step, holder.steps_per_s, holder.pid) == (120, 34.5, os.getpid())
        quadratic.wait_until(lambda: last_holder(directory).held_s > 0)
        assert last_holder(directory).beat > holder.beat


def test_on_a_full_disk_the_owner_still_beats(directory, monkeypatch):
    lease = Lease.take(directory)
    os.utime(directory / "000001.json", (0, 0))
    before = lease_files.seen(directory).mark

    monkeypatch.setattr(os, "replace", full)
    lease._beat()
    monkeypatch.undo()
    assert lease_files.seen(directory).mark != before
    assert [path.suffix for path in directory.iterdir()] == [".json"]


def test_a_lease_that_cannot_be_written_is_not_taken(directory, monkeypatch):
    monkeypatch.setattr(lease_files.json, "dumps", full)
    with pytest.raises(OSError, match="No space left"):
        Lease.take(directory)
    monkeypatch.undo()
    Lease.take(directory).check()


def contend(directory, start, all_tried, winners):
    start.wait()
    try:
        lease = Lease.take(directory)
        lease.check()
        winners.put(os.getpid())
    except LeaseHeld:
        lease = None
    all_tried.wait()  # a winner that ended earlier would free it
    if lease:
        lease.check()


@pytest.mark.slow
@pytest.mark.parametrize("dead", [True, False], ids=["dead owner", "first owner"])
def test_of_many_contenders_one_wins(tmp_path, dead):
    contenders, rounds = 8, 6
    for number in range(rounds):
        directory = tmp_path / str(number)
        if dead:
            written(directory, number=number + 1, pid=ended_process())
        start, all_tried, winners = FORK.Barrier(contenders), FORK.Barrier(contenders), FORK.Queue()
        processes = forked(contend, [(directory, start, all_tried, winners)] * contenders)
        winner = winners.get(timeout=120)
        joined(processes)
        assert winners.empty()
        assert last_holder(directory).pid == winner


def full(*_, **__):
    raise OSError(28, "No space left on device")


def test_on_a_full_disk_a_lease_is_released_in_its_place(directory, monkeypatch):
    with monkeypatch.context() as disk, Lease.take(directory):
        disk.setattr(lease_files, "write_new", full)
    assert last_holder(directory).released
    assert not is_held(directory)
    assert lease_files.release_left()
    Lease.take(directory).check()


def test_what_cannot_be_released_is_left_and_released_later(directory, monkeypatch):
    with monkeypatch.context() as disk:
        with Lease.take(directory):
            disk.setattr(lease_files, "write_new", full)
            disk.setattr(lease_files.os, "pwrite", full)
        assert is_held(directory), "this process lives"
        assert not lease_files.release_left()
        with pytest.raises(OSError, match="No space"):
            Lease.take(directory)
    assert lease_files.release_left()
    assert not is_held(directory)


def test_a_full_disk_is_no_reason_to_wait_for_one_who_is_silent(directory, monkeypatch):
    written(directory, machine="another machine")
    monkeypatch.setattr(lease_files, "write_new", full)
    with pytest.raises(OSError, match="No space"):
        lease_files.give_up(directory, lease_files.seen(directory))
