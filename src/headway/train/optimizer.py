"""Train: the torch optimizers that a declaration means."""

from collections.abc import Iterable, Mapping

import torch
from torch import nn

from headway.declare.training import Adam, AdamW, Muon, Sgd, TextTraining, TrainingSpec


def optimizer_for(training: TrainingSpec, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer of torch.optim of the declared name, in its fused form: one call updates all parameters.

    Examples:
        >>> training = Adam(optimizer="adam", steps=1, batch_size=1, learning_rate=0.1)
        >>> type(optimizer_for(training, [nn.Parameter(torch.zeros(2))])).__name__
        'Adam'
    """
    rate, decay = training.learning_rate, training.weight_decay
    if isinstance(training, Sgd):
        return torch.optim.SGD(parameters, lr=rate, momentum=training.momentum, weight_decay=decay, fused=True)
    kind = {Adam: torch.optim.Adam, AdamW: torch.optim.AdamW}[type(training)]
    return kind(parameters, lr=rate, betas=training.betas, eps=training.eps, weight_decay=decay, fused=True)


def text_optimizers(
    training: TextTraining, parameters: Mapping[str, nn.Parameter]
) -> tuple[torch.optim.Optimizer, ...]:
    """The optimizers of a language model at their highest step sizes; each parameter has one.

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
