"""Train: what is measured in the heads of a language model while it trains; measuring changes nothing in it.

A probe is a plain pass over fixed sequences, eager, in float32 and without dropout, beside the compiled training step;
importance alone takes a gradient, of gates on heads and of no weight. The sequences depend on the task alone: the first
held-out ones that the model is judged on, and random tokens, repeated, for what only repetition shows.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from headway.data.tokens.examples import Examples
from headway.declare.tokens.run import TokensRun
from headway.heads.causes.attribution import gate_gradients
from headway.heads.examination import Repetition, examine
from headway.heads.scores import HeadScores, to_arrays
from headway.model.trace import Trace
from headway.model.transformer import asked, mean_loss
from headway.train.loop import Measure, Measured
from headway.train.tokens.loss import TokensLoss


def head_probes(run: TokensRun, examples: Examples, loss: TokensLoss, steps: int) -> tuple[Measure, ...]:
    """The one measure that takes all that a run's probes ask for; none where they ask for nothing.

    It is due at the first and the last step, at every `every` steps and at each step up to `dense_until`.
    """
    probes = run.probes
    if not probes.chosen and not (probes.importance and run.model.layout.total):
        return ()
    take = _Probe(run, examples, loss).take
    return (
        Measure(due=lambda step: step <= probes.dense_until or step % probes.every == 0 or step == steps, take=take),
    )


class _Probe:
    """Measures the model of a loss."""

    def __init__(self, run: TokensRun, examples: Examples, loss: TokensLoss):
        self._run, self._examples, self._loss, self._module = run, examples, loss, loss.module

    def take(self) -> Measured:
        """The scores as arrays, and the loss on the probes' sequences."""
        self._module.eval()
        scores = self._importance() if self._run.probes.importance else {}
        if not self._run.probes.chosen:
            self._module.train()
            return Measured(arrays=to_arrays(scores.values()))
        losses: list[tuple[float, int]] = []
        with torch.no_grad():
            scores |= examine(
                self._traced(losses),
                self._run.probes.chosen,
                trace=self._module.trace,
                repetition=lambda: self._repetition,
                weights=self._module,
            )
        self._module.train()
        loss_nats = sum(total for total, _ in losses) / sum(n_targets for _, n_targets in losses)
        return Measured(metrics={"probe_loss_nats": loss_nats}, arrays=to_arrays(scores.values()))

    def _importance(self) -> dict[str, HeadScores]:
        """How much the loss is sensitive to each head, and what to first order it would do without."""
        layout, found = self._run.model.layout, []
        for inputs, targets, _ in self._text:
            counts = (targets >= 0).any(1)  # of a batch that is filled up, the sequences
            found.append(gate_gradients(self._module, inputs[counts], targets[counts]))
        layers = [np.concatenate(of_layer, axis=1) for of_layer in zip(*found, strict=True)]
        by_metric = {
            "michel_importance_nats": [np.abs(gradients).mean(1) for gradients in layers],
            "zero_attribution_nats": [-gradients.mean(1) for gradients in layers],
        }
        n_rows = sum(int((targets >= 0).sum()) for _, targets, _ in self._text)
        return {
            metric: HeadScores(
                metric=metric,
                values={f"layers.{layer}.attention": v for layer, v in enumerate(values) if layout.n_heads[layer]},
                n_rows=n_rows,
            )
            for metric, values in by_metric.items()
        }

    def _traced(self, losses: list[tuple[float, int]]) -> Iterator[Trace]:
        """What the heads do on the sequences; the loss of each batch, summed, and its targets are added to a list."""
        for inputs, targets, rows in self._text:
            logits, trace = self._module(inputs, record=True)
            assert trace is not None
            n_targets = int(asked(targets).sum())
            losses.append((float(mean_loss(logits, targets)) * n_targets, n_targets))
            yield trace.with_rows(rows)

    @property
    def _at_once(self) -> int:
        return min(self._run.probes.sequences, self._loss.part_size)

    @cached_property
    def _text(self) -> Sequence[tuple[Tensor, Tensor, Bool[Tensor, "batch pos"] | None]]:
        """Inputs, targets, and which positions count: not padding, nor what fills up the last batch; None: all."""
        batches = self._examples.evaluation_batches(self._run.probes.sequences, self._at_once)
        pairs = [self._loss.tensors(batch) for batch in batches]
        return [(inputs, targets, None if asked(targets).all() else asked(targets)) for inputs, targets in pairs]

    @cached_property
    def _repetition(self) -> Repetition:
        return Repetition.drawn(
            self._examples.vocab_size,
            self._run.task.n_ctx // 2,
            sequences=self._run.probes.sequences,
            at_once=self._at_once,
            seed=0,
            device=self._loss.device,
        )
