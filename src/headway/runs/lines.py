"""Runs: which run of a sweep has to wait for which: one that starts from another waits until that is done."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headway.errors import ResultsError
from headway.runs.folder import Run
from headway.runs.parents import parent_of, why_never


class Lines:
    """Runs in lines, each before those that start from it.

    Args:
        runs: those that are to be worked on.
        work: what one of them costs.
    """

    def __init__(self, runs: Sequence[Run], work: Callable[[Run], float]):
        by_id = {(run.id, run.seed): run.path for run in runs}
        # A run that needs one that is not worked on here looks for it where it is.
        self._parent: dict[Path, Path] = {}
        self._orphans: dict[Path, Run] = {}
        for run in runs:
            if (wanted := run.spec.parent) is None:
                continue
            if (wanted, run.seed) in by_id:
                self._parent[run.path] = by_id[wanted, run.seed]
            else:
                self._orphans[run.path] = run
        self._work = {run.path: work(run) for run in runs}
        self._children: dict[Path, list[Path]] = {}
        for child, parent in self._parent.items():
            self._children.setdefault(parent, []).append(child)

    def work_until_the_end(self, run: Run) -> float:
        """What a run costs, with the longest line of those that wait for it."""
        return self._ahead(run.path)

    def may_start(self, run: Run, settled: Mapping[Path, Run]) -> bool:
        """Whether what a run starts from is done; `settled` are the runs of the sweep that have ended."""
        if run.path in self._orphans:
            return self._elsewhere(run) is not None
        parent = self._parent.get(run.path)
        return parent is None or (parent in settled and settled[parent].status == "done")

    def why_never(self, run: Run, settled: Mapping[Path, Run]) -> str:
        """Why a run cannot start any more, or at all; empty where it can, now or later."""
        if run.path in self._orphans:
            try:
                found = self._elsewhere(run)
            except ResultsError as error:
                return str(error)
            return "" if found is None else why_never(found)
        parent = self._parent.get(run.path)
        return "" if parent is None or parent not in settled else why_never(settled[parent])

    def _elsewhere(self, run: Run) -> Run | None:
        """What a run starts from, when it is no run of this sweep; None while another process works on it."""
        found = parent_of(run)
        return None if found is not None and found.status == "running" else found

    def _ahead(self, path: Path) -> float:
        return self._work[path] + max((self._ahead(child) for child in self._children.get(path, ())), default=0.0)
