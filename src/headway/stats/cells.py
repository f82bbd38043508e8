"""The values of a metric by arm and seed, and the pairs of arms that are compared.

* `Cells` holds a metric of every run of a family, arm by seed. It tells which runs have not ended and which were not
  asked for.
* `matches_of` reads from an experiment which arm is compared with which.
* `values_of` reads a metric of an arm by seed.
* `run_seconds` tells how long a run took.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from headway.base.text import listed
from headway.base.words import say
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.stats.evidence import is_finite
from headway.stats.sequential import FEWEST
from headway.store.run import Run

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


RunsOfArm = Mapping[str, Mapping[int, Run]]
"""The runs of each arm, by its full name, by seed."""


class Measured(Protocol):
    """A run as far as its final metrics go, whoever trained it."""

    @property
    def status(self) -> str:
        """The state of the run: done, failed or unfinished."""

    @property
    def metrics(self) -> Mapping[str, Any]:
        """The final metrics; None is a value that is not finite."""


MeasuredRuns = Mapping[str, Mapping[int, Measured]]
Weights = Mapping[str, float]
"""The weights of a difference by full name of an arm: above 0 on the first side, below on the second."""

_ENDED = ("done", "failed", "damaged")


def runs_of_arms(runs: Iterable[Run]) -> dict[str, dict[int, Run]]:
    """Runs by arm and seed."""
    of_arms: dict[str, dict[int, Run]] = {}
    for run in runs:
        of_arms.setdefault(run.name, {})[run.seed] = run
    return of_arms


@dataclass(frozen=True, kw_only=True)
class Cells:
    """A metric of the arms of a family, at all seeds that one of them has a folder for.

    Attributes:
        arms: the full names of the arms.
        seeds: ascending.
        values: NaN where there is no finite number.
        ended: runs that are over, with a value or without.
        asked: runs that have a folder.
    """

    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    values: Float[np.ndarray, "arm seed"]
    ended: Bool[np.ndarray, "arm seed"]
    asked: Bool[np.ndarray, "arm seed"]

    @classmethod
    def from_runs(cls, arms: Iterable[str], metric: str, runs: MeasuredRuns) -> "Cells":
        """Collect the cells of a metric."""
        names = tuple(dict.fromkeys(arms))
        seeds = tuple(sorted({seed for name in names for seed in runs.get(name, {})}))
        shape = len(names), len(seeds)
        values, ended, asked = np.full(shape, np.nan), np.zeros(shape, bool), np.zeros(shape, bool)
        column = {seed: place for place, seed in enumerate(seeds)}
        for row, name in enumerate(names):
            for seed, run in runs.get(name, {}).items():
                cell = row, column[seed]
                asked[cell], ended[cell] = True, run.status in _ENDED
                if has_metric(run, metric) and is_finite(run.metrics[metric]):
                    values[cell] = run.metrics[metric]
        return cls(arms=names, seeds=seeds, values=values, ended=ended, asked=asked)

    @cached_property
    def size(self) -> float | None:
        """The median over arms of their mean absolute values, if a value is 0 or below; None if all have logarithms."""
        known = np.isfinite(self.values)
        if (self.values[known] > 0).all():
            return None
        sizes = [
            float(np.abs(of_arm[finite]).mean())
            for of_arm, finite in zip(self.values, known, strict=True)
            if finite.any()
        ]
        return float(np.median(sizes)) or float(np.mean(sizes)) or 1.0

    @property
    def one_per_cent(self) -> float:
        """The factor from differences of `in_per_cent` to those of `LOGARITHM`, or of the metric's unit."""
        return 1.0 if self.size is None else self.size / 100

    def in_per_cent(self) -> "Cells":
        """Return the cells with 100 ln of the values, or with the values in per cent of their `size`."""
        values = 100 * np.log(self.values) if self.size is None else 100 * self.values / self.size
        return replace(self, values=values)

    def as_errors(self) -> "Cells":
        """Return the cells with the shares that are missing to 1."""
        return replace(self, values=1 - self.values)

    def at(self, seeds: Sequence[int]) -> "Cells":
        """Return the cells of some seeds, in their order, whether or not they were run."""
        column = {seed: place for place, seed in enumerate(self.seeds)}
        # The last of the columns that are added stands for every seed that was not run.
        columns = [column.get(seed, len(self.seeds)) for seed in seeds]

        def chosen(cells: np.ndarray, missing: float) -> np.ndarray:
            return np.pad(cells, ((0, 0), (0, 1)), constant_values=missing)[:, columns]

        return replace(
            self,
            seeds=tuple(seeds),
            values=chosen(self.values, np.nan),
            ended=chosen(self.ended, False),
            asked=chosen(self.asked, False),
        )

    def rows(self, weights: Iterable[Weights]) -> Float[np.ndarray, "difference arm"]:
        """Differences as rows of weights of the arms."""
        rows = [[of_arms.get(arm, 0.0) for arm in self.arms] for of_arms in weights]
        return np.array(rows).reshape(-1, len(self.arms))

    def sides(self, weights: Weights, n_seeds: int | None = None) -> tuple[dict[int, float], dict[int, float]]:
        """The weighted sums of the first and the second side, by seed; of the seeds that have all arms.

        Args:
            weights: the weights of the arms.
            n_seeds: the number of seeds, counted from the first; None: all.

        Examples:
            >>> cells = Cells(arms=("new", "old"), seeds=(0, 2), values=np.array([[2.5, 3.0], [2.0, np.nan]]),
            ...     ended=np.ones((2, 2), bool), asked=np.ones((2, 2), bool))
            >>> cells.sides({"new": 1.0, "old": -1.0})
            ({0: 2.5}, {0: 2.0})
        """
        first, second = dict[int, float](), dict[int, float]()
        rows = [(self.arms.index(arm), weight) for arm, weight in weights.items() if weight]
        for place, seed in enumerate(self.seeds[:n_seeds]):
            column = self.values[:, place]
            if all(math.isfinite(column[row]) for row, _ in rows):
                first[seed] = math.fsum(weight * column[row] for row, weight in rows if weight > 0)
                second[seed] = math.fsum(-weight * column[row] for row, weight in rows if weight < 0)
        return first, second

    def without(self, weights: Weights) -> list[str]:
        """The arms of a difference that have no value at any seed."""
        return [
            arm
            for arm, weight in weights.items()
            if weight and not np.isfinite(self.values[self.arms.index(arm)]).any()
        ]


