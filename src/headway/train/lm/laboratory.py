"""The contribution of transformers on tokens to training; torch is loaded when it is needed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.config.lm.run import TokensRun
from headway.train.loop import Study, TrainingSlice

if TYPE_CHECKING:
    from headway.models.transformer import Transformer

H200_FLOPS = {"fp32": 67e12, "bf16": 989e12}
H200_EXPONENTIALS, H200_BYTES_PER_S = 3.9e12, 4.8e12
"""Per second, by data sheet and by Shah et al. 2024, arXiv 2407.08608."""


class TokensTrainingSlice(TrainingSlice):
    """Transformers on tokens; torch is loaded when it is needed."""

    def open_study(self, run: TokensRun, **options: Any) -> Study:
        """Open the study of a run, with the options of `TrainingSlice.open_study`."""
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

    def trial_steps_per_s(self, *runs: TokensRun, seconds: float = 0.3) -> float:
        """Return the training steps per second of a run, or of several as one batched program, in a short trial."""
        from headway.train.lm.ensemble import trial_steps_per_s

        return trial_steps_per_s(runs, seconds)

    def about_trial(self, run: TokensRun) -> str:  # noqa: ARG002
        """A trial is never compiled."""
        return "timed uncompiled, on one core; long runs are compiled, and take less"

    def roofline(self, run: TokensRun) -> dict[str, float]:
        """Return the seconds of a training step on an H200 by what bounds it: products, exponentials or memory.

        A step takes the longest of the three at least (docs/gpu.md has the formula).

        Examples:
            >>> from headway.config.load import load
            >>> run = load("head-progression", scale="paper").arm("constant-low").spec(0)
            >>> {bound: f"{1e3 * seconds:.2g} ms" for bound, seconds in LABORATORY.roofline(run).items()}
            {'products': '3.1 ms', 'exponentials': '0.0028 ms', 'memory': '0.76 ms'}
        """
        training, budget, n_ctx, pairs = run.training, run.budget, run.task.n_ctx, 0
        for layer, heads in enumerate(run.model.layout.layers):
            seen = min(run.model.window(layer) or n_ctx, n_ctx)
            pairs += heads.n_heads * (n_ctx * seen - seen * (seen - 1) // 2)
        kept = max(0, budget.training_bytes - 16 * budget.n_parameters) * training.accumulate
        return {
            "products": 3 * budget.flops_per_example * training.batch_size / H200_FLOPS[training.precision],
            "exponentials": 2 * pairs * training.batch_size / H200_EXPONENTIALS,
            "memory": (44 * budget.n_parameters + 2 * kept) / H200_BYTES_PER_S,
        }


LABORATORY = TokensTrainingSlice()
