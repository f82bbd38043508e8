"""Compare: a metric of every run of a family: arm by seed, with what has not ended, and what nobody asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from headway.compare.statistics import is_finite
from headway.runs.folder import Run

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

RunsOfArm = Mapping[str, Mapping[int, Run]]
"""The runs of each arm, by its full name, by seed."""

Weights = Mapping[str, float]
"""Of a difference: by full name of an arm; those above 0 are of the first side, the others of the second."""

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
        """Those of a metric."""
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
        """Whether every value is above 0."""
        return bool((self.values[np.isfinite(self.values)] > 0).all())

    def as_logarithms(self) -> "Cells":
        """With 100 ln of the values, whose differences are in per cent."""
        return replace(self, values=100 * np.log(self.values))

    def at(self, seeds: Sequence[int]) -> "Cells":
        """Those of some seeds, in their order, whether they were run or not."""
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
