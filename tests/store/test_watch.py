"""Watching those who hold leases: by beats that change and the observer's own clock, whatever other clocks say."""

import contextlib
import json
import os
import signal
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from support import quadratic
from support.processes import FORK, forked, joined

from headway.errors import LeaseLost
from headway.execute.work import DONE, ELSEWHERE
from headway.store import lease as lease_files
from headway.store import watch as watching
from headway.store.lease import Lease, LeaseHeld, is_held
from headway.store.run import Run
from headway.store.watch import Watch, moved, take_patiently


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "lease"


@contextlib.contextmanager
def held_elsewhere(directory, shift_s=0):
    """While a process of another machine beats."""
    ready = FORK.Event()
    (other,) = forked(hold, [(directory, ready, "another machine", shift_s)])
    assert ready.wait(10)
    try:
        yield
    finally:
        other.kill()
        other.join()


def elsewhere(directory, **changes) -> None:
    """A lease that a process of another machine took, or its next beat."""
    directory.mkdir(exist_ok=True)
    holder = replace(lease_files.this_process(), machine="another machine", pid=1, **changes)
    (directory / "000001.json").write_text(json.dumps(asdict(holder)))


def look_for(watch, clock, directory, seconds, every=1.0) -> bool:
    """Look again and again; whether it is still held at the end."""
    held = watch.is_held(directory)
    until = clock.now + seconds
    while held and clock.now < until:
        clock.now += every
        held = watch.is_held(directory)
    return held


def test_a_silent_holder_elsewhere_is_given_up_after_a_minute_of_watching(directory):
    elsewhere(directory)
    clock = Clock()
    watch = Watch(clock)
    assert look_for(watch, clock, directory, 59)
    assert watch._seen[directory].silent_s == 59
    assert not look_for(watch, clock, directory, 3)
    assert not is_held(directory), "everybody sees that it was given up"
    Lease.take(directory).check()


def test_a_holder_that_beats_is_never_given_up_however_long_its_beats_take(directory):
    clock = Clock()
    watch = Watch(clock)
    for beat in range(20):
        elsewhere(directory, beat=beat)
        assert look_for(watch, clock, directory, 50)


@pytest.mark.parametrize("shift_s", [-86_400, 3_600])
def test_the_times_of_files_are_compared_with_no_clock(directory, shift_s):
    elsewhere(directory)
    os.utime(directory / "000001.json", (time.time() + shift_s,) * 2)
    clock = Clock()
    watch = Watch(clock)
    assert look_for(watch, clock, directory, 55)
    os.utime(directory / "000001.json", (time.time() + shift_s + 1,) * 2)  # a beat of one whose disk is full
    assert look_for(watch, clock, directory, 55)
    assert not look_for(watch, clock, directory, 10)


def test_an_observer_that_slept_has_seen_nothing_meanwhile(directory):
    elsewhere(directory)
    clock = Clock()
    watch = Watch(clock)
    assert watch.is_held(directory)
    clock.now += 10_000
    assert watch.is_held(directory)
    assert watch._seen[directory].silent_s == 5


def hold(directory, ready, machine, shift_s):
    """A process of a machine of its own, whose clock is wrong, and which stamps files by it."""
    real, now = os.replace, time.time

    def stamped(source, target):
        os.utime(source, (now() + shift_s,) * 2)
        real(source, target)

    lease_files._BEAT_S = 0.05
    lease_files.machine = lambda: machine
    time.time = lambda: now() + shift_s
    os.replace = stamped
    with Lease.take(directory):
        ready.set()
        signal.pause()


@pytest.mark.slow
@pytest.mark.parametrize("shift_s", [86_400, -86_400])
def test_hosts_whose_clocks_differ_agree_who_holds_a_run(directory, monkeypatch, shift_s):
    monkeypatch.setattr(lease_files, "STALE_S", 1.0)
    with held_elsewhere(directory, shift_s):
        watch, until = Watch(), time.monotonic() + 2.5
        while time.monotonic() < until:
            assert watch.is_held(directory)
            time.sleep(0.02)
    began = time.monotonic()
    quadratic.wait_until(lambda: not watch.is_held(directory), 30)
    assert time.monotonic() - began >= 0.5  # of a second from its last beat, which may be late itself
    Lease.take(directory).check()


def late(after_s):
    """Let this process see new files in folders of leases only a while after they were made, but for its own."""
    known, real, own, create = {}, os.listdir, set(), lease_files._create

    def created(path, holder):
        made = create(path, holder)
        if made:
            own.add(path.name)
        return made

    def listdir(path):
        now, names = time.monotonic(), real(path)
        if Path(path).name == "lease":
            return [name for name in names if name in own or now - known.setdefault(name, now) > after_s]
        return names

    lease_files._create = created
    lease_files.os.listdir = listdir


