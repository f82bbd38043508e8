"""The training loop: a run as an iterator of events.

A `Study` is what one kind of run supplies: a trainer, the measurements during training, and the evaluation at the end.
`train` drives the trainer and yields events. It prints and writes nothing: the caller records the milestones, and
between any two events may store the trainer or stop.

`TrainingPart` is what a laboratory supplies so that its runs can be trained; `training_part_of` finds it.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from headway.config.kinds import part_of
from headway.config.run import RunSpec
from headway.errors import UserError
from headway.store.checkpoint import Arrays, Unrecorded

if TYPE_CHECKING:
    from jaxtyping import Float64

_CHUNK_S = 0.5  # a caller hears from the trainer about twice a second
_RECENT_S = 60.0  # the rate is that of about the last minute, which an evaluation or a busy moment hardly changes


class Trainer(Protocol):
    """A model and its optimizer, which advance together; advancing in other portions changes no bit."""

    @property
    def step(self) -> int:
        """Optimizer steps done; step t (the first is 1) sees the batch of step t."""

    def advance(self, n: int) -> Float64[np.ndarray, "n ..."]:
        """Do n steps and return the training loss of each, followed by what stands beside it (`Study.terms`).

        One of several that are trained together does as many as the others did.

        Raises:
            headway.errors.Diverged: when a loss is not finite, naming its step.
        """

    def state(self) -> Arrays:
        """Everything that the coming steps depend on, weights under `weights/NAME`."""

    def restore(self, step: int, state: Arrays) -> None:
        """Go on from what `state` returned at a step."""

    def weights(self) -> Arrays:
        """The weights alone, without prefix."""


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """The measurements of a step: numbers (or lists of numbers) for its record, arrays per head, and texts."""

    metrics: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    samples: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Something that is measured at the steps where it is `due`; taking it changes nothing in the trainer."""

    due: Callable[[int], bool]
    take: Callable[[], Measurements]


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """The evaluation of a trained model: its final metrics, and curves that are too long for a record."""

    metrics: Mapping[str, Any]
    curves: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Study:
    """The parts that one kind of run supplies to the loop.

    Attributes:
        trainer: the trainer of the model.
        measures: the measurements during training.
        execution: the facts of the execution (trainer, instruction set, compile, threads, ...): they may change bits,
            but are no part of the declaration.
        conclude: the function that evaluates the trained model.
        loss: the name under which the training loss is recorded.
        terms: the names of the trainer's further terms beside the loss, recorded under `regularizer`.
        steps: the number of steps, if the declaration alone does not give it.
        extra: the function that returns further values for the record of a step.
        carried: the names of values in the last record that are also final metrics.
        files: the texts that are kept in the run's folder, by name.
        memory: the function that returns the memory in use, in bytes by metric; of several processes on a run, the
            largest counts.
        clock: the clock in seconds, from any origin; runs that are trained together all have the seconds of the whole
            batch.
        close: the function that ends what the trainer has started, whatever ends the run.
    """

    trainer: Trainer
    measures: tuple[Measure, ...]
    execution: Mapping[str, Any]
    conclude: Callable[[], Conclusion]
    loss: str = "train_mse"
    terms: tuple[str, ...] = ()
    steps: int | None = None
    extra: Callable[[int], Mapping[str, Any]] = lambda _step: {}
    carried: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    memory: Callable[[], Mapping[str, int]] = dict
    clock: Callable[[], float] = time.perf_counter
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Beat:
    """A sign of life at a step that is not recorded yet, from which the run could resume.

    `losses` are those since the milestone at step `since`, portion by portion. `measuring` says that the next event is
    a milestone at this same step; measuring leaves the trainer as it is.
    """

    step: int
    steps_per_s: float
    training_s: float
    since: int
    losses: tuple[np.ndarray, ...]
    measuring: bool

    @property
    def unrecorded(self) -> Unrecorded:
        """The losses since the last record, which a run needs to resume from here."""
        return Unrecorded(since=self.since, losses=np.concatenate(self.losses))


