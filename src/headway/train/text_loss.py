"""Train: a language model with its loss on the batches of a run, the same for training and for judging."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from headway.data.text import Batch
from headway.declare.run import TextRun
from headway.model.transformer import Transformer
from headway.train.trainer import Loss, Part


class TextLoss:
    """A model on its device, and its loss in the declared precision, compiled or not."""

    def __init__(self, run: TextRun, module: Transformer, *, compile: bool):
        self.run, self.module, self._compile = run, module, compile
        self.device = module.embedding.weight.device
        self.part_size = run.training.batch_size // run.training.accumulate
        self.value: Loss = torch.compile(self._eager, dynamic=False) if compile else self._eager

    def _eager(self, inputs: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.run.training.precision == "bf16"):
            return self.module.loss(inputs, targets)

    def split(self, batch: Batch) -> Sequence[Part]:
        """A batch, cut into equal parts that are put through the model one after the other."""
        total, parts = _count(batch), []
        for first in range(0, len(batch.inputs), self.part_size):
            here = slice(first, first + self.part_size)
            part = Batch(inputs=batch.inputs[here], targets=batch.targets[here])
            # The loss of a step is the mean over all its targets: a part with few of them weighs little.
            if count := _count(part):
                parts.append(Part(tensors=self._tensors(part), weight=count / total))
        return parts

    def mean_over(self, batches: Iterable[Batch]) -> float:
        """The mean loss over the targets of batches, nothing dropped out."""
        # Without dropout the compiled training loss serves here too, if gradients stay enabled: for another mode
        # torch would compile once more.
        as_trained = self._compile and not self.run.model.dropout
        loss = self.value if as_trained else self._eager
        self.module.train(as_trained)
        # One number that grows: small tensors kept between large ones that come and go fragment a process's memory, by
        # a gigabyte in a few hundred batches.
        total, count = torch.zeros((), dtype=torch.float64, device=self.device), 0
        with torch.set_grad_enabled(as_trained):
            for batch in batches:
                total += loss(*self._tensors(batch)).detach() * _count(batch)
                count += _count(batch)
        self.module.train()
        return float(total) / count

    def lane_share(self, batch: Batch) -> list[float]:
        """The lane's share of the stream's squared norm, before each layer and before the final norm."""
        inputs, targets = self._tensors(batch)
        self.module.eval()
        with torch.no_grad():
            shares = self.module.lane_shares(inputs)[:, targets >= 0].mean(1)
        self.module.train()
        return [float(share) for share in shares]

    def _tensors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Inputs and targets on the device; a GPU copies them while it computes."""
        inputs, targets = torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)
        if self.device.type == "cpu":
            return inputs.contiguous(), targets.contiguous()
        return (
            inputs.pin_memory().to(self.device, non_blocking=True),
            targets.pin_memory().to(self.device, non_blocking=True),
        )


def _count(batch: Batch) -> int:
    return int((batch.targets >= 0).sum())
