"""Show: what the figures and tables are made of, read once from a results directory.

Only finished runs are drawn. Arms keep the order of their document, and with it their colours, whatever has
finished.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from headway.compare.laboratory import References
from headway.compare.results import Results
from headway.runs.timing_files import read_timings
from headway.show.report.arm_styles import ArmStyle, looks
from headway.words import together

if TYPE_CHECKING:
    from headway.declare.experiment import Experiment
    from headway.declare.run import RunSpec
    from headway.runs.store import Run, Store

Read = TypeVar("Read")


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished run: its final metrics, its log, its curves and its circuits at the end."""

    run: "Run"
    records: tuple[dict[str, Any], ...]
    curves: Mapping[str, Any]
    task: str
    _read: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.run.seed

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Its final metrics."""
        return self.run.metrics

    def series(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """A metric over the steps at which it was measured: (steps,) and (steps, ...), null as NaN."""
        measured = [(record["step"], record[metric]) for record in self.records if record.get(metric) is not None]
        steps = np.array([step for step, _ in measured], dtype=int)
        return steps, np.array([value for _, value in measured], dtype=float)

    def once(self, reader: "Callable[[Run], Read]") -> "Read":
        """What a reader makes of the run's folder; each reads it once, however many figures ask."""
        if reader not in self._read:
            self._read[reader] = reader(self.run)
        return cast("Read", self._read[reader])


@dataclass(frozen=True, kw_only=True)
class ArmResults:
    """An arm and its finished runs, at least one, by seed. What is drawn of one run only is drawn of the first."""

    name: str
    look: ArmStyle
    runs: tuple[Finished, ...]

    @property
    def label(self) -> str:
        """What legends, tables and sentences call it."""
        return self.look.label

    @property
    def colour(self) -> str:
        """Its colour in every figure."""
        return self.look.colour

    @property
    def control(self) -> str | None:
        """The control that it is under."""
        return self.shown.run.control

    @property
    def shown(self) -> Finished:
        """The run that is drawn where only one can be."""
        return self.runs[0]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that finished."""
        return tuple(run.seed for run in self.runs)

    def final(self, metric: str) -> np.ndarray:
        """A final metric of each seed that has it as one number."""
        values = [run.metrics.get(metric) for run in self.runs]
        return np.array([value for value in values if isinstance(value, int | float)], dtype=float)

    def by_seed(self, metric: str) -> dict[int, float]:
        """A final metric of each seed that has it as one number, by seed."""
        values = {run.seed: run.metrics.get(metric) for run in self.runs}
        return {seed: float(value) for seed, value in values.items() if isinstance(value, int | float)}


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Everything a report shows."""

    path: Path
    experiment: "Experiment"
    results: Results
    runs: tuple["Run", ...]
    arms: tuple[ArmResults, ...]
    timings: Mapping[str, Mapping[str, Any]]
    """What a short timing with the machine to itself measured, by full name of an arm."""

    @property
    def run(self) -> "RunSpec":
        """What one of its arms asks for; all belong to one laboratory."""
        return self.experiment.arms[0].template

    @property
    def controls(self) -> tuple[str | None, ...]:
        """The controls that finished arms are under; None for those without."""
        return tuple(dict.fromkeys(arm.control for arm in self.arms))

    def under(self, control: str | None) -> "ReportData":
        """The same with the arms under one control only."""
        return replace(self, arms=tuple(arm for arm in self.arms if arm.control == control))

    @property
    def n_seeds(self) -> int:
        """The largest number of finished seeds of an arm."""
        return max((len(arm.runs) for arm in self.arms), default=0)

    @property
    def one_task(self) -> bool:
        """Whether all arms were judged on the same prompts."""
        return len({arm.shown.task for arm in self.arms}) == 1

    @property
    def tasks(self) -> tuple[tuple[str, "ReportData"], ...]:
        """The arms of each task apart, and what a reader calls the task.

        That is their control, if it is all theirs, and otherwise the arms themselves.
        """
        found: dict[str, list[ArmResults]] = {}
        for arm in self.arms:
            found.setdefault(arm.shown.task, []).append(arm)
        return tuple((self._task_name(arms), replace(self, arms=tuple(arms))) for arms in found.values())

    def _task_name(self, arms: list[ArmResults]) -> str:
        controls = {arm.control for arm in arms}
        others = {arm.control for arm in self.arms if arm not in arms}
        if len(controls) == 1 and not controls & others:
            return self.experiment.control_label(next(iter(controls)))
        return together([arm.label for arm in arms], len(self.arms))

    def baselines(self, arm: ArmResults) -> Mapping[str, Mapping[str, float]]:
        """What needs no training reaches on the task of an arm: estimators, or n-gram models, and their errors."""
        return self.references(arm).reached

    def references(self, arm: ArmResults) -> References:
        """The same with their errors against the length of the prompt."""
        return self.results.tasks.get(arm.shown.task) or References(baselines={})


def _chose(run: "Run", results: Results) -> bool:
    """Whether a finalist of a search was chosen by this run, so that it flatters it; its fresh ones tell more."""
    search = results.search
    if search is None or search.first_fresh is None or run.name not in search.finalists:
        return False
    fresh = (one for one in results.runs if one.name == run.name and one.status == "done")
    return run.seed < search.first_fresh and any(one.seed >= search.first_fresh for one in fresh)


def gather(store: "Store", results: Results) -> ReportData:
    """Read a results directory, as far as its results do not hold it."""
    tasks = {(run.name, run.seed): run.task or "" for run in results.runs}
    found = looks(store.experiment)
    finished: dict[str, list[Finished]] = {}
    runs = tuple(store.runs())
    for run in runs:
        if run.status == "done" and (run.name, run.seed) in tasks and not _chose(run, results):
            task = tasks[run.name, run.seed]
            read = Finished(run=run, records=tuple(run.records()), curves=run.curves(), task=task)
            finished.setdefault(run.name, []).append(read)
    arms = [
        ArmResults(name=name, look=look, runs=tuple(sorted(finished[name], key=lambda run: run.seed)))
        for name, look in found.items()
        if name in finished
    ]
    return ReportData(
        path=store.path,
        experiment=store.experiment,
        results=results,
        runs=runs,
        arms=tuple(arms),
        timings={arm: timing for arm, timing in read_timings(store.path).items() if timing is not None},
    )
