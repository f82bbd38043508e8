"""The run that another run is initialised from: its place, and its weights.

A run knows its parent by id, and finds it in its own directory among the runs of its seed. A child needs the weights of
the parent's last step, or of a step that the parent's folder was told to keep.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headway.base.files import entries
from headway.base.identity import grouped
from headway.base.text import command_line, with_numbers
from headway.errors import ResultsError
from headway.store.records import read_init_record
from headway.store.run import Run
from headway.store.watch import Watch
from headway.train.loop import InitFrom


def parent_of(run: Run) -> Run | None:
    """The run that a run starts from, as it stands; None where it starts from nothing.

    Raises:
        ResultsError: when its directory has none of that id and seed.
    """
    if run.spec.initial_run is None:
        return None
    wanted = run.spec.initial_run.run
    for folder in entries(run.path.parents[2], f"runs/*/{run.path.name}"):
        with suppress(ResultsError):  # a damaged one is none that can be known by its id
            if folder != run.path and (folder / "run.json").is_file() and (parent := Run.open(folder)).id == wanted:
                return parent
    raise ResultsError(
        f"it starts from {wanted} with seed {run.seed}, and {run.path.parents[2]} has no such run; type `headway "
        "run` with its file first"
    )


def why_never(parent: Run) -> str:
    """Why a run cannot start from another that has ended; empty where that is done."""
    if parent.status == "done":
        return ""
    how = "failed" if parent.status == "failed" else f"is {parent.status}"
    message = f": {parent.message}" if parent.message else ""
    return f"it starts from {parent.name} seed {parent.seed}, which {how}{message}"


def init_from_of(path: Path) -> InitFrom | None:
    """The run that a run in a folder is initialised from, with its weights; None if there is none.

    Raises:
        ResultsError: when there is no such run, or it is not done.
    """
    parent = parent_of(Run.open(path))
    if parent is None:
        return None
    parent = Run.examine(parent.path)
    if why_not := why_never(parent):
        raise ResultsError(f"{why_not}; run again when it is done")

    def weights(step: int | None) -> dict[str, Any]:
        return parent.weights() if step is None else _stored(parent, step)

    return InitFrom(
        name=f"{parent.name} seed {parent.seed}",
        run=parent.spec,
        record=read_init_record(parent.path),
        steps=parent.steps,
        weights=weights,
    )


def _stored(parent: Run, step: int) -> dict[str, Any]:
    if step not in parent.weight_steps():
        drop = command_line("drop", parent.path.parents[2], parent.name, seeds=str(parent.seed))
        kept = [*parent.weight_steps(), parent.steps]
        raise ResultsError(
            f"an arm starts from step {step:,} of {parent.name} seed {parent.seed}, which stored only "
            f"{with_numbers('step', kept)}; type `{drop}`, then `headway run` trains it again and keeps that step"
        )
    return parent.weights(step)


class RunDependencies:
    """Runs in lines, each before those that start from it.

    Args:
        runs: the runs that are to be trained.
        work: the function that returns the work of a run.
    """

    def __init__(self, runs: Sequence[Run], work: Callable[[Run], float]):
        self._watch = Watch()
        by_id = {(run.id, run.seed): run.path for run in runs}
        # A run that needs one that is not worked on here looks for it where it is.
        self._parent: dict[Path, Path] = {}
        self._orphans: dict[Path, Run] = {}
        for run in runs:
            if run.spec.initial_run is None:
                continue
            wanted = run.spec.initial_run.run
            if (wanted, run.seed) in by_id:
                self._parent[run.path] = by_id[wanted, run.seed]
            else:
                self._orphans[run.path] = run
        self._work = {run.path: work(run) for run in runs}
        self._children = grouped(self._parent, self._parent.__getitem__)

    def work_until_the_end(self, path: Path) -> float:
        """Return the cost of a run with the longest chain of runs that wait for it."""
        waiting = (self.work_until_the_end(child) for child in self._children.get(path, ()))
        return self._work[path] + max(waiting, default=0.0)

    def waits(self, run: Run, settled: Mapping[Path, Run]) -> bool:
        """Return whether a run waits for its parent to end; `settled` are the runs of the sweep that have ended."""
        if run.path not in self._orphans:
            return run.path in self._parent and self._parent[run.path] not in settled
        try:
            return self._elsewhere(run) is None
        except ResultsError:
            return False

    def why_never(self, run: Run, settled: Mapping[Path, Run]) -> str:
        """Why a run cannot start any more, or at all; empty where it can, now or later."""
        if run.path in self._orphans:
            try:
                elsewhere = self._elsewhere(run)
            except ResultsError as error:
                return str(error)
            return "" if elsewhere is None else why_never(elsewhere)
        parent = self._parent.get(run.path)
        return "" if parent is None or parent not in settled else why_never(settled[parent])

    def _elsewhere(self, run: Run) -> Run | None:
        """Return the parent of a run from outside this sweep; None while another process works on the parent."""
        parent = parent_of(run)
        if parent is None or parent.status != "running":
            return parent
        self._watch.is_held(parent.path / "lease")  # which gives a holder elsewhere up that has ended without a word
        return None
