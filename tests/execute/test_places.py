"""Places: the one of this machine, and a queue that works with any other."""

import contextlib
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support import quadratic
from support.processes import ends

from headway.execute.places import LocalPlace
from headway.execute.sweep import run_all
from headway.execute.work import ELSEWHERE
from headway.store.directory import Store
from headway.store.environment import Slot, cores
from headway.store.lease import Holder
from headway.store.run import Run
from headway.store.storage import DISK_FULL


@dataclass
class SimulatedWorker:
    """Ends after so many looks, and does the work of the run at that moment, or dies with a code of its own."""

    run: Path
    looks: int
    code: int | None = None
    asked: list[str] = field(default_factory=list)
    stubborn: bool = False

    @property
    def ended(self) -> int | None:
        if self.looks > 0:
            self.looks -= 1
            return None
        if self.code is None:
            self.code = quadratic.train_here(Run.open(self.run))
        return self.code

    def ask_to_stop(self) -> None:
        self.asked.append("asked")
        if not self.stubborn:
            self.looks, self.code = 0, 130

    def kill(self) -> None:
        self.asked.append("killed")
        self.looks, self.code = 0, -signal.SIGKILL

    def has(self, lease: Holder) -> bool:
        return lease.pid == os.getpid()


@dataclass
class SimulatedPlace:
    """A place that notes what it was asked for."""

    looks: int = 1
    codes: list[int | None] = field(default_factory=list)
    stubborn: bool = False
    started: list[SimulatedWorker] = field(default_factory=list)

    def start(self, run: Path, *, log: Path, options=()) -> SimulatedWorker:
        assert log == run / "log.txt"
        assert not any(worker.looks for worker in self.started), "a run at a time"
        code = self.codes.pop(0) if self.codes else None
        self.started.append(SimulatedWorker(run, self.looks, code, stubborn=self.stubborn))
        return self.started[-1]

    ready = True

    def make_ready(self) -> None:
        """Nothing: it is."""

    def rest(self) -> None:
        self.rested = True


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr("headway.execute.sweep._POLL_EVERY_S", 0.001)
    monkeypatch.setattr("headway.execute.sweep._ASKED_FOR_S", (0.1, 0.1))


def runs_of(directory) -> list[Run]:
    of = quadratic.experiment()
    return list(Store.with_runs(directory, of, of.runs)[1])


def last_of(snapshots):
    *_, last = snapshots
    return last


def test_places_share_the_runs_one_at_a_time(tmp_path):
    runs, places = runs_of(tmp_path / "results"), [SimulatedPlace(), SimulatedPlace(looks=3)]
    last = last_of(run_all(runs, places))
    assert [run.status for run in last.runs] == ["done"] * 4
    assert (last.workers, last.seconds_left) == (2, 0.0)
    worked_on = [[worker.run for worker in place.started] for place in places]
    assert sorted(path for paths in worked_on for path in paths) == sorted(run.path for run in runs)
    assert all(worked_on)


def test_what_a_place_says_of_a_worker_that_died_is_noted(tmp_path):
    runs, place = runs_of(tmp_path / "results"), SimulatedPlace(codes=[-signal.SIGSEGV, DISK_FULL, 7, None])
    last = last_of(run_all(runs, [place]))
    assert [run.status for run in last.runs] == ["failed", "failed", "failed", "done"]
    said = [run.message for run in last.runs]
    assert "killed by SIGSEGV" in said[0]
    assert "the disk is full" in said[1]
    assert "exit code 7" in said[2]


def test_a_run_that_is_worked_on_elsewhere_waits_until_it_is_free(tmp_path):
    runs, place = runs_of(tmp_path / "results")[:1], SimulatedPlace(codes=[ELSEWHERE])
    assert last_of(run_all(runs, [place])).count("done") == 1
    assert len(place.started) == 2


def test_closing_asks_workers_to_stop_and_then_kills_them(tmp_path):
    runs = runs_of(tmp_path / "results")
    places = [SimulatedPlace(looks=10**9), SimulatedPlace(looks=10**9, stubborn=True)]
    with contextlib.closing(run_all(runs, places)) as snapshots:
        next(snapshots)
    assert [place.started[0].asked for place in places] == [["asked"], ["asked", "asked", "killed"]]
    by_path = {run.path: run for run in Store.open(tmp_path / "results").runs()}
    ended = [by_path[place.started[0].run] for place in places]
    assert [run.status for run in ended] == ["interrupted", "interrupted"]
    assert "stopped before it began" in ended[0].message
    assert "killed by SIGKILL" in ended[1].message


def test_a_local_worker_gets_its_slot_its_environment_and_its_log(tmp_path, monkeypatch):
    slot = Slot(device="cpu", threads=3, environment={"SEEN": "1"})
    code = "import os, sys; print(sys.argv[1:], os.environ['SEEN'], os.getpgid(0) == os.getpid())"
    place = LocalPlace(slot=slot, command=(sys.executable, "-c", code))
    worker = place.start(tmp_path, log=tmp_path / "log.txt", options=("--time", "x"))
    quadratic.wait_until(lambda: worker.ended is not None)
    assert worker.ended == 0
    words = [str(tmp_path), "--device", "cpu", "--threads", "3", "--parent", str(os.getpid()), "--time", "x"]
    assert (tmp_path / "log.txt").read_text() == f"{words} 1 True\n"
    worker.ask_to_stop()
    worker.kill()
    assert place.whole.slot.threads == cores()


def test_killing_a_local_worker_ends_what_it_started(tmp_path):
    code = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
    place = LocalPlace(slot=Slot(device="cpu", threads=1), command=(sys.executable, "-c", code))
    worker = place.start(tmp_path, log=tmp_path / "log.txt")
    quadratic.wait_until(lambda: (tmp_path / "log.txt").read_text())
    child = int((tmp_path / "log.txt").read_text())
    worker.kill()
    quadratic.wait_until(lambda: worker.ended is not None)
    assert worker.ended == -signal.SIGKILL
    ends(child)
