"""Signals to every process of a tree, as schedulers send them: it is stored, and going on gives the same bits."""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
from faults import kills
from support import quadratic

from headway.icl import fused
from headway.store import checkpoint
from headway.store.directory import Store
from headway.store.lease import last_holder
from headway.store.run import Run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*the last line was cut short")]

WAYS = {"icl, native": slice(2, None), "icl, torch": slice(1), "tokens": slice(1, 2)}
"""The ways to stop that are tried: each in one experiment, since `kills.py` tries all of them by chance."""
EXPERIMENTS = {
    "icl, native": ("auto", lambda: kills.icl(1_000_000, 50_000)),
    "icl, torch": ("torch", lambda: kills.icl(1_000, 250)),
    "tokens": ("auto", lambda: kills.tokens(200)),
}


class Sweep:
    """`headway run` in a session of its own."""

    def __init__(self, folder, trainer):
        command = [sys.executable, "-m", "headway", "run", "experiment.yaml", "--out", "results", "--trainer", trainer]
        command += ["--workers", "2", "--device", "cpu", "--no-timing", "--no-figures"]
        with open(folder / "output.txt", "wb") as output:
            self.process = subprocess.Popen(command, cwd=folder, stderr=output, stdout=output, start_new_session=True)
        self.output = folder / "output.txt"

    @property
    def tree(self) -> list[int]:
        """Its processes, itself among them."""
        return [self.process.pid, *(child.pid for child in psutil.Process(self.process.pid).children(recursive=True))]


def steps(results) -> dict:
    """How far each run that is worked on is."""
    holders = {path: last_holder(path / "lease") for path in results.glob("runs/*/seed-*")}
    return {path: holder.step for path, holder in holders.items() if holder and not holder.released}


def go_on(results, begun) -> bool:
    """Whether both runs are beyond the first step since they went on: until then nothing is lost, and none is told."""
    reached = steps(results)
    return len(reached) == 2 and all(step > begun.get(path, 0) + 1 for path, step in reached.items())


def left_of(tree) -> list[int]:
    return [pid for pid in tree if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def prepared(tmp_path, laboratory) -> tuple[str, dict]:
    """Its trainer, and what runs that nobody disturbs leave."""
    if laboratory == "icl, native" and fused.available() is None:
        pytest.skip("the native code is not built")
    trainer, experiment = EXPERIMENTS[laboratory]
    (tmp_path / "experiment.yaml").write_text(experiment().dump())
    made = experiment()
    _, runs = Store.with_runs(tmp_path / "undisturbed", made, made.runs)
    worker = [sys.executable, "-m", "headway.execute.worker", "--device", "cpu", "--trainer", trainer]
    for run in runs:
        subprocess.run([*worker, str(run.path)], check=True, capture_output=True)
    return trainer, {run.name: kills.lasting(run) for run in runs}


@pytest.mark.parametrize("laboratory", EXPERIMENTS)
def test_every_way_to_stop_a_tree_stores_a_checkpoint_and_going_on_gives_the_same_bits(tmp_path, laboratory):
    trainer, whole = prepared(tmp_path, laboratory)
    results, chance, begun = tmp_path / "results", random.Random(laboratory), {}
    every = lambda number: lambda tree: [os.kill(pid, number) for pid in chance.sample(tree, len(tree))]  # noqa: E731
    ways = {
        "SIGTERM to every process": every(signal.SIGTERM),
        "Ctrl-C to the group of a terminal": lambda tree: os.killpg(tree[0], signal.SIGINT),
        "SIGTERM, then SIGHUP to every process": lambda tree: [every(signal.SIGTERM)(tree), every(signal.SIGHUP)(tree)],
        "SIGUSR1 to every process, as Slurm sends it before the limit": every(signal.SIGUSR1),
        "SIGUSR1 to the one that started them": lambda tree: os.kill(tree[0], signal.SIGUSR1),
        "SIGTERM to every group": lambda tree: [os.killpg(pid, signal.SIGTERM) for pid in tree],
    }
    for way, send in list(ways.items())[WAYS[laboratory]]:
        sweep = Sweep(tmp_path, trainer)
        quadratic.wait_until(lambda: go_on(results, begun) or sweep.process.poll() is not None)  # noqa: B023
        assert sweep.process.poll() is None, f"{way}: too fast to be stopped: {sweep.output.read_text()}"
        tree, reached, began = sweep.tree, steps(results), time.monotonic()
        send(tree)
        code = sweep.process.wait(60)
        took_s = time.monotonic() - began
        assert code in (130, -signal.SIGTERM, -signal.SIGHUP), f"{way}: {sweep.output.read_text()}"
        assert took_s < 20, f"{way} took {took_s:.1f} s"
        assert not left_of(tree), way
        for path, step in reached.items():
            now, stored = Run.open(path), checkpoint.load(path / "checkpoint")[0]
            assert stored is not None, f"{way}: {step}, {now.message}"
            assert stored.step >= step, f"{way}: {step}, {now.message}"
            if laboratory != "icl, native":  # whose runs would end before a lease tells that they went on
                begun[path] = stored.step
            assert now.status == "done" or re.match(r"stopped at step \d+ (by SIG|with)", now.message), way
    last = Sweep(tmp_path, trainer)
    assert last.process.wait(600) == 0, last.output.read_text()
    assert {run.name: kills.lasting(run) for run in Store.open(results).runs()} == whole


def test_results_that_are_removed_meanwhile_end_the_tree_with_a_sentence_and_are_not_made_again(tmp_path):
    trainer, experiment = EXPERIMENTS["icl, torch"]
    (tmp_path / "experiment.yaml").write_text(experiment().dump())
    sweep, results = Sweep(tmp_path, trainer), tmp_path / "results"
    quadratic.wait_until(lambda: len(steps(results)) == 2 and min(steps(results).values()) > 1)
    tree = sweep.tree
    shutil.rmtree(results, ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):  # a file may have come while it was emptied
        shutil.rmtree(results)
    assert sweep.process.wait(60) == 1
    said = "results was removed while its runs were trained; restore it, or run again to start over"
    assert said in " ".join(sweep.output.read_text().split())
    assert not results.exists()
    assert not left_of(tree)
