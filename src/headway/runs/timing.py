"""Lab: how long a step of each arm takes when nothing else runs: `DIR/timings/ARM.json`.

Runs of a sweep share the machine, so their seconds are no measurement. Before a sweep, each arm does some steps in a
process of its own with all cores; figures of time and memory against heads read these files alone.
"""

import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError
from headway.files import write_json
from headway.runs.devices import Slot, slots
from headway.runs.execution import surroundings
from headway.runs.folder import Run
from headway.runs.lease import Lease, LeaseHeld, is_held
from headway.runs.local import WORKER
from headway.runs.work import OpenStudy

SCHEMA = 1

_WARM_UP = 3
_STEPS = range(5, 61)
_LONG_S = 5.0
"""Sixty steps are timed, or as few as five when they take longer than this."""


def time_arms(
    directory: Path, runs: Sequence[Run], *, command: Sequence[str] = WORKER, device: str = "auto"
) -> Generator[str, None, None]:
    """Time the arms of language models that have work left and no timing of this machine yet; yields what it does.

    With a single arm there is nothing to compare, and while another process works on the directory nothing can be
    timed: then none is. An arm whose timing fails is told, and left to its runs, which say why.
    """
    arms = {run.name: run for run in runs if run.status != "damaged" and run.spec.tokens_per_step}
    if len(arms) < 2:
        return
    slot = slots(device, workers=1, runs=1)[0]
    unfinished = {run.name for run in runs if run.status not in ("done", "damaged")}
    asked = [run for name, run in arms.items() if name in unfinished and not _is_timed(directory, run, slot)]
    if not asked:
        return
    (directory / "timings").mkdir(exist_ok=True)
    try:
        with Lease.take(directory / "timings" / "lease"):
            for run in asked:
                if any(is_held(other.path / "lease") for other in runs):
                    yield "other processes work on this directory, so nothing more is timed"
                    return
                yield f"timing {run.name} by itself"
                if not _time(directory, run, slot, command):
                    log = timing_file(directory, run.name).with_suffix(".log")
                    yield f"{run.name} could not be timed; {log} says why"
    except LeaseHeld:
        yield "another process times the arms of this directory"


def time_steps(path: Path, open_study: OpenStudy, into: Path) -> int:
    """Time some steps of the run in a folder, and write what came out; the folder is left as it is. An exit code.

    Raises:
        ResultsError: when the folder holds no run.
    """
    run = Run.open(path)
    spec = run.spec
    assert spec.tokens_per_step is not None
    try:
        study = open_study(spec, {})
        study.trainer.advance(_WARM_UP)
        seconds: list[float] = []
        while len(seconds) < _STEPS.stop - 1 and (len(seconds) < _STEPS.start or sum(seconds) < _LONG_S):
            began = time.perf_counter()
            study.trainer.advance(1)
            seconds.append(time.perf_counter() - began)
    except HeadwayError as error:
        print(error)
        return 1
    step_s = statistics.median(seconds)
    write_json(
        into,
        {
            "schema": SCHEMA,
            "arm": run.name,
            "id": _id(run),
            "step_s": step_s,
            "step_s_range": [min(seconds), max(seconds)],
            "n_steps": len(seconds),
            "tokens_per_s": spec.tokens_per_step / step_s,
            "memory_bytes": study.memory()["memory_bytes"],
            "batch_size": spec.training.batch_size,
            "execution": {**study.execution, **surroundings()},
        },
    )
    return 0


def timing_file(directory: Path, name: str) -> Path:
    """The file of an arm's timing."""
    return directory / "timings" / f"{name}.json"


def _is_timed(directory: Path, run: Run, slot: Slot) -> bool:
    """Whether an arm, as it is declared now, was timed on this machine with as many threads."""
    try:
        found = json.loads(timing_file(directory, run.name).read_text(encoding="utf-8"))
        then: Mapping[str, Any] = found["execution"]
        return found["id"] == _id(run) and _where(then, then["threads"]) == _where(surroundings(), slot.threads)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _where(execution: Mapping[str, Any], threads: int) -> tuple[Any, ...]:
    return execution["host"], execution["processor"], execution["versions"]["headway"], threads


def _id(run: Run) -> str:
    """The id of an arm, whatever the seed."""
    return run.spec.model_copy(update={"seed": 0}).id


def _time(directory: Path, run: Run, slot: Slot, command: Sequence[str]) -> bool:
    into = timing_file(directory, run.name)
    options = ["--time", os.path.abspath(into), "--parent", str(os.getpid())]
    with open(into.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(
            [*command, os.path.abspath(run.path), *slot.options, *options],
            env=os.environ | slot.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
        )
        try:
            return process.wait() == 0
        finally:
            if process.poll() is None:  # Ctrl-C: nothing is kept of a timing that did not end
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
