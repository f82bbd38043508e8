"""Sweeps that are killed at random moments and gone on with; none may lose a bit or a line, or leave an orphan.

    python tools/faults/kills.py --kills 1000 [--seconds 3600] [--seed 0]

A round is a directory of a few small runs, of one laboratory, that are worked on by two workers, and half of the time
by a second driver with two more. Whatever works on it is killed at random moments and started again until all is done:
`kill -9` of a worker, of the process that started them, or of all at once, or SIGTERM, SIGINT or SIGHUP to every
process of the tree; the second driver is killed too, or goes on to its end. What was recorded is then compared with
that of a directory that nobody disturbed.

All processes are forked from one that has loaded everything, since loading takes longer than a whole sweep; apart
from that they are what `headway run` starts, and only the report is left out. Checkpoints come every 50 ms, so that
many kills meet one.
"""

import argparse
import contextlib
import ctypes
import faulthandler
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from headway.execute import worker

if __name__ == "__main__":  # as a worker does, before anything that reads it is imported
    worker.set_up_process(1)

import psutil
from support import small_text

import headway.api
import headway.execute.places
import headway.execute.stop
import headway.execute.sweep
import headway.execute.work
import headway.store.lease
from headway import api
from headway.adaptive.until import goal_of
from headway.config.experiment import Experiment
from headway.config.load import resolve
from headway.execute.places import LocalPlace, WorkerOptions
from headway.execute.sweep import ExecutionOptions
from headway.stats.results import write
from headway.store import checkpoint, verify
from headway.store.directory import Store
from headway.store.lease import last_holder
from headway.store.run import Run
from headway.train.loop import TrainerChoice

KINDS = ("kill -9 a worker", "kill -9 the parent", "kill -9 all", "SIGTERM to the tree", "SIGINT or SIGHUP to the tree")
ENDS_WITHIN_S = 15.0
"""Seconds after which a process that was to end is an orphan, or deaf."""

_ICL = {
    "task": {"kind": "regression", "d_x": 3, "n_pairs": 8},
    "model": {"family": "icl", "n_heads": 1},
    "evaluation": {"every": 700, "prompts_during": 50, "prompts": 200, "curve": None},
    "probes": {"every": 500, "circuits": [1, 500]},
    "arms": {"one": {}, "two": {"model": {"n_heads": 2}}},
    "baseline": "one",
    "seeds": 1,
}


def icl(steps: int, every: int) -> Experiment:
    training = {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 16, "steps": steps}
    return resolve({"name": "kills", **_ICL, "training": training, "logging": {"every": every}})


def tokens(steps: int) -> Experiment:
    training = {**small_text.MUON, "batch_size": 4, "grad_accumulation": 2, "warmup_steps": 5, "steps": steps}
    return small_text.experiment(
        model={**small_text.CONTENT["model"], "dropout": 0.1},
        training={**training, "drophead": {"start": 0.3, "end": 0.1}},
        evaluation={"every": 25, "sequences_during": 4, "sequences": 8},
        probes={"every": 30, "diversity": True, "patterns": True},
        samples={"tokens": 10},
        logging={"every": 10},
    )


def stacks(steps: int) -> Experiment:
    changed = {
        "name": "stacks",
        "model": {"family": "icl-stack", "n_layers": 1, "n_heads": 2},
        "training": {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 16, "steps": steps},
        "evaluation": {"every": 20, "prompts": 200, "curve": None},
        "probes": {"circuits": [1, 40]},
        "logging": {"every": 5},
        "arms": {"one": {}, "two": {"model": {"n_layers": 2}}},
    }
    return resolve(_ICL | changed)


def parity(steps: int, seeds: int = 1) -> Experiment:
    return resolve(
        {
            "name": "bits",
            "task": {"kind": "parity", "n_bits": 2},
            "model": {"family": "gpt-2", "d_model": 8, "n_layers": 1, "n_heads": 1},
            "training": {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 4, "steps": steps},
            "evaluation": {"every": 20},
            "samples": None,
            "logging": {"every": 10},
            "arms": {"one": {}, "two": {"model": {"n_heads": 2}}},
            "baseline": "one",
            "seeds": seeds,
        }
    )


