"""Train: the torch optimizer that the declaration of an in-context run means."""

from collections.abc import Iterable

import torch
from torch import nn

from headway.declare.icl.training import Adam, AdamW, Sgd, TrainingSpec
from headway.uncompiled import uncompiled


@uncompiled()
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
