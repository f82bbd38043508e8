"""Train: the losses and gradients of many models of one shape: recorded once as a list of operations, then replayed.

For small models most of a step is spent on finding out which operations to do: through modules, vmap and autograd.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.fx.experimental.proxy_tensor import make_fx

Step = Callable[[list[Tensor], Tensor, Tensor], tuple[Tensor, Tensor]]
"""The loss of each model, and the gradients of each in a row, from what the models are, read and are asked."""


class Recorded:
    """Losses and gradients of models side by side.

    Law: a replay has the bits of what is recorded.
    """

    def __init__(self, loss: nn.Module, leaves: Mapping[str, Tensor], last: int | None):
        """Say of what.

        Args:
            loss: a module that gives the loss of inputs and targets; its own parameters are stood in for.
            leaves: by its names of parameters, those of all models, a row each.
            last: how many of the last positions are asked; None: any may be.
        """
        self._loss, self._leaves, self._last = loss, dict(leaves), last
        self._steps: dict[object, Step] = {}

    def step(self, inputs: Tensor, targets: Tensor, dim: int | None) -> tuple[Tensor, Tensor]:
        """The losses, one for each model, and their gradients, a row for each.

        Args:
            inputs: what the models read.
            targets: what they are asked.
            dim: the axis along which both differ from model to model; None: all read the same.
        """
        key, leaves = (inputs.shape, inputs.dtype, targets.shape, dim), list(self._leaves.values())
        if key not in self._steps:
            self._steps[key] = self._recorded(leaves, inputs, targets, dim)
        with torch.no_grad():
            return self._steps[key](leaves, inputs, targets)

    def _recorded(self, leaves: list[Tensor], inputs: Tensor, targets: Tensor, dim: int | None) -> Step:
        def loss(parameters: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
            return functional_call(self._loss, parameters, (inputs, targets, self._last))

        def step(leaves: list[Tensor], inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
            parameters = dict(zip(self._leaves, leaves, strict=True))
            losses = vmap(loss, in_dims=(0, dim, dim))(parameters, inputs, targets)
            grads = torch.autograd.grad(losses.sum(), leaves)
            return losses.detach(), torch.cat([grad.flatten(1) for grad in grads], dim=1)

        found: Step = make_fx(step)(leaves, inputs, targets)
        return found
