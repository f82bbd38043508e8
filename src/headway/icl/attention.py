"""In-context models in PyTorch: one full-width attention layer, or a causal stack of them.

A full-width head enters only through its circuits, and tokens are narrower than prompts are long, so a layer works
with QK_h = W_K^T W_Q / sqrt(D) and OV_h = W_O W_V alone: scores z_k . QK_h z_r, contexts sum_k p_k z_k, outputs
sum_h OV_h context_h. Biases are circuits of tokens that carry one more entry, 1.

Inside, tensors have the examples on their last axis, tokens (position, entry, example). Compiled, contractions are
written as products and sums of such tensors, which fuse into loops over vectors of examples; run eagerly, they are
matrix products.

Paper: He, Pan, Chen, Yang, ICML 2025, arXiv 2503.12734. The stacks in its code take the softmax twice, before and after
the mask, and the first row, which sees nothing, attends evenly to every position. Here the mask comes before one
softmax, and a row that sees nothing gives 0.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.config.regression import IclModel, RegressionTask, Stack
from headway.errors import UserError
from headway.icl.weights import Weights, weight_shapes

X = Float[Tensor, "batch pair d_x"]
Y = Float[Tensor, "batch pair d_y"]
XQuery = Float[Tensor, "batch d_x"]
_ROW_BLOCKS = 4
"""The number of blocks of causal rows, each computed against the pairs up to its end: 5/8 of the work of one block."""


class InContextAttention(nn.Module):
    """A one-layer model or a stack; its parameters have the names and shapes of `headway.icl.weights`.

    A one-layer model is a stack of one layer whose final map picks the rows of y. Law: the order of the pairs changes
    nothing in it, and the query does not attend to itself.

    Raises:
        UserError: when the weights are not those of the model.

    Examples:
        >>> from headway.config.regression import OneLayer
        >>> from headway.icl.weights import initial_weights
        >>> task = RegressionTask(kind="regression", d_x=5, n_pairs=40)
        >>> model = OneLayer(family="icl", n_heads=2, n_out=1)
        >>> module = InContextAttention(model, task, initial_weights(model, task, seed=0))
        >>> module(torch.ones(3, 40, 5), torch.ones(3, 40, 1), torch.ones(3, 5)).shape
        torch.Size([3, 1])
    """

    W_Q: Tensor
    W_O: Tensor
    W_F: Tensor
    b_O: Tensor
    b_F: Tensor
    causal: Tensor
    picks_y: Tensor

    def __init__(self, model: IclModel, task: RegressionTask, weights: Weights) -> None:
        super().__init__()
        shapes, needed = {name: array.shape for name, array in weights.items()}, weight_shapes(model, task)
        if shapes != needed:
            raise UserError(f"weights of shapes {shapes} do not fit the model; it needs {needed}")
        for name, array in weights.items():
            self.register_parameter(name, nn.Parameter(torch.tensor(array)))
        rows = torch.eye(needed["W_O"][2], dtype=self.W_O.dtype)
        self.register_buffer("picks_y", rows[-task.d_y :], persistent=False)
        # Kept, since comparing positions inside the compiled loss costs as much as the attention.
        self.register_buffer("causal", _causal(task.n_pairs), persistent=False)
        self.model = model
        self.d_y = task.d_y
        self.n_layers = model.n_layers
        self.residual = isinstance(model, Stack) and model.residual
        self.attend_self = isinstance(model, Stack) and model.attend_self

    def weights(self) -> Weights:
        """Return a copy of the parameters as numpy arrays."""
        return {name: parameter.detach().cpu().numpy().copy() for name, parameter in self.named_parameters()}

    def forward(
        self,
        x: X,
        y: Y,
        x_query: XQuery,
    ) -> Float[Tensor, "batch d_y"]:
        """Return the prediction of y_query in each prompt."""
        return self.predict(*tokens(x, y, x_query))

    def predict(
        self, pairs: Float[Tensor, "pair D batch"], query: Float[Tensor, "1 D batch"]
    ) -> Float[Tensor, "batch d_y"]:
        """Return predictions from the output of `tokens`; this is the function to compile."""
        sees = self.causal if len(pairs) == self.causal.shape[1] else _causal(len(pairs)).to(pairs.device)
        return self._outputs(pairs, query, sees)[0].T

    def at_lengths(
        self,
        x: X,
        y: Y,
        x_query: XQuery,
        lengths: Sequence[int],
    ) -> Float[Tensor, "batch length d_y"]:
        """Return the prediction in each prompt cut to its first n pairs, for every n in `lengths`.

        No pair sees a later one or the query, so one pass over the pairs serves every length. A length only adds a
        query's row.
        """
        pairs, query = tokens(x, y, x_query)
        within = torch.arange(len(pairs), device=x.device) < torch.tensor(lengths, device=x.device)[:, None]
        sees = torch.cat((_causal(len(pairs))[:-1].to(x.device), within))
        return self._outputs(pairs, query.expand(len(lengths), -1, -1), sees).permute(2, 0, 1)

    def _outputs(self, pairs: Tensor, query: Tensor, sees: Tensor) -> Tensor:
        """Return outputs (row, d_y, example) per row of the query; `sees` (position, pair) has pairs, then query."""
        n_pairs, positions = len(pairs), torch.cat((pairs, query))
        for layer in range(self.n_layers - 1):
            written = self._causal_layer(positions, sees, self._circuits(layer))
            positions = positions + written if self.residual else written
        # The last layer: only the query's rows are read, and the final map joins the circuits.
        pairs, query = positions[:n_pairs], positions[n_pairs:]
        qk, ov, bias = self._circuits(self.n_layers - 1)
        final = self.W_F if isinstance(self.model, Stack) else self.picks_y
        circuits = _Circuits(qk, final @ ov, None if bias is None else final @ bias)
        outputs = self._layer(query, pairs, sees[n_pairs:], circuits, [(slice(0, len(query)), n_pairs)])
        if self.residual:
            outputs = outputs + _contract("hod,rhdb->rob", final[None], query[:, None])
        return outputs + self.b_F[:, None] if isinstance(self.model, Stack) and self.model.bias else outputs

    def _circuits(self, layer: int) -> "_Circuits":
        layer %= len(self.W_Q)  # tied layers share one
        W_Q, W_K, W_V, W_O = (getattr(self, f"W_{name}")[layer] for name in "QKVO")
        scale = math.sqrt(W_K.shape[1])
        bias = None
        if self.model.bias:
            b_Q, b_K, b_V = (getattr(self, f"b_{name}")[layer, :, :, None] for name in "QKV")
            W_Q, W_K, W_V = torch.cat((W_Q, b_Q), 2), torch.cat((W_K, b_K), 2), torch.cat((W_V, b_V), 2)
            bias = self.b_O[layer]
        return _Circuits(W_K.transpose(1, 2) @ W_Q / scale, W_O @ W_V, bias)

    def _causal_layer(self, positions: Tensor, sees: Tensor, circuits: "_Circuits") -> Tensor:
        """Return what a layer writes at every position; the first sees nothing unless positions see themselves."""
        n_pairs, first = sees.shape[1], 0 if self.attend_self else 1
        size = math.ceil((len(positions) - first) / _ROW_BLOCKS)
        starts = range(0, len(positions) - first, size)
        blocks = [(slice(start, start + size), min(start + size, n_pairs)) for start in starts]
        written = self._layer(positions[first:], positions[:n_pairs], sees[first:], circuits, blocks)
        if self.attend_self:
            return written
        nothing = torch.zeros_like(positions[:1])
        return torch.cat((nothing if circuits.bias is None else nothing + circuits.bias[:, None], written))

    def _layer(
        self, looking: Tensor, seen: Tensor, sees: Tensor, circuits: "_Circuits", blocks: Sequence[tuple[slice, int]]
    ) -> Tensor:
        """Return what a layer writes at query tokens; each block of them sees no more than its number of pairs."""
        if self.model.bias:
            looking, seen = _with_one(looking), _with_one(seen)
        asked = _contract("hdc,rcb->rhdb", circuits.qk, looking)
        contexts = [self._contexts(asked[rows], looking[rows], seen[:keys], sees[rows, :keys]) for rows, keys in blocks]
        written = _contract("hod,rhdb->rob", circuits.ov, torch.cat(contexts))
        return written if circuits.bias is None else written + circuits.bias[:, None]

    def _contexts(self, asked: Tensor, looking: Tensor, seen: Tensor, sees: Tensor) -> Tensor:
        """Return means (or sums) of the seen tokens by attention weight, (row, head, entry, example)."""
        scores = _contract("rhdb,kdb->rhkb", asked, seen)
        if self.attend_self:  # one more key, another one in each row
            scores = torch.cat((scores, (asked * looking[:, None]).sum(2, keepdim=True)), dim=2)
            sees = nn.functional.pad(sees, (0, 1), value=True)
        weights, total = self._weights(scores, sees)
        contexts = _contract("rhkb,kdb->rhdb", weights[:, :, : len(seen)], seen)
        if self.attend_self:
            contexts = contexts + weights[:, :, -1:] * looking[:, None]
        return contexts / total

    def _weights(self, scores: Tensor, sees: Tensor) -> tuple[Tensor, Tensor | float]:
        """Return the weight of each key, 0 where it is not seen, and the divisor of the sums."""
        hidden = ~sees[:, None, :, None]
        if self.model.attention == "softmax":
            scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
            weights = (scores - scores.amax(2, keepdim=True).detach()).exp()
            return weights, weights.sum(2, keepdim=True)
        weights = scores.masked_fill(hidden, 0)
        return weights, 1.0 if self.model.attention == "linear-sum" else sees.sum(1)[:, None, None, None]


class _Circuits(NamedTuple):
    """A layer: QK (H, D, D), OV (H, output, D) and the output's bias (output,) or None."""

    qk: Tensor
    ov: Tensor
    bias: Tensor | None


