"""The PyTorch trainer of any model whose loss is a function of a batch.

Everything random about a step is in its batch and in a seed. Batch, seed and step size are functions of the step alone.
So the state is the parameters and the optimizers' state for them, and a restored trainer continues with the same bits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor, nn

from headway.base.torch_setup import uncompiled
from headway.errors import Diverged
from headway.store.checkpoint import Arrays

Loss = Callable[..., Tensor]
"""A function of a part's tensors that returns a scalar to minimise, or a vector. The vector's first entry is minimised;
the others are the recorded loss, and terms that are recorded beside it."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The tensors that go through the model at once, and their weight in the loss of the step."""

    tensors: tuple[Tensor, ...]
    weight: float = 1.0


class TorchTrainer:
    """Trains parameters on a loss, by some of torch's optimizers (a `train.loop.Trainer`)."""

    step: int
    """Steps done."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        optimizers: Sequence[torch.optim.Optimizer],
        *,
        parts: Callable[[int], Sequence[Part]],
        loss: Loss,
        rate_share: Callable[[int], float] | None = None,
        clip: float | None = None,
        seed: Callable[[int], int] | None = None,
    ) -> None:
        """Start at step 0.

        Args:
            parameters: the trained parameters, by name.
            optimizers: the optimizers, each parameter in one of them.
            parts: the parts of the batch of a step, a function of the step (from 1) alone; their weights sum to 1.
            loss: the loss of a part, compiled or not.
            rate_share: the step size of a step over the optimizers' own; None: always 1.
            clip: the largest norm of all gradients together; None: no limit.
            seed: the seed of torch's generator before a step, for models that draw random numbers.
        """
        self._parameters, self._optimizers = dict(parameters), tuple(optimizers)
        self._parts, self._loss = parts, loss
        self._rate_share, self._clip, self._seed = rate_share, clip, seed
        self._groups = [(group, group["lr"]) for optimizer in optimizers for group in optimizer.param_groups]
        self.step = 0

    def advance(self, n: int) -> Float64[np.ndarray, "n ..."]:
        """Do n steps; the loss of each, before its update, with its terms where the loss has them.

        Raises:
            Diverged: when a loss is not finite, naming its step.
        """
        losses = [self._advance_one() for _ in range(n)]
        # Fetched together: asking for each would make an accelerator wait n times.
        values = torch.stack(losses).double().cpu().numpy() if losses else np.empty(0)
        finite = np.isfinite(values).reshape(n, -1)
        if not finite.all():
            bad = int(np.argmin(finite.all(1)))
            what = values.reshape(n, -1)[bad][~finite[bad]][0]
            raise Diverged(f"the loss of step {self.step - n + bad + 1} is {what}: training diverged")
        return values

    def _advance_one(self) -> Tensor:
        step = self.step + 1
        if self._rate_share is not None:
            for group, highest in self._groups:
                group["lr"] = highest * self._rate_share(step)
        if self._seed is not None:
            torch.manual_seed(self._seed(step))
        with uncompiled():
            for optimizer in self._optimizers:
                optimizer.zero_grad()
        losses = []
        for part in self._parts(step):
            loss = part.weight * self._loss(*part.tensors)
            (loss[0] if loss.ndim else loss).backward()
            losses.append(loss[1:].detach() if loss.ndim else loss.detach())
        if self._clip is not None:
            nn.utils.clip_grad_norm_(self._parameters.values(), self._clip)
        with uncompiled():
            for optimizer in self._optimizers:
                optimizer.step()
        self.step = step
        return torch.stack(losses).sum(0) if len(losses) > 1 else losses[0]

    def weights(self) -> Arrays:
        """A copy of the parameters."""
        return {name: _array(parameter) for name, parameter in self._parameters.items()}

    def state(self) -> Arrays:
        """Return what `restore` needs: `weights/NAME`, and `optimizer/KEY/NAME` for the optimizer's state of NAME."""
        kept = {
            f"optimizer/{key}/{name}": _array(value)
            for name, optimizer in self._owners()
            for key, value in optimizer.state[self._parameters[name]].items()
            if value is not None
        }
        return {f"weights/{name}": array for name, array in self.weights().items()} | kept

    def restore(self, step: int, state: Arrays) -> None:
        """Restore the state that `state` returned after `step` steps of a trainer of this run."""
        for name, optimizer in self._owners():
            parameter = self._parameters[name]
            with torch.no_grad():
                parameter.copy_(torch.from_numpy(state[f"weights/{name}"]))
            kept = {
                key.split("/")[1]: torch.tensor(array, device=parameter.device)
                for key, array in state.items()
                if key.startswith("optimizer/") and key.split("/", 2)[2] == name
            }
            if "step" in kept:  # a file may hold it as an array of one
                kept["step"] = kept["step"].reshape(())
            optimizer.state[parameter] = kept
        self.step = step

    def _owners(self) -> list[tuple[str, torch.optim.Optimizer]]:
        """Yield each parameter's name and its optimizer."""
        of = {p: o for o in self._optimizers for group in o.param_groups for p in group["params"]}
        return [(name, of[parameter]) for name, parameter in self._parameters.items()]


def compiling_obstacle(device: str = "cpu") -> str | None:
    """Return why torch cannot compile here, found by compiling a sum; None if it can."""
    try:
        torch.compile(lambda tensor: tensor + 1, dynamic=False)(torch.ones(2, device=device))
    except Exception as error:  # noqa: BLE001 - whatever a missing or broken compiler makes torch raise
        reason = str(error).strip().partition("\n")[0]
        return f"torch cannot compile here ({reason}), so it trains eagerly and slower; install a C++ compiler"
    return None


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy().copy()
