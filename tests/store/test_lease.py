"""Leases: a run folder has one owner at a time, alive and writing."""

import json
import os
import signal
import time
from dataclasses import asdict, replace

import pytest
from support import quadratic
from support.processes import FORK, forked, joined

from headway.errors import LeaseLost, ResultsError
from headway.store import lease as lease_files
from headway.store import lease as lease_module
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


def test_a_lease_that_is_just_being_written_is_held(directory):
    directory.mkdir()
    (directory / "000001.json").touch()
    assert is_held(directory)


def test_a_pipe_in_the_place_of_a_lease_holds_nobody_up(directory):
    directory.mkdir()
    os.mkfifo(directory / "000001.json")
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


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": -1},
        {"step": 10**400},
        {"started": 10**400},
        {"steps_per_s": float("nan")},
        {"steps_per_s": float("inf")},
        {"held_s": 1e300},
        {"beat": -1},
    ],
    ids=lambda changes: f"{next(iter(changes))} {str(next(iter(changes.values())))[:8]}",
)
def test_what_no_process_writes_is_not_believed_and_is_given_up_after_a_minute(directory, changes):
    written(directory, **changes)
    assert last_holder(directory) is None
    now = [0.0]
    watch = Watch(lambda: now[0])
    while watch.is_held(directory):
        now[0] += 1.0
        assert now[0] < 100.0
    Lease.take(directory).check()


def test_a_rate_that_has_faded_is_none(directory):
    written(directory, steps_per_s=1e-320)
    assert last_holder(directory).steps_per_s == 0.0


def test_lists_that_stand_deep_in_one_another_are_no_lease(directory):
    directory.mkdir()
    (directory / "000001.json").write_text("[" * 60_000)
    assert is_held(directory)
    assert last_holder(directory) is None


def test_what_a_later_headway_says_in_a_lease_is_read_past(directory):
    written(directory)
    path = directory / "000001.json"
    path.write_text(path.read_text().replace("{", '{"colour": "green", ', 1))
    assert last_holder(directory).pid == os.getpid()


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
    def none(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lease_files.os, "link", none)
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
    monkeypatch.setattr(lease_module, "_BEAT_S", 0.02)
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
    contenders, rounds = 8, 12
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


def own_until_killed(directory, ready):
    with Lease.take(directory):
        ready.set()
        signal.pause()


def test_a_killed_owner_is_succeeded_at_once(directory):
    ready = FORK.Event()
    (process,) = forked(own_until_killed, [(directory, ready)])
    assert ready.wait(10)
    with pytest.raises(LeaseHeld):
        Lease.take(directory)
    process.kill()
    process.join()
    Lease.take(directory).check()


def full(*_, **__):
    raise OSError(28, "No space left on device")


def test_on_a_full_disk_a_lease_is_released_in_its_place(directory, monkeypatch):
    with monkeypatch.context() as disk, Lease.take(directory):
        disk.setattr(lease_module, "write_new", full)
    assert last_holder(directory).released
    assert not is_held(directory)
    assert lease_module.release_left()
    Lease.take(directory).check()


def test_what_cannot_be_released_is_left_and_released_later(directory, monkeypatch):
    with monkeypatch.context() as disk:
        with Lease.take(directory):
            disk.setattr(lease_module, "write_new", full)
            disk.setattr(lease_module.os, "pwrite", full)
        assert is_held(directory), "this process lives"
        assert not lease_module.release_left()
        with pytest.raises(OSError, match="No space"):
            Lease.take(directory)
    assert lease_module.release_left()
    assert not is_held(directory)


def test_one_that_is_left_hinders_nobody_in_its_process_when_there_is_space(directory, monkeypatch):
    with monkeypatch.context() as disk, Lease.take(directory):
        disk.setattr(lease_module, "write_new", full)
        disk.setattr(lease_module.os, "pwrite", full)
    Lease.take(directory).check()
    assert lease_module.release_left()


def test_a_full_disk_is_no_reason_to_wait_for_one_who_is_silent(directory, monkeypatch):
    written(directory, machine="another machine")
    monkeypatch.setattr(lease_files, "write_new", full)
    with pytest.raises(OSError, match="No space"):
        lease_files.give_up(directory, lease_files.seen(directory))
