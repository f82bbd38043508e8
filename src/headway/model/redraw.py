"""Model: heads drawn anew on the stream that a model's own heads read, to see what heads show that learnt nothing.

The heads of a layer read the same tokens, and their contexts are averages over the same past; so even heads that know
nothing of each other are alike, and how much depends on the stream. Therefore "nothing is going on" is asked of heads
on the same stream: each projection of the layer is replaced by Gaussian entries of its own scale, the root mean square
of its entries, and the entries of its bias are shuffled. The stream before the layer, norms, positions and windows stay
what they are. An untrained layer is one more such draw: that makes a test of its heads against the draws exact.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway import streams
from headway.model.attention import Attention
from headway.model.entry import Inputs
from headway.model.trace import AttentionTrace, SomeQueries, Trace
from headway.model.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class Redrawable:
    """A recorded pass of which the heads can be drawn anew."""

    trace: Trace
    inputs: tuple[Float[Tensor, "batch query d_model"], ...]
    """For each attention what its queries are made of: the (normed) stream."""
    turns: tuple[Float[Tensor, " distance"] | None, ...]
    """For each attention the trace of the rotary turn between two positions by their distance, d_head where there is
    none; None where queries are no linear map of the stream."""
    redraw: Callable[..., Trace]
    """The same attentions with other heads, by the number of the draw; also, by the name of each attention, at some of
    its queries alone. The stream after a layer, where it is there, is what would come after these heads: of each layer
    for itself, on the model's own stream before it."""
    shuffled: bool = False
    """Whether rows of some matrices had their entries shuffled, instead of being drawn."""


def read(model: Transformer, tokens: Inputs) -> Redrawable:
    """A pass of one of Headway's models, as `Transformer.trace`.

    Raises:
        UserError: for a text that is longer than `n_positions`.
    """
    given: dict[int, tuple[Tensor, Tensor | None]] = {}

    def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
        given[cast(Attention, module).layer] = args[:2]

    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, Attention):
                stack.callback(module.register_forward_pre_hook(keep).remove)
        trace = model.trace(tokens)
    turns = tuple(_turn(given[a.layer][1], *a.q.shape[2:]) for a in trace.attentions)
    return Redrawable(
        trace=trace,
        inputs=tuple(given[attention.layer][0] for attention in trace.attentions),
        turns=turns,
        redraw=partial(_redrawn, model, trace, given),
    )


def _turn(rotary: Float[Tensor, "2 pos d_head"] | None, n_queries: int, d_head: int) -> Float[Tensor, " distance"]:
    """By distance; the first positions' cosines are those of the distances from the first."""
    return torch.full((n_queries,), float(d_head)) if rotary is None else rotary[0].sum(1)


def _redrawn(
    model: Transformer,
    trace: Trace,
    given: Mapping[int, tuple[Tensor, Tensor | None]],
    draw: int,
    some: Mapping[str, SomeQueries] | None = None,
) -> Trace:
    attentions: list[AttentionTrace] = []
    chosen = next(iter(some.values())) if some else None  # all attentions have the same queries here
    streams_there = [stream if chosen is None else chosen.in_texts(stream) for stream in trace.streams]
    after = list(streams_there)
    for attention in trace.attentions:
        layer = attention.layer
        module = cast(Attention, model.get_submodule(f"layers.{layer}.attention"))
        x, rotary = given[layer]
        with _wearing({attention.name: module}, draw):
            if some:
                written, recorded = module.at(x, rotary, some[attention.name])
            else:
                written, whole = module(x, rotary, record=True)
                recorded = cast(AttentionTrace, whole)
        b_O = None if recorded.b_O is None else recorded.b_O.detach()
        attentions.append(replace(recorded, W_O=recorded.W_O.detach(), b_O=b_O))
        after[layer + 1] = model.rest(streams_there[layer], written, layer)
    return Trace(attentions=tuple(attentions), streams=tuple(after))


@contextmanager
def redrawn(model: Transformer, draw: int) -> Iterator[None]:
    """Within, the model has the heads of a draw: for what is read off weights."""
    with _wearing({name: each for name, each in model.named_modules() if isinstance(each, Attention)}, draw):
        yield


@contextmanager
def _wearing(modules: Mapping[str, Attention], draw: int) -> Iterator[None]:
    """Within, these attentions have the weights of a draw."""
    own: list[tuple[nn.Parameter, Tensor]] = []
    try:
        for name, module in modules.items():
            drawn = drawn_weights(dict(module.named_parameters()), draw, name)
            for which, parameter in module.named_parameters():
                own.append((parameter, parameter.data))
                parameter.data = drawn[which].detach()
        yield
    finally:
        for parameter, data in own:
            parameter.data = data


def drawn_weights(weights: Mapping[str, Tensor], draw: int, where: str) -> dict[str, Tensor]:
    """Gaussian matrices of the same root mean square, and shuffled vectors; the same for the same draw and place."""
    return {name: drawn_weight(weight, draw, f"{where}.{name}") for name, weight in weights.items()}


def drawn_weight(weight: Tensor, draw: int, where: str) -> Tensor:
    """One array drawn anew: a matrix Gaussian of its own root mean square, a vector shuffled."""
    random = streams.generator(draw, "redrawn heads", where)
    if weight.ndim == 1:
        return weight[torch.from_numpy(random.permutation(len(weight))).to(weight.device)]
    drawn = torch.from_numpy(random.standard_normal(tuple(weight.shape), "float32")).to(weight.device)
    size = torch.linalg.vector_norm(weight.detach().float()) / weight.numel() ** 0.5
    return (drawn * size).to(weight.dtype)


def shuffled_rows(weight: Tensor, draw: int, where: str) -> Tensor:
    """Every row's entries in an order of their own: for matrices in which several kinds of rows are joined."""
    random = streams.generator(draw, "redrawn heads", where)
    order = torch.from_numpy(random.random(tuple(weight.shape), "float32").argsort(1)).to(weight.device)
    return weight.gather(1, order)
