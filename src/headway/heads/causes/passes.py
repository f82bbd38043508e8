"""Heads: how many forward passes some passes through a part of the layers amount to.

Counted are the floating-point operations of `headway.declare.tokens.budget.forward_flops`, in its parts.
"""

import math
from dataclasses import dataclass

from headway.declare.tokens.budget import forward_flops
from headway.declare.tokens.parameters import parameters_of
from headway.declare.tokens.transformer import TransformerModel


@dataclass(frozen=True, kw_only=True)
class Work:
    """The share of a forward pass of each of its parts. Law: attentions, MLPs and read-out sum to 1."""

    attentions: tuple[float, ...]
    """Of each layer."""
    mlps: tuple[float, ...]
    readout: float
    first_products: tuple[float, ...]
    """Of each MLP what it multiplies first: a part of its own share."""

    def after_attention(self, layer: int) -> float:
        """Of what comes after the attention of a layer: its MLP, later layers, the read-out."""
        return self.mlps[layer] + sum(self.attentions[layer + 1 :]) + sum(self.mlps[layer + 1 :]) + self.readout


def work_of(model: TransformerModel, vocab_size: int, n_ctx: int) -> Work:
    """The parts of a forward pass of sequences of `n_ctx` tokens.

    Examples:
        >>> from headway.declare.tokens.transformer import GptNeo
        >>> work = work_of(GptNeo(family="gpt-neo", d_model=768, n_layers=4, n_heads=48), 512, 512)
        >>> round(work.after_attention(0), 2), round(work.after_attention(3), 2)
        (0.91, 0.17)
    """
    whole = forward_flops(model, vocab_size, n_ctx)
    readout = 2 * n_ctx * vocab_size * model.embedding_width
    matrices = [p for p in parameters_of(model, vocab_size) if len(p.shape) == 2]

    def products(*begins: str) -> int:
        return 2 * n_ctx * sum(math.prod(p.shape) for p in matrices if p.name.startswith(begins))

    layers = range(model.n_layers)
    attentions = [products(f"layers.{i}.attention.") + _scores(model, i, n_ctx) for i in layers]
    mlps = [products(f"layers.{i}.mlp.") for i in layers]
    firsts = [products(f"layers.{i}.mlp.up.", f"layers.{i}.mlp.gate.") for i in layers]
    return Work(
        attentions=tuple(a / whole for a in attentions),
        mlps=tuple(m / whole for m in mlps),
        readout=readout / whole,
        first_products=tuple(f / whole for f in firsts),
    )


def _scores(model: TransformerModel, layer: int, n_ctx: int) -> int:
    """Logits and contexts of a layer."""
    heads, window = model.layout.layers[layer], model.window(layer) or n_ctx
    own = 0 if model.attends == "future" else 1
    return 2 * 2 * heads.n_heads * heads.d_head * sum(min(position + own, window) for position in range(n_ctx))