def starts(steps: int) -> Experiment:
    """Runs that are initialised from others: pruned, trained on, and regrown from what was pruned."""
    prune = {"by": "taylor", "keep": 0.5, "sequences": 8}
    return small_text.experiment(
        arms={
            "dense": {},
            "small": {"init_from": {"arm": "dense", "prune": prune}, "training": {"steps": 0}},
            "on": {"init_from": {"arm": "dense", "step": steps // 2, "prune": {**prune, "by": "random"}}},
            "regrown": {"init_from": {"arm": "on", "regrow": True}, "training": {"steps": 20}},
        },
        training={**small_text.CONTENT["training"], "steps": steps},
        logging={"every": 10},
        samples=None,
        baseline="dense",
    )


@dataclass(frozen=True, kw_only=True)
class Laboratory:
    """What is worked on, about a second long, and how: what `headway run` is asked for."""

    experiment: Callable[[], Experiment]
    trainer: TrainerChoice = "auto"
    together: str = "1"
    goal: dict[str, Any] = field(default_factory=dict)


LABORATORIES = {
    "icl, native": Laboratory(experiment=lambda: icl(60_000, 500), trainer="fused"),
    "icl, torch": Laboratory(experiment=lambda: icl(500, 20), trainer="torch"),
    "icl, stacks": Laboratory(experiment=lambda: stacks(120)),
    "tokens": Laboratory(experiment=lambda: tokens(80)),
    "known answers": Laboratory(experiment=lambda: parity(300)),
    "together": Laboratory(experiment=lambda: parity(150, seeds=3), together="4"),
    "starts": Laboratory(experiment=lambda: starts(40)),
    "plan": Laboratory(experiment=lambda: icl(8_000, 500), trainer="fused", goal={"until": "50%", "at_most": 4}),
}


@dataclass(kw_only=True)
class Found:
    """What a number of kills did."""

    kills: Counter[tuple[str, str]] = field(default_factory=Counter)
    rounds: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def problem(self, laboratory: str, what: str, where: str) -> None:
        """Something that must not happen."""
        self.counts[laboratory, what] += 1
        self.problems.append(f"{laboratory}: {what}: {where}")


_LOADED = (
    "scipy.stats",
    "torch._dynamo",
    "headway.train.regression_torch",
    "headway.train.lm.study",
    "headway.icl.fused",
    "headway.stats.results",
    "headway.stats.regression",
    "headway.stats.lm",
)

PROBLEMS = ("differing bits", "lost lines", "lost steps", "orphans", "deaf", "other")


class Process:
    """A forked process, as far as a place knows `subprocess.Popen`; with `told`, it hears of more on its input."""

    _told: ClassVar[list[Any]] = []
    """Where others hear of runs: a copy that stays open in a later process would keep them waiting for more."""

    def __init__(self, work: Callable[[], int], log: int, *, told: bool):
        theirs, ours = os.pipe() if told else (-1, -1)

        def begun() -> int:
            if told:
                os.dup2(theirs, 0)
            for other in self._told:
                other.close()
            return work()

        self.stdin = os.fdopen(ours, "wb") if told else None
        if told:
            self._told.append(self.stdin)
        self._code: int | None = None
        self.pid = _forked(begun, log, group=True)
        if told:
            os.close(theirs)

    def poll(self) -> int | None:
        """Its exit code; None while it works."""
        if self._code is None:
            with contextlib.suppress(ChildProcessError):
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def wait(self, timeout: float = 60.0) -> int:
        """Wait for its end."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("worker", timeout)
            time.sleep(0.005)
        return code


def arguments(place: LocalPlace, run: Path, options: Sequence[str], answers: int | None = None) -> list[str]:
    """What a worker of this place reads after `python -m headway.execute.worker`."""
    own = WorkerOptions(device=place.slot.device, threads=place.slot.threads, answers=answers, parent=os.getpid())
    return [*place.command[3:], str(run.absolute()), *own.to_args(), *options]


def process(
    place: LocalPlace,
    run: Path,
    log: Path,
    options: Sequence[str] = (),
    *,
    answers: int | None = None,
) -> Process:
    """As `LocalPlace.process`, forked."""
    command = arguments(place, run, options, answers)
    with open(log, "ab") as output:
        return Process(lambda: worker.main(command), output.fileno(), told=answers is not None)


def _forked(work: Callable[[], int], output: int | None = None, *, group: bool = False, session: bool = False) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        if group:
            os.setpgid(0, 0)
        if session:
            os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        faulthandler.register(signal.SIGUSR2, all_threads=True)
        if output is not None:
            os.dup2(output, 1)
            os.dup2(output, 2)
        code = work()
    except KeyboardInterrupt:
        code = 130
    except BaseException as error:  # noqa: BLE001 - it must not go on in the copy
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)


def _sweep(directory: Path, name: str) -> int:
    """What `headway run` does, but for the report."""
    laboratory = LABORATORIES[name]
    headway.execute.places.LocalPlace.process = process  # type: ignore[method-assign,assignment]
    headway.api.finish = lambda store, **_: write(store)
    if laboratory.trainer == "fused":
        sys.modules.pop("torch", None)  # which this laboratory never loads: its processes go on with the next run
    else:
        headway.execute.sweep.lasting = tuple  # type: ignore[assignment]
    nothing = {"until": None, "at_most": None, "seeds": None}
    api.carry_out(
        laboratory.experiment(),
        directory,
        where=ExecutionOptions(workers=2, trainer=laboratory.trainer, together=laboratory.together, device="cpu"),
        timing=False,
        figures=False,
        goal=goal_of(**{**nothing, **laboratory.goal}) if laboratory.goal else None,
        warn=lambda _: None,
        tell=lambda _: None,
        watch=partial(deque, maxlen=0),
    )
    return 0


def lasting(run: Run) -> dict[str, Any]:
    """What must be the same in two runs of one content: all but times, memory and where it was computed."""
    run = Run.open(run.path)
    kept = lambda record: {key: value for key, value in record.items() if not key.endswith(verify.PASSING)}  # noqa: E731
    found = checkpoint.load(run.path / "checkpoint")[0]
    return {
        "status": run.status,
        "message": run.message,
        "metrics": kept(run.metrics),
        "records": [kept(record) for record in run.records()],
        "samples": run.samples(),
        "state": {name: value.tobytes() for name, value in found.state.items()} if found else {},
        "heads": {path.name: path.read_bytes() for path in (run.path / "heads").glob("*")},
        "curves": run.curves(),
    }


def interim(directory: Path) -> dict[str, Any]:
    """What a plan stored, without its times."""
    stored = {path.name: json.loads(path.read_bytes()) for path in (directory / "looks").glob("*.json")}
    return {name: {k: v for k, v in kept.items() if k not in ("made", "digest")} for name, kept in stored.items()}


class Killer:
    """Kills sweeps of one laboratory."""

    def __init__(self, laboratory: str, folder: Path, chance: random.Random, found: Found):
        self.laboratory, self._folder, self._chance, self._found = laboratory, folder, chance, found
        self._kills, self._has_failed = 0, False
        began = time.monotonic()
        self._whole = self._undisturbed(folder / "undisturbed")
        self._interim = interim(folder / "undisturbed")
        self._takes_s = time.monotonic() - began
        self._n_steps = max(one["records"][-1]["step"] for one in self._whole.values())

    def _undisturbed(self, directory: Path) -> dict[str, dict[str, Any]]:
        pid = _forked(lambda: _sweep(directory, self.laboratory), session=True)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code == 0, f"{self.laboratory}: a sweep that nobody disturbed ended with {code}"
        return {_name(run): lasting(run) for run in Store.open(directory).runs()}

    def round(self, until: float, most: int) -> int:
        """Kill one directory's sweep until it is done; how many kills that took."""
        self._found.rounds[self.laboratory] += 1
        directory = self._folder / f"round-{self._found.rounds[self.laboratory]}"
        self._kills, wanted, before = 0, self._chance.randrange(2, 12), len(self._found.problems)
        self._has_failed = False
        while self._kills < min(wanted, most) and time.monotonic() < until:
            if not self._killed(directory):
                break
            self._kills += 1
        code = self._finished(directory)
        self._compare(directory, code)
        if len(self._found.problems) == before:
            shutil.rmtree(directory)
        return self._kills

    def _killed(self, directory: Path) -> bool:
        """Start the sweep and kill it at a random moment, unless it is done before."""
        pid = self._begin(directory)
        second = self._begin(directory) if self._chance.random() < 0.5 else None
        if not self._moment_has_come(pid, directory):
            self._end(second, directory)
            return False
        kind = self._chance.choice(KINDS)
        workers = [other for other in _session(pid) if other != pid]
        if kind == KINDS[0] and not workers:
            kind = KINDS[1]
        steps = _steps(directory, workers) if "tree" in kind else {}
        self._send(kind, pid, workers)
        self._has_failed |= kind == KINDS[0]
        self._found.kills[self.laboratory, kind] += 1
        self._see_the_end(kind, pid, directory)
        self._end(second, directory)
        for path, step in steps.items():
            now = checkpoint.load(path / "checkpoint")[0]
            if step and (now is None or now.step < step):
                where = f"{path} was at step {step} before {kind}, now {now and now.step}: {Run.open(path).message}"
                self._found.problem(self.laboratory, "lost steps", where)
        return True

    def _begin(self, directory: Path) -> int:
        """The process of a driver, in a session of its own."""
        with open(self._folder / "output.txt", "ab") as output:
            return _forked(lambda: _sweep(directory, self.laboratory), output.fileno(), session=True)

    def _end(self, driver: int | None, directory: Path) -> None:
        """Kill a second driver with all that it has started, or let it go on to its end."""
        if driver is None:
            return
        if self._chance.random() < 0.5 and not _ended(driver):
            self._send(KINDS[2], driver, [other for other in _session(driver) if other != driver])
            self._found.kills[self.laboratory, KINDS[2]] += 1
            self._kills += 1
            self._see_the_end(KINDS[2], driver, directory)
        else:
            self._see_the_end(KINDS[0], driver, directory)

    def _moment_has_come(self, pid: int, directory: Path) -> bool:
        """Wait for a random time, or for a random step of a run; False if all is done before."""
        by_time, share = self._chance.random() < 0.5, self._chance.random()
        deadline = time.monotonic() + (1.1 * share * self._takes_s if by_time else 60.0)
        while time.monotonic() < deadline:
            if _ended(pid):
                return False
            if not by_time and any(at >= share * self._n_steps for at in _steps(directory, _session(pid)).values()):
                break
            time.sleep(0.003)
        return not _ended(pid)

    def _send(self, kind: str, pid: int, workers: list[int]) -> None:
        tree = [pid, *workers]
        self._chance.shuffle(tree)
        if kind == KINDS[0]:
            targets, number = [self._chance.choice(workers)], signal.SIGKILL
        elif kind == KINDS[1]:
            targets, number = [pid], signal.SIGKILL
        elif kind == KINDS[2]:
            targets, number = tree, signal.SIGKILL
        elif kind == KINDS[3]:
            targets, number = tree, signal.SIGTERM
        else:
            targets, number = tree, self._chance.choice((signal.SIGINT, signal.SIGHUP))
        for target in targets:
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, number)

    def _see_the_end(self, kind: str, pid: int, directory: Path) -> None:
        """Everything must end; after a worker's death, the others go on to their own."""
        within_s = ENDS_WITHIN_S + (20 * self._takes_s if kind == KINDS[0] else 0.0)
        until = time.monotonic() + within_s
        while (left := _session(pid)) and time.monotonic() < until:
            _ended(*left)
            time.sleep(0.005)
        for process in left:
            what = "deaf" if process == pid else "orphans"
            self._found.problem(self.laboratory, what, f"{process} after {kind}, {directory}: {_states(directory)}")
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGUSR2)  # writes to the output what it waits for
                time.sleep(0.5)
                os.kill(process, signal.SIGKILL)
        _ended(pid, *left)

    def _finished(self, directory: Path) -> int:
        """Go on until it is done; a run that was killed is tried once more each time."""
        code = -1
        for _ in range(2):
            pid = _forked(lambda: _sweep(directory, self.laboratory), session=True)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if code == 0:
                break
        return code

    def _compare(self, directory: Path, code: int) -> None:
        found = {_name(run): lasting(run) for run in Store.open(directory).runs()}
        if code or found.keys() != self._whole.keys():
            self._found.problem(self.laboratory, "other", f"{directory} ended with {code}, runs {sorted(found)}")
        # A run whose worker was killed alone has failed, and neither a look nor a round waits for a failed run.
        if not self._has_failed and interim(directory) != self._interim:
            self._found.problem(self.laboratory, "other", f"{directory}: interim analyses found something else")
        for name, whole in self._whole.items():
            now = found.get(name)
            if now is None or now == whole:
                continue
            steps = [[record["step"] for record in one["records"]] for one in (now, whole)]
            lost = steps[0] != steps[1] or len(now["samples"]) != len(whole["samples"])
            other = [key for key in whole if now[key] != whole[key]]
            what = "lost lines" if lost else "differing bits"
            self._found.problem(self.laboratory, what, f"{directory} {name} {other}")


