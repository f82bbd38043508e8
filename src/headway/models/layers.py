"""Parts of a transformer around attention: linear maps, the MLP, norms, embeddings and the read-out's entries.

A linear map is one matrix or a product of two. Embeddings turn tokens into vectors, an encoder turns numbers into
vectors, and a class token may follow the last input.

The token embedding fills the first d_embed entries of the residual stream. The rest starts at zero (or at the
positions' vectors) and is the data lane: room that layers share and that neither embedding nor tied read-out addresses
directly.

Paper: data-lane post, December 2023.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config.lm.model import TransformerModel
from headway.errors import UserError

Stream = Float[Tensor, "batch pos d_model"]


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
        """Return the map of x."""
        return self.second(self.first(x))


Map = nn.Linear | LowRank


def linear(into: int, out: int, rank: int | None, *, bias: bool) -> Map:
    """Return a linear map of the given rank; None for a whole matrix."""
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

    def forward(self, x: Stream) -> Stream:
        """Return what the MLP adds to the stream."""
        inside = self.up(x)
        if self.kind == "swiglu":
            return self.down(nn.functional.silu(self.gate(x)) * inside)
        return self.down(activation(self.kind, inside))


def activation(kind: str, x: Tensor) -> Tensor:
    """Return the non-linearity of an MLP without a gate, entry by entry."""
    if kind == "relu":
        return torch.relu(x)
    return nn.functional.gelu(x, approximate="tanh" if kind == "gelu_new" else "none")


def enter(
    embedded: Float[Tensor, "batch pos d_embed"], positions: Float[Tensor, "pos width"] | None, d_model: int
) -> Stream:
    """Return the stream before the first layer; `positions` are as wide as the embedding or as the stream."""
    stream = nn.functional.pad(embedded, (0, d_model - embedded.shape[2]))
    return stream if positions is None else stream + nn.functional.pad(positions, (0, d_model - positions.shape[1]))


def read_entries(stream: Stream, model: TransformerModel) -> Float[Tensor, "batch pos d_embed"]:
    """Return the entries that the read-out takes: the embedding's, or the last d_embed if the lane is switched."""
    d_embed = model.embedding_width
    return stream[..., -d_embed:] if model.lane == "switched" else stream[..., :d_embed]


def lane_share(stream: Float[Tensor, "*tokens d_model"], d_embed: int) -> Float[Tensor, "*tokens"]:
    """Return the share of the lane (entries beyond the embedding) in the squared norm of each token's stream."""
    squares = stream.float().square()
    return squares[..., d_embed:].sum(-1) / squares.sum(-1)


def norm(model: TransformerModel) -> nn.Module:
    """Return a norm over the whole stream."""
    if model.norm == "layer":
        return nn.LayerNorm(model.d_model, eps=model.norm_eps)
    return nn.RMSNorm(model.d_model, eps=model.norm_eps) if model.norm == "rms" else nn.Identity()


Inputs = Int[Tensor, "batch pos"] | Float[Tensor, "batch pos numbers"]
"""Tokens, or with an encoder numbers at each position. A class token is one more position at the end."""


Targets = Int[Tensor, "batch place"] | Float[Tensor, "batch place answers"]
"""Targets that are classes or numbers; -1 or NaN where no answer is asked for."""


class InputEncoder(nn.Module):
    """An MLP of two layers for each input of numbers: `down(gelu(up(x)))`."""

    def __init__(self, into: int, width: int, out: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(into, width), nn.Linear(width, out)

    def forward(self, x: Float[Tensor, "batch pos into"]) -> Float[Tensor, "batch pos out"]:
        """Return a vector for each input."""
        return self.down(activation("gelu", self.up(x)))


def check_inputs(inputs: object, n_numbers: int | None) -> None:
    """Raise UserError if a model cannot read its inputs.

    Args:
        inputs: the inputs of the model.
        n_numbers: the number of numbers in an input, for a model with an encoder; None for a model that reads tokens.

    Raises:
        UserError: saying what it reads.
    """
    what = f"a tensor of shape {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else type(inputs).__name__
    if n_numbers is not None:
        if isinstance(inputs, Tensor) and inputs.is_floating_point() and inputs.shape[2:] == (n_numbers,):
            return
        raise UserError(
            f"inputs: {what} was given, and this model has an encoder: it reads a tensor of numbers, (batch, pos, "
            f"{n_numbers})"
        )
    if isinstance(inputs, Tensor) and inputs.dim() == 2 and not inputs.is_floating_point():
        return
    raise UserError(
        f"tokens: {what} was given, but a model reads a tensor of whole numbers (batch, pos), such as "
        "torch.tensor([[1, 2, 3]]); headway.open_model(PATH).trace(...) takes a sentence, lists and arrays, too"
    )
