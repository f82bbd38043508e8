"""Train, the in-context laboratory: its `study`, by native code or by the `torch_trainer` with its `optimizer`."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.declare.icl.model import OneLayer, Stack
from headway.declare.icl.run import IclRun
from headway.icl import fused
from headway.train.laboratory import Origin, TrainerChoice, TrainingSlice
from headway.train.loop import Study

if TYPE_CHECKING:
    from headway.icl.attention import InContextAttention


class IclTrainingSlice(TrainingSlice):
    """In-context regression."""

    def open_study(
        self,
        run: IclRun,
        *,
        trainer: TrainerChoice = "auto",
        compile: bool | None = None,
        device: str = "auto",
        origin: Origin | None = None,
        beginning: Mapping[str, Any] | None = None,
    ) -> Study:
        """See `study.open_study`; these runs start from nothing."""
        del origin, beginning
        from headway.train.icl.study import open_study

        return open_study(run, trainer=trainer, compile=compile, device=device)

    def trained_model(self, run: IclRun, weights: dict[str, np.ndarray]) -> "InContextAttention":
        """The torch module of a run with these weights."""
        from headway.icl.attention import InContextAttention

        return InContextAttention(run.model, run.task, weights)

    def trial_steps_per_s(self, run: IclRun, seconds: float = 0.3) -> float:
        """Of a trainer from its initial weights."""
        trainer = self.open_study(run, compile=False).trainer
        # The first step also pays for what is set up once.
        trainer.advance(1)
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            portion = max(1, steps)
            trainer.advance(portion)
            steps += portion
        return steps / (time.perf_counter() - began)

    def about_trial(self, run: IclRun) -> str:
        """Stacks are compiled in long runs."""
        if not isinstance(run.model, Stack):
            return ""
        return "stacks were timed uncompiled; compiled, as long runs are, they take a half to a fifth of the time"

    def why_not_fused(self, run: IclRun) -> str | None:
        """See `fused.obstacle`."""
        return fused.obstacle(run)

    def slower_unasked(self, run: IclRun) -> str | None:
        """Stacks are PyTorch's by design; there is nothing to warn of."""
        return fused.obstacle(run) if isinstance(run.model, OneLayer) else None


LABORATORY = IclTrainingSlice()
