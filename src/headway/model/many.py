"""Model: the attention of many models of one shape at once, as `torch.vmap` puts them side by side."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from headway.declare.tokens.transformer import Attends
from headway.model.attention import attend


def attend_of_many(
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch head key d_head"],
    v: Float[Tensor, "batch head key d_head"],
    *,
    scale: float,
    window: int | None = None,
    attends: Attends = "past",
    dropout: float = 0.0,
) -> Float[Tensor, "batch head query d_head"]:
    """`attention.attend` under `torch.vmap`, which else goes through torch's attention model by model.

    Without dropout. Models are put side by side as more sequences of a batch. Of one query scores are sums of products
    entry by entry: thousands of matrices of one row are slow to multiply.
    """
    assert not dropout
    if q.shape[2] > 1 or attends == "future":
        found: Tensor = _OfMany.apply(q, k, v, scale, window, attends)
        return found
    # Heads side by side, as the maps wrote them: a product with `heads` sums a head's entries, or repeats its number.
    n_heads, d_head = q.shape[1], q.shape[3]
    q, k, v = (x.transpose(1, 2).flatten(2) for x in (q, k, v))
    heads = torch.eye(n_heads, dtype=q.dtype, device=q.device).repeat_interleave(d_head, 0)
    seen = slice(None) if window is None else slice(-window, None)
    weights = (((q if scale == 1 else q * scale) * k[:, seen]) @ heads).softmax(1)
    z = ((weights @ heads.T) * v[:, seen]).sum(1, keepdim=True)
    return z.unflatten(2, (n_heads, d_head)).transpose(1, 2)


class _OfMany(torch.autograd.Function):
    """`attend` with a rule for `torch.vmap`; autograd goes through what the rule does, and needs none of its own."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None, attends: Attends) -> Tensor:
        return attend(q, k, v, scale=scale, window=window, attends=attends)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scale: float,
        window: int | None,
        attends: Attends,
    ) -> tuple[Tensor, int]:
        q, k, v = (
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip((q, k, v), in_dims[:3], strict=True)
        )
        found = attend(*(x.flatten(0, 1) for x in (q, k, v)), scale=scale, window=window, attends=attends)
        return found.unflatten(0, (info.batch_size, -1)), 0
