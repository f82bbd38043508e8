"""Model: what a recorded forward pass gives back of every head.

One type for Headway's models and for any other: `W_O` is cut into the heads' slices and keys and values stay those of
the KV heads, so nothing is as large as heads times keys times queries until patterns are asked for.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class AttentionTrace:
    """What the heads of one attention did. Law: contributions sum to the attention's output minus its bias."""

    name: str
    layer: int
    kind: Literal["self", "encoder", "cross"]
    q: Float[Tensor, "batch head query d_head"]
    """As they enter the dot product: after rotary turns and norms, before the scale."""
    k: Float[Tensor, "batch kv_head key d_head"]
    v: Float[Tensor, "batch kv_head key d_value"]
    z: Float[Tensor, "batch head query d_value"]
    """Contexts: attention weights times values, times the head's gate."""
    kv_of: tuple[int, ...]
    """The KV head of each query head."""
    W_O: Float[Tensor, "head d_value d_model"]
    b_O: Float[Tensor, " d_model"] | None
    scale: float
    """What logits are multiplied by."""
    softcap: float | None = None
    """Logits x become softcap tanh(x / softcap)."""
    mask: Bool[Tensor, "*batch query key"] | None = None
    """True where a query sees a key (causality, window and padding together); None: everywhere."""
    bias: Float[Tensor, "*batch query key"] | None = None
    """Added to the logits, after scale and softcap."""

    def contributions(self) -> Float[Tensor, "batch head query d_model"]:
        """What each head adds to the stream: z_h W_O^h."""
        return torch.einsum("bhqd,hdm->bhqm", self.z, self.W_O)

    def logits(self, heads: slice = slice(None)) -> Float[Tensor, "batch some query key"]:
        """What enters the softmax for some heads; -inf where nothing is seen."""
        kv = list(self.kv_of[heads])
        logits = self.q[:, heads] @ self.k[:, kv].mT * self.scale
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        if self.bias is not None:
            logits = logits + _over_heads(self.bias, heads)
        return logits if self.mask is None else logits.masked_fill(~_over_heads(self.mask, heads), -torch.inf)

    def patterns(self, heads: slice = slice(None)) -> Float[Tensor, "batch some query key"]:
        """The attention weights of some heads; ask in blocks where heads times keys times queries is much."""
        return self.logits(heads).softmax(3)


def _over_heads(tensor: Tensor, heads: slice) -> Tensor:
    """(query, key), (batch, query, key) or (batch, head, query, key) made to fit the logits of some heads."""
    if tensor.ndim == 4:
        return tensor if tensor.shape[1] == 1 else tensor[:, heads]
    return tensor[:, None] if tensor.ndim == 3 else tensor


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A recorded forward pass."""

    attentions: tuple[AttentionTrace, ...]
    """In the order of the pass; a layer without heads has none."""
    streams: tuple[Float[Tensor, "batch pos d_model"], ...]
    """The stream before each layer and, last, before the final norm."""
