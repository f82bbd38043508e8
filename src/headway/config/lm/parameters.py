"""Every trained array of a transformer: its name, its shape and the part that it belongs to.

Weights are drawn, models built, checkpoints checked and budgets counted from this one list. Matrices are (out, in), as
torch's linear maps hold them.
"""

import math  # noqa: F401 - for the example
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from headway.config.lm.layout import LayerHeads
from headway.config.lm.model import TransformerModel


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A trained array. `rank` is that of the product it is a factor of, None for a whole matrix or a vector."""

    name: str
    shape: tuple[int, ...]
    part: str
    rank: int | None = None


PARAMETER_GROUPS = ("embedding", "positions", "Q/K/V", "output", "MLP", "norms", "read-out")
"""The parts in which parameters are counted, in this order."""


@lru_cache(maxsize=1)  # a budget asks for them several times in a row
def parameters_of(model: TransformerModel, vocab_size: int) -> tuple[Parameter, ...]:
    """Return the trained arrays of a model, in the order of the forward pass.

    Args:
        model: of which.
        vocab_size: tokens of the vocabulary; with an encoder, numbers of an input.

    Examples:
        >>> from headway.config.lm.model import GptNeo
        >>> neo = GptNeo(family="gpt-neo", d_model=768, n_layers=4, n_heads=12)
        >>> sum(math.prod(parameter.shape) for parameter in parameters_of(neo, 50257))
        68514048
    """
    return tuple(_parameters(model, vocab_size))


def _parameters(model: TransformerModel, vocab_size: int) -> Iterator[Parameter]:
    d, d_embed = model.d_model, model.embedding_width
    yield from _entry(model, vocab_size, d_embed)
    if model.positions == "learned":
        width = d if model.positions_in_lane else d_embed
        yield Parameter(name="positions.weight", shape=(model.n_positions, width), part="positions")
    for layer, (heads, d_mlp) in enumerate(zip(model.layout.layers, model.mlp_widths, strict=True)):
        at = f"layers.{layer}"
        yield from _attention(model, layer, heads)
        if d_mlp:
            yield from _norm(model, f"{at}.mlp_norm")
            for name in ("gate", "up") if model.mlp == "swiglu" else ("up",):
                yield from _linear(model, f"{at}.mlp.{name}", (d_mlp, d), "MLP", "mlp", model.rank("up", layer))
            yield from _linear(model, f"{at}.mlp.down", (d, d_mlp), "MLP", "mlp", model.rank("down", layer))
    if model.norm_place == "before":
        yield from _norm(model, "norm")
    if not model.tied:
        yield Parameter(name="readout.weight", shape=(model.readout or vocab_size, d_embed), part="read-out")


def _entry(model: TransformerModel, vocab_size: int, d_embed: int) -> Iterator[Parameter]:
    """Yield the arrays that turn a token, or an input of numbers, into a vector."""
    if model.encoder is not None:
        for name, shape in (("up", (model.encoder, vocab_size)), ("down", (d_embed, model.encoder))):
            yield Parameter(name=f"encoder.{name}.weight", shape=shape, part="embedding")
            yield Parameter(name=f"encoder.{name}.bias", shape=shape[:1], part="embedding")
    else:
        rows = vocab_size * model.n_positions if model.positions == "joint" else vocab_size
        yield Parameter(name="embedding.weight", shape=(rows, d_embed), part="embedding")
    if model.class_token:
        yield Parameter(name="class_token", shape=(d_embed,), part="embedding")


def _attention(model: TransformerModel, layer: int, heads: LayerHeads) -> Iterator[Parameter]:
    """Yield the arrays of a layer's attention; a layer that lost all heads keeps its output bias."""
    d, at = model.d_model, f"layers.{layer}"
    q, kv = heads.n_heads * heads.d_head, heads.n_kv_heads * heads.d_head
    if heads.n_heads:
        yield from _norm(model, f"{at}.attention_norm")
        for name, out in (("q", q), ("k", kv), ("v", kv)):
            yield from _linear(model, f"{at}.attention.{name}", (out, d), "Q/K/V", "qkv", model.rank(name, layer))  # type: ignore[arg-type]
        if model.smeared_keys:
            yield Parameter(name=f"{at}.attention.smear", shape=(heads.n_kv_heads,), part="Q/K/V")
        yield from _linear(model, f"{at}.attention.o", (d, q), "output", "output", model.rank("o", layer))
    elif layer in model.emptied:
        if model.norm_place == "after":
            yield from _norm(model, f"{at}.attention_norm")
        if "output" in model.biases:
            yield Parameter(name=f"{at}.emptied.bias", shape=(d,), part="output")


def _linear(
    model: TransformerModel, name: str, shape: tuple[int, int], part: str, bias: str, rank: int | None
) -> Iterator[Parameter]:
    out, into = shape
    if rank is None:
        yield Parameter(name=f"{name}.weight", shape=shape, part=part)
    else:
        yield Parameter(name=f"{name}.first.weight", shape=(rank, into), part=part, rank=rank)
        yield Parameter(name=f"{name}.second.weight", shape=(out, rank), part=part, rank=rank)
    if bias in model.biases:
        yield Parameter(name=f"{name}.bias" if rank is None else f"{name}.second.bias", shape=(out,), part=part)


def _norm(model: TransformerModel, name: str) -> Iterator[Parameter]:
    for kind in {"layer": ("weight", "bias"), "rms": ("weight",), "none": ()}[model.norm]:
        yield Parameter(name=f"{name}.{kind}", shape=(model.d_model,), part="norms")
