"""Train: what is measured in the heads of a language model while it trains; measuring changes nothing in it.

A probe is a plain pass over fixed sequences, eager, in float32, without dropout and without gradients, beside the
compiled training step. The sequences depend on the task alone: the first held-out ones that the model is judged on, and
random tokens, repeated, for what only repetition shows.
"""

from collections.abc import Sequence
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.data.tokens.examples import Examples
from headway.declare.head_metrics import HEAD_METRICS, REPEATED
from headway.declare.tokens.run import TokensRun
from headway.heads.circuits import circuit_scores
from headway.heads.repeated import repeated_tokens
from headway.heads.scores import HeadScores, to_arrays
from headway.heads.stream import HeadStream
from headway.model.transformer import mean_nll
from headway.train.loop import Measure, Measured
from headway.train.tokens.loss import TokensLoss


def head_probes(run: TokensRun, examples: Examples, loss: TokensLoss, steps: int) -> tuple[Measure, ...]:
    """The one measure that takes all that a run's probes ask for; none where they ask for nothing.

    It is due at the first and the last step, at every `every` steps and at each step up to `dense_until`.
    """
    probes = run.probes
    if not probes.chosen:
        return ()
    take = _Probe(run, examples, loss).take
    return (
        Measure(due=lambda step: step <= probes.dense_until or step % probes.every == 0 or step == steps, take=take),
    )


class _Probe:
    """Measures the model of a loss."""

    def __init__(self, run: TokensRun, examples: Examples, loss: TokensLoss):
        self._run, self._examples, self._loss, self._module = run, examples, loss, loss.module
        chosen = run.probes.chosen
        self._of_weights = [name for name in chosen if HEAD_METRICS[name].family == "circuits"]
        self._of_repetition = [name for name in chosen if name in REPEATED]
        self._of_text = [name for name in chosen if name not in (*self._of_weights, *self._of_repetition)]

    def take(self) -> Measured:
        """The scores as arrays, and the loss on the probes' sequences."""
        self._module.eval()
        with torch.no_grad():
            loss_nats, scores = self._on_text()
            scores |= self._on_repeated() if self._of_repetition else {}
        if self._of_weights:
            scores |= circuit_scores(self._module, self._of_weights)
        self._module.train()
        return Measured(metrics={"probe_loss_nats": loss_nats}, arrays=to_arrays(scores.values()))

    def _on_text(self) -> tuple[float, dict[str, HeadScores]]:
        stream, total, count = HeadStream(self._of_text), 0.0, 0
        for inputs, targets, rows in self._text:
            logits, trace = self._module(inputs, record=True)
            assert trace is not None
            n_targets = int((targets >= 0).sum())
            total += float(mean_nll(logits, targets)) * n_targets
            count += n_targets
            if self._of_text:
                stream.add(trace.with_rows(rows))
        return total / count, stream.scores() if self._of_text else {}

    def _on_repeated(self) -> dict[str, HeadScores]:
        stream = HeadStream(self._of_repetition, period=self._period)
        for inputs in self._repeated:
            stream.add(self._module.trace(inputs))
        return stream.scores()

    @property
    def _at_once(self) -> int:
        return min(self._run.probes.sequences, self._loss.part_size)

    @cached_property
    def _text(self) -> Sequence[tuple[Tensor, Tensor, Bool[Tensor, "batch pos"] | None]]:
        """Inputs, targets, and which positions count: not padding, nor what fills up the last batch; None: all."""
        batches = self._examples.evaluation_batches(self._run.probes.sequences, self._at_once)
        pairs = [self._loss.tensors(batch) for batch in batches]
        return [(inputs, targets, None if (targets >= 0).all() else targets >= 0) for inputs, targets in pairs]

    @property
    def _period(self) -> int:
        return self._run.task.n_ctx // 2

    @cached_property
    def _repeated(self) -> Sequence[Int[Tensor, "batch pos"]]:
        drawn = repeated_tokens(self._examples.vocab_size, self._period, self._run.probes.sequences, 0)
        return torch.from_numpy(drawn).to(self._loss.device).split(self._at_once)