_LAYOUT = re.compile(r"[0-9:x+]+(-[0-9:x+]+)+")
"""The text of a head layout, such as 24-12-6-3."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """An arm and what it is compared with."""

    arm: Arm
    baseline: Arm
    control: str | None
    group: str | None

    @property
    def weights(self) -> Weights:
        """The arm less its baseline."""
        return {self.arm.full_name: 1.0, self.baseline.full_name: -1.0}

    @property
    def other_texts(self) -> bool:
        """True if the two arms predict tokens of different tokenizers or corpora."""
        return self.arm.resolved_spec.comparability.units != self.baseline.resolved_spec.comparability.units

    def no_merit(self, metric: str) -> str:
        """Return why a difference between the two arms is no merit of either; empty if it is one."""
        mine, theirs = (arm.resolved_spec.comparability for arm in (self.arm, self.baseline))
        return mine.incomparable_reason(theirs, metric)


def matches_of(experiment: Experiment) -> tuple[Match, ...]:
    """Return every comparison of two selected arms.

    Each arm is compared with its group's baseline. Across groups, each arm is compared with the experiment's baseline,
    unless a group holds both. An experiment without a baseline compares the groups' baselines with the first group's,
    if they do the same task. Each control repeats these comparisons for the arms that are selected under it, and
    compares each of them with itself without the control. `headway.config.experiment` says what stands in for a
    baseline that is not selected.
    """
    plain = experiment.compared().arms
    arms = {(arm.name, arm.control): arm for arm in experiment.arms}
    # An arm that a control does not change is itself under that control.
    arms |= {place: arms[place[0], None] for place, arm in arms.items() if arm.is_no_op}
    matches = []
    for control in dict.fromkeys(arm.control for arm in experiment.arms):
        compared = experiment.compared(control)
        changed = {name for name in compared.arms if arms[name, control].control == control}
        if control is not None:
            matches += [
                Match(arm=arms[name, control], baseline=arms[name, None], control=control, group=None)
                for name in experiment.document.arms
                if name in changed and name in plain
            ]
        matches += [
            Match(arm=arms[name, control], baseline=arms[baseline, control], control=control, group=group)
            for name, baseline, group in compared.pairs
            if {name, baseline} & changed
        ]
    return tuple(matches)


def why_no_verdict(experiment: Experiment, runs: Collection[tuple[str, int]]) -> str:
    """Return why some runs give no verdict, and what to do; empty if they may give one.

    Args:
        experiment: the experiment, with the arms that are compared.
        runs: the runs that there are or will be, by full name of the arm and by seed.
    """
    seeds: dict[str, set[int]] = {}
    for arm, seed in runs:
        seeds.setdefault(arm, set()).add(seed)
    questions = [match.weights for match in matches_of(experiment)]
    questions += [contrast.weights for contrast in experiment.contrasts]
    questions = [weights for weights in questions if weights.keys() <= seeds.keys()]
    if not questions:
        others = [name for name in experiment.document.arms if name not in seeds]
        if not seeds:
            return say("no_arm")
        return say("add_arm" if others else "only_arm", arm=listed(seeds), other=next(iter(others), ""))
    shared = [set.intersection(*(seeds[arm] for arm in weights)) for weights in questions]
    most = max(map(len, shared))
    if most >= FEWEST:
        return ""
    if most == 0:
        return say("no_shared_seed")
    return say("few_shared_seeds", n=most, least=FEWEST)


def title(arm: Arm, experiment: Experiment) -> str:
    """Return the name of an arm in sentences: its label, with the arm's name if the label is only a layout.

    Examples:
        >>> from headway.config.load import load
        >>> experiment = load("icl-heads", settings=["arms.h2.label=8-4"])
        >>> [title(arm, experiment) for arm in experiment.arms[:2]]
        ['1 head', 'h2 (8-4)']
    """
    label = experiment.arm(arm.name).label
    if not _LAYOUT.fullmatch(label):
        return arm.label
    return f"{arm.name} ({label}){arm.label.removeprefix(label)}"


def titles_of(experiment: Experiment) -> dict[str, str]:
    """Return the name of every arm in sentences, by full name."""
    return {arm.full_name: title(arm, experiment) for arm in experiment.arms}


def labels_of(experiment: Experiment) -> dict[str, str]:
    """Return the label of every arm by full name, those without a control first; an ambiguous label is a full name."""
    titles = titles_of(experiment)
    counts = Counter(titles.values())
    names = [arm.full_name for arm in sorted(experiment.arms, key=lambda arm: arm.control is not None)]
    return {name: titles[name] if counts[titles[name]] == 1 else name for name in names}


def done(arm: Arm, runs: RunsOfArm) -> list[Run]:
    """Return the finished runs of an arm."""
    return [run for run in runs.get(arm.full_name, {}).values() if run.status == "done"]


def values_of(arm: Arm, metric: str, runs: RunsOfArm) -> dict[int, float | None]:
    """Return a final metric of an arm by seed; None where it was not finite."""
    return {run.seed: run.metrics[metric] for run in done(arm, runs) if has_metric(run, metric)}


def has_metric(run: Measured, metric: str) -> bool:
    """Return whether a run ended with a number for a metric (None: not finite); lists are not compared."""
    value = run.metrics.get(metric, ()) if run.status == "done" else ()
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def run_seconds(run: Run) -> float | None:
    """The seconds of the GPU or the processor that a finished run took; None where they are not known."""
    known = (run.metrics[name] for name in ("device_s", "processor_s") if has_metric(run, name))
    return next(filter(None, known), None)
