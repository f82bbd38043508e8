"""Train: how a language model is judged, while it trains and at the end; judging changes nothing in it."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from headway.data.text import Batch, Tokens, evaluation_batches
from headway.declare.run import TextRun
from headway.train.loop import Conclusion, Measure, Measured
from headway.train.samples import take_samples
from headway.train.schedule import rate_share
from headway.train.text_loss import TextLoss


class TextJudge:
    """Measures the model of a loss at its steps."""

    def __init__(self, run: TextRun, tokens: Tokens, loss: TextLoss, steps: int):
        self._run, self._tokens, self._loss, self._steps = run, tokens, loss, steps
        self._last_samples: tuple[dict[str, Any], ...] = ()

    def measures(self) -> tuple[Measure, ...]:
        """The evaluation during training, and samples before and after."""
        during = Measure(due=_every(self._run.evaluation.every, self._steps), take=self._evaluated)
        if self._run.samples is None:
            return (during,)
        return during, Measure(due=lambda step: step in (0, self._steps), take=self._sampled)

    def extra(self, step: int) -> dict[str, Any]:
        """Tokens trained on until a step, and the step size that it had."""
        tokens = {"tokens": round(step * self._tokens_per_step)}
        if step == 0:
            return tokens
        training = self._run.training
        return tokens | {"learning_rate": training.learning_rate * rate_share(training, step, self._steps)}

    def conclude(self) -> Conclusion:
        """How the trained model is judged."""
        run, tokens, module = self._run, self._tokens, self._loss.module
        batches = evaluation_batches(tokens, run.task, run.evaluation.sequences, self._loss.part_size)
        samples = self._last_samples or take_samples(module, run, tokens)
        metrics: dict[str, Any] = {
            "eval_loss_nats": self._loss.mean_over(batches),
            "total_heads": run.model.layout.total,
            "n_layers": run.model.n_layers,
            "n_parameters": sum(parameter.numel() for parameter in module.parameters()),
            "tokens": round(self._steps * self._tokens_per_step),
            "unigram_loss_nats": tokens.unigram_loss_nats,
            "bigram_loss_nats": tokens.bigram_loss_nats,
            "entropy_nats": tokens.entropy_nats,
            **self._lane(),
        }
        if samples:
            metrics["repetition"] = np.mean([sample["repetition"] for sample in samples], axis=0).tolist()
            metrics["unused_token_share"] = float(np.mean([sample["unused_share"] for sample in samples]))
        return Conclusion(metrics=metrics)

    def _evaluated(self) -> Measured:
        return Measured(metrics={"eval_loss_nats": self._loss.mean_over(self._during), **self._lane()})

    def _sampled(self) -> Measured:
        self._last_samples = take_samples(self._loss.module, self._run, self._tokens)
        return Measured(samples=self._last_samples)

    def _lane(self) -> dict[str, Any]:
        model = self._run.model
        return {"lane_share": self._loss.lane_share(self._during[0])} if model.embedding_width < model.d_model else {}

    @cached_property
    def _during(self) -> list[Batch]:
        run = self._run
        return list(evaluation_batches(self._tokens, run.task, run.evaluation.sequences_during, self._loss.part_size))

    @cached_property
    def _tokens_per_step(self) -> float:
        """Targets of a step: of every position, or with padding the mean over the documents."""
        task, batch_size = self._run.task, self._run.training.batch_size
        if task.padding == "packed":
            return batch_size * task.n_ctx
        lengths = np.diff(self._tokens.train_ends, prepend=0) - 1
        return batch_size * float((np.minimum(lengths, task.n_ctx) - 1).clip(0).mean())


def _every(n: int, last: int) -> Callable[[int], bool]:
    return lambda step: step % n == 0 or step == last
