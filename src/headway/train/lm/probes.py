"""Measurements of a language model's heads during and after training; they change nothing in the model.

A probe is a plain pass over fixed sequences, eager, in float32 and without dropout, beside the compiled training step.
Only importance takes a gradient: of gates on heads, and of no weight. The sequences depend on the task alone. They are
the first held-out sequences of the evaluation, and repeated random tokens for heads that only repetition shows.

`ablated` measures the exact effect of each head on the loss of the trained model, in all three kinds of ablation. It
reads held-out sequences, which every arm and seed of a task shares; as many other sequences supply substitutes for
heads. Before it reports a number, it checks that the ablations do what they are said to do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from headway.causal.effects import KINDS, ExactEffects
from headway.config.lm.measurement import AblateHeads
from headway.data.batch import Examples
from headway.errors import UserError
from headway.heads.measure import Repeated, drawn_repeats, examine, in_batches
from headway.heads.scores import HeadScores, to_arrays
from headway.models.trace import Trace
from headway.models.transformer import asked, mean_loss
from headway.train.lm.loss import TokensLoss
from headway.train.loop import Measure, Measurements


def head_probes(examples: Examples, loss: TokensLoss, steps: int) -> tuple[Measure, ...]:
    """Return the one measurement that takes all that a run's probes ask for, or none if they ask for nothing.

    It is due at the first and the last step, at every `every` steps and at each step up to `dense_until`.
    """
    probes = loss.run.probes
    if not probes.chosen and not (probes.importance and loss.run.model.layout.total):
        return ()
    take = _Probe(examples, loss).take
    return (
        Measure(due=lambda step: step <= probes.dense_until or step % probes.every == 0 or step == steps, take=take),
    )


class _Probe:
    """Measures the model of a loss."""

    def __init__(self, examples: Examples, loss: TokensLoss):
        self._run, self._examples, self._loss, self._module = loss.run, examples, loss, loss.module

    def take(self) -> Measurements:
        """The scores as arrays, and the loss on the probes' sequences."""
        self._module.eval()
        scores = self._importance() if self._run.probes.importance else {}
        metrics: dict[str, float] = {}
        if self._run.probes.chosen:
            losses: list[tuple[float, int]] = []
            with torch.no_grad():
                scores |= examine(
                    self._traced(losses),
                    self._run.probes.chosen,
                    trace=self._module.trace,
                    repetition=lambda: self._repetition,
                    weights=self._module,
                )
            total, n_targets = map(sum, zip(*losses, strict=True))
            metrics["probe_loss_nats"] = total / n_targets
        self._module.train()
        return Measurements(metrics=metrics, arrays=to_arrays(scores.values()))

    def _importance(self) -> dict[str, HeadScores]:
        """Return the sensitivity of the loss to each head, and the first-order estimate of the loss without it."""
        from headway.causal.attribution import gate_gradients

        layout, gradients_of_batches = self._run.model.layout, []
        for inputs, targets, _ in self._text:
            counts = (targets >= 0).any(1)  # of a batch that is filled up, the sequences
            gradients_of_batches.append(gate_gradients(self._module, inputs[counts], targets[counts]))
        layers = [np.concatenate(of_layer, axis=1) for of_layer in zip(*gradients_of_batches, strict=True)]
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
        """Yield the traces of the sequences; append each batch's summed loss and number of targets to a list."""
        for inputs, targets, rows in self._text:
            logits, trace = self._module(inputs, record=True)
            assert trace is not None
            n_targets = int(asked(targets).sum())
            losses.append((float(mean_loss(logits, targets)) * n_targets, n_targets))
            yield replace(trace.with_rows(rows), tokens=inputs if inputs.ndim == 2 else None)

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
    def _repetition(self) -> tuple[Repeated, ...]:
        longest, sequences = self._run.task.n_ctx // 2, self._run.probes.sequences
        drawn = drawn_repeats(self._examples.vocab_size, longest, sequences, seed=0)
        return in_batches(drawn, self._at_once, self._loss.device)


_SMALL = 0.01
"""In nats per token: a head without which the loss rises by less hardly matters."""

_OF_A_WAY = ("largest_nats", "all_nats", "share_that_adds_up")
METRICS = (*(f"{kind}_ablation_{what}" for kind in KINDS for what in _OF_A_WAY), "idle_head_share", "half_effect_heads")
"""The metrics of ablation in the final record."""


def ablated(asked: AblateHeads | None, examples: Examples, loss: TokensLoss, steps: int) -> tuple[Measure, ...]:
    """Return the measurement that ablates the heads after the last step; none if it is not asked for."""
    if asked is None or not loss.run.model.layout.total:
        return ()

    def take() -> Measurements:
        from headway.causal.ablation import BatchedText
        from headway.causal.ablation_result import effect_scores

        inputs, targets = _held_out(examples, 2 * asked.sequences, loss)
        half, module = len(inputs) // 2, loss.module
        module.eval()
        work = BatchedText.read(module, inputs[:half], targets[:half], inputs[half:], mean_over=asked.mean)
        exact, estimates, integrated = work.exact(), work.attributed(), work.integrated()
        module.train()
        names = {layer: f"layers.{layer}.attention" for layer, n in enumerate(loss.run.model.layout.n_heads) if n}
        scores = effect_scores(names, exact, estimates.michel, estimates.first_order, integrated)
        return Measurements(metrics=_metrics(exact), arrays=to_arrays(scores.values()))

    return (Measure(due=lambda step: step == steps, take=take),)


def _held_out(examples: Examples, sequences: int, loss: TokensLoss) -> tuple[torch.Tensor, torch.Tensor]:
    """Held-out sequences, those that are filled up with what is masked left out."""
    batches = [loss.tensors(batch) for batch in examples.evaluation_batches(sequences, loss.part_size)]
    inputs, targets = (torch.cat(tensors) for tensors in zip(*batches, strict=True))
    # Effects are means over positions, which a sequence that is mostly padding has hardly any of.
    whole = (targets != -1).any(1)
    inputs, targets = inputs[whole][:sequences], targets[whole][:sequences]
    if len(inputs) < 4:
        raise UserError(
            f"after.ablate: the held-out text has {len(inputs)} sequences, and 4 are needed: two for an interval and "
            "two as replacements; hold out more"
        )
    return inputs, targets


def _metrics(exact: ExactEffects) -> dict[str, Any]:
    values: list[Any] = []
    for kind in KINDS:
        largest = float(exact.single[kind].flat().max())
        values += [largest, exact.joint_mean(kind), exact.share_of_joint(kind)]
    effects = exact.single["mean"].flat()
    values += [float((effects < _SMALL).mean()), _heads_of_half(effects)]
    return dict(zip(METRICS, values, strict=True))


def _heads_of_half(effects: np.ndarray) -> int | None:
    """Return the fewest heads whose positive single effects are half of their sum; None if no effect is positive."""
    above = np.sort(effects.clip(0))[::-1]
    if not above.any():
        return None
    return int(np.searchsorted(above.cumsum(), above.sum() / 2) + 1)
