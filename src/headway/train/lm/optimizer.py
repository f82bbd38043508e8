"""The torch optimizers and the learning-rate schedule of a transformer's training.

A step size is a share of the peak learning rate. So every optimizer of a run follows the same schedule, and a
restored run needs only its step.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.base.identity import grouped
from headway.base.torch_setup import uncompiled
from headway.config.lm.run import TokensRun
from headway.config.lm.training import Muon, TokensTraining
from headway.data.batch import Examples


@uncompiled()
def tokens_optimizers(
    training: TokensTraining, parameters: Mapping[str, nn.Parameter]
) -> tuple[torch.optim.Optimizer, ...]:
    """The optimizers of a transformer at their highest step sizes; each parameter has one.

    Muon trains the matrices of the blocks, factors of low rank among them; AdamW trains the embedding, positions,
    vectors and read-out, and without Muon everything. Only matrices decay.
    """
    matrices = [name for name, parameter in parameters.items() if parameter.ndim == 2]
    in_blocks = [name for name in matrices if name.startswith("layers.")]
    by_muon = in_blocks if isinstance(training, Muon) else []
    rest = [parameter for name, parameter in parameters.items() if name not in by_muon]
    adamw_rate = training.adamw_learning_rate if isinstance(training, Muon) else training.learning_rate
    adamw = torch.optim.AdamW(
        [
            {"params": [p for p in rest if p.ndim == 2], "weight_decay": training.weight_decay},
            {"params": [p for p in rest if p.ndim != 2], "weight_decay": 0.0},
        ],
        lr=adamw_rate,
        betas=training.betas,
        eps=training.eps,
        fused=True,
    )
    if not isinstance(training, Muon) or not by_muon:
        return (adamw,)
    muon = StackedMuon(
        [parameters[name] for name in by_muon],
        lr=training.learning_rate,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
    )
    return muon, adamw


class StackedMuon(torch.optim.Muon):
    """Muon that orthogonalizes matrices of one shape together, in float32 on processors.

    torch takes one matrix after another, in bf16. Most processors emulate bf16, which is twenty times as slow for
    matrices of 64 x 64; a GPU spends a small model's step on launching. Settings and state are torch's.

    Paper: Jordan et al. 2024 (Muon): Nesterov momentum, five Newton-Schulz steps, and step sizes times
    sqrt(max(1, rows / columns)).
    """

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            trained = [parameter for parameter in group["params"] if parameter.grad is not None]
            for parameters in grouped(trained, lambda parameter: parameter.shape).values():
                self._update(parameters, group)

    def _update(self, parameters: list[Tensor], group: Mapping[str, Any]) -> None:
        """Update parameters of one shape."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        averages = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        torch._foreach_lerp_(averages, gradients, 1 - group["momentum"])
        directions = torch.stack(torch._foreach_lerp(gradients, averages, group["momentum"]))
        rows, columns = directions.shape[1:]
        step_size = group["lr"] * math.sqrt(max(1, rows / columns))
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, orthogonalized(directions, group).unbind(), alpha=-step_size)


def orthogonalized(matrices: Float[Tensor, "n rows columns"], group: Mapping[str, Any]) -> Tensor:
    """Matrices with the same singular vectors, and singular values near 1, by Newton-Schulz steps.

    Args:
        matrices: the matrices, all of one shape.
        group: the settings `ns_coefficients`, `ns_steps` and `eps`.
    """
    a, b, c = group["ns_coefficients"]
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    if matrices.is_cuda:
        x = x.bfloat16()
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    x = x.mT if tall else x
    return x.to(matrices.dtype)


def rate_share(training: TokensTraining, step: int, steps: int) -> float:
    """The step size of a step (the first is 1) over the highest one.

    It rises by equal parts, so that the last step of the warm-up has all of it, and the step after that too; from
    there it falls, so that it would be 0 one step after the last: no step is wasted.

    Paper: with no warm-up and linear decay, that of the head-progression study (transformers' linear schedule).

    Examples:
        >>> from headway.config.lm.training import TokensAdamW
        >>> training = TokensAdamW(optimizer="adamw", steps=6, batch_size=1, learning_rate=1.0, warmup_steps=2)
        >>> [rate_share(training, step, 6) for step in range(1, 7)]
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step <= training.warmup_steps:
        return step / training.warmup_steps
    done = (step - 1 - training.warmup_steps) / (steps - training.warmup_steps)
    if training.lr_schedule == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    return 1 - done if training.lr_schedule == "linear" else 1.0


def steps_of(run: TokensRun, examples: Examples) -> int:
    """Optimizer steps, with the data at hand; a last step that an epoch does not fill is left out."""
    per_epoch = examples.steps_per_epoch(run.training.batch_size)
    if run.training.epochs is not None:
        return max(1, int(run.training.epochs * per_epoch))
    assert run.declared_steps is not None
    return run.declared_steps
