"""Model: what makes vectors of what is read: an embedding of tokens, or an encoder of numbers, and a class token."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.declare.tokens.transformer import TransformerModel
from headway.errors import UserError
from headway.model.maps import activation

Inputs = Int[Tensor, "batch pos"] | Float[Tensor, "batch pos numbers"]
"""Tokens; or with an encoder, numbers at each position. A class token is one more place, after them."""


Targets = Int[Tensor, "batch place"] | Float[Tensor, "batch place answers"]
"""Classes, or numbers; -1 or NaN where none is asked for."""


class InputEncoder(nn.Module):
    """An MLP of two layers for each input of numbers: `down(gelu(up(x)))`."""

    def __init__(self, into: int, width: int, out: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(into, width), nn.Linear(width, out)

    def forward(self, x: Float[Tensor, "batch pos into"]) -> Float[Tensor, "batch pos out"]:
        """A vector for each input."""
        return self.down(activation("gelu", self.up(x)))


def embedding_of(model: TransformerModel, vocab_size: int) -> nn.Embedding:
    """What makes a vector of a token."""
    rows = vocab_size * model.n_positions if model.positions == "joint" else vocab_size
    return nn.Embedding(rows, model.embedding_width)


def rows_of(tokens: Tensor, model: TransformerModel, vocab_size: int, here: slice) -> Tensor:
    """The rows of the embedding: those of tokens, or of tokens at their positions, one position after the other."""
    if model.positions != "joint":
        return tokens
    return tokens + vocab_size * torch.arange(here.start, here.start + tokens.shape[1], device=tokens.device)


def with_class_token(
    embedded: Float[Tensor, "batch pos d_embed"], vector: Float[Tensor, " d_embed"]
) -> Float[Tensor, "batch place d_embed"]:
    """The same with a learned vector after the last."""
    return torch.cat((embedded, vector.expand(len(embedded), 1, -1)), dim=1)


def check_inputs(inputs: object, n_numbers: int | None) -> None:
    """See that a model can read what it is given.

    Args:
        inputs: what it is given.
        n_numbers: of an input, for a model with an encoder; None for one that reads tokens.

    Raises:
        UserError: saying what it reads.
    """
    given = f"a tensor of shape {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else type(inputs).__name__
    if n_numbers is not None:
        if isinstance(inputs, Tensor) and inputs.is_floating_point() and inputs.shape[2:] == (n_numbers,):
            return
        raise UserError(
            f"inputs: {given} was given, and this model has an encoder: it reads a tensor of numbers, (batch, pos, "
            f"{n_numbers})"
        )
    if isinstance(inputs, Tensor) and inputs.dim() == 2 and not inputs.is_floating_point():
        return
    raise UserError(
        f"tokens: {given} was given, and a model reads a tensor of whole numbers, (batch, pos), such as "
        "torch.tensor([[1, 2, 3]]); headway.open_model(PATH), of a run's path or a folder, takes a sentence, lists and "
        "arrays too: headway.open_model(PATH).trace(...)"
    )
