"""Named arrays of a transformer's weights: how they are initialised and checked.

The names and shapes are those of `headway.config.lm.budget`. Each array has its own random stream. So two models
have equal initial weights wherever names and shapes agree, whatever their heads are: that pairs an experiment's arms.
"""

import math
from collections.abc import Mapping

import numpy as np

from headway.base import rng
from headway.config.lm.budget import Parameter, parameters_of
from headway.config.lm.model import TransformerModel
from headway.errors import UserError, shortened

Weights = dict[str, np.ndarray]


def initial_weights(model: TransformerModel, vocab_size: int, seed: int) -> Weights:
    """Return the float32 weights that a run starts from.

    Matrices, embeddings and positions are N(0, init_std), token embeddings N(0, embedding_init_std) where that is
    given, biases and smears 0, the weights of norms 1. The factors of a low-rank map are N(0, init_std) each
    (`published`), or as wide as makes the product's entries have init_std (`matched`).

    Paper: published factors give a product of standard deviation init_std^2 sqrt(rank), 0.0004 sqrt(rank) at init_std
    0.02 (data-lane and low-rank posts, December 2023).

    Examples:
        >>> from headway.config.lm.model import Gpt2
        >>> tiny = Gpt2(family="gpt-2", d_model=8, n_layers=1, n_heads=2)
        >>> initial_weights(tiny, 16, seed=0)["layers.0.attention.q.weight"].shape
        (8, 8)
    """
    return {p.name: _start(p, model, seed) for p in parameters_of(model, vocab_size)}


def _start(parameter: Parameter, model: TransformerModel, seed: int) -> np.ndarray:
    if parameter.name.endswith((".bias", ".smear")):
        return np.zeros(parameter.shape, np.float32)
    if parameter.part == "norms":
        return np.ones(parameter.shape, np.float32)
    spread = model.init_std
    if parameter.name == "embedding.weight" and model.embedding_init_std is not None:
        spread = model.embedding_init_std
    if parameter.rank is not None and model.factor_init == "matched":
        spread = math.sqrt(model.init_std / math.sqrt(parameter.rank))
    draw = rng.generator(seed, "initial weights", parameter.name)
    return draw.standard_normal(parameter.shape, np.float32) * np.float32(spread)


def vocab_size_of(model: TransformerModel, weights: Mapping[str, np.ndarray]) -> int:
    """Return the vocabulary size of a model with these weights; with an encoder, the numbers of an input."""
    if model.encoder is not None:
        return int(weights["encoder.up.weight"].shape[1])
    rows = len(weights["embedding.weight"])
    return rows // model.n_positions if model.positions == "joint" else rows


def check_weights(weights: Mapping[str, np.ndarray], model: TransformerModel, vocab_size: int) -> None:
    """Raise UserError if the arrays do not match the model's parameters.

    Raises:
        UserError: with a line for every array that is missing, unexpected or of another shape.
    """
    needed = {parameter.name: parameter.shape for parameter in parameters_of(model, vocab_size)}
    if wrong := differences(needed, {name: array.shape for name, array in weights.items()}, "model"):
        raise UserError(
            f"{len(wrong)} arrays do not fit the model ({model.n_layers} layers, heads {model.layout}, vocabulary "
            f"{vocab_size}); give the weights of this model, or the model of these weights:\n  " + "\n  ".join(wrong)
        )


def differences(
    needed: Mapping[str, tuple[int, ...]],
    found: Mapping[str, tuple[int, ...]],
    what: str,
) -> list[str]:
    """Return a line for every array that is missing, unexpected or of another shape than something needs."""
    lines, wrong_shapes = list[str](), list[str]()
    for name, shape in needed.items():
        if name not in found:
            lines.append(f"missing: {name} {list(shape)}")
    for name, shape in found.items():
        its_shape = shortened(str(list(shape)))
        if name not in needed:
            lines.append(f"unexpected: {shortened(name)} {its_shape}")
        elif shape != needed[name]:
            wrong_shapes.append(f"wrong shape: {name} is {its_shape}, the {what} needs {list(needed[name])}")
    return lines + wrong_shapes