def _states(directory: Path) -> dict[str, Any]:
    """What each run says, and who has it."""
    found = {}
    for path in directory.glob("runs/*/seed-*"):
        holder = last_holder(path / "lease")
        of_lease = (holder.pid, holder.released, holder.step, psutil.pid_exists(holder.pid)) if holder else None
        found["/".join(path.parts[-2:])] = (Run.open(path).status, Run.open(path).message, of_lease)
    return found


def _name(run: Run) -> str:
    return f"{run.name}/{run.seed}"


def _steps(directory: Path, workers: Sequence[int]) -> dict[Path, int]:
    """The step that each run has told of that one of these processes works on."""
    found = {path: last_holder(path / "lease") for path in directory.glob("runs/*/seed-*")}
    return {path: holder.step for path, holder in found.items() if holder and holder.pid in workers}


def _ended(*pids: int) -> bool:
    """Whether the first of some processes has ended; those that are our children are collected."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return not psutil.pid_exists(pids[0]) or _is_zombie(pids[0])


def _is_zombie(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == leader and not _is_zombie(pid):
                found.append(pid)
    return found


@contextlib.contextmanager
def _hurried() -> Iterator[None]:
    """Checkpoints, beats and looks come often; orphans come to this process, which collects them."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    hurried = [
        (headway.execute.work, "CHECKPOINT_EVERY_S", 0.05),
        (headway.store.lease, "_BEAT_S", 0.03),
        (headway.execute.sweep, "_POLL_EVERY_S", 0.03),
        (headway.execute.stop, "_POLL_EVERY_S", 0.05),
    ]
    former = [(module, name, getattr(module, name)) for module, name, _ in hurried]
    for module, name, value in hurried:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in former:
            setattr(module, name, value)


