"""Model: the keys and values that a model has already computed, so that a further token costs one position."""

import torch
from jaxtyping import Float
from torch import Tensor

from headway.declare.tokens.transformer import TransformerModel


class KVCache:
    """Keys and values of every layer for up to `n_positions` positions, allocated once.

    `length` positions are filled; `extend` writes those after them, layer by layer, and `advance` counts them.
    """

    def __init__(
        self,
        model: TransformerModel,
        n_positions: int,
        *,
        batch: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.length = 0
        self._kept = [
            torch.empty(2, batch, heads.n_kv_heads, n_positions, heads.d_head, dtype=dtype, device=device)
            for heads in model.layout.layers
        ]

    def extend(
        self,
        layer: int,
        k: Float[Tensor, "batch kv_head new d_head"],
        v: Float[Tensor, "batch kv_head new d_head"],
    ) -> tuple[Float[Tensor, "batch kv_head key d_head"], Float[Tensor, "batch kv_head key d_head"]]:
        """Keys and values of all positions so far, the new ones included."""
        end = self.length + k.shape[2]
        kept = self._kept[layer]
        kept[0, :, :, self.length : end] = k
        kept[1, :, :, self.length : end] = v
        return kept[0, :, :, :end], kept[1, :, :, :end]

    def advance(self, n_new: int) -> None:
        """The new positions are in every layer."""
        self.length += n_new
