"""Training of transformers on tokens.

* `study`: a run as what the loop drives; `init_from`: what a run does to the run it starts from;
* `loss`: the model with its loss and regularisers; `optimizer`: with its schedule; `ensemble`: many runs as one
  program;
* `evaluate`: how every task is evaluated; `probes`: what heads do meanwhile.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.config.lm.run import TokensRun
from headway.train.loop import Origin, Study, TrainerChoice, TrainingSlice

if TYPE_CHECKING:
    from headway.models.transformer import Transformer


class TokensTrainingSlice(TrainingSlice):
    """Transformers on tokens; torch is loaded when it is needed."""

    def open_study(
        self,
        run: TokensRun,
        *,
        trainer: TrainerChoice = "auto",
        compile: bool | None = None,
        device: str = "auto",
        origin: Origin | None = None,
        beginning: Mapping[str, Any] | None = None,
    ) -> Study:
        """See `study.open_study`."""
        from headway.train.lm.study import open_study

        return open_study(run, trainer=trainer, compile=compile, device=device, origin=origin, beginning=beginning)

    def open_together(
        self, runs: Sequence[TokensRun], *, device: str = "auto", joins: Collection[int] = ()
    ) -> Sequence[Study]:
        """See `together`."""
        from headway.train.lm.ensemble import open_together

        return open_together(runs, device=device, joins=joins)

    def trained_model(self, run: TokensRun, weights: dict[str, np.ndarray]) -> "Transformer":
        """The torch module of a run with these weights."""
        from headway.models.transformer import Transformer
        from headway.models.weights import vocab_size_of

        return Transformer(run.model, vocab_size_of(run.model, weights), weights)

    def trial_steps_per_s(self, run: TokensRun, seconds: float = 0.3) -> float:
        """See `trial`."""
        from headway.train.lm.ensemble import trial_steps_per_s

        return trial_steps_per_s(run, seconds)

    def trial_together_per_s(self, runs: Sequence[TokensRun], seconds: float = 0.3) -> float:
        """See `trial`."""
        from headway.train.lm.ensemble import trial_together_per_s

        return trial_together_per_s(runs, seconds)

    def about_trial(self, run: TokensRun) -> str:  # noqa: ARG002
        """A trial is never compiled."""
        return "timed uncompiled, on one core; long runs are compiled, and take less"


LABORATORY = TokensTrainingSlice()
