"""Re-initialised heads of a model of Hugging Face, on the stream that its own heads read.

An attention makes queries, keys and values by linear maps, which may stand in one matrix or in several. Each of the
three is drawn for itself, so that re-initialised heads do not depend on how a library stores the matrices. No module's
name is trusted. The outputs of a linear map are values if they equal the values that were seen. They are queries or
keys if they have their lengths, which rotary turns preserve. A map whose outputs are neither is drawn as a whole
(queries that are normed, say).
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headway.hf.read import CONVERTED, converted
from headway.hf.recorder import AttentionRecorder, Call, by_input, check_tokens, inputs_of, recorded_pass, traceable
from headway.models import redraw
from headway.models.redraw import Redrawable, Role, drawn_weight
from headway.models.trace import AttentionTrace, PlainWeights, SomeQueries, Trace

_POSITIONS = 16
"""The number of positions of the first text on which a map's outputs are compared with what was seen."""
_ALIKE = 1e-3
_MAPS = (nn.Linear, Conv1D)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The outputs of a linear map that make one kind of vector.

    Attributes:
        name: `q`, `k` or `v`, or the name of the map if what its outputs are is not known.
        map: the linear map.
        outputs: the numbers of these outputs, in the order of the heads.
        n_heads: the number of heads that they belong to.
        is_plain: True if the map reads the stream of the attention, and its outputs are what was seen.
    """

    name: str
    map: nn.Linear
    outputs: Int[Tensor, " output"]
    n_heads: int = 1
    is_plain: bool = False

    @property
    def weight(self) -> Float[Tensor, "output d_model"]:
        """The rows of the weight: an output is a row of a Linear's weight, and a column of a Conv1D's."""
        return by_input(self.map.weight, self.map).T[self.outputs]

    @property
    def bias(self) -> Float[Tensor, " output"] | None:
        """The entries of the bias, if the map has one."""
        return None if self.map.bias is None else self.map.bias[self.outputs]

    @property
    def role(self) -> Role:
        """The role by which `drawn_weight` decides what stays of the map."""
        return "values" if self.name == "v" else "reads"


def _parts(recorded: AttentionRecorder, at: int) -> list[_Part]:
    """Return the parts of all linear maps of an attention."""
    attention, call = recorded.attentions[at], recorded.calls[at]
    maps = _maps(call)
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def keep(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        seen[module] = args[0], output

    with ExitStack() as stack, torch.no_grad():
        for module in maps.values():
            stack.enter_context(module.register_forward_hook(keep))
        recorded.again(at, {}, call.W_O, call.projection.bias)
    parts: list[_Part] = []
    for name, module in maps.items():
        if module not in seen:
            continue
        entered, output = seen[module]
        reads_stream = entered.shape == call.x.shape and torch.equal(entered, call.x)
        taken = {part.name for part in parts}
        for part in _parts_of_map(name, module, output, attention):
            its_name = name if part.name in taken else part.name
            parts.append(replace(part, name=its_name, is_plain=part.is_plain and reads_stream))
    return parts


def _parts_of_map(name: str, module: nn.Linear, output: Tensor, attention: AttentionTrace) -> list[_Part]:
    """Return the parts of one linear map: values stand last, or last in each KV head's block of outputs."""
    (n_heads, wide), (n_kv, wide_v) = (x.shape[1::2] for x in (attention.q, attention.v))
    every = torch.arange(output.shape[-1])
    part = partial(_part, module=module, output=output)
    whole = _Part(name=name, map=module, outputs=every)
    for n_blocks in (1, n_kv):
        if len(every) % n_blocks:
            continue
        blocks = every.unflatten(0, (n_blocks, -1))
        values = n_kv * wide_v // n_blocks
        v = part("v", blocks[:, -values:], attention.v)
        if not v.is_plain:
            continue
        rest = blocks[:, :-values]
        if rest.numel() == (n_heads + n_kv) * wide:
            q, k = rest.tensor_split([n_heads * wide // n_blocks], 1)
            return [v, part("k", k, attention.k), part("q", q, attention.q)]
        return [v, replace(whole, name=f"{name}.rest", outputs=rest.flatten())] if rest.numel() else [v]
    for role, vectors in (("k", attention.k), ("q", attention.q)):
        if len(every) == vectors.shape[1] * wide and (read := part(role, every, vectors)).is_plain:
            return [read]
    return [whole]


def _part(
    name: str, outputs: Int[Tensor, "block output"], vectors: Tensor, *, module: nn.Linear, output: Tensor
) -> _Part:
    """Return some outputs of a map as a part, which is plain if the vectors are these outputs."""
    outputs = outputs.flatten()
    n_heads, width = vectors.shape[1::2]
    part = _Part(name=name, map=module, outputs=outputs, n_heads=n_heads)
    if len(outputs) != n_heads * width:
        return part
    first_text = output[0].flatten(0, -2)[:_POSITIONS, outputs]
    made = first_text.unflatten(1, (n_heads, width)).transpose(0, 1)[None].double()
    given = vectors[:1, :, :_POSITIONS].double()
    if made.shape != given.shape:
        return part
    is_equal = bool(given.any() and (made - given).norm() <= _ALIKE * given.norm())
    return replace(part, is_plain=is_equal if name == "v" else _as_long(made, given))


def _as_long(made: Tensor, given: Tensor) -> bool:
    """Return whether vectors have the lengths of others, up to one factor."""
    lengths, others = made.norm(dim=3), given.norm(dim=3)
    some = others > 0  # a padding token is read as zeros
    if not some.any() or not torch.equal(some, lengths > 0):
        return False
    ratio = lengths[some] / others[some]
    return bool(ratio.isfinite().all()) and bool(ratio.std(correction=0) <= _ALIKE * ratio.mean())


def _plain(attention: AttentionTrace, call: Call, parts: list[_Part]) -> PlainWeights | None:
    """Return the matrices of an attention that reads one stream; None if they are not plain."""
    by_name = {part.name: part for part in parts if part.is_plain}
    if attention.kind == "cross" or call.x.ndim != 3 or not {"q", "k", "v"} <= by_name.keys():
        return None
    maps: dict[str, tuple[Tensor, Tensor | None]] = {}
    for name in "qkv":
        part = by_name[name]
        by_head = (part.n_heads, -1)
        bias = None if part.bias is None else part.bias.unflatten(0, by_head)
        maps[name] = part.weight.unflatten(0, by_head).mT, bias
    return PlainWeights(x=call.x, maps=maps)


def read(model: PreTrainedModel, tokens: Int[Tensor, "batch pos *side"]) -> Redrawable:
    """Return what every head does with tokens, together with re-initialised heads on the same stream.

    Matrices are drawn as in `models.redraw`: the same heads in another form have the same draws. Norms of queries and
    keys, and everything that is not a linear map, stay.

    Raises:
        UserError: if `recorder.trace` would raise it.
    """
    traceable(model)
    given = inputs_of(tokens)
    check_tokens(model, given)
    if model.config.model_type in CONVERTED:
        return redraw.read(converted(model), tokens)
    trace, recorded = recorded_pass(model, given)
    parts = [_parts(recorded, at) for at in range(len(recorded.calls))]
    places = _places(trace)

    def drawn(draw: int, some: Mapping[str, SomeQueries] | None = None) -> Trace:
        attentions = []
        for at, (attention, call, place) in enumerate(zip(trace.attentions, recorded.calls, places, strict=True)):
            W_O = drawn_weight(call.W_O.flatten(0, 1), draw, f"{place}.o.weight", "writes").view_as(call.W_O)
            bias = call.projection.bias
            b_O = None if bias is None else drawn_weight(bias, draw, f"{place}.o.bias")
            again = recorded.again(at, _parameters(call, parts[at], draw, place), W_O, b_O)
            attentions.append(replace(again, rows=attention.rows).at(some[attention.name] if some else None))
        return Trace(attentions=tuple(attentions))

    each = zip(trace.attentions, recorded.calls, parts, strict=True)
    plain = tuple(replace(attention, plain=_plain(attention, call, of_call)) for attention, call, of_call in each)
    return Redrawable(trace=replace(trace, attentions=plain), redraw=drawn)


def _places(trace: Trace) -> list[str]:
    """Return the names under which attentions are drawn: those of Headway's own models, where a layer has one."""
    layers = [attention.layer for attention in trace.attentions]
    return [
        f"layers.{attention.layer}.attention" if layers.count(attention.layer) == 1 else attention.name
        for attention in trace.attentions
    ]


def _parameters(call: Call, parts: list[_Part], draw: int, place: str) -> Mapping[str, Tensor]:
    """Return the parameters of an attention's linear maps, drawn anew part by part."""
    drawn_arrays: dict[str, Tensor] = {}
    for name, module in _maps(call).items():
        weight = by_input(module.weight, module).T.clone()
        bias = None if module.bias is None else module.bias.clone()
        for part in parts:
            if part.map is not module:
                continue
            weight[part.outputs] = drawn_weight(part.weight, draw, f"{place}.{part.name}.weight", part.role)
            if bias is not None:
                bias[part.outputs] = drawn_weight(bias[part.outputs], draw, f"{place}.{part.name}.bias")
        drawn_arrays[f"{name}.weight"] = by_input(weight.T, module)
        if bias is not None:
            drawn_arrays[f"{name}.bias"] = bias
    return drawn_arrays


def _maps(call: Call) -> dict[str, nn.Linear]:
    """Return the linear maps of an attention before its heads."""
    return {
        name: each
        for name, each in call.module.named_modules()
        if isinstance(each, _MAPS) and each is not call.projection
    }