def kill(n: int, *, seconds: float, seed: int = 0, laboratories: Sequence[str] = tuple(LABORATORIES)) -> Found:
    """Kill so many times, in turns over the laboratories, but for no longer than some seconds."""
    for module in _LOADED:  # here, once; nothing is computed before the forks
        import_module(module)
    found, chance = Found(), random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="headway-kills-"))
    os.environ["HEADWAY_CACHE"] = str(folder / "cache")
    with _hurried():
        killers = []
        for number, laboratory in enumerate(laboratories):
            (folder / str(number)).mkdir()
            killers.append(Killer(laboratory, folder / str(number), chance, found))
        done, until = 0, time.monotonic() + seconds
        while done < n and time.monotonic() < until:
            for killer in killers:
                done += killer.round(until, n - done)
    if not found.problems:  # otherwise it can be looked at
        shutil.rmtree(folder)
    return found


def table(found: Found) -> str:
    """Kills by kind and laboratory, and what they did."""
    laboratories = list(LABORATORIES)
    rows = [("", *laboratories, "all")]
    for kind in KINDS:
        counts = [found.kills[laboratory, kind] for laboratory in laboratories]
        rows.append((kind, *map(str, counts), str(sum(counts))))
    totals = [sum(found.kills[laboratory, kind] for kind in KINDS) for laboratory in laboratories]
    rows.append(("kills", *map(str, totals), str(sum(totals))))
    rounds = [found.rounds[laboratory] for laboratory in laboratories]
    rows.append(("sweeps gone on with to their end", *map(str, rounds), str(sum(rounds))))
    for what in PROBLEMS:
        counts = [found.counts[laboratory, what] for laboratory in laboratories]
        rows.append((what, *map(str, counts), str(sum(counts))))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def main(arguments: Sequence[str] | None = None) -> int:
    """Kill, and print a table; 1 if anything was found."""
    parser = argparse.ArgumentParser(description="Kill sweeps and go on with them.")
    parser.add_argument("--kills", "--n", type=int, default=1000, dest="kills", help="how many")
    parser.add_argument("--seconds", type=float, default=7200.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--laboratories", nargs="+", choices=list(LABORATORIES), default=list(LABORATORIES))
    asked = parser.parse_args(arguments)
    found = kill(asked.kills, seconds=asked.seconds, seed=asked.seed, laboratories=asked.laboratories)
    print(table(found))
    total, minutes = found.kills.total(), sum(os.times()[:4]) / 60
    print(f"\n{total} kills in {minutes:.1f} minutes of processor: {total / minutes:.1f} a minute")
    for problem in found.problems[:50]:
        print(problem)
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
