"""Compare: what a laboratory adds to the comparison of arms, and the one way to get at it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.compare.statistics import Comparison
from headway.declare.experiment import Experiment
from headway.declare.run import RunSpec, slice_of
from headway.runs.folder import Run


class Laboratory(ABC):
    """A laboratory's slice of this room."""

    @abstractmethod
    def references(self, directory: Path, key: str, runs: Sequence[Run]) -> dict[str, Any]:
        """What needs no training reaches on a task: `baselines`, and `curves` where there are some.

        Args:
            directory: the results directory, where what is costly is kept.
            key: the digest of the task.
            runs: finished runs of the task, at least one.
        """

    def further(
        self,
        experiment: Experiment,  # noqa: ARG002
        runs: Sequence[Run],  # noqa: ARG002
        comparisons: Sequence[Comparison],  # noqa: ARG002
    ) -> Mapping[str, Sequence[dict[str, Any]]]:
        """What else runs say, by key of `results.json`: `fits`, `plain_curve`, `associations`, `claims`."""
        return {}


def laboratory_of(run: RunSpec) -> Laboratory:
    """The laboratory of a run."""
    found: Laboratory = slice_of("compare", run).LABORATORY
    return found
