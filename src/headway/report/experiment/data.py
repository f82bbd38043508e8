"""The data of a report, read once from a results directory, and the style of each arm.

Only finished runs are drawn. Arms keep the order of their document, and with it their names and colours, whichever
runs have finished. If an experiment compares schemes of head layouts in groups, a colour is a scheme, and a dash and
shape are a group, so that related arms look related. Otherwise every arm has a colour of its own.

`training_curve` gives a metric of an arm over the steps that all of its seeds measured.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from headway.base.identity import grouped
from headway.base.text import together
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.kinds import part_of
from headway.config.spec import thinned
from headway.report.charts.figure import (
    GROUP_DASHES,
    GROUP_SHAPES,
    NO_GROUP_DASH,
    SCHEME_COLOURS,
    SOLID,
    Datum,
    LineStyle,
    arm_colour,
)
from headway.stats.cells import labels_of
from headway.stats.laboratory import References
from headway.stats.results import Results
from headway.store.document import measured, timings_of_arms

if TYPE_CHECKING:
    from headway.config.run import RunSpec
    from headway.store.directory import Store
    from headway.store.run import Run


@dataclass(frozen=True, kw_only=True)
class ArmStyle:
    """The name and style of an arm. `point` is its short name beside a point; `scheme` is None if no scheme counts."""

    label: str
    point: str
    colour: str
    dash: tuple[float, ...] = SOLID
    shape: str = "circle"
    scheme: str | None = None


def arm_styles(experiment: Experiment) -> dict[str, ArmStyle]:
    """Return the style of every arm that an experiment declares, by full name, in the order of figures."""
    # Arms without a control come first, so that a control never changes their colours.
    arms = sorted(experiment.arms, key=lambda arm: arm.control is not None)
    labels = labels_of(experiment)
    by_scheme = _by_scheme(experiment)
    # Where each control has figures of its own, an arm keeps its colour under it.
    own_figures = part_of(experiment.arms[0].resolved_spec, "report").controls_apart
    declared = list(experiment.document.arms)
    places = [declared.index(arm.name) if own_figures else at for at, arm in enumerate(arms)]
    return {
        arm.full_name: ArmStyle(
            label=labels[arm.full_name],
            point=arm.label,
            **(_scheme_style(arm, experiment) if by_scheme else {"colour": arm_colour(place)}),
        )
        for arm, place in zip(arms, places, strict=True)
    }


def _by_scheme(experiment: Experiment) -> bool:
    # The heads that pruning left of another arm are no chosen scheme.
    started = any(arm.parent is not None for arm in experiment.arms)
    schemes = {arm.resolved_spec.scheme for arm in experiment.arms if arm.group is not None}
    return len(schemes) > 1 and not started


def _scheme_style(arm: Arm, experiment: Experiment) -> dict[str, object]:
    scheme = arm.resolved_spec.scheme
    style = {"colour": SCHEME_COLOURS[scheme], "scheme": scheme}
    if arm.group is None:
        return {**style, "dash": NO_GROUP_DASH, "shape": "diamond"}
    at = list(experiment.document.groups).index(arm.group) % len(GROUP_DASHES)
    return {**style, "dash": GROUP_DASHES[at], "shape": GROUP_SHAPES[at]}


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
        """Return what a reader makes of the run's folder; each reader reads it once, for however many figures."""
        if reader not in self._read:
            self._read[reader] = reader(self.run)
        return cast("Read", self._read[reader])


