"""A process that works on one run after the other: the same bits, and a new one where the law of equal bits asks."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest
from support import quadratic

from headway.execute import work
from headway.execute.places import WORKER, LocalPlace, PersistentPlace, local_places
from headway.execute.sweep import run_all
from headway.icl import fused
from headway.store.directory import Store
from headway.store.environment import Slot
from headway.store.lease import Holder
from headway.store.run import Run

REAL = {
    "task": {"kind": "regression", "d_x": 3, "n_pairs": 8},
    "training": {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 16, "steps": 60},
    "evaluation": {"every": 20, "prompts_during": 100, "prompts": 500, "curve": {"prompts": 100, "longest": 20}},
    "probes": {"every": 10, "circuits": [1, 60]},
    "logging": {"every": 10},
    "controls": {},
}


def lasting_bits(run: Run) -> dict:
    found = quadratic.lasting(run)
    found["metrics"] = {k: v for k, v in found["metrics"].items() if not k.endswith(("_s", "_bytes"))}
    return found


def runs_of(directory, **document) -> list[Run]:
    of = quadratic.experiment(**{**REAL, **document})
    return list(Store.with_runs(directory, of, of.runs)[1])


def place_of(trainer: str) -> PersistentPlace:
    (place,) = local_places("cpu", workers=1, runs=1, command=(*WORKER, "--trainer", trainer))
    return PersistentPlace(place=place)


def worked_on(place, runs) -> list[int | None]:
    """The process that had each run, worked on one after the other."""
    pids = []
    for run in runs:
        worker = place.start(run.path, log=run.path / "log.txt")
        quadratic.wait_until(lambda: worker.ended is not None)  # noqa: B023
        assert worker.ended == 0, (run.path / "log.txt").read_text()
        pids.append(worker.served.process.pid)
    place.rest()
    return pids


@pytest.mark.slow
@pytest.mark.skipif(fused.available() is None, reason="the native code is not built")
def test_one_process_does_all_in_context_runs_with_the_bits_of_a_process_each(tmp_path):
    ones, others = runs_of(tmp_path / "one"), runs_of(tmp_path / "each")
    pids = worked_on(place_of("fused"), ones)
    assert len(set(pids)) == 1
    for _ in run_all(others, local_places("cpu", workers=1, runs=1, command=(*WORKER, "--trainer", "fused"))):
        pass
    assert [lasting_bits(run) for run in ones] == [lasting_bits(run) for run in others]


@pytest.mark.slow
def test_after_torch_was_used_the_process_begins_anew_under_its_number(tmp_path):
    runs = runs_of(tmp_path / "one", training={**REAL["training"], "steps": 20})[:2]
    assert len(set(worked_on(place_of("torch"), runs))) == 1, "a process replaces itself"
    alone = runs_of(tmp_path / "each", training={**REAL["training"], "steps": 20})[:2]
    for _ in run_all(alone, local_places("cpu", workers=1, runs=1, command=(*WORKER, "--trainer", "torch"))):
        pass
    assert [lasting_bits(run) for run in runs] == [lasting_bits(run) for run in alone]


class Replaced(Exception):
    """What stands for a process that was replaced."""


@pytest.fixture
def served(monkeypatch):
    """Serve a run and what is told after it; the exit code, and what was answered."""

    def serve(path, do, told=b"", needs_new_process=lambda _: False):
        heard, answers = os.pipe(), os.pipe()
        os.write(heard[1], told)
        os.close(heard[1])
        monkeypatch.setattr(work.os, "read", lambda _, n, read=os.read: read(heard[0], n))
        options = {"command": ["python", "-m", "worker"], "environment": {}}
        code = work.serve(path, do, answers=answers[1], needs_new_process=needs_new_process, **options)
        monkeypatch.undo()
        return code, os.read(answers[0], 100)

    return serve


@pytest.mark.parametrize(
    ("code", "torch", "other_threads", "replaced"),
    [
        (0, False, False, False),
        (75, False, False, False),
        (0, True, False, True),
        (1, False, False, True),
        (0, False, True, True),
    ],
    ids=["as it was", "another had it", "torch was used", "a run failed", "other threads"],
)
def test_when_a_process_may_go_on(tmp_path, monkeypatch, served, code, torch, other_threads, replaced):
    first, second, done = tmp_path / "seed-0", tmp_path / "seed-1", []
    second.mkdir()

    def replace_by(program, arguments, environment):
        raise Replaced(arguments)

    monkeypatch.setattr(work.os, "execve", replace_by)
    monkeypatch.setattr(work, "_print_to", lambda log: None)
    others = {name: module for name, module in sys.modules.items() if name != "torch"}
    monkeypatch.setattr(sys, "modules", others | ({"torch": None} if torch else {}))
    expected = pytest.raises(Replaced, match="seed-1") if replaced else contextlib.nullcontext()
    with expected:
        served(first, lambda path: done.append(path) or code, os.fsencode(second) + b"\0", lambda _: other_threads)
    assert done == [first, second][: 1 if replaced else 2]


@pytest.mark.parametrize(
    ("code", "released", "answer"),
    [
        (0, True, b"0\n"),
        (74, True, b"74\n"),
        (74, False, b"74 ends\n"),
        (0, False, b"0 ends\n"),
        (130, True, b"130 ends\n"),
    ],
)
def test_a_process_that_cannot_release_a_run_says_that_it_ends(tmp_path, monkeypatch, served, code, released, answer):
    monkeypatch.setattr(work, "release_left", lambda: released)
    assert served(tmp_path, lambda _: code) == (code, answer)


DOUBLE = Path(__file__).parents[1] / "support" / "lasting_double.py"


def double(tmp_path) -> tuple[PersistentPlace, list[Path]]:
    """A place whose process only pretends, and some folders."""
    folders = [tmp_path / f"seed-{n}" for n in range(3)]
    for folder in folders:
        folder.mkdir()
    slot = Slot(device="cpu", threads=1)
    return PersistentPlace(place=LocalPlace(slot=slot, command=(sys.executable, str(DOUBLE)))), folders


def test_answers_are_those_of_each_run_and_a_dead_process_is_followed_by_another(tmp_path):
    place, folders = double(tmp_path)
    pids = []
    for folder, code in zip(folders, (0, 3, -signal.SIGKILL), strict=True):
        (folder / "code").write_text(str(code))
        worker = place.start(folder, log=folder / "log.txt")
        quadratic.wait_until(lambda: worker.ended is not None)  # noqa: B023
        assert worker.ended == code
        assert worker.has(Holder(host="", machine="", pid=worker.served.process.pid, started=0.0))
        pids.append(worker.served.process.pid)
    assert pids[0] == pids[1] == pids[2]
    again = place.start(folders[0], log=folders[0] / "log.txt")
    quadratic.wait_until(lambda: again.ended is not None)
    assert again.ended == 0
    assert again.served.process.pid != pids[0]
    place.rest()
    assert again.served.process.poll() is not None, "it ends when nothing is to be done"


@pytest.mark.parametrize("said", ["74 ends", "0"], ids=["it says that it ends", "it was killed between two runs"])
def test_one_that_has_ended_is_followed_by_another(tmp_path, said):
    place, folders = double(tmp_path)
    (folders[0] / "code").write_text(said)
    (folders[1] / "code").write_text("0")
    worker = place.start(folders[0], log=folders[0] / "log.txt")
    quadratic.wait_until(lambda: worker.ended is not None)
    assert worker.ended == int(said.split()[0])
    if said == "0":
        worker.served.process.kill()
        worker.served.process.wait()
    assert worker.served.process.poll() is not None, "what it held is free"
    again = place.start(folders[1], log=folders[1] / "log.txt")
    quadratic.wait_until(lambda: again.ended is not None)
    assert again.ended == 0
    place.rest()
