"""Train: what a laboratory supplies so that its runs can be trained, and the one way to get at it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headway.declare.laboratories import part_of
from headway.declare.run import RunSpec
from headway.errors import UserError
from headway.train.loop import Study

TrainerChoice = Literal["auto", "fused", "torch"]
"""What trains a model: `fused` is native code; `auto` takes it where it can."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The run that another one starts from.

    Attributes:
        name: its arm and seed, for sentences.
        run: what was asked of it.
        beginning: what its folder says of how it began, where it started from another run itself; None where not.
        steps: how many it was trained for.
        weights: those of a step; of the last for None.
    """

    name: str
    run: RunSpec
    beginning: Mapping[str, Any] | None
    steps: int
    weights: Callable[[int | None], dict[str, np.ndarray]]


BEGINNING = "start.json"
"""The file of a run's folder that says how a run began that started from another."""


class TrainingSlice(ABC):
    """A laboratory's slice of this room; its runs are of the laboratory's own type."""

    @abstractmethod
    def open_study(
        self,
        run: Any,
        *,
        trainer: TrainerChoice = "auto",
        compile: bool | None = None,
        device: str = "auto",
        origin: Origin | None = None,
        beginning: Mapping[str, Any] | None = None,
    ) -> Study:
        """A run, ready to be trained from its initial weights, or from those that it starts from.

        Args:
            run: what is asked for.
            trainer: what trains it.
            compile: whether torch compiles the loss; None: where that pays. Where torch cannot, a warning says so.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            origin: the run that it starts from; None where it starts from nothing, or goes on.
            beginning: of a run that goes on and started from another: what its folder says of that.

        Raises:
            UserError: for a trainer or device that cannot do it, or data that are missing or not fit.
        """

    def open_together(
        self,
        runs: Sequence[Any],
        *,
        device: str = "auto",  # noqa: ARG002
        joins: Collection[int] = (),  # noqa: ARG002
    ) -> Sequence[Study]:
        """Runs of one shape, a study of each, which take their steps together when they are advanced in turn.

        Args:
            runs: all of the program; those that are not advanced take part as rows that nobody reads.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            joins: steps that some of them were stored at: they are restored when the others have come there.

        Raises:
            UserError: as `open_study`, or where a laboratory cannot.
        """
        raise UserError(f"{len(runs)} runs were to be trained together, which this laboratory cannot; train each alone")

    @abstractmethod
    def trained_model(self, run: Any, weights: dict[str, np.ndarray]) -> Any:
        """The torch module of a run, as it was trained, with these weights."""

    @abstractmethod
    def trial_steps_per_s(self, run: Any, seconds: float = 0.3) -> float:
        """Optimizer steps per second of a trial of about `seconds`, eager where torch trains; nothing is kept."""

    def trial_together_per_s(self, runs: Sequence[Any], seconds: float = 0.3) -> float:  # noqa: ARG002
        """The same of runs of one shape that are trained together: the steps of all of them.

        Raises:
            UserError: as `open_together`.
        """
        raise UserError(f"{len(runs)} runs were to be tried together, which this laboratory cannot; try one alone")

    def about_trial(self, run: Any) -> str:  # noqa: ARG002
        """How the trial differs from a run, in a sentence; empty where it does not."""
        return ""

    def why_not_fused(self, run: Any) -> str | None:  # noqa: ARG002
        """Why the fused trainer cannot train a run, in a clause; None where it can."""
        return "it trains in-context models of one layer only"

    def slower_unasked(self, run: Any) -> str | None:  # noqa: ARG002
        """Why a run that one would expect the fused trainer to train is left to PyTorch; None where none is."""
        return None


def laboratory_of(run: RunSpec) -> TrainingSlice:
    """The laboratory of a run."""
    found: TrainingSlice = part_of(run, "train")
    return found
