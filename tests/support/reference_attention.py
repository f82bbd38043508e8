"""The slow, obvious in-context model: a loop over layers, heads and positions, in whatever precision it is given."""

import math

import torch
from torch import Tensor

from headway.config.regression import IclModel, OneLayer
from headway.icl.attention import InContextAttention


def predict(module: InContextAttention, x: Tensor, y: Tensor, x_query: Tensor) -> Tensor:
    """Predictions (batch, d_y), prompt by prompt, from the module's parameters alone."""
    return torch.stack([_one_prompt(module, *prompt) for prompt in zip(x, y, x_query, strict=True)])


def _one_prompt(module: InContextAttention, x: Tensor, y: Tensor, x_query: Tensor) -> Tensor:
    model, d_y = module.model, y.shape[1]
    tokens = [torch.cat((a, b)) for a, b in zip(x, y, strict=True)]
    tokens.append(torch.cat((x_query, torch.zeros(d_y, dtype=x.dtype))))
    one_layer = isinstance(model, OneLayer)
    for layer in range(1 if one_layer else model.n_layers):
        written = [_written(module, layer, tokens, position) for position in range(len(tokens))]
        if one_layer:
            return written[-1][-d_y:]
        tokens = [a + b for a, b in zip(tokens, written, strict=True)] if model.residual else written
    output = module.W_F @ tokens[-1]
    return output + module.b_F if model.bias else output


def _written(module: InContextAttention, layer: int, tokens: list[Tensor], position: int) -> Tensor:
    model = module.model
    layer = 0 if isinstance(model, OneLayer) or model.tied else layer
    seen = tokens[:position]
    if not isinstance(model, OneLayer) and model.attend_self:
        seen = tokens[: position + 1]
    output = module.b_O[layer] if model.bias else 0
    if not seen:
        return output + torch.zeros(module.W_O.shape[2], dtype=tokens[0].dtype)
    for head in range(model.n_heads):
        W_Q, W_K, W_V, W_O = (getattr(module, f"W_{name}")[layer, head] for name in "QKVO")
        b_Q, b_K, b_V = (getattr(module, f"b_{name}")[layer, head] if model.bias else 0 for name in "QKV")
        q = W_Q @ tokens[position] + b_Q
        scores = torch.stack([(W_K @ z + b_K) @ q / math.sqrt(len(q)) for z in seen])
        weights = _normalised(scores, model)
        output = output + W_O @ sum(weight * (W_V @ z + b_V) for weight, z in zip(weights, seen, strict=True))
    return output


def _normalised(scores: Tensor, model: IclModel) -> Tensor:
    if model.attention == "softmax":
        return scores.softmax(0)
    return scores / len(scores) if model.attention == "linear-mean" else scores
