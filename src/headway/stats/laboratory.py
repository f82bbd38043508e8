"""The contribution of each laboratory to the comparison of arms, and the function that finds it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.base.files import plain
from headway.config.experiment import Experiment
from headway.config.kinds import part_of
from headway.config.run import RunSpec
from headway.stats.evidence import Comparison
from headway.store.run import Run

if TYPE_CHECKING:  # the parts import this file
    from headway.stats.lm.claims import JudgedStatement
    from headway.stats.lm.diversity import LayerAssociation
    from headway.stats.lm.plain_curve import SizeComparison
    from headway.stats.lm.scaling import Fit


@dataclass(frozen=True, kw_only=True)
class ErrorCurve:
    """An error against the length of the prompt, and the ends of its interval."""

    mse: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class References:
    """The metrics that predictors without training reach on a task.

    Attributes:
        baselines: values by predictor and metric: `mse` and its standard error `se`, or `loss_nats`.
        curves: errors by predictor against the length of the prompt, with the lengths under `n_pairs`; None for tasks
            without a length.
    """

    baselines: Mapping[str, Mapping[str, float | None]]
    curves: Mapping[str, tuple[int, ...] | ErrorCurve] | None = None

    @property
    def reached(self) -> Mapping[str, Mapping[str, float]]:
        """The numbers of `baselines`."""
        return {
            name: {metric: value for metric, value in metrics.items() if value is not None}
            for name, metrics in self.baselines.items()
        }

    @property
    def lengths(self) -> tuple[int, ...]:
        """The prompt lengths of the curves."""
        return next((lengths for lengths in (self.curves or {}).values() if isinstance(lengths, tuple)), ())

    @property
    def by_length(self) -> Mapping[str, ErrorCurve]:
        """The curves by name."""
        return {name: curve for name, curve in (self.curves or {}).items() if isinstance(curve, ErrorCurve)}

    def to_json(self) -> dict[str, Any]:
        """Return the content for `results.json`, without curves if there are none."""
        return {key: value for key, value in plain(asdict(self)).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class ExtraResults:
    """The findings of runs beside the comparison of arms."""

    fits: tuple["Fit", ...] = ()
    plain_curve: tuple["SizeComparison", ...] = ()
    associations: tuple["LayerAssociation", ...] = ()
    claims: tuple["JudgedStatement", ...] = ()


class FindingsPart:
    """The part of a laboratory that adds references and findings to the comparison of arms; by default none."""

    def references(self, directory: Path, key: str, runs: Sequence[Run]) -> References:  # noqa: ARG002
        """Return the metrics that predictors without training reach on a task; none are known by default.

        Args:
            directory: the results directory, where what is costly is kept.
            key: the digest of the task.
            runs: finished runs of the task, at least one.
        """
        return References(baselines={})

    def extra(
        self,
        experiment: Experiment,  # noqa: ARG002
        runs: Sequence[Run],  # noqa: ARG002
        comparisons: Sequence[Comparison],  # noqa: ARG002
    ) -> ExtraResults:
        """Return the laboratory's additional findings."""
        return ExtraResults()


LABORATORY = FindingsPart()
"""The part of a laboratory that adds nothing."""


def findings_part_of(run: RunSpec) -> FindingsPart:
    """Return the findings part of the laboratory of a run."""
    laboratory: FindingsPart = part_of(run, "findings")
    return laboratory
