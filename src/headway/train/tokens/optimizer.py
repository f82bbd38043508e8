"""Train: the torch optimizers that the declaration of a transformer's training means."""

from collections.abc import Mapping

import torch
from torch import nn

from headway.declare.tokens.training import Muon, TokensTraining
from headway.uncompiled import uncompiled


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
