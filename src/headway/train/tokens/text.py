"""Train: how a language model is judged beside its loss: by n-grams, and by what it writes."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from headway.data.tokens.examples import Examples
from headway.data.tokens.text import TextExamples
from headway.declare.tokens.run import PER_BYTE, TEXT_KEPT, TokensRun
from headway.train.loop import Conclusion, Measure, Measured
from headway.train.tokens.judge import Judge
from headway.train.tokens.samples import prompt_tokens, take_samples


class TextJudge(Judge):
    """Adds samples before and after training, and what needs no training."""

    examples: TextExamples
    _last_samples: tuple[dict[str, Any], ...] = ()

    @classmethod
    def check(cls, run: TokensRun, examples: Examples) -> None:
        """The tokenizer has to make something of the prompt of samples."""
        if run.samples is not None:
            assert isinstance(examples, TextExamples)
            prompt_tokens(run.samples, examples.tokens)

    def further_measures(self) -> tuple[Measure, ...]:
        """Samples before and after."""
        if self.run.samples is None:
            return ()
        return (Measure(due=lambda step: step in (0, self.steps), take=self._sampled),)

    def conclude(self) -> Conclusion:
        """Adds the loss in bits per byte, which does not depend on the tokens, where they give the text back."""
        found, run, kept = super().conclude(), self.run, self.examples.tokens.text_kept
        metrics = {**found.metrics, "text_kept": kept}
        if kept < TEXT_KEPT:
            return replace(found, metrics=metrics)
        tokens = n_bytes = 0
        for batch in self.examples.evaluation_batches(run.evaluation.sequences, self.loss.part_size):
            targets = batch.targets[batch.targets >= 0]
            tokens += targets.size
            n_bytes += self.examples.tokens.tokenizer.n_bytes(targets)
        bits = found.metrics["eval_loss_nats"] / math.log(2) * tokens / n_bytes if n_bytes else None
        return replace(found, metrics={**metrics, PER_BYTE: bits})

    def further_metrics(self) -> dict[str, Any]:
        """What n-grams and the grammar say, and how repetitive samples are."""
        tokens = self.examples.tokens
        samples = self._last_samples or take_samples(self.loss.module, self.run, tokens)
        metrics: dict[str, Any] = {
            "unigram_loss_nats": tokens.unigram_loss_nats,
            "bigram_loss_nats": tokens.bigram_loss_nats,
            "entropy_nats": tokens.entropy_nats,
        }
        if samples:
            metrics["repetition"] = np.mean([sample["repetition"] for sample in samples], axis=0).tolist()
            metrics["unused_token_share"] = float(np.mean([sample["unused_share"] for sample in samples]))
        return metrics

    def _sampled(self) -> Measured:
        self._last_samples = take_samples(self.loss.module, self.run, self.examples.tokens)
        return Measured(samples=self._last_samples)
