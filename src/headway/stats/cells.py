"""The values of a metric by arm and seed, and the pairs of arms that are compared.

* `Cells` holds a metric of every run of a family, arm by seed. It tells which runs have not ended and which were not
  asked for.
* `matches_of` reads from an experiment which arm is compared with which.
* `run_seconds`, `arm_seconds` and `seed_seconds` tell how long a further seed of some arms takes, from their runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.stats.paired import is_finite
from headway.store.run import Run

if TYPE_CHECKING:
    from jaxtyping import Bool, Float


RunsOfArm = Mapping[str, Mapping[int, Run]]
"""The runs of each arm, by its full name, by seed."""

Weights = Mapping[str, float]
"""The weights of a difference by full name of an arm: above 0 on the first side, below on the second."""

_ENDED = ("done", "failed", "damaged")


def runs_of_arms(runs: Iterable[Run]) -> dict[str, dict[int, Run]]:
    """Runs by arm and seed."""
    found: dict[str, dict[int, Run]] = {}
    for run in runs:
        found.setdefault(run.name, {})[run.seed] = run
    return found


@dataclass(frozen=True, kw_only=True)
class Cells:
    """A metric of the arms of a family, at all seeds that one of them has a folder for.

    Attributes:
        arms: by full name.
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
    def of(cls, arms: Iterable[str], metric: str, runs: RunsOfArm) -> "Cells":
        """Collect the cells of a metric."""
        names = tuple(dict.fromkeys(arms))
        seeds = tuple(sorted({seed for name in names for seed in runs.get(name, {})}))
        shape = len(names), len(seeds)
        values, ended, asked = np.full(shape, np.nan), np.zeros(shape, bool), np.zeros(shape, bool)
        column = {seed: place for place, seed in enumerate(seeds)}
        for row, name in enumerate(names):
            for seed, run in runs.get(name, {}).items():
                at = row, column[seed]
                asked[at], ended[at] = True, run.status in _ENDED
                value = run.metrics.get(metric) if run.status == "done" else None
                if isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value):
                    values[at] = value
        return cls(arms=names, seeds=seeds, values=values, ended=ended, asked=asked)

    @cached_property
    def have_logarithms(self) -> bool:
        """Return whether every value is above 0."""
        return bool((self.values[np.isfinite(self.values)] > 0).all())

    def as_logarithms(self) -> "Cells":
        """Return the cells with 100 ln of the values, whose differences are in per cent."""
        return replace(self, values=100 * np.log(self.values))

    def at(self, seeds: Sequence[int]) -> "Cells":
        """Return the cells of some seeds, in their order, whether or not they were run."""
        where = {seed: place for place, seed in enumerate(self.seeds)}
        there = [(at, where[seed]) for at, seed in enumerate(seeds) if seed in where]
        new, old = [at for at, _ in there], [at for _, at in there]
        shape = len(self.arms), len(seeds)
        values, ended, asked = np.full(shape, np.nan), np.zeros(shape, bool), np.zeros(shape, bool)
        values[:, new], ended[:, new], asked[:, new] = self.values[:, old], self.ended[:, old], self.asked[:, old]
        return Cells(arms=self.arms, seeds=tuple(seeds), values=values, ended=ended, asked=asked)

    def rows(self, weights: Iterable[Weights]) -> Float[np.ndarray, "difference arm"]:
        """Differences as rows of weights of the arms."""
        return np.array([[one.get(arm, 0.0) for arm in self.arms] for one in weights]).reshape(-1, len(self.arms))

    def sides(self, weights: Weights, n_seeds: int | None = None) -> tuple[dict[int, float], dict[int, float]]:
        """The weighted sums of the first and the second side, by seed; of the seeds that have all arms.

        Args:
            weights: of the arms.
            n_seeds: of how many seeds; all if None.

        Examples:
            >>> cells = Cells(arms=("new", "old"), seeds=(0, 2), values=np.array([[2.5, 3.0], [2.0, np.nan]]),
            ...     ended=np.ones((2, 2), bool), asked=np.ones((2, 2), bool))
            >>> cells.sides({"new": 1.0, "old": -1.0})
            ({0: 2.5}, {0: 2.0})
        """
        first, second = dict[int, float](), dict[int, float]()
        rows = [(self.arms.index(arm), weight) for arm, weight in weights.items() if weight]
        for at, seed in enumerate(self.seeds[:n_seeds]):
            column = self.values[:, at]
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
    def other_texts(self) -> bool:
        """True if the two arms predict tokens of different tokenizers or corpora."""
        return self.arm.resolved_spec.comparability.units != self.baseline.resolved_spec.comparability.units

    def no_merit(self, metric: str) -> str:
        """Return why a difference between the two arms is no merit of either; empty if it is one."""
        mine, theirs = (arm.resolved_spec.comparability for arm in (self.arm, self.baseline))
        return mine.incomparable_reason(theirs, metric)