def own_in_turn(directory, counter, turns, after_s):
    late(after_s)
    done = 0
    while done < turns:
        try:
            lease = Lease.take(directory)
        except LeaseHeld:
            time.sleep(0.002)
            continue
        with lease:
            lease.check()
            value = int(counter.read_text())
            time.sleep(0.001)
            counter.write_text(str(value + 1))  # two owners at once would lose a count
            done += 1


@pytest.mark.parametrize(("turns", "late_s"), [(10, (0.0, 0.0, 0.0, 0.0)), (5, (0.0, 0.1, 0.2))])
def test_owners_in_turn_lose_no_update_though_they_see_new_files_late(tmp_path, turns, late_s):
    counter = tmp_path / "counter"
    counter.write_text("0")
    joined(forked(own_in_turn, [(tmp_path / "lease", counter, turns, after_s) for after_s in late_s]))
    assert int(counter.read_text()) == turns * len(late_s)


def work_late(run, code):
    late(0.3)
    code.put(quadratic.train_here(run))


def test_a_run_that_two_views_of_a_late_file_system_want_is_worked_on_once(tmp_path):
    run, code = quadratic.fresh_run(tmp_path / "results", steps=400), FORK.Queue()
    processes = forked(work_late, [(run, code)] * 4)
    codes = [code.get(timeout=60) for _ in processes]
    joined(processes)
    assert codes.count(DONE) + codes.count(ELSEWHERE) == 4
    assert DONE in codes
    assert Run.open(run.path).status == "done"
    Run.open(run.path).check()


def files_of(directory: Path) -> dict[Path, tuple[int, int]]:
    found = {path: path.stat() for path in directory.rglob("*") if path.is_file()}
    return {path: (stat.st_mtime_ns, stat.st_size) for path, stat in found.items()}


def test_a_holder_that_slept_and_was_given_up_writes_nothing_more(directory, monkeypatch):
    lease = Lease.take(directory)
    monkeypatch.setattr(lease_files, "machine", lambda: "another machine")
    clock = Clock()
    watch = Watch(clock)
    sight = lease_files.seen(directory)
    (directory / "000001.json").write_text(json.dumps(asdict(replace(sight.holder, machine="a third machine"))))
    assert not look_for(watch, clock, directory, 70)
    before = files_of(directory)
    for attempt in (lease.check, lease._beat, lease.check):
        with pytest.raises(LeaseLost):
            attempt()
    lease._ended.set()
    lease._thread.start()
    lease.__exit__(None, None, None)
    assert files_of(directory) == before


def test_a_holder_that_slept_learns_it_though_it_sees_nothing_of_what_happened(directory, monkeypatch):
    lease, awake_s = Lease.take(directory), lease_files._awake_s()
    assert lease_files.give_up(directory, lease_files.seen(directory))
    monkeypatch.setattr(lease_files.os, "listdir", lambda _: ["000001.json"])  # the view of before
    monkeypatch.setattr(lease_files, "_awake_s", lambda: awake_s + 61)
    with pytest.raises(LeaseLost, match="gave no sign of life"):
        lease.check()


def test_a_holder_that_slept_and_was_not_given_up_goes_on_under_a_new_number(directory, monkeypatch):
    lease, awake_s = Lease.take(directory), lease_files._awake_s()
    monkeypatch.setattr(lease_files, "_awake_s", lambda: awake_s + 61)
    lease.check()
    lease._beat()
    sight = lease_files.seen(directory)
    assert (sight.number, sight.holder.pid, sight.holder.released) == (2, os.getpid(), False)


def test_taking_patiently_waits_for_a_beat_elsewhere_and_else_gives_up(directory, monkeypatch):
    began = time.monotonic()
    with Lease.take(directory), pytest.raises(LeaseHeld, match=f"process {os.getpid()}"):
        take_patiently(directory)
    assert time.monotonic() - began < 1, "a process that lives here is waited for no longer"
    monkeypatch.setattr(lease_files, "STALE_S", 0.5)
    monkeypatch.setattr(watching, "_POLL_EVERY_S", 0.05)
    with held_elsewhere(directory), pytest.raises(LeaseHeld):
        take_patiently(directory)
    take_patiently(directory).check()


def test_one_look_for_a_second_tells_whose_beats_move_elsewhere(tmp_path):
    beating, silent, here = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    elsewhere(silent)
    with held_elsewhere(beating), Lease.take(here):
        assert moved([beating, silent, here, tmp_path / "none"], 1.0) == {beating: True, silent: False}