def tokens(x: X, y: Y, x_query: XQuery) -> tuple[Float[Tensor, "pair D batch"], Float[Tensor, "1 D batch"]]:
    """Return the tokens (x, y) of the pairs and (x_query, 0) of the query, with examples on the last axis."""
    pairs = torch.cat((x, y), dim=2).permute(1, 2, 0)
    return pairs.contiguous(), nn.functional.pad(x_query, (0, y.shape[2])).T[None].contiguous()


def _causal(n_pairs: int) -> Tensor:
    """Return (position, pair) booleans: whether the pair comes before the position; the last position is the query."""
    return torch.ones(n_pairs + 1, n_pairs, dtype=torch.bool).tril(-1)


def _with_one(tokens: Tensor) -> Tensor:
    return torch.cat((tokens, torch.ones_like(tokens[:, :1])), dim=1)


def _asked(qk: Tensor, looking: Tensor) -> Tensor:
    return (_examples_first(looking) @ qk.flatten(0, 1).T).unflatten(2, qk.shape[:2]).movedim(0, -1)


def _scores(asked: Tensor, seen: Tensor) -> Tensor:
    scores = _examples_first(asked).flatten(1, 2) @ _examples_first(seen).mT
    return scores.unflatten(1, asked.shape[:2]).movedim(0, -1)


