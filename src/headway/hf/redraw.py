"""Re-initialised heads of a model of Hugging Face, on the stream that its own heads read.

A plain attention makes queries, keys and values by linear maps of the stream. No module's name is trusted. A linear map
is taken for the map of the values if it gives the values that were seen. It is taken for that of queries or keys if it
gives vectors of their lengths, which rotary turns preserve. If no map does (queries that are normed, say), the
attention is not plain.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headway.hf.read import CONVERTED, converted
from headway.hf.recorder import Call, check_tokens, inputs_of, recorded_pass, traceable
from headway.models import redraw
from headway.models.redraw import Redrawable, drawn_weight
from headway.models.trace import AttentionTrace, PlainWeights, SomeQueries, Trace

_POSITIONS = 16
"""The number of positions of the first text on which a map is tried."""
_ALIKE = 1e-3
_Part = tuple[Tensor, Tensor | None]
"""A weight (head, d_model, width) and a bias (head, width)."""


def plain_weights(
    attention: AttentionTrace, call: Call, maps: "Mapping[str, nn.Linear | Conv1D]"
) -> PlainWeights | None:
    """Return the matrices of an attention that reads one stream; None if they are not plain."""
    x = call.x
    if attention.kind == "cross" or x.ndim != 3 or x.shape[:2] != (len(attention.q), attention.q.shape[2]):
        return None
    few = x[:1, :_POSITIONS]
    n_heads, n_kv = attention.q.shape[1], attention.k.shape[1]
    parts = [part for each in maps.values() for part in _parts(each, n_heads, n_kv, attention)]
    weights: dict[str, _Part] = {}
    for role, seen, exact in (("V", attention.v, True), ("K", attention.k, False), ("Q", attention.q, False)):
        taken = [id(part[0]) for part in weights.values()]
        fits = (part for part in parts if id(part[0]) not in taken and _gives(part, few, seen[:1], exact))
        part = next(fits, None)
        if part is None:
            return None
        weights[role] = part
    (W_V, b_V), (W_K, b_K), (W_Q, b_Q) = weights.values()
    return PlainWeights(x=x, W_Q=W_Q, W_K=W_K, W_V=W_V, b_Q=b_Q, b_K=b_K, b_V=b_V)


def _parts(module: "nn.Linear | Conv1D", n_heads: int, n_kv: int, attention: AttentionTrace) -> Iterator[_Part]:
    """Yield parts of a map that may make one kind of vector.

    A part is all of the map, a stretch of its outputs, or one of three for each head.
    """
    by_output = module.weight if isinstance(module, nn.Linear) else module.weight.T
    bias = module.bias
    wide, wide_v = attention.q.shape[3], attention.v.shape[3]
    widths = (n_heads * wide, n_kv * wide, n_kv * wide_v)

    def part(rows: Tensor, of_bias: Tensor | None, heads: int) -> _Part:
        return rows.unflatten(0, (heads, -1)).mT, None if of_bias is None else of_bias.unflatten(0, (heads, -1))

    n_out = len(by_output)
    if n_out in widths:
        for heads in dict.fromkeys(n for n, w in zip((n_heads, n_kv, n_kv), widths, strict=True) if w == n_out):
            yield part(by_output, bias, heads)
    elif n_out == sum(widths):
        pieces = by_output.split(list(widths))
        biases = [None] * 3 if bias is None else list(bias.split(list(widths)))
        for rows, of_bias, heads in zip(pieces, biases, (n_heads, n_kv, n_kv), strict=True):
            yield part(rows, of_bias, heads)
        if n_heads == n_kv and wide == wide_v:
            by_head = by_output.unflatten(0, (n_heads, 3, wide))
            bias_by_head = None if bias is None else bias.unflatten(0, (n_heads, 3, wide))
            for which in range(3):
                yield by_head[:, which].mT, None if bias_by_head is None else bias_by_head[:, which]


def _gives(part: _Part, x: Tensor, seen: Tensor, exact: bool) -> bool:
    """Return whether a map gives the vectors that were seen, or vectors of their lengths, up to one factor."""
    W, b = part
    if W.shape[0] != seen.shape[1] or W.shape[2] != seen.shape[3]:
        return False
    with torch.no_grad():
        made = torch.einsum("bpm,hmd->bhpd", x.float(), W.float())
        made = (made if b is None else made + b.float()[None, :, None]).double()
        there = seen[:, :, : x.shape[1]].double()
        if exact:
            return bool((made - there).norm() <= _ALIKE * there.norm()) and bool(there.any())
        lengths, others = made.norm(dim=3), there.norm(dim=3)
        some = others > 0  # a padding token is read as zeros
        if not some.any() or not torch.equal(some, lengths > 0):
            return False
        ratio = lengths[some] / others[some]
        return bool(ratio.isfinite().all()) and bool(ratio.std(correction=0) <= _ALIKE * ratio.mean())


_PLAIN = 3
"""The number of linear maps from which on queries, keys and values are separate; with fewer, one map holds several."""


def read(model: PreTrainedModel, tokens: Int[Tensor, "batch pos *side"]) -> Redrawable:
    """Return what every head does with tokens, together with re-initialised heads on the same stream.

    Matrices are drawn as in `models.redraw`. A map that holds queries, keys and values is drawn as a whole. Norms of
    queries and keys, and everything that is not a linear map, stay.

    Raises:
        UserError: if `recorder.trace` would raise it.
    """
    traceable(model)
    given = inputs_of(tokens)
    check_tokens(model, given)
    if model.config.model_type in CONVERTED:
        return redraw.read(converted(model), tokens)
    trace, recorded = recorded_pass(model, given)

    def drawn(draw: int, some: Mapping[str, SomeQueries] | None = None) -> Trace:
        attentions = []
        for at, (attention, call) in enumerate(zip(trace.attentions, recorded.calls, strict=True)):
            W_O = drawn_weight(call.W_O.flatten(0, 1), draw, f"{attention.name}.o", "writes").view_as(call.W_O)
            again = recorded.again(at, _parameters(call, draw, attention.name), W_O, call.b_O)
            attentions.append(replace(again, rows=attention.rows).at(some[attention.name] if some else None))
        return Trace(attentions=tuple(attentions))

    plain = tuple(
        replace(attention, plain=plain_weights(attention, call, _maps(call)))
        for attention, call in zip(trace.attentions, recorded.calls, strict=True)
    )
    return Redrawable(
        trace=replace(trace, attentions=plain),
        inputs=tuple(call.x for call in recorded.calls),
        turns=tuple(_turn(call, *a.q.shape[2:]) for a, call in zip(trace.attentions, recorded.calls, strict=True)),
        redraw=drawn,
        joined=any(len(_maps(call)) < _PLAIN for call in recorded.calls),
    )


def _parameters(call: Call, draw: int, where: str) -> Mapping[str, Tensor]:
    """Return the parameters of an attention's linear maps, drawn anew."""
    drawn_arrays: dict[str, Tensor] = {}
    for name, module in _maps(call).items():
        # An output is a row of a Linear's weight, and a column of a Conv1D's.
        weight = module.weight if isinstance(module, nn.Linear) else module.weight.T
        drawn = drawn_weight(weight, draw, f"{where}.{name}.weight")
        drawn_arrays[f"{name}.weight"] = drawn if isinstance(module, nn.Linear) else drawn.T
        if module.bias is not None:
            drawn_arrays[f"{name}.bias"] = drawn_weight(module.bias, draw, f"{where}.{name}.bias")
    return drawn_arrays


def _turn(call: Call, n_queries: int, d_head: int) -> Float[Tensor, " distance"] | None:
    """Return the sum of an attention's given cosines by distance, from position 0; other dimensions do not turn.

    The result is None if queries or keys pass through more than linear maps, such as norms.
    """
    own = (module for module in call.module.modules() if module is not call.module and not list(module.children()))
    if any(not isinstance(module, nn.Linear | Conv1D | nn.Dropout | nn.Embedding) for module in own):
        return None  # norms of queries and keys, as a rule
    given = call.arguments.get("position_embeddings")
    if given is None and any(hasattr(call.module, name) for name in ("rotary_dim", "rotary_emb", "embed_positions")):
        return None  # the module turns queries and keys itself
    if given is None:
        return torch.full((n_queries,), float(d_head))
    cosines = given[0].reshape(-1, *given[0].shape[-2:])[0].float()
    return cosines.sum(1) + (d_head - cosines.shape[1])


def _maps(call: Call) -> dict[str, "nn.Linear | Conv1D"]:
    """Return the linear maps of an attention before its heads."""
    maps = ((name, each) for name, each in call.module.named_modules() if isinstance(each, nn.Linear | Conv1D))
    return {name: each for name, each in maps if each is not call.projection}
