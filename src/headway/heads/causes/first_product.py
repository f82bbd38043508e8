"""Heads: what the MLP of a layer multiplies first, without some of the layer's heads, from what it is with all.

A head that goes changes the stream by few directions, as many as it is wide, and a norm only scales and centres each
position. So the first matrix product of the MLP, about half of its work, is that of the whole model, plus a narrow one
for what changes, times a number for each position. From the non-linearity on nothing can be shared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.model.attention import Attention
from headway.model.maps import Mlp
from headway.model.transformer import Transformer


@dataclass(frozen=True, kw_only=True, eq=False)
class FirstProduct:
    """Of one layer, ready to be changed."""

    norm: nn.Module
    mlp: Mlp
    stream: Float[Tensor, "batch pos d_model"]
    """After the attention, with all heads."""
    product: Float[Tensor, "batch pos width"]
    """Of the stream, less its mean where the norm takes that out, with the weights of the norm and of the MLP."""
    W_O: Float[Tensor, "head d_head d_model"]
    of_heads: Float[Tensor, "head d_head width"]
    """The same of what each head can write."""
    constant: Float[Tensor, " width"]

    @classmethod
    def of(cls, model: Transformer, layer: int, stream: Tensor, written: Tensor) -> "FirstProduct | None":
        """Of a layer of a model; None where its MLP does not read the stream through a norm, or there is none."""
        of = model.layers[layer]
        mlp, norm = cast(Mlp | None, of.mlp), cast(nn.Module, getattr(of, "mlp_norm", None))
        plain = model.model.norm_place == "before" and model.model.residual
        if mlp is None or not plain or not isinstance(norm, nn.LayerNorm | nn.RMSNorm):
            return None
        W, b = _first_maps(mlp)
        weighted = W * norm.weight
        constant = b if not isinstance(norm, nn.LayerNorm) else b + W @ norm.bias
        after = stream + written
        attention = cast(Attention, of.attention)
        W_O = attention.o.weight.T.unflatten(0, (-1, attention.d_head))
        return cls(
            norm=norm,
            mlp=mlp,
            stream=after,
            product=_centred(norm, after) @ weighted.T,
            W_O=W_O,
            of_heads=_centred(norm, W_O) @ weighted.T,
            constant=constant,
        )

    def after(self, changes: Sequence[tuple[Sequence[int], Float[Tensor, "batch pos _changing"]]]) -> Tensor:
        """The stream after the layer, of each change side by side along the batch.

        Args:
            changes: the heads whose contexts change, and by how much, head after head along the last axis.
        """
        streams, insides = zip(*(self._changed(list(heads), by) for heads, by in changes), strict=True)
        stream, inside = (parts[0] if len(parts) == 1 else torch.cat(parts) for parts in (streams, insides))
        return stream + self.mlp.down(self.mlp.between(inside))

    def _changed(self, heads: list[int], by: Tensor) -> tuple[Tensor, Tensor]:
        """The stream after the attention, and what stands before the non-linearity."""
        stream = self.stream + by @ self.W_O[heads].flatten(0, 1)
        eps = cast(float, self.norm.eps)
        if isinstance(self.norm, nn.LayerNorm):
            gain = (stream.var(-1, correction=0, keepdim=True) + eps).rsqrt()
        else:
            gain = (stream.square().mean(-1, keepdim=True) + eps).rsqrt()
        # The constant rides along in the narrow product, since what is wide is slow to walk through.
        narrow = torch.cat((by * gain, torch.ones_like(gain)), dim=-1)
        inside = narrow @ torch.cat((self.of_heads[heads].flatten(0, 1), self.constant[None]))
        return stream, inside.addcmul_(self.product, gain)


def _first_maps(mlp: Mlp) -> tuple[Tensor, Tensor]:
    """The matrices that read the normed stream, one below the other, and their biases."""
    maps = [mlp.up, mlp.gate] if mlp.kind == "swiglu" else [mlp.up]
    biases = [m.weight.new_zeros(len(m.weight)) if m.bias is None else m.bias for m in maps]
    # Of one map nothing is copied.
    W, b = ([m.weight for m in maps], biases)
    return (W[0], b[0]) if len(maps) == 1 else (torch.cat(W), torch.cat(b))


def _centred(norm: nn.Module, x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True) if isinstance(norm, nn.LayerNorm) else x