def matches_of(experiment: Experiment) -> tuple[Match, ...]:
    """Return every comparison of two arms that an experiment declares.

    Each arm is compared with its group's baseline. Across groups, each arm is compared with the experiment's baseline,
    unless a group holds both. An experiment without a baseline compares the groups' baselines with the first group's,
    if they do the same task. Each control repeats these comparisons, and compares each arm with itself without the
    control.
    """
    names = tuple(dict.fromkeys(arm.name for arm in experiment.arms))
    pairs: list[tuple[str, str, str | None]] = [
        (name, group.baseline, key) for key, group in experiment.groups.items() for name in group.arms
    ]
    if experiment.baseline is not None:
        together = {name for g in experiment.groups.values() if experiment.baseline in g.arms for name in g.arms}
        pairs += [(name, experiment.baseline, None) for name in names if name not in together]
    else:
        first, *others = dict.fromkeys(group.baseline for group in experiment.groups.values()) or [""]
        # Nobody asked for these: where they would say nothing of merit, they are not made.
        asked = {arm.name: arm.resolved_spec.comparability for arm in experiment.arms if arm.control is None}
        primary = experiment.primary
        pairs += [(name, first, None) for name in others if not asked[name].incomparable_reason(asked[first], primary)]
    arms = {(arm.name, arm.control): arm for arm in experiment.arms}
    # An arm that a control does not change is itself under that control.
    arms |= {place: arms[place[0], None] for place, arm in arms.items() if arm.is_no_op}
    matches = []
    for control in dict.fromkeys(arm.control for arm in experiment.arms):
        changed = {name for name in names if arms[name, control].control == control}
        if control is not None:
            matches += [
                Match(arm=arms[name, control], baseline=arms[name, None], control=control, group=None)
                for name in names
                if name in changed
            ]
        matches += [
            Match(arm=arms[name, control], baseline=arms[baseline, control], control=control, group=group)
            for name, baseline, group in pairs
            if name != baseline and {name, baseline} & changed
        ]
    return tuple(matches)


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


def run_seconds(run: Run) -> float | None:
    """Return the seconds of a finished run (None if not measured); runs trained together share their time."""
    seconds = run.metrics.get("wall_s") if run.status == "done" else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        return None
    return seconds / max(1, (run.execution or {}).get("together", 1))


def arm_seconds(arm: str, runs: RunsOfArm) -> float | None:
    """The lower quartile over an arm's runs: what else a machine does makes some of them slower, and none faster."""
    found = sorted(seconds for run in runs.get(arm, {}).values() if (seconds := run_seconds(run)) is not None)
    return found[(len(found) - 1) // 4] if found else None


def seed_seconds(arms: Iterable[str], runs: RunsOfArm) -> float | None:
    """Return the summed seconds of one run of each arm, or None if an arm's time is unknown."""
    found = [arm_seconds(arm, runs) for arm in arms]
    return sum(one for one in found if one is not None) if found and None not in found else None
