"""Runs: one run trained to its end: its milestones recorded, its state stored, and stopped where nothing is lost."""

import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any

from headway.runs.lease import Lease
from headway.runs.recorder import Recorder
from headway.runs.stop import Stop, Wishes
from headway.train.checkpoint import Checkpoint
from headway.train.loop import Beat, Event, Measure, Measured, Milestone, Study, Unrecorded, train

_BETWEEN_S = 1.0
"""Between two milestones it is not stored more often than that."""


class Course:
    """The training of a study in a run folder.

    Args:
        study: what is trained, standing where it goes on.
        recorder: what writes the folder.
        lease: of the folder.
        wishes: whether to stop.
        steps: when it is trained.
        log_every: steps between records.
        store_every_s: seconds between checkpoints.
        count: seconds and memory until now, from the seconds spent in steps.
        keeps_weights: steps whose weights are kept: runs start there, or it was asked for.
        tell: is given each line that was recorded.
    """

    def __init__(
        self,
        study: Study,
        recorder: Recorder,
        lease: Lease,
        wishes: Wishes,
        *,
        steps: int,
        log_every: int,
        store_every_s: float,
        count: Callable[[float], Mapping[str, Any]],
        keeps_weights: Collection[int] = (),
        tell: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ):
        # A step that nothing is measured at is no milestone.
        kept = Measure(due=keeps_weights.__contains__, take=Measured)
        self._keeps_weights, self._tell = keeps_weights, tell
        study = replace(study, measures=(*study.measures, kept)) if keeps_weights else study
        self._study, self._recorder, self._lease, self._wishes = study, recorder, lease, wishes
        self._steps, self._log_every, self._store_every_s, self._count = steps, log_every, store_every_s, count
        self._first, self._stored = study.trainer.step, time.perf_counter()

    def to_the_end(self) -> Generator[bool, None, float]:
        """Train, record and store, an event at a time; returns the seconds spent in steps.

        After each event it pauses, and says whether it has yet to measure what the trainer holds.

        Raises:
            Stop: when it was asked for, and where it is is stored.
            LeaseLost: when another process owns the folder.
            OSError: when the folder cannot be written.
        """
        resumed, event = self._recorder.resumed, None
        begun = resumed.unrecorded if resumed else None
        try:
            for event in self._events(begun):
                self._wishes.patient = True
                self._keep(event)
                # A first step, which may compile the model, and measuring, which changes nothing in the trainer, can
                # be given up at any moment.
                self._wishes.patient = event.step > self._first and not _is_measuring(event)
                yield _is_measuring(event)
        except Stop as stop:
            if event is None or self._wishes.patient or not _is_measuring(event):
                raise
            self._store(event)
            raise Stop(f"at step {event.step} {stop}") from None
        self._wishes.patient = False
        if self._wishes.stop:  # since we looked last
            raise self._wishes.fulfilled(f"at step {self._steps}")
        return event.training_s if event else 0.0

    def _events(self, begun: Unrecorded | None) -> Iterator[Event]:
        """What happens from here; nothing, where the last step is recorded already."""
        if self._recorder.resumed is None or begun is not None or self._first < self._steps:
            yield from train(self._study, steps=self._steps, log_every=self._log_every, begun=begun)

    def _keep(self, event: Event) -> None:
        """Record and store what is due, and stop if that was asked for."""
        self._lease.progress(event.step, event.steps_per_s)
        self._lease.check()
        if isinstance(event, Milestone):
            if event.step in self._keeps_weights:
                self._recorder.keep_weights(event.step, self._study.trainer.weights())
            self._tell(self._recorder.record(event, self._count(event.training_s)["wall_s"]))
        stop = self._wishes.stop
        if (event.step > self._first or event.step == self._steps) and (stop or self._is_due(event)):
            self._store(event)
        if stop:
            raise self._wishes.fulfilled(f"at step {event.step}")

    def _is_due(self, event: Event) -> bool:
        """Whether to store where it is; not just before a milestone at the same step, which may be due itself."""
        if _is_measuring(event):
            return False
        least_s = _BETWEEN_S if isinstance(event, Beat) else 0.0
        return event.step == self._steps or time.perf_counter() - self._stored >= max(self._store_every_s, least_s)

    def _store(self, event: Event) -> None:
        checkpoint = Checkpoint(
            step=event.step,
            state=self._study.trainer.state(),
            counters=self._count(event.training_s),
            unrecorded=event.unrecorded if isinstance(event, Beat) else None,
        )
        self._recorder.checkpoint(checkpoint)
        self._stored = time.perf_counter()


def _is_measuring(event: Event) -> bool:
    return isinstance(event, Beat) and event.measuring
