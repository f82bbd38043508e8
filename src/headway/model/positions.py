"""Model: how positions enter: as vectors added to the stream, or by turning queries and keys."""

import torch
from jaxtyping import Float
from torch import Tensor


def sinusoids(n_positions: int, width: int) -> Float[Tensor, "n_positions width"]:
    """Fixed position vectors: entry 2i is sin(pos / 10000^(2i / width)), entry 2i + 1 its cosine.

    Paper: Vaswani et al. 2017, arXiv 1706.03762. Whether the embedding is multiplied by sqrt(d_model) is
    declared apart (`embedding_scale`).
    """
    angles = _angles(n_positions, width + width % 2, base=10_000.0)
    return torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)[:, :width].float()


def rotary_table(n_positions: int, d_head: int, base: float) -> Float[Tensor, "2 n_positions d_head"]:
    """Cosines and sines of the angles by which `rotate` turns, both halves of a head alike."""
    angles = _angles(n_positions, d_head, base).repeat(1, 2)
    return torch.stack((angles.cos(), angles.sin())).float()


def rotate(
    x: Float[Tensor, "batch head pos d_head"], table: Float[Tensor, "2 *#batch pos d_head"]
) -> Float[Tensor, "batch head pos d_head"]:
    """Queries or keys turned by their position, entry i paired with entry i + d_head / 2.

    Paper: Su et al. 2021, arXiv 2104.09864, pairs neighbours (2i, 2i + 1); halves, as GPT-NeoX and Hugging Face's
    Llama pair them, are the same model with the rows of W_Q and W_K in another order.
    """
    cos, sin = table.to(x.dtype)
    first, second = x.chunk(2, dim=3)
    return x * cos + torch.cat((-second, first), dim=3) * sin


def _angles(n_positions: int, width: int, base: float) -> Float[Tensor, "n_positions half"]:
    frequencies = base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies
