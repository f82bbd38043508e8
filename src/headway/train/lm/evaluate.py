"""Evaluation of a model during and after training; evaluation changes nothing in the model.

The metrics of a text are `eval_loss_nats`, `eval_bits_per_byte` and `text_kept`, the n-gram losses that come with the
tokens, `entropy_nats` where it is known, and `repetition` of generated text.

* `Judge` measures the evaluation loss and the run metrics of plugins.
* `SyntheticJudge` evaluates a task whose answers are known: the share of right answers, and whether the task is solved.
  A value beyond the best possible one is a defect and fails the run.
* `TextJudge` evaluates a language model beside its loss: by n-grams, and by the text that it generates.
* `repetition` measures how repetitive generated text is.

Papers: head-progression study (November 2024), whose samples begin well, decay within 500 tokens and loop later;
nothing was measured there.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from headway.base import rng
from headway.config.lm.measurement import PROMPT, Samples
from headway.config.lm.run import TEXT_KEPT, TokensRun
from headway.config.lm.task import SyntheticTask
from headway.config.metrics import METRICS
from headway.config.plugins import Entry, call, of_kind
from headway.config.run import PER_BYTE, imported
from headway.data.batch import Batch, Examples
from headway.data.text import TextExamples
from headway.data.token_store import Tokens
from headway.errors import BeyondPossible, UserError, shortened
from headway.models.generate import generate
from headway.models.transformer import Transformer
from headway.train.lm.loss import TokensLoss
from headway.train.lm.optimizer import rate_share
from headway.train.loop import Conclusion, Measure, Measurements


class Judge:
    """Measures the model of a loss at its steps; what a kind of task adds overrides the last two methods."""

    def __init__(self, examples: Examples, loss: TokensLoss, steps: int):
        self.run, self.examples, self.loss, self.steps = loss.run, examples, loss, steps

    @classmethod
    def check(cls, run: TokensRun, examples: Examples) -> None:
        """Raise UserError if a run cannot be evaluated; called before training.

        Raises:
            UserError: saying what cannot be.
        """

    def measures(self) -> tuple[Measure, ...]:
        """The evaluation during training, and what the task adds."""
        every = self.run.evaluation.every
        during = Measure(due=lambda step: step % every == 0 or step == self.steps, take=self._evaluated)
        return (during, *self.extra_measures())

    def extra(self, step: int) -> dict[str, Any]:
        """Tokens trained on until a step, and the step size that it had."""
        tokens = {"tokens": self._tokens_at(step)}
        if step == 0:
            return tokens
        training = self.run.training
        return tokens | {"learning_rate": training.learning_rate * rate_share(training, step, self.steps)}

    def conclude(self) -> Conclusion:
        """Evaluate the trained model."""
        run = self.run
        batches = self.examples.evaluation_batches(run.evaluation.sequences, self.loss.part_size)
        metrics = {
            **self.judged(batches),
            "total_heads": run.model.layout.total,
            "n_layers": run.model.n_layers,
            "n_parameters": sum(parameter.numel() for parameter in self.loss.module.parameters()),
            "tokens": self._tokens_at(self.steps),
            **self._lane(),
            **self.extra_metrics(),
        }
        return Conclusion(metrics=metrics)

    def judged(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """Return the metrics of the model on evaluation batches, during training and at the end."""
        plugin_metrics = tuple(of_kind("run metric", self.run.plugins))
        kept = list(batches) if plugin_metrics else batches
        metrics: dict[str, Any] = {f"eval_{self.run.task.loss}": self.loss.mean_over(kept)}
        if plugin_metrics:
            module = self.loss.module
            module.eval()
            with torch.no_grad():
                metrics |= {entry.name: _of_run(entry, module, kept) for entry in plugin_metrics}
            module.train()
        return metrics

    def extra_measures(self) -> tuple[Measure, ...]:
        """Return the additional measurements that are taken during training."""
        return ()

    def extra_metrics(self) -> dict[str, Any]:
        """Return the additional metrics that are computed at the end."""
        return {}

    def _evaluated(self) -> Measurements:
        return Measurements(metrics={**self.judged(self._during), **self._lane()})

    def _lane(self) -> dict[str, Any]:
        model = self.run.model
        return {"lane_share": self.loss.lane_share(self._during[0])} if model.embedding_width < model.d_model else {}

    @cached_property
    def _during(self) -> list[Batch]:
        return list(self.examples.evaluation_batches(self.run.evaluation.sequences_during, self.loss.part_size))

    def _tokens_at(self, step: int) -> int:
        return round(step * self._tokens_per_step)

    @cached_property
    def _tokens_per_step(self) -> float:
        return self.examples.targets_per_step(self.run.training.batch_size)


def _of_run(entry: Entry, module: Transformer, batches: Iterable[Batch]) -> float:
    """Return a plugin's metric of a run."""

    def why_not(value: object) -> str:
        try:
            float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return f"gave {shortened(repr(value))}; give one number"
        return ""

    def equal(one: Any, other: Any) -> bool:
        return bool(np.array_equal(float(one), float(other), equal_nan=True))

    return float(call(f"run metric {entry.name}", entry.value, module, batches, why_not=why_not, equal=equal))


