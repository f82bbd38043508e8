"""The time of a step of each arm on a quiet machine, kept as `DIR/timings/ARM.json`.

Runs of a sweep share the machine, so their seconds are no measurement. After a sweep each arm does some steps in a
process of its own with all cores, and what other processes use meanwhile is measured too: on a busy machine the seconds
do not count. Figures of time and memory against heads read these files alone.
"""

import statistics
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.files import folder_in, plain, remove, write_json
from headway.base.identity import signed
from headway.base.text import counted, duration
from headway.errors import HeadwayError
from headway.execute.places import LocalPlace
from headway.execute.work import OpenStudy
from headway.store.document import measured, read_timing, timing_file
from headway.store.environment import Usage, surroundings
from headway.store.lease import LeaseHeld, is_held
from headway.store.run import Run
from headway.store.watch import take_patiently

SCHEMA = 1

_WARM_UP = 3
_STEPS = range(5, 61)
_LONG_S = 5.0
"""Sixty steps are timed, or as few as five when they take longer than this."""
_BEGINNING_S = 6.0
"""About what a process takes until its first step."""
_WORTH = 0.1
"""Timing may take this part of what training took."""
_POLL_EVERY_S = 0.05


def time_arms(
    directory: Path, runs: Sequence[Run], place: LocalPlace, *, n_places: int, asked: bool = False, trained: bool = True
) -> Generator[str, None, None]:
    """Time the arms of language models that have no timing of this machine yet; yields what it does.

    With a single arm there is nothing to compare, and while another process works on the directory nothing can be
    timed: then none is. An arm whose timing fails is told, and left to its runs, which say why.

    Args:
        directory: the results directory.
        runs: the runs that were asked for, as they are after training.
        place: the place where they are timed, alone.
        n_places: the number of runs that were trained at a time.
        asked: True if the user asked for timing. If False, arms that were timed on another machine are
            left out, and so is timing that would take more than a tenth of the training time.
        trained: True if something was just trained: only then does a message explain why nothing is timed.
    """
    arms = {run.name: run for run in runs if run.status != "damaged" and run.spec.task.n_ctx is not None}
    untimed = [run for run in arms.values() if not _is_timed(directory, run, place, anywhere=not asked)]
    if len(arms) < 2 or not untimed:
        return
    if not asked and (why_not := _too_short(runs, untimed, n_places)):
        if trained:
            yield why_not
        return
    folder = folder_in(directory, "timings")
    try:
        with take_patiently(folder / "lease"):
            for run in untimed:
                if any(is_held(other.path / "lease") for other in runs):
                    yield "other processes work on this directory, so nothing more is timed"
                    return
                yield f"timing {run.name} alone"
                file = timing_file(directory, run.name)
                if not _time(directory, run, place.whole):
                    yield f"{run.name} could not be timed; {file.with_suffix('.log')} says why"
                elif (timing := read_timing(file)) and measured(timing)["step_s"] is None:
                    others = f"{timing['others']:.1f} cores"
                    yield f"{run.name} not measured: the machine was busy (other processes used {others})"
    except LeaseHeld:
        yield "another process times the arms of this directory"


def _too_short(runs: Sequence[Run], untimed: Sequence[Run], n_places: int) -> str:
    """Return why timing does not pay; empty if it does."""
    alone = ((run.metrics.get("wall_s") or 0.0) / (run.execution or {}).get("together", 1) for run in runs)
    training_s = sum(alone) / max(1, min(n_places, len(runs)))
    timing_s = len(untimed) * (_BEGINNING_S + _LONG_S)
    if timing_s <= _WORTH * training_s:
        return ""
    return (
        f"{counted(len(untimed), 'arm')} not timed: that would take about {duration(timing_s)}, and training took "
        f"{duration(training_s)}"
    )


def time_steps(path: Path, open_study: OpenStudy, into: Path) -> int:
    """Time some steps of the run in a folder, and write what came out; the folder is left as it is. An exit code.

    Raises:
        ResultsError: when the folder holds no run.
    """
    run = Run.open(path)
    spec = run.spec
    assert spec.task.n_ctx is not None
    try:
        study = open_study(spec, {})
        study.trainer.advance(_WARM_UP)
        seconds: list[float] = []
        before = Usage.now()
        while len(seconds) < _STEPS.stop - 1 and (len(seconds) < _STEPS.start or sum(seconds) < _LONG_S):
            began = time.perf_counter()
            study.trainer.advance(1)
            seconds.append(time.perf_counter() - began)
    except HeadwayError as error:
        print(error)
        return 1
    others, step_s = Usage.now().others_since(before), statistics.median(seconds)
    timing = {
        "schema": SCHEMA,
        "others": round(others, 2),
        "arm": run.name,
        "id": spec.at_seed(0).id,  # that of the arm, whatever the seed
        "step_s": step_s,
        "step_s_range": [min(seconds), max(seconds)],
        "n_steps": len(seconds),
        "tokens_per_s": spec.budget.batch_size * spec.task.n_ctx / step_s,
        "memory_bytes": study.memory()["memory_bytes"],
        "batch_size": spec.budget.batch_size,
        "execution": {**study.execution, **surroundings()},
    }
    write_json(into, signed(plain(timing)))
    return 0


def _is_timed(directory: Path, run: Run, place: LocalPlace, *, anywhere: bool) -> bool:
    """Return whether an arm, as now declared, was timed with as many threads on this machine, or on any machine."""
    try:
        timing = measured(read_timing(timing_file(directory, run.name)) or {})
        then: Mapping[str, Any] = timing["execution"]
        here = _where(then, then["threads"]) == _where(surroundings(), place.whole.slot.threads)
        return timing["step_s"] is not None and timing["id"] == run.spec.at_seed(0).id and (anywhere or here)
    except (KeyError, TypeError):
        return False


def _where(execution: Mapping[str, Any], threads: int) -> tuple[Any, ...]:
    return execution["host"], execution["processor"], execution["versions"]["headway"], threads


def _time(directory: Path, run: Run, place: LocalPlace) -> bool:
    into = timing_file(directory, run.name)
    log = into.with_suffix(".log")
    remove(log)
    worker = place.start(run.path, log=log, options=("--time", str(into.absolute())))
    try:
        while (code := worker.ended) is None:
            time.sleep(_POLL_EVERY_S)
        return code == 0
    finally:
        worker.kill()  # Ctrl-C: nothing is kept of a timing that did not end