@dataclass(frozen=True, kw_only=True)
class ArmResults:
    """An arm and its finished runs, at least one, by seed. What is drawn of one run only is drawn of the first."""

    name: str
    style: ArmStyle
    runs: tuple[Finished, ...]

    @property
    def label(self) -> str:
        """The arm's name in legends, tables and sentences."""
        return self.style.label

    @property
    def colour(self) -> str:
        """Its colour in every figure."""
        return self.style.colour

    @property
    def control(self) -> str | None:
        """The control that it is under."""
        return self.shown.run.control

    @property
    def group(self) -> str | None:
        """The group that it belongs to."""
        return self.shown.run.group

    @property
    def shown(self) -> Finished:
        """The run that is drawn where only one can be."""
        return self.runs[0]

    def final(self, metric: str) -> np.ndarray:
        """A final metric of each seed that has it as one number."""
        return np.array(list(self.by_seed(metric).values()), dtype=float)

    def by_seed(self, metric: str) -> dict[int, float]:
        """A final metric of each seed that has it as one number, by seed."""
        found = {}
        for run in self.runs:
            value = run.metrics.get(metric)
            if isinstance(value, int | float):
                found[run.seed] = float(value)
        return found


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Everything a report shows."""

    path: Path
    experiment: "Experiment"
    results: Results
    runs: tuple["Run", ...]
    arms: tuple[ArmResults, ...]
    timings: Mapping[str, Mapping[str, Any]]
    """The measurements of a short timing on a quiet machine, by full name of an arm."""

    @property
    def run(self) -> "RunSpec":
        """The specification of one of the arms' runs; all arms belong to one laboratory."""
        return self.experiment.arms[0].resolved_spec

    @property
    def controls(self) -> tuple[str | None, ...]:
        """The controls that finished arms are under; None for those without."""
        return tuple(dict.fromkeys(arm.control for arm in self.arms))

    def under(self, control: str | None) -> "ReportData":
        """Return the data with only the arms under one control."""
        return replace(self, arms=tuple(arm for arm in self.arms if arm.control == control))

    @property
    def n_seeds(self) -> int:
        """The largest number of finished seeds of an arm."""
        return max((len(arm.runs) for arm in self.arms), default=0)

    @property
    def one_task(self) -> bool:
        """True if all arms were evaluated on one set of prompts."""
        return len({arm.shown.task for arm in self.arms}) == 1

    @property
    def tasks(self) -> tuple[tuple[str, "ReportData"], ...]:
        """The arms of each task, and the task's name for readers.

        That is their control, if it is all theirs, and otherwise the arms themselves.
        """
        found = grouped(self.arms, lambda arm: arm.shown.task)
        return tuple((self._task_name(arms), replace(self, arms=tuple(arms))) for arms in found.values())

    def _task_name(self, arms: list[ArmResults]) -> str:
        controls = {arm.control for arm in arms}
        others = {arm.control for arm in self.arms if arm not in arms}
        if len(controls) == 1 and not controls & others:
            return self.experiment.control_label(next(iter(controls)))
        return together([arm.label for arm in arms], len(self.arms))

    def baselines(self, arm: ArmResults, metric: str) -> dict[str, float]:
        """Return a metric of the references without training on an arm's task: of estimators or n-gram models."""
        reached = self.references(arm).reached
        return {name: numbers[metric] for name, numbers in reached.items() if metric in numbers}

    def references(self, arm: ArmResults) -> References:
        """Return the references of an arm's task, with their errors against the length of the prompt."""
        return self.results.tasks.get(arm.shown.task) or References(baselines={})


def gather(store: "Store", results: Results) -> ReportData:
    """Read a results directory, as far as its results do not hold it."""
    tasks = {(run.name, run.seed): run.task or "" for run in results.runs}
    styles = arm_styles(store.experiment)
    runs = tuple(store.runs())
    read = [
        Finished(run=run, records=tuple(run.records()), curves=run.curves(), task=tasks[run.name, run.seed])
        for run in runs
        if run.status == "done" and (run.name, run.seed) in tasks
    ]
    finished = grouped(read, lambda each: each.run.name)
    arms = [
        ArmResults(name=name, style=style, runs=tuple(sorted(finished[name], key=lambda run: run.seed)))
        for name, style in styles.items()
        if name in finished
    ]
    return ReportData(
        path=store.path,
        experiment=store.compared,
        results=results,
        runs=runs,
        arms=tuple(arms),
        timings={arm: measured(timing) for arm, timing in timings_of_arms(store.path).items() if timing is not None},
    )


def colours_of(arms: Iterable[ArmResults]) -> dict[str, str]:
    """Return the colours of arms, by label."""
    return {arm.label: arm.colour for arm in arms}


def arms_with(material: ReportData, metric: str) -> list[ArmResults]:
    """Return the arms of which a seed has a final metric as one number."""
    return [arm for arm in material.arms if len(arm.final(metric))]


def seed_rows(arms: Iterable[ArmResults], metric: str, column: str) -> list[Datum]:
    """Return a row of a figure for each seed that has a final metric as one number."""
    return [
        {"arm": arm.label, "seed": str(seed), column: value}
        for arm in arms
        for seed, value in arm.by_seed(metric).items()
    ]


def solid_lines(arms: Iterable[ArmResults]) -> list[LineStyle]:
    """Return the styles of arms whose lines all are solid."""
    return [(arm.label, arm.colour, SOLID) for arm in arms]


def per_seed(arm: ArmResults, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The steps that all seeds measured, and the metric (seeds, steps) there."""
    series = [dict(zip(steps.tolist(), values, strict=True)) for steps, values in (r.series(metric) for r in arm.runs)]
    shared = sorted(set.intersection(*map(set, series)))
    shared = [step for step in shared if all(s[step] > 0 for s in series)]
    if metric == "train_mse" and len(shared) > 2 and 2 * (shared[-1] - shared[-2]) < shared[-2] - shared[-3]:
        shared.pop()  # the mean of a few steps at the end is noise beside means of many
    return np.array(shared, dtype=int), np.array([[s[step] for step in shared] for s in series])


def training_curve(arm: ArmResults, metric: str, column: str, points: int) -> Iterator[Datum]:
    """A metric over training as rows of a figure: mean, smallest and largest seed, at most so many points."""
    steps, values = per_seed(arm, metric)
    for at in thinned(steps.tolist(), points):
        seeds = values[:, at]
        ends = {"low": seeds.min(), "high": seeds.max()}
        yield {"what": arm.label, "step": int(steps[at]), column: seeds.mean(), **ends}
