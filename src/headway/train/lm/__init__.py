"""Training of transformers on tokens.

`LABORATORY` is the part that other rooms use; its methods load torch when they are called.

* `study`: a run as the loop drives it;
* `init_from`: the weights of a run that is initialised from another run;
* `loss`: the model with its loss and regularisers; `optimizer`: the optimizers and the learning-rate schedule;
* `ensemble`: many runs as one batched program;
* `evaluate`: evaluation of every task; `probes`: measurements of heads during training.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.config.lm.run import TokensRun
from headway.train.loop import Study, TrainingPart

if TYPE_CHECKING:
    from headway.models.transformer import Transformer


class TokensTrainingPart(TrainingPart):
    """Transformers on tokens; torch is loaded when it is needed."""

    def open_study(self, run: TokensRun, *, folder: Path | None = None, **options: Any) -> Study:  # noqa: ARG002
        """Open the study of a run, with the options of `TrainingPart.open_study`."""
        from headway.train.lm.study import open_study

        return open_study(run, **options)

    def open_together(self, runs: Sequence[TokensRun], **options: Any) -> Sequence[Study]:
        """Open the studies of runs that are trained as one batched program."""
        from headway.train.lm.ensemble import open_together

        return open_together(runs, **options)

    def trained_model(self, run: TokensRun, weights: dict[str, np.ndarray]) -> "Transformer":
        """The torch module of a run with these weights."""
        from headway.models.transformer import Transformer
        from headway.models.weights import vocab_size_of

        return Transformer(run.model, vocab_size_of(run.model, weights), weights)

    def trial_steps_per_s(self, *runs: TokensRun, seconds: float = 0.3) -> tuple[float, ...]:
        """Return the training steps per second of a run, or of several as one batched program, in a short trial."""
        from headway.train.lm.ensemble import trial_steps_per_s

        return trial_steps_per_s(runs, seconds)

    def about_trial(self, run: TokensRun) -> str:  # noqa: ARG002
        """A trial is never compiled."""
        return "timed uncompiled, on one core; long runs are compiled, and take less time"


LABORATORY = TokensTrainingPart()
