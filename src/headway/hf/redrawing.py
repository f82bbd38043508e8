"""Models: the heads of a model of Hugging Face drawn anew, on the stream that its own heads read."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from headway.hf.convert import CONVERTED, converted
from headway.hf.plain_maps import plain_weights
from headway.hf.recording import Call
from headway.hf.tracing import check_tokens, recorded_pass, traceable
from headway.model import redraw
from headway.model.redraw import Redrawable, drawn_weight, shuffled_rows
from headway.model.trace import SomeQueries, Trace

_PLAIN = 3
"""So many linear maps, of queries, keys and values, are apart; of fewer one holds several."""


def read(model: PreTrainedModel, tokens: Int[Tensor, "batch pos"]) -> Redrawable:
    """What every head does with tokens, as `tracing.trace`, and what heads would that are drawn anew.

    Where queries, keys and values have a matrix each, those are drawn as in `model.redraw`. Where one map holds
    several, whose scales may differ, each of its rows has its entries shuffled instead. Norms of queries and keys, and
    what is not a linear map, stay.

    Raises:
        UserError: as `tracing.trace`.
    """
    traceable(model)
    given = {"input_ids": tokens}
    check_tokens(model, given)
    if model.config.model_type in CONVERTED:
        return redraw.read(converted(model), tokens)
    trace, recorded = recorded_pass(model, given)

    def drawn(draw: int, some: Mapping[str, SomeQueries] | None = None) -> Trace:
        attentions = []
        for at, (attention, call) in enumerate(zip(trace.attentions, recorded.calls, strict=True)):
            W_O = drawn_weight(call.W_O.flatten(0, 1), draw, f"{attention.name}.o").view_as(call.W_O)
            again = recorded.again(at, _parameters(call, draw, attention.name), W_O, call.b_O)
            whole = replace(again, rows=attention.rows)
            attentions.append(whole.at(some[attention.name] if some else None))
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
        shuffled=any(len(_maps(call)) < _PLAIN for call in recorded.calls),
    )


def _parameters(call: Call, draw: int, where: str) -> Mapping[str, Tensor]:
    """The parameters of an attention's linear maps, drawn anew."""
    maps = _maps(call)
    plain = len(maps) >= _PLAIN
    found: dict[str, Tensor] = {}
    for name, module in maps.items():
        # An output is a row of a Linear's weight, and a column of a Conv1D's.
        weight = module.weight if isinstance(module, nn.Linear) else module.weight.T
        drawn = (drawn_weight if plain else shuffled_rows)(weight, draw, f"{where}.{name}.weight")
        found[f"{name}.weight"] = drawn if isinstance(module, nn.Linear) else drawn.T
        if module.bias is not None:
            found[f"{name}.bias"] = drawn_weight(module.bias, draw, f"{where}.{name}.bias")
    return found


def _turn(call: Call, n_queries: int, d_head: int) -> Float[Tensor, " distance"] | None:
    """By the cosines that an attention is given, of positions from 0 on; the dimensions beyond them do not turn."""
    own = (module for module in call.module.modules() if module is not call.module and not list(module.children()))
    if any(not isinstance(module, nn.Linear | Conv1D | nn.Dropout | nn.Embedding) for module in own):
        return None  # norms of queries and keys, as a rule
    given = call.arguments.get("position_embeddings")
    if given is None and any(hasattr(call.module, name) for name in ("rotary_dim", "rotary_emb", "embed_positions")):
        return None  # it turns them by itself
    if given is None:
        return torch.full((n_queries,), float(d_head))
    cosines = given[0].reshape(-1, *given[0].shape[-2:])[0].float()
    return cosines.sum(1) + (d_head - cosines.shape[1])


def _maps(call: Call) -> dict[str, "nn.Linear | Conv1D"]:
    """The linear maps of an attention before its heads."""
    maps = ((name, each) for name, each in call.module.named_modules() if isinstance(each, nn.Linear | Conv1D))
    return {name: each for name, each in maps if each is not call.projection}