def _sums(weights: Tensor, seen: Tensor) -> Tensor:
    sums = _examples_first(weights).flatten(1, 2) @ _examples_first(seen)
    return sums.unflatten(1, weights.shape[:2]).movedim(0, -1)


def _written(ov: Tensor, contexts: Tensor) -> Tensor:
    return (_examples_first(contexts).flatten(2) @ ov.mT.flatten(0, 1)).movedim(0, -1)


def _examples_first(tensor: Tensor) -> Tensor:
    # Contiguous: for other strides torch multiplies the matrices of a batch one by one.
    return tensor.movedim(-1, 0).contiguous()


# Each contraction as matrix products over examples, and as terms that fuse when compiled.
# Sums over the few entries of a token are written out term by term: a reduction inside a reduction does not fuse.
_CONTRACTIONS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]] = {
    "hdc,rcb->rhdb": (_asked, lambda qk, looking: (qk[..., None] * looking[:, None, None]).sum(3)),
    "rhdb,kdb->rhkb": (
        _scores,
        lambda asked, seen: functools.reduce(
            torch.add, [asked[:, :, None, d] * seen[:, d] for d in range(seen.shape[1])]
        ),
    ),
    "rhkb,kdb->rhdb": (
        _sums,
        lambda weights, seen: torch.stack([(weights * seen[:, d]).sum(2) for d in range(seen.shape[1])], dim=2),
    ),
    "hod,rhdb->rob": (_written, lambda ov, contexts: (ov[..., None] * contexts[:, :, None]).sum((1, 3))),
}


def _contract(equation: str, left: Tensor, right: Tensor) -> Tensor:
    """Return torch.einsum of two tensors."""
    return _CONTRACTIONS[equation][torch.compiler.is_compiling()](left, right)