def judge_class(run: TokensRun) -> type[Judge]:
    """Return the class of evaluation that the task of a run names."""
    found: type[Judge] = imported(run.task.judge)
    return found


_ROUNDING = 1e-9


class SyntheticJudge(Judge):
    """Counts right answers over what is asked; of answers that are numbers, the share of variance that is missed."""

    def judged(self, batches: Iterable[Batch]) -> dict[str, Any]:
        """The loss, the accuracy or `nmse`, and whether that is a solution.

        Raises:
            BeyondPossible: when no model of this shape can be as good.
        """
        task, kept = self.run.task, list(batches)
        assert isinstance(task, SyntheticTask)
        metrics = super().judged(kept)
        answers = [self._answers(batch) for batch in kept]
        if task.loss == "mse":
            metrics["nmse"] = _nmse(kept, answers)
            self._check_possible(metrics)
            return metrics
        right = np.concatenate([(a.argmax(2) == b.targets)[b.asked] for a, b in zip(answers, kept, strict=True)])
        metrics["accuracy"] = accuracy = float(right.mean())
        metrics["solved"] = float(task.is_solved(accuracy))
        self._check_possible(metrics)
        if kept[0].kinds is not None:
            kinds = np.concatenate([np.broadcast_to(b.kinds[:, None], b.asked.shape)[b.asked] for b in kept])  # type: ignore[index]
            metrics["accuracy_by_kind"] = [float(right[kinds == kind].mean()) for kind in range(int(kinds.max()) + 1)]
        if task.asked_last is None:
            metrics["accuracy_by_length"] = _by_octave(right, np.concatenate([b.asked.nonzero()[1] + 1 for b in kept]))
        return metrics

    def _check_possible(self, found: Mapping[str, float]) -> None:
        """Raise an error if a metric is better than the best possible value.

        Raises:
            BeyondPossible: naming it.
        """
        task = self.run.task
        for name, best in task.best_possible(self.run.model).items():
            if name not in found:
                continue
            beyond = found[name] - best if METRICS[name].better == "higher" else best - found[name]
            if beyond > _ROUNDING:
                raise BeyondPossible(
                    f"{name} is {found[name]:.6g}, but at {task.title} no model of this shape can do better than "
                    f"{best:.6g}; the measurement or the bound is wrong, so please report it"
                )

    def _answers(self, batch: Batch) -> np.ndarray:
        """Return the model's outputs for a batch, without gradients or dropout."""
        module, (inputs, _) = self.loss.module, self.loss.tensors(batch)
        module.eval()
        with torch.no_grad():
            answers, _ = module(inputs)
        module.train()
        return np.asarray(answers.float().cpu().numpy())


def _by_octave(right: np.ndarray, lengths: np.ndarray) -> list[float | None]:
    """The share that is right at lengths of 1, 2, 3 to 4, 5 to 8, ...; None where nothing is asked.

    Examples:
        >>> _by_octave(np.array([True, False, True]), np.array([2, 3, 4]))
        [None, 1.0, 0.5]
    """
    octaves = np.ceil(np.log2(lengths)).astype(int)
    shares = (right[octaves == octave] for octave in range(int(octaves.max()) + 1))
    return [float(share.mean()) if len(share) else None for share in shares]


def _nmse(batches: list[Batch], answers: list[np.ndarray]) -> float:
    """Mean squared error over the variance of what is asked for."""
    answered = np.concatenate([a[b.asked] for a, b in zip(answers, batches, strict=True)]).astype(float)
    true = np.concatenate([b.targets[b.asked] for b in batches]).astype(float)
    return float(((answered - true) ** 2).mean() / true.var())


GRAM = 4
BLOCK = 100
"""Repetition is given for each so many tokens, as the share of runs of four that stood earlier in the sample."""


