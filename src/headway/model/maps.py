"""Model: linear maps, whole or as a product of two, and the MLP made of them."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.declare.tokens.transformer import TransformerModel


class LowRank(nn.Module):
    """A linear map that is a product of two: `second(first(x))`; the bias is the second's.

    Paper: the published low-rank substitution keeps the replaced matrices beside the factors and counts them; here
    they do not exist.
    """

    def __init__(self, into: int, out: int, rank: int, *, bias: bool) -> None:
        super().__init__()
        self.first = nn.Linear(into, rank, bias=False)
        self.second = nn.Linear(rank, out, bias=bias)

    @property
    def weight(self) -> Float[Tensor, "out into"]:
        """The product."""
        return self.second.weight @ self.first.weight

    @property
    def bias(self) -> Float[Tensor, " out"] | None:
        """The bias, if there is one."""
        return self.second.bias

    def forward(self, x: Float[Tensor, "*batch into"]) -> Float[Tensor, "*batch out"]:
        """The map of x."""
        return self.second(self.first(x))


Map = nn.Linear | LowRank


def linear(into: int, out: int, rank: int | None, *, bias: bool) -> Map:
    """A map of the given rank; None for a whole matrix."""
    return nn.Linear(into, out, bias=bias) if rank is None else LowRank(into, out, rank, bias=bias)


class Mlp(nn.Module):
    """The MLP of one layer: `down(act(up(x)))`, or for SwiGLU `down(silu(gate(x)) up(x))`."""

    def __init__(self, model: TransformerModel, layer: int) -> None:
        super().__init__()
        d_model, d_mlp, bias = model.d_model, model.mlp_widths[layer], "mlp" in model.biases
        self.kind = model.mlp
        if self.kind == "swiglu":
            self.gate = linear(d_model, d_mlp, model.rank("up", layer), bias=bias)
        self.up = linear(d_model, d_mlp, model.rank("up", layer), bias=bias)
        self.down = linear(d_mlp, d_model, model.rank("down", layer), bias=bias)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        """What the MLP adds to the stream."""
        inside = self.up(x)
        if self.kind == "swiglu":
            return self.down(nn.functional.silu(self.gate(x)) * inside)
        return self.down(activation(self.kind, inside))

    def between(self, inside: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos d_mlp"]:
        """What `down` reads, from what `up` gives, and for SwiGLU after it what `gate` gives."""
        if self.kind != "swiglu":
            return activation(self.kind, inside)
        up, gate = inside.chunk(2, dim=-1)
        return nn.functional.silu(gate) * up


def activation(kind: Literal["gelu_new", "gelu", "relu"] | str, x: Tensor) -> Tensor:
    """The non-linearity of an MLP without a gate, entry by entry."""
    if kind == "relu":
        return torch.relu(x)
    return nn.functional.gelu(x, approximate="tanh" if kind == "gelu_new" else "none")
