"""The torch optimizers and the learning-rate schedule of a transformer's training.

A step size is a share of the peak learning rate. So every optimizer of a run follows the same schedule, and a
restored run needs only its step.
"""

import math
from collections.abc import Mapping

import torch
from torch import nn

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

    Paper: Jordan et al. 2024 (Muon), as torch.optim has it: Nesterov momentum, five Newton-Schulz steps, and step
    sizes times sqrt(max(1, rows / columns)).
    """
    by_muon = [
        name for name, parameter in parameters.items() if isinstance(training, Muon) and _in_block(name, parameter)
    ]
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
    muon = torch.optim.Muon(
        [parameters[name] for name in by_muon],
        lr=training.learning_rate,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
    )
    return muon, adamw


def _in_block(name: str, parameter: nn.Parameter) -> bool:
    return name.startswith("layers.") and parameter.ndim == 2


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
    if training.decay == "cosine":
        return (1 + math.cos(math.pi * done)) / 2
    return 1 - done if training.decay == "linear" else 1.0


def steps_of(run: TokensRun, examples: Examples) -> int:
    """Optimizer steps, with the data at hand; a last step that an epoch does not fill is left out."""
    per_epoch = examples.steps_per_epoch(run.training.batch_size)
    if run.training.epochs is not None:
        return max(1, int(run.training.epochs * per_epoch))
    assert run.declared_steps is not None
    return run.declared_steps