@dataclass(frozen=True, kw_only=True)
class Milestone:
    """A step to be recorded.

    `steps_per_s` is the recent rate, measurements included; `training_s` the seconds spent in optimizer steps alone
    since `train` began.
    """

    step: int
    steps_per_s: float
    training_s: float
    metrics: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    samples: tuple[Mapping[str, Any], ...] = ()


Event = Beat | Milestone


def train(study: Study, *, steps: int, log_every: int, begun: Unrecorded | None = None) -> Iterator[Event]:
    """Train to a number of steps, from wherever the trainer is.

    Milestones are step 0, every `log_every` steps, the steps at which a measure is due, and the last. Each records
    the mean of all step losses since the one before. Between milestones comes a `Beat` about twice a second, and one
    before anything is measured. `begun` is what a trainer that stands between two milestones has behind it.

    Raises:
        headway.errors.Diverged: when a loss is not finite.
    """
    trainer, pace = study.trainer, _Pace(study.trainer.step, study.clock)
    since, losses = (begun.since, [begun.losses]) if begun else (trainer.step, [])
    if trainer.step == 0:
        yield _milestone(study, pace, [])
    while since < steps:
        logged = min(steps, (since // log_every + 1) * log_every)
        target = next((step for step in range(since + 1, logged) if _is_measured(study.measures, step)), logged)
        while trainer.step < target:
            losses.append(pace.advance(trainer, target))
            measuring = trainer.step == target
            if not measuring or _is_measured(study.measures, target):
                yield Beat(
                    step=trainer.step,
                    steps_per_s=pace.rate(trainer.step),
                    training_s=pace.training_s,
                    since=since,
                    losses=tuple(losses),
                    measuring=measuring,
                )
        yield _milestone(study, pace, losses)
        since, losses = target, []


def _is_measured(measures: tuple[Measure, ...], step: int) -> bool:
    return any(measure.due(step) for measure in measures)


def _milestone(study: Study, pace: "_Pace", losses: list[np.ndarray]) -> Milestone:
    step = study.trainer.step
    # One array, one mean: summing portion by portion would depend on where the portions end.
    metrics: dict[str, Any] = {**study.extra(step)}
    if losses:
        loss, *terms = np.atleast_1d(np.concatenate(losses).mean(0)).tolist()
        metrics[study.loss] = loss
        metrics |= {"regularizer": dict(zip(study.terms, terms, strict=True))} if study.terms else {}
    arrays: Arrays = {}
    samples: tuple[Mapping[str, Any], ...] = ()
    for measure in study.measures:
        if measure.due(step):
            measured = measure.take()
            metrics |= measured.metrics
            arrays |= measured.arrays
            samples += measured.samples
    return Milestone(
        step=step,
        steps_per_s=pace.rate(step),
        training_s=pace.training_s,
        metrics=metrics,
        arrays=arrays,
        samples=samples,
    )


class _Pace:
    """Portions of about half a second, and the recent rate."""

    def __init__(self, step: int, clock: Callable[[], float]):
        self.training_s, self._clock = 0.0, clock
        # One step first: it may compile the model.
        self._portion = 1
        self._step, self._time = step, time.perf_counter()
        self._steps_sum, self._time_sum = 0.0, 0.0

    def advance(self, trainer: Trainer, target: int) -> np.ndarray:
        n = min(target - trainer.step, self._portion)
        began = self._clock()
        losses = trainer.advance(n)
        took = self._clock() - began
        if not self.training_s:
            # The first step may have compiled the model; at its rate the run would seem to take days.
            self._step, self._time = trainer.step, time.perf_counter()
        self.training_s += took
        fitting = int(n * _CHUNK_S / max(took, 1e-9))
        self._portion = max(1, min(8 * max(n, self._portion), fitting))
        return losses

    def rate(self, step: int) -> float:
        """Steps per second of about the last minute, an exponential window; 0 while it is not known."""
        now = time.perf_counter()
        elapsed = max(now - self._time, 1e-9)
        kept = math.exp(-elapsed / _RECENT_S)
        self._steps_sum = kept * self._steps_sum + (step - self._step)
        self._time_sum = kept * self._time_sum + elapsed
        self._step, self._time = step, now
        return self._steps_sum / self._time_sum if self._steps_sum else 0.0


TrainerChoice = Literal["auto", "fused", "torch"]
"""The trainer of a model: `fused` is native code; `auto` takes native code if it can train the model."""


@dataclass(frozen=True, kw_only=True)
class InitFrom:
    """The run that another one is initialised from.

    Attributes:
        name: the arm and the seed of that run, for sentences.
        run: the declaration of that run.
        record: the record of its own initialisation from another run, from its folder; None without one.
        steps: the number of its training steps.
        weights: the function that returns the weights of a step, or of the last step for None.
    """

    name: str
    run: RunSpec
    record: Mapping[str, Any] | None
    steps: int
    weights: Callable[[int | None], dict[str, np.ndarray]]


class TrainingPart(ABC):
    """A laboratory's part in training; its runs are of the laboratory's own type."""

    @abstractmethod
    def open_study(
        self,
        run: Any,
        *,
        trainer: TrainerChoice = "auto",
        compile: bool | None = None,
        device: str = "auto",
        init_from: InitFrom | None = None,
        init_record: Mapping[str, Any] | None = None,
        folder: Path | None = None,
    ) -> Study:
        """A run, ready to be trained from its initial weights, or from those that it starts from.

        Args:
            run: the declared run.
            trainer: the trainer: `auto`, `fused` or `torch`.
            compile: True to compile the loss with torch; None: if that is faster. If torch cannot, a warning says so.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            init_from: the run that it is initialised from; None if there is none, or if the run resumes.
            init_record: the record of the initialisation from another run, if the run resumes and has one.
            folder: the folder of the run; None if nothing is kept.

        Raises:
            UserError: if a trainer or device cannot train the run, or data are missing or invalid.
        """

    def open_together(
        self,
        runs: Sequence[Any],
        *,
        device: str = "auto",  # noqa: ARG002
        joins: Collection[int] = (),  # noqa: ARG002
    ) -> Sequence[Study]:
        """Open studies of several runs of one shape; studies that are advanced in turn take their steps together.

        Args:
            runs: all runs of the program; those that are not advanced fill rows that nobody reads.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            joins: the steps that some runs were stored at, and at which they are restored.

        Raises:
            UserError: if `open_study` would raise it, or the laboratory cannot train runs together.
        """
        raise UserError(f"{len(runs)} runs cannot be trained together in this laboratory; train each alone")

    @abstractmethod
    def trained_model(self, run: Any, weights: dict[str, np.ndarray]) -> Any:
        """The torch module of a run, as it was trained, with these weights."""

    @abstractmethod
    def trial_steps_per_s(self, *runs: Any, seconds: float = 0.3) -> tuple[float, ...]:
        """Optimizer steps per second of processor time, of each portion of a trial of about `seconds`.

        The trial is eager where torch trains, on one thread; what else the machine does hardly changes its rates.
        Several runs, of one shape, are trained together, and their steps are added up. Nothing is kept.

        Raises:
            UserError: if `open_together` would raise it for several runs.
        """

    def about_trial(self, run: Any) -> str:  # noqa: ARG002
        """Return a sentence on how the trial differs from a run; empty if it does not."""
        return ""

    def why_not_fused(self, run: Any) -> str | None:  # noqa: ARG002
        """Return a clause on why the fused trainer cannot train a run, or None if it can."""
        return "it trains in-context models of one layer only"

    def slower_unasked(self, run: Any) -> str | None:  # noqa: ARG002
        """Return why a run that users expect the fused trainer to train is left to PyTorch, or None."""
        return None


def training_part_of(run: RunSpec) -> TrainingPart:
    """Return the training part of the laboratory of a run."""
    part: TrainingPart = part_of(run, "train")
    return part