def prompt_tokens(wanted: Samples, tokens: Tokens) -> list[int]:
    """The prompt's tokens; for an empty prompt the end of a text, after which one begins.

    So it is for the prompt that nobody asked for, where the tokenizer makes nothing of it, such as for ids.

    Raises:
        UserError: when the tokenizer makes nothing of the prompt.
    """
    if wanted.prompt and (prompt := tokens.tokenizer.encode(wanted.prompt)):
        return prompt
    if wanted.prompt not in ("", PROMPT):
        raise UserError(f"samples.prompt {wanted.prompt!r}: the tokenizer gives no token for it; give another prompt")
    return [tokens.end_of_text]


def repetition(written: Sequence[int]) -> list[float]:
    """Return, for each 100 tokens, the share whose last four tokens, their own included, stood earlier in the sample.

    Examples:
        >>> repetition([1, 2, 3, 4, 5, 1, 2, 3, 4, 9])
        [0.14285714285714285]
    """
    seen: set[tuple[int, ...]] = set()
    again: list[bool] = []
    for end in range(GRAM, len(written) + 1):
        gram = tuple(written[end - GRAM : end])
        again.append(gram in seen)
        seen.add(gram)
    # The first three tokens of a sample end no four of its own.
    blocks = [again[max(0, first - GRAM + 1) : first + BLOCK - GRAM + 1] for first in range(0, len(written), BLOCK)]
    return [float(np.mean(block)) for block in blocks if block]


def _write(module: Transformer, prompt: list[int], wanted: Samples, n_ctx: int, seed: int) -> list[int]:
    """Generate the wanted number of tokens; beyond n_ctx, continue from the second half of the context.

    Positions beyond n_ctx were never trained: text generated there would show their effect instead of the model's.
    """
    text, portion = list(prompt[-(n_ctx - 1) :]) if n_ctx > 1 else prompt[-1:], 0
    first = len(text)
    while len(text) - first < wanted.tokens:
        context = text if len(text) < n_ctx else text[-max(1, n_ctx // 2) :]
        text += generate(
            module,
            context,
            n_tokens=min(wanted.tokens - (len(text) - first), max(1, n_ctx - len(context))),
            temperature=wanted.temperature,
            top_k=wanted.top_k,
            top_p=wanted.top_p,
            seed=(seed + portion) % 2**63,
        )
        portion += 1
    return text[first:]


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

    def extra_measures(self) -> tuple[Measure, ...]:
        """Samples before and after."""
        if self.run.samples is None:
            return ()
        return (Measure(due=lambda step: step in (0, self.steps), take=self._sampled),)

    def conclude(self) -> Conclusion:
        """Evaluate the trained model, and add bits per byte, which no tokenizer affects, if the text can be decoded."""
        found, run, kept = super().conclude(), self.run, self.examples.tokens.roundtrip_share
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

    def extra_metrics(self) -> dict[str, Any]:
        """Return the metrics of n-grams and of the grammar, and how repetitive the samples are."""
        tokens = self.examples.tokens
        samples = self._last_samples or self._written_samples()
        metrics: dict[str, Any] = {
            "unigram_loss_nats": tokens.unigram_loss_nats,
            "bigram_loss_nats": tokens.bigram_loss_nats,
            "entropy_nats": tokens.entropy_nats,
        }
        if samples:
            metrics["repetition"] = np.mean([sample["repetition"] for sample in samples], axis=0).tolist()
            metrics["unused_token_share"] = float(np.mean([sample["unused_share"] for sample in samples]))
        return metrics

    def _sampled(self) -> Measurements:
        self._last_samples = self._written_samples()
        return Measurements(samples=self._last_samples)

    def _written_samples(self) -> tuple[dict[str, Any], ...]:
        """The texts that the run asks for, of the model as it now is, with their measures.

        The end of a text does not stop generation, since the continuation is measured.
        """
        run, tokens, wanted = self.run, self.examples.tokens, self.run.samples
        if wanted is None:
            return ()
        prompt = prompt_tokens(wanted, tokens)
        rows = []
        for number in range(wanted.count):
            written = _write(self.loss.module, prompt, wanted, run.task.n_ctx, rng.key(run.seed, "sample", number) >> 1)
            rows.append(
                {
                    "prompt": "" if prompt == [tokens.end_of_text] else wanted.prompt,
                    "text": tokens.tokenizer.decode(written),
                    "temperature": wanted.temperature,
                    "n_tokens": len(written),
                    "repetition": repetition(written),
                    "unused_share": float(tokens.unused[written].mean()),
                }
            )
        return tuple(rows)
