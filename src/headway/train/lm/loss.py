"""A language model with its loss on the batches of a run, for training and for evaluation.

Where heads are dropped or regularised, training has a guided loss of its own. Its regularisers are minimised beside
the loss so that heads differ. Their weights and the gates enter the loss as tensors with the batch, so a schedule
causes no recompilation.

DropHead: `head_gates` draws which heads are dropped in which examples of a step, as a pure function of the run and the
step. Paper: Zhou et al. 2020, arXiv 2004.13342. As there, the output of a layer is scaled by heads over heads kept, and
a mask that would drop every head is drawn again; here the mask is drawn for each example.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor

from headway.base import rng
from headway.config.lm.run import TokensRun
from headway.config.lm.training import Regularizer
from headway.data.batch import Batch
from headway.heads.regularizers import term
from headway.models.trace import Trace
from headway.models.transformer import Transformer, asked, mean_loss
from headway.train.torch_trainer import Loss, Part


def head_gates(
    n_heads: Sequence[int], probability: float, examples: int, *, seed: int, step: int
) -> Float32[np.ndarray, "examples total_heads"]:
    """Return the factor of each head's context: 0 for a dropped head, heads / kept for the others; layer after layer.

    Examples:
        >>> head_gates((2, 1), 0.5, 3, seed=0, step=1)[:, 2]
        array([1., 1., 1.], dtype=float32)
    """
    draw = rng.generator(seed, "drophead", step)
    layers = [_layer(draw, heads, probability, examples) for heads in n_heads]
    return np.concatenate(layers, axis=1, dtype=np.float32)


def _layer(draw: np.random.Generator, heads: int, probability: float, examples: int) -> np.ndarray:
    if heads < 2:  # a single head is never dropped
        return np.ones((examples, heads))
    kept = draw.random((examples, heads)) >= probability
    while (none := ~kept.any(1)).any():
        kept[none] = draw.random((int(none.sum()), heads)) >= probability
    return kept * (heads / kept.sum(1, keepdims=True))


Parts = Callable[[int], Sequence[Part]]
"""The parts of the batch of a step."""


def terms(trace: Trace, regularizers: Sequence[Regularizer]) -> Float[Tensor, " term"]:
    """Return each regularizer's mean over the layers that have two heads or more."""
    several = [attention for attention in trace.attentions if attention.q.shape[1] > 1]
    means = [
        torch.stack([term(wanted.metric).measure(attention).float() for attention in several]).mean()
        for wanted in regularizers
    ]
    return torch.stack(means)


def guided(parts: Parts, run: TokensRun, steps: int, device: torch.device) -> Parts:
    """Return the parts with the additional inputs of the guided loss.

    These are, as far as the run has them: the heads' gates (example, head of all layers), and the signed weight of each
    regularizer (term).
    """
    training = run.training

    def added(step: int) -> Sequence[Part]:
        whole, more, first = parts(step), [], 0
        sizes = [len(part.tensors[0]) for part in whole]
        gates = None
        if training.drophead is not None:
            probability = training.drophead.probability_at(step, steps)
            drawn = head_gates(run.model.layout.n_heads, probability, sum(sizes), seed=run.seed, step=step)
            gates = torch.from_numpy(drawn).to(device)
        weights = torch.from_numpy(_weights(training.regularizers, step, steps)).to(device)
        for part, size in zip(whole, sizes, strict=True):
            of_part = () if gates is None else (gates[first : first + size],)
            of_terms = (weights,) if training.regularizers else ()
            more.append(replace(part, tensors=(*part.tensors, *of_part, *of_terms)))
            first += size
        return more

    return added


def _weights(regularizers: Sequence[Regularizer], step: int, steps: int) -> np.ndarray:
    weights = [term(wanted.metric).sign * wanted.weight_at(step, steps) for wanted in regularizers]
    return np.array(weights, np.float32)


class TokensLoss:
    """A model on its device, and its loss in the declared precision, compiled or not."""

    def __init__(self, run: TokensRun, module: Transformer, *, compile: bool):
        self.run, self.module, self._compile = run, module, compile
        self.device = next(module.parameters()).device
        self.part_size = run.training.batch_size // run.training.grad_accumulation
        self.guided = bool(run.training.regularizers) or run.training.drophead is not None
        # One that attends to the future has its queries and keys in step.
        self.asked_last = run.task.asked_last if run.model.mask == "past" else None
        self.eager: Loss = self._guided if self.guided else self._unguided
        self.value: Loss = torch.compile(self.eager, dynamic=False) if compile else self.eager
        """The loss that is minimised."""

    def _unguided(self, inputs: Tensor, targets: Tensor) -> Tensor:
        with self._precision():
            return self.module.loss(inputs, targets, self.asked_last)

    def _guided(self, inputs: Tensor, targets: Tensor, *guides: Tensor) -> Tensor:
        """The loss with heads dropped; with regularizers a vector: all that is minimised, the loss alone, the terms.

        Guides are the heads' gates, where heads are dropped, and last the signed weights of the terms, where there are
        some.
        """
        training, layout = self.run.training, self.run.model.layout
        gates = None if training.drophead is None else guides[0].split(layout.n_heads, dim=1)
        with self._precision():
            logits, trace = self.module(inputs, gates=gates, record=bool(training.regularizers))
        loss = mean_loss(logits, targets)
        if trace is None:
            return loss
        values = terms(trace, training.regularizers)
        return torch.cat((torch.stack((loss + guides[-1] @ values, loss.detach())), values.detach()))

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.run.training.precision == "bf16")

    def split(self, batch: Batch) -> Sequence[Part]:
        """A batch, cut into equal parts that are put through the model one after the other."""
        total, parts = _count(batch), []
        for first in range(0, len(batch.inputs), self.part_size):
            part = batch.rows(slice(first, first + self.part_size))
            # The loss of a step is the mean over all its targets: a part with few of them weighs little.
            if count := _count(part):
                parts.append(Part(tensors=self.tensors(part), weight=count / total))
        return parts

    def mean_over(self, batches: Iterable[Batch]) -> float:
        """The mean loss over the targets of batches, nothing dropped out."""
        # Without dropout the compiled training loss serves here too, if gradients stay enabled: for another mode
        # torch would compile once more.
        as_trained = self._compile and not self.run.model.dropout and not self.guided
        loss = self.value if as_trained else self._unguided
        self.module.train(as_trained)
        # One number that grows: small tensors kept between large ones that come and go fragment a process's memory, by
        # a gigabyte in a few hundred batches.
        total, count = torch.zeros((), dtype=torch.float64, device=self.device), 0
        with torch.set_grad_enabled(as_trained):
            for batch in batches:
                total += loss(*self.tensors(batch)).detach() * _count(batch)
                count += _count(batch)
        self.module.train()
        return float(total) / count

    def lane_share(self, batch: Batch) -> list[float]:
        """The lane's share of the stream's squared norm, before each layer and before the final norm."""
        inputs, targets = self.tensors(batch)
        self.module.eval()
        with torch.no_grad():
            shares = self.module.lane_shares(inputs)[:, asked(targets)].mean(1)
        self.module.train()
        return [float(share) for share in shares]

    def tensors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Inputs and targets on the device; a GPU copies them while it computes."""
        inputs, targets = torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)
        if self.device.type == "cpu":
            return inputs.contiguous(), targets.contiguous()
        return (
            inputs.pin_memory().to(self.device, non_blocking=True),
            targets.pin_memory().to(self.device, non_blocking=True),
        )


def _count(batch: Batch) -> int:
    return int(batch.asked.sum())
