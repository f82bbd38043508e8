"""Train: a language model with its loss on the batches of a run, the same for training and for judging.

Where heads are dropped or regularised, training has a guided loss of its own.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from headway.data.tokens.examples import Batch
from headway.declare.tokens.run import TokensRun
from headway.model.transformer import Transformer, asked, mean_loss
from headway.train.tokens.regularizers import is_guided, terms
from headway.train.trainer import Loss, Part


class TokensLoss:
    """A model on its device, and its loss in the declared precision, compiled or not."""

    def __init__(self, run: TokensRun, module: Transformer, *, compile: bool):
        self.run, self.module, self._compile = run, module, compile
        self.device = next(module.parameters()).device
        self.part_size = run.training.batch_size // run.training.accumulate
        self.guided = is_guided(run)
        # One that attends to the future has its queries and keys in step.
        self.asked_last = run.task.asked_last if run.model.attends == "past" else None
        trained = self._guided if self.guided else self._eager
        self.value: Loss = torch.compile(trained, dynamic=False) if compile else trained
        """What is trained on."""

    def _eager(self, inputs: Tensor, targets: Tensor) -> Tensor:
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
            here = slice(first, first + self.part_size)
            part = batch.rows(here)
            # The loss of a step is the mean over all its targets: a part with few of them weighs little.
            if count := _count(part):
                parts.append(Part(tensors=self.tensors(part), weight=count / total))
        return parts

    def mean_over(self, batches: Iterable[Batch]) -> float:
        """The mean loss over the targets of batches, nothing dropped out."""
        # Without dropout the compiled training loss serves here too, if gradients stay enabled: for another mode
        # torch would compile once more.
        as_trained = self._compile and not self.run.model.dropout and not self.guided
        loss = self.value if as_trained else self._eager
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
