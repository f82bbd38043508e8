"""PyTorch training of the in-context models that native code does not train: stacks, biases, wide tokens.

`optimizer_for` makes the torch optimizer that an in-context run declares.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from headway.base import rng
from headway.base.torch_setup import uncompiled
from headway.config.regression import Adam, AdamW, IclRun, Sgd, TrainingSpec
from headway.data.regression import Prompts, draw
from headway.icl.attention import InContextAttention, tokens
from headway.icl.weights import Weights
from headway.train.device import settle_elementary_functions
from headway.train.torch_trainer import Part, TorchTrainer, compiling_obstacle


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


_WORTH_COMPILING = 10_000
"""Steps from which on compiling, 15 to 60 seconds, is won back: it saves 1 ms a step with one layer, 8 with two."""

_WIDEST_COMPILED = 16
"""Entries of a token up to which the loss is compiled: sums over them are written out, and the code grows with them."""

_SCORES_AT_ONCE = 4_000_000
"""Attention scores of a chunk of prompts that are evaluated: 16 MB, and as much again for a few temporaries."""


def torch_trainer(run: IclRun, weights: Weights, compile: bool | None) -> tuple[TorchTrainer, InContextAttention, bool]:
    """A trainer of the run from these weights, the module that it trains, and whether its loss is compiled.

    `compile` None: where that pays. Where torch cannot compile, a warning says so and it runs eagerly.
    """
    settle_elementary_functions()
    module = InContextAttention(run.model, run.task, weights)
    key = rng.key(run.seed, "training data")

    def parts(step: int) -> tuple[Part, ...]:
        prompts = draw(run.task, key=key, step=step, batch_size=run.training.batch_size)
        x, y, x_query = _tensors(prompts)
        return (Part(tensors=(*tokens(x, y, x_query), torch.from_numpy(prompts.y_query))),)

    def loss(pairs: Tensor, query: Tensor, y_query: Tensor) -> Tensor:
        return (module.predict(pairs, query) - y_query).square().mean()

    if compile is None:
        compile = run.training.steps >= _WORTH_COMPILING and run.task.d_token <= _WIDEST_COMPILED
    if compile and (obstacle := compiling_obstacle()):
        warnings.warn(obstacle, RuntimeWarning, stacklevel=2)
        compile = False
    parameters = dict(module.named_parameters())
    trainer = TorchTrainer(
        parameters,
        (optimizer_for(run.training, parameters.values()),),
        parts=parts,
        loss=torch.compile(loss, dynamic=False) if compile else loss,
    )
    return trainer, module, compile


def predictor(module: InContextAttention) -> Callable[[Prompts, Sequence[int] | None], np.ndarray]:
    """Return a function that predicts (prompt, length, d_y) by a module's current weights; lengths None: all pairs."""

    def predict(prompts: Prompts, lengths: Sequence[int] | None) -> np.ndarray:
        n_pairs = prompts.x.shape[1]
        ends = (n_pairs,) if lengths is None else tuple(lengths)
        at_once = max(1, _SCORES_AT_ONCE // (module.model.n_heads * n_pairs * (n_pairs + len(ends))))
        chunks = zip(*(part.split(at_once) for part in _tensors(prompts)), strict=True)
        with torch.inference_mode():
            return torch.cat([module.at_lengths(x, y, x_query, ends) for x, y, x_query in chunks]).numpy()

    return predict


def _tensors(prompts: Prompts) -> tuple[Tensor, Tensor, Tensor]:
    return torch.from_numpy(prompts.x), torch.from_numpy(prompts.y), torch.from_numpy(prompts.x_query)
