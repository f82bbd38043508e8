"""Parameters, FLOPs and memory of a transformer on tokens.

`parameters_of` lists every trained array: weights are drawn, models built, checkpoints checked and budgets counted from
this one list. Matrices are (out, in), as torch's linear maps hold them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import get_args

from headway.config.lm.layout import LayerHeads
from headway.config.lm.model import Projection, TransformerModel
from headway.config.lm.task import TokensTask
from headway.config.lm.training import TokensTraining


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
        model: the model.
        vocab_size: the number of tokens in the vocabulary; with an encoder, the numbers of an input.

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
    q, kv = heads.q_width, heads.kv_width
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


BLOCKS = ("Q/K/V", "output", "MLP")
"""Parts whose matrices every token is multiplied by, and which Muon trains."""


def parameters_by_part(model: TransformerModel, vocab_size: int) -> dict[str, int]:
    """Return the number of trained parameters of each part that the model has."""
    counts = dict.fromkeys(PARAMETER_GROUPS, 0)
    for parameter in parameters_of(model, vocab_size):
        counts[parameter.part] += math.prod(parameter.shape)
    return {part: count for part, count in counts.items() if count}


def forward_flops(model: TransformerModel, vocab_size: int, n_ctx: int) -> int:
    """Return the floating-point operations of a forward pass of one sequence of `n_ctx` tokens.

    Only products of matrices are counted. Every token is multiplied by every matrix of the blocks (by both factors of a
    low-rank matrix), by the read-out and by an encoder. In each head a query needs two products of d_head for each key
    that it sees: one for the logit, one for the context. It sees itself and earlier keys within the window, or itself
    and later keys. Norms, softmax, biases and the look-up of embeddings are of lower order and left out.

    Examples:
        >>> from headway.config.lm.model import GptNeo
        >>> forward_flops(GptNeo(family="gpt-neo", d_model=2, n_layers=1, n_heads=1, d_mlp=8), 10, n_ctx=3)
        456
    """
    matrices = sum(math.prod(p.shape) for p in parameters_of(model, vocab_size) if _in_block(p))
    attention = sum(pattern_flops(model, layer, n_ctx) for layer in range(model.n_layers))
    encoder = 0 if model.encoder is None else model.encoder * (vocab_size + model.embedding_width)
    return 2 * n_ctx * (matrices + encoder + (model.readout or vocab_size) * model.embedding_width) + attention


def pattern_flops(model: TransformerModel, layer: int, n_ctx: int) -> int:
    """Return the FLOPs of a layer's logits and contexts, for a sequence of `n_ctx` tokens."""
    window = model.window(layer) or n_ctx
    own = 0 if model.mask == "future" else 1  # as many keys later as earlier, without the query's own
    return 2 * 2 * model.layout.layers[layer].q_width * _keys_seen(n_ctx, window, own)


def _keys_seen(n_ctx: int, window: int, own: int) -> int:
    """Return the number of keys that all queries of a sequence see: query i sees i + own, at most a window.

    Examples:
        >>> _keys_seen(5, 3, 1) == 1 + 2 + 3 + 3 + 3
        True
    """
    growing = min(n_ctx, max(0, window - own))
    return growing * (growing - 1) // 2 + own * growing + (n_ctx - growing) * window


def state_bytes(task: TokensTask, model: TransformerModel, training: TokensTraining) -> int:
    """Return the bytes of fp32 state: weights, gradients, and Muon's one moment or AdamW's two."""
    muon = training.optimizer == "muon"
    parameters = parameters_of(model, task.vocab_size)
    return 4 * sum(math.prod(p.shape) * (3 if muon and _in_block(p) else 4) for p in parameters)


def sequence_bytes(task: TokensTask, model: TransformerModel, training: TokensTraining) -> int:
    """Return the bytes that one sequence stores for the backward pass.

    Each token and layer stores four things: the stream before and after each norm; queries, keys, values and contexts,
    with one logsumexp a head (attention is fused, so there is no map of scores); the MLP's products before and after
    its activation; and what lies between two factors. Logits and their gradient come on top. Compiled code stores about
    as much. Uncompiled code also stores the steps of the activation and of the loss, up to two thirds more.
    """
    small = 2 if training.precision == "bf16" else 4
    total = 0
    for layer, (heads, d_mlp) in enumerate(zip(model.layout.layers, model.mlp_widths, strict=True)):
        q, kv = heads.q_width, heads.kv_width
        # The stream, and the logsumexp, stay fp32 whatever the products are in.
        total += (4 + small) * model.d_model * ((q > 0) + (d_mlp > 0)) + 4 * heads.n_heads
        total += small * (2 * q + 2 * kv + (3 if model.mlp == "swiglu" else 2) * d_mlp)
        total += small * sum(model.rank(name, layer) or 0 for name in get_args(Projection))
    total += 4 * (model.d_model + (model.encoder or 0)) + 2 * small * (model.readout or task.vocab_size)
    return task.n_ctx * total


def _in_block(parameter: Parameter) -> bool:
    return parameter.part in BLOCKS and len(parameter.shape) == 2
