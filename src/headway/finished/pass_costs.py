"""Finished: what a pass of a model costs, measured: seconds and memory, of two models by turns."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from headway.model.transformer import Transformer

_ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class PassCost:
    """Of one model on the same tokens: medians of five rounds, by turns with the other model's.

    Attributes:
        parameters: numbers in it.
        tokens: of the pass.
        forward_s: seconds of a forward pass.
        step_s: seconds of a forward and a backward pass.
        step_memory_bytes: the most that a forward and a backward pass hold, beside the weights.
    """

    parameters: int
    tokens: int
    forward_s: float
    step_s: float
    step_memory_bytes: int


def pass_costs(
    models: "tuple[Transformer, Transformer]", inputs: "torch.Tensor", targets: "torch.Tensor"
) -> tuple[PassCost, PassCost]:
    """What a pass of each of two models costs."""
    forwards: tuple[list[float], list[float]] = ([], [])
    steps: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        for at, model in enumerate(models):
            forwards[at].append(_seconds(partial(_forward, model, inputs), inputs))
            steps[at].append(_seconds(partial(_step, model, inputs, targets), inputs))
    first, second = (
        PassCost(
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            tokens=inputs.numel(),
            forward_s=statistics.median(forwards[at]),
            step_s=statistics.median(steps[at]),
            step_memory_bytes=_memory(model, inputs, targets),
        )
        for at, model in enumerate(models)
    )
    return first, second


def _forward(model: "Transformer", inputs: "torch.Tensor") -> None:
    import torch

    with torch.no_grad():
        model(inputs)


def _step(model: "Transformer", inputs: "torch.Tensor", targets: "torch.Tensor") -> None:
    import torch

    with torch.enable_grad():
        loss = model.loss(inputs, targets)
        torch.autograd.grad(loss, [parameter for parameter in model.parameters() if parameter.requires_grad])


def _seconds(do: Callable[[], None], inputs: "torch.Tensor") -> float:
    import torch

    began = time.perf_counter()
    do()
    if inputs.is_cuda:
        torch.cuda.synchronize(inputs.device)
    return time.perf_counter() - began


def _memory(model: "Transformer", inputs: "torch.Tensor", targets: "torch.Tensor") -> int:
    from headway.train.meter import Meter

    meter = Meter(inputs.device)
    meter.begin_training()
    _step(model, inputs, targets)
    return int(meter.metrics()["memory_bytes"])
