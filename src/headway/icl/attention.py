"""In-context models in PyTorch: one full-width attention layer, or a causal stack of them.

A full-width head enters only through its circuits, and tokens are narrower than prompts are long, so a layer works
with QK_h = W_K^T W_Q / sqrt(D) and OV_h = W_O W_V alone: scores z_k . QK_h z_r, contexts sum_k p_k z_k, outputs
sum_h OV_h context_h. Biases are circuits of tokens that carry one more entry, 1.

Inside, every tensor has the examples on its last axis. Compiled, contractions are written as products and sums of
such tensors, which fuse into loops over vectors of examples; run eagerly, they are matrix products.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734. The stacks in its code mask after the softmax, take the
softmax twice and divide 0 by 0 in rows that see nothing; here the mask comes first, and the heads of such a row give 0.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.declare.model import OneLayer, RegressionModel, Stack
from headway.declare.task import RegressionTask
from headway.errors import UserError
from headway.icl.weights import Weights, weight_shapes

_ROW_BLOCKS = 4
"""Causal rows are computed in this many blocks, each against the pairs up to its end: 5/8 of the work of all at once."""


class InContextAttention(nn.Module):
    """A one-layer model or a stack; its parameters have the names and shapes of `headway.icl.weights`.

    Raises:
        UserError: when the weights are not those of the model.

    Examples:
        >>> from headway.icl.weights import initial_weights
        >>> task = RegressionTask(kind="regression", d_x=5, n_pairs=40)
        >>> model = OneLayer(family="icl", n_heads=2, n_out=1)
        >>> module = InContextAttention(model, task, initial_weights(model, task, seed=0))
        >>> module(torch.ones(3, 40, 5), torch.ones(3, 40, 1), torch.ones(3, 5)).shape
        torch.Size([3, 1])
    """

    def __init__(self, model: RegressionModel, task: RegressionTask, weights: Weights) -> None:
        super().__init__()
        given, needed = {name: array.shape for name, array in weights.items()}, weight_shapes(model, task)
        if given != needed:
            raise UserError(f"weights of shapes {given} do not fit the model; it needs {needed}")
        for name, array in weights.items():
            self.register_parameter(name, nn.Parameter(torch.tensor(array)))
        if isinstance(model, OneLayer):
            rows = weights["W_O"].shape[2]
            self.register_buffer("reads_y", torch.eye(rows)[-task.d_y :], persistent=False)
        self.register_buffer("before", torch.ones(task.n_pairs, task.n_pairs, dtype=torch.bool).tril(-1), persistent=False)
        self.model = model
        self.d_y = task.d_y
        self.n_layers = model.n_layers if isinstance(model, Stack) else 1
        self.residual = isinstance(model, Stack) and model.residual
        self.attend_self = isinstance(model, Stack) and model.attend_self

    def weights(self) -> Weights:
        """A copy of the parameters as numpy arrays."""
        return {name: parameter.detach().cpu().numpy().copy() for name, parameter in self.named_parameters()}

    def forward(
        self,
        x: Float[Tensor, "batch pair d_x"],
        y: Float[Tensor, "batch pair d_y"],
        x_query: Float[Tensor, "batch d_x"],
    ) -> Float[Tensor, "batch d_y"]:
        """The prediction of y_query in each prompt."""
        return self.at_lengths(x, y, x_query, (x.shape[1],))[:, 0]

    def at_lengths(
        self,
        x: Float[Tensor, "batch pair d_x"],
        y: Float[Tensor, "batch pair d_y"],
        x_query: Float[Tensor, "batch d_x"],
        lengths: Sequence[int],
    ) -> Float[Tensor, "batch length d_y"]:
        """The prediction in each prompt cut to its first n pairs, for every n in `lengths`.

        No pair sees a later one or the query, so one pass over the pairs serves every length; a length only adds a
        row that looks, the query's.
        """
        pairs = torch.cat((x, y), dim=2).permute(1, 2, 0)
        query = nn.functional.pad(x_query, (0, self.d_y)).T.expand(len(lengths), -1, -1)
        if torch.compiler.is_compiling():
            pairs, query = pairs.contiguous(), query.contiguous()
        index = torch.arange(len(pairs), device=x.device)
        within = None if tuple(lengths) == (len(pairs),) else index < index.new_tensor(lengths)[:, None]
        for layer in range(self.n_layers - 1):
            circuits = self._circuits(layer)
            to_query, to_pairs = self._heads(query, pairs, within, circuits), self._causal_heads(pairs, circuits)
            query, pairs = (query + to_query, pairs + to_pairs) if self.residual else (to_query, to_pairs)
        return self._read(query, pairs, within).permute(2, 0, 1)

    def _causal_heads(self, pairs: Tensor, circuits: "_Circuits") -> Tensor:
        """What all heads write at the pairs, each of which sees those before it."""
        n_pairs, size = len(pairs), math.ceil(len(pairs) / _ROW_BLOCKS)
        outputs = []
        first = 0
        if not self.attend_self:  # the first pair sees nothing
            nothing = torch.zeros_like(pairs[:1])
            outputs.append(nothing if circuits.bias is None else nothing + circuits.bias[:, None])
            first = 1
        for start in range(first, n_pairs, size):
            stop = min(start + size, n_pairs)
            keys = stop - first
            before = self.before[start:stop, :keys]
            outputs.append(self._heads(pairs[start:stop], pairs[:keys], before, circuits))
        return torch.cat(outputs)

    def _read(self, query: Tensor, pairs: Tensor, within: Tensor | None) -> Tensor:
        """The last layer, which only the query needs, followed by the final map."""
        final = self.W_F if isinstance(self.model, Stack) else self.reads_y
        qk, ov, bias = self._circuits(self.n_layers - 1)
        output = self._heads(query, pairs, within, _Circuits(qk, final @ ov, None if bias is None else final @ bias))
        if self.residual:
            output = output + _contract("od,rdb->rob", final, query)
        return output + self.b_F[:, None] if hasattr(self, "b_F") else output

    def _circuits(self, layer: int) -> "_Circuits":
        layer %= len(self.W_Q)  # tied layers share one
        W_Q, W_K, W_V, W_O = (getattr(self, f"W_{name}")[layer] for name in "QKVO")
        bias = None
        if self.model.bias:
            b_Q, b_K, b_V = (getattr(self, f"b_{name}")[layer, :, :, None] for name in "QKV")
            W_Q, W_K, W_V = torch.cat((W_Q, b_Q), 2), torch.cat((W_K, b_K), 2), torch.cat((W_V, b_V), 2)
            bias = self.b_O[layer]
        return _Circuits(W_K.transpose(1, 2) @ W_Q / math.sqrt(W_K.shape[1]), W_O @ W_V, bias)

    def _heads(self, looking: Tensor, seen: Tensor, mask: Tensor | None, circuits: "_Circuits") -> Tensor:
        """What all heads write at the rows that look, (row, entry, example).

        `looking` (row, entry, example) attends to `seen` (key, entry, example) where `mask` (row, key) is true.
        """
        if self.model.bias:
            looking, seen = _with_one(looking), _with_one(seen)
        asked = _contract("hdc,rcb->rhdb", circuits.qk, looking)
        scores = _contract("rhdb,kdb->rhkb", asked, seen)
        if self.attend_self:
            scores = torch.cat((scores, (asked * looking[:, None]).sum(2)[:, :, None]), dim=2)
            mask = mask if mask is None else nn.functional.pad(mask, (0, 1), value=True)
        if mask is not None:
            mask = mask[:, None, :, None]
        weights, total = self._weights(scores, mask)
        contexts = _contract("rhkb,kdb->rhdb", weights[:, :, : len(seen)], seen)
        if self.attend_self:
            contexts = contexts + weights[:, :, -1:] * looking[:, None]
        output = _contract("hod,rhdb->rob", circuits.ov, contexts / total)
        return output if circuits.bias is None else output + circuits.bias[:, None]

    def _weights(self, scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | float]:
        """Attention weights before they are normalised, and what to divide by; masked keys weigh 0."""
        if self.model.attention == "softmax":
            if mask is not None:
                scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            weights = (scores - scores.amax(2, keepdim=True).detach()).exp()
            return weights, weights.sum(2, keepdim=True)
        weights = scores if mask is None else scores.masked_fill(~mask, 0)
        if self.model.attention == "linear-sum":
            return weights, 1.0
        keys = scores.shape[2] if mask is None else mask.sum(2, keepdim=True)
        return weights, keys


class _Circuits(NamedTuple):
    """A layer by its circuits: QK (H, D, D), OV (H, output, D) and the output's bias (output,) or None."""

    qk: Tensor
    ov: Tensor
    bias: Tensor | None


def _with_one(tokens: Tensor) -> Tensor:
    return torch.cat((tokens, torch.ones_like(tokens[:, :1])), dim=1)


def _contract(equation: str, left: Tensor, right: Tensor) -> Tensor:
    if equation == "rhdb,kdb->rhkb": return sum(left[:,:,None,c]*right[None,None,:,c] for c in range(left.shape[2]))
    if equation == "rhkb,kdb->rhdb": return torch.stack([(left*right[None,None,:,c]).sum(2) for c in range(right.shape[1])],2)
    inputs,output=equation.split("->"); li,ri=inputs.split(",")
    summed=sorted(set(inputs)-set(output)-{","})
    order=[*output[:-1],*summed,output[-1]]
    def al(le,t):
        p=[q for q in order if q in le]
        return t.permute([le.index(q) for q in p])[tuple(slice(None) if q in le else None for q in order)]
    n=len(output)-1
    return (al(li,left)*al(ri,right)).sum(tuple(range(n,n+len(summed))))
