"""Train: the PyTorch trainer, of any model whose loss is a function of a batch.

Everything random about a step is in its batch, which is a function of the step alone. So the state is the
parameters and what the optimizer keeps for them, and a restored trainer goes on with the same bits.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor, nn

from headway.errors import Diverged
from headway.train.loop import Arrays

Batch = tuple[Tensor, ...]
Loss = Callable[..., Tensor]


class TorchTrainer:
    """Trains parameters on a loss, by one of torch's optimizers (a `train.loop.Trainer`)."""

    step: int
    """Steps done."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        optimizer: torch.optim.Optimizer,
        *,
        batch: Callable[[int], Batch],
        loss: Loss,
    ) -> None:
        """Start at step 0.

        Args:
            parameters: what is trained, by name.
            optimizer: over the same parameters.
            batch: the tensors of a step, a function of the step (the first is 1) alone.
            loss: from these tensors to a scalar, compiled or not.
        """
        self._parameters, self._optimizer = dict(parameters), optimizer
        self._batch, self._loss = batch, loss
        self.step = 0

    def advance(self, n: int) -> Float64[np.ndarray, " n"]:
        """Do n steps; the loss of each, before its update.

        Raises:
            Diverged: when a loss is not finite, naming its step.
        """
        losses = [self._advance_one() for _ in range(n)]
        # Fetched together: asking for each would make an accelerator wait n times.
        values = torch.stack(losses).double().cpu().numpy() if losses else np.empty(0)
        finite = np.isfinite(values)
        if not finite.all():
            bad = int(np.argmin(finite))
            raise Diverged(f"the loss of step {self.step - n + bad + 1} is {values[bad]}: training diverged")
        return values

    def _advance_one(self) -> Tensor:
        loss = self._loss(*self._batch(self.step + 1))
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self.step += 1
        return loss.detach()

    def weights(self) -> Arrays:
        """A copy of the parameters."""
        return {name: _array(parameter) for name, parameter in self._parameters.items()}

    def state(self) -> Arrays:
        """All that a later `restore` needs: `weights/NAME`, and `optimizer/KEY/NAME` for what it keeps of NAME."""
        kept = {
            f"optimizer/{key}/{name}": _array(value)
            for name, parameter in self._parameters.items()
            for key, value in self._optimizer.state[parameter].items()
            if value is not None
        }
        return {f"weights/{name}": array for name, array in self.weights().items()} | kept

    def restore(self, step: int, state: Arrays) -> None:
        """Stand where a trainer of the same run stood after `step` steps, with what its `state` returned."""
        for name, parameter in self._parameters.items():
            with torch.no_grad():
                parameter.copy_(torch.from_numpy(state[f"weights/{name}"]))
            kept = {
                key.split("/")[1]: torch.tensor(array, device=parameter.device)
                for key, array in state.items()
                if key.startswith("optimizer/") and key.split("/", 2)[2] == name
            }
            if "step" in kept:  # a file may hold it as an array of one
                kept["step"] = kept["step"].reshape(())
            self._optimizer.state[parameter] = kept
        self.step = step


def compiling_obstacle() -> str | None:
    """Why torch cannot compile here, in a sentence, found by compiling a sum; None when it can."""
    try:
        torch.compile(lambda tensor: tensor + 1, dynamic=False)(torch.ones(2))
    except Exception as error:  # noqa: BLE001 - whatever a missing or broken compiler makes torch raise
        reason = str(error).strip().partition("\n")[0]
        return f"torch cannot compile here ({reason}), so it trains eagerly and slower; install a C++ compiler"
    return None


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()
