"""Re-initialised heads on the stream that a model's own heads read: the null model of untrained heads.

The heads of a layer read the same tokens, and their contexts are averages over the same past. Even heads that know
nothing of each other are therefore alike, to a degree that depends on the stream. So the null is measured on the same
stream: each projection of the layer is drawn anew, and the entries of its bias are shuffled. The stream before the
layer, norms, positions and windows stay as they are.

A drawn projection keeps what an initialisation without any learning may have: the scales of rows and of columns, the
mean, and the spectrum of all heads together. It loses the directions. The matrix is divided by its scales, turned by
random rotations from both sides, and multiplied by its scales again. Weights of rank 2, with rows of unequal scale, or
all positive are therefore compared with such weights. Scales of columns are taken first, so that a norm's gain may
stand in the norm or in the projection: the drawn heads do the same. Values and outputs get the scales of their rows
in another order, lest an idle head stay idle in every draw. Three other nulls were measured and not taken. Gaussian
entries gave findings for 26 of 66 untrained models of eleven kinds, and rows dealt to other heads missed 3 of 20 twins.
Scales that were divided out three times, until rows and columns were even, made copies of sparse weights 1.6 times as
large as these.

`plain_attention` takes an attention written as plain matrices, to bring in a toy model. Its trace keeps the matrices,
so that its circuits can be read off them and its heads re-initialised on the same stream.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headway.base import rng
from headway.errors import UserError
from headway.models.attention import Attention
from headway.models.layers import Inputs
from headway.models.trace import AttentionTrace, PlainWeights, SomeQueries, Trace
from headway.models.transformer import Transformer


@dataclass(frozen=True, kw_only=True)
class Redrawable:
    """A recorded pass whose heads can be re-initialised."""

    trace: Trace
    redraw: Callable[..., Trace]
    """The attentions with other heads, by the number of the draw; also, by the name of each attention, at some of
    its queries alone. The stream after a layer, where it is there, is what would come after these heads: of each layer
    for itself, on the model's own stream before it."""


def read(model: Transformer, tokens: Inputs) -> Redrawable:
    """Return a recorded pass of a Headway model, with the stream that each attention reads.

    Raises:
        UserError: if the text is longer than `n_positions`.
    """
    given: dict[int, tuple[Tensor, Tensor | None]] = {}

    def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
        given[cast(Attention, module).layer] = args[:2]

    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, Attention):
                stack.callback(module.register_forward_pre_hook(keep).remove)
        trace = model.trace(tokens)
    return Redrawable(trace=trace, redraw=partial(_redrawn, model, trace, given))


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
    """Give the model the heads of a draw within a block: for metrics that are read off weights."""
    with _wearing({name: each for name, each in model.named_modules() if isinstance(each, Attention)}, draw):
        yield


@contextmanager
def _wearing(modules: Mapping[str, Attention], draw: int) -> Iterator[None]:
    """Give these attentions the weights of a draw within a block."""
    own: list[tuple[nn.Parameter, Tensor]] = []
    try:
        for name, module in modules.items():
            for which, parameter in module.named_parameters():
                own.append((parameter, parameter.data))
                role = _ROLES.get(which[0], "reads") if parameter.ndim > 1 else "reads"
                rows = parameter.T if role == "writes" else parameter  # a row for each dimension of a head
                drawn = drawn_weight(rows, draw, f"{name}.{which}", role)
                parameter.data = (drawn.T.contiguous() if role == "writes" else drawn).detach()
        yield
    finally:
        for parameter, data in own:
            parameter.data = data


Role = Literal["reads", "values", "writes"]
"""What a projection does: queries and keys read, values are passed on, and outputs are written into the stream."""
_ROLES: Mapping[str, Role] = {"v": "values", "o": "writes"}
_EXACT = 128
"""The most rows that are turned by a random rotation; more are mixed by random signs and a Hartley transform."""


def drawn_weight(weight: Tensor, draw: int, where: str, role: Role = "reads") -> Tensor:
    """Return a matrix with the scales, mean and spectrum of another, in other directions, or a vector shuffled.

    It is fixed by draw and place.

    Args:
        weight: the matrix of all heads, with a row for each dimension of a head; or a bias.
        draw: the number of the draw.
        where: the name of the projection.
        role: the role of the matrix. Queries and keys keep the scale of each row; values have these scales in another
            order, and outputs the lengths of rows.
    """
    random = rng.generator(draw, "redrawn heads", where)

    def dealt(x: Tensor) -> Tensor:
        return x[torch.from_numpy(random.permutation(len(x))).to(x.device)]

    if weight.ndim == 1:
        return dealt(weight)
    own = weight.detach().float()
    columns, even = _divided(own, 0)  # first: a norm's gain then is in their scale, and nowhere else
    rows, even = _divided(even, 1)
    mean = even.mean()
    turned = (mean + _turned(_turned(even - mean, random).T, random).T) * columns
    if role == "writes":
        lengths = dealt(torch.linalg.vector_norm(own, dim=1, keepdim=True))
        return (nn.functional.normalize(turned, dim=1) * lengths).to(weight.dtype)
    used = (rows > 0).float().mean() * (columns > 0).float().mean()  # zeros give no part of the size
    drawn = (dealt(rows) if role == "values" else rows) * turned / used.clamp(min=1e-9).sqrt()
    return drawn.to(weight.dtype)


def _divided(matrix: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the scale of each row or column, and the matrix divided by it; a row of zeros stays one."""
    scale = matrix.square().mean(dim, keepdim=True).sqrt()
    return scale, matrix / torch.where(scale > 0, scale, 1)


def _turned(x: Tensor, random: np.random.Generator) -> Tensor:
    """Return the rows of a matrix mixed by a random orthogonal matrix, which leaves singular values as they are."""
    n = len(x)
    if n <= _EXACT:
        Q, R = torch.linalg.qr(torch.from_numpy(random.standard_normal((n, n), "float32")))
        return (Q * R.diagonal().sign()).to(x.device) @ x
    signs = torch.from_numpy(random.choice(np.array([-1, 1], np.float32), (n, 1))).to(x.device)
    waves = torch.fft.fft(signs * x, dim=0, norm="ortho")
    return (waves.real - waves.imag)[torch.from_numpy(random.permutation(n)).to(x.device)]


def plain_attention(
    x: Tensor,
    *,
    W_Q: Tensor,
    W_K: Tensor,
    W_V: Tensor,
    W_O: Tensor,
    b_Q: Float[Tensor, "head d_head"] | None = None,
    b_K: Float[Tensor, "kv_head d_head"] | None = None,
    b_V: Float[Tensor, "kv_head d_value"] | None = None,
    b_O: Float[Tensor, " d_out"] | None = None,
    causal: bool = True,
    mask: Bool[Tensor, "*batch pos pos"] | None = None,
    scale: float | None = None,
    layer: int = 0,
) -> AttentionTrace:
    """Return what heads given as plain matrices do with a stream: softmax(q k) v.

    Args:
        x: the input of the attention, (batch, pos, d_model): the stream, after its norm if there is one.
        W_Q: the query matrix of each head, (head, d_model, d_head).
        W_K: the key matrix of each KV head, (kv_head, d_model, d_head): as many as heads, or a divisor of that, shared
            by neighbours.
        W_V: the value matrix of each KV head, (kv_head, d_model, d_value).
        W_O: the output matrix of each head, (head, d_value, d_out).
        b_Q: the query bias of each head.
        b_K: the key bias of each KV head.
        b_V: the value bias of each KV head.
        b_O: the output bias, added once.
        causal: True for a causal model, in which a position sees only itself and earlier ones; False for a
            bidirectional model.
        mask: True for each key that a query sees, (query, key) or (batch, query, key), in addition to `causal`; None:
            all keys.
        scale: the factor of the logits; None: 1 / sqrt(d_head).
        layer: the number of the layer.

    Raises:
        UserError: if the matrices do not fit together.
    """
    _check(x, {"W_Q": W_Q, "W_K": W_K, "W_V": W_V, "W_O": W_O})
    weights = PlainWeights(x=x, maps={"q": (W_Q, b_Q), "k": (W_K, b_K), "v": (W_V, b_V)})
    n, n_heads = x.shape[1], len(W_Q)
    kv_of = tuple(head * len(W_K) // n_heads for head in range(n_heads))
    if causal:
        past = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        mask = past if mask is None else past & mask
    q, k, v = weights.mapped()
    attention = AttentionTrace(
        name=f"layers.{layer}.attention",
        layer=layer,
        kind="self" if causal else "encoder",
        q=q,
        k=k,
        v=v,
        z=q,  # until the patterns are known
        kv_of=kv_of,
        W_O=W_O,
        b_O=b_O,
        scale=W_Q.shape[2] ** -0.5 if scale is None else scale,
        mask=mask,
        plain=weights,
    )
    return replace(attention, z=attention.patterns() @ v[:, list(kv_of)])


def redrawable(trace: Trace) -> Redrawable:
    """Return a trace of plain attentions whose heads can be re-initialised; raise UserError for others."""

    def drawn(draw: int, some: Mapping[str, SomeQueries] | None = None) -> Trace:
        attentions = (_drawn(each, draw).at(some[each.name] if some else None) for each in trace.attentions)
        return Trace(attentions=tuple(attentions))

    return Redrawable(trace=trace, redraw=drawn)


def _drawn(attention: AttentionTrace, draw: int) -> AttentionTrace:
    weights = attention.plain
    assert weights is not None, "heads of which the matrices are not known are not drawn"
    maps: dict[str, tuple[Tensor, Tensor | None]] = {}
    place = f"layers.{attention.layer}.attention"
    for name, (W, b) in weights.maps.items():
        rows = drawn_weight(W.mT.flatten(0, 1), draw, f"{place}.{name}.weight", _ROLES.get(name, "reads"))
        # A bias is shuffled as the vector of all heads.
        bias = None if b is None else drawn_weight(b.flatten(), draw, f"{place}.{name}.bias").view_as(b)
        maps[name] = rows.unflatten(0, (len(W), -1)).mT, bias
    drawn = PlainWeights(x=weights.x, maps=maps)
    drawn_outputs = drawn_weight(attention.W_O.flatten(0, 1), draw, f"{place}.o.weight", "writes")
    W_O = drawn_outputs.view_as(attention.W_O)
    q, k, v = drawn.mapped()
    recorded = replace(attention, q=q, k=k, v=v, W_O=W_O, plain=drawn)
    return replace(recorded, z=recorded.patterns() @ v[:, list(recorded.kv_of)])


def _check(x: Tensor, given: Mapping[str, Tensor]) -> None:
    """Raise UserError if matrices do not fit together.

    Raises:
        UserError: naming what does not.
    """
    shapes = ", ".join(f"{name} {list(W.shape)}" for name, W in given.items())
    problem = f"the matrices of an attention do not fit together ({shapes}, x {list(x.shape)})"
    if x.ndim != 3 or any(W.ndim != 3 for W in given.values()):
        raise UserError(f"{problem}: x is (batch, pos, d_model), each matrix (head, rows, columns)")
    W_Q, W_K, W_V, W_O = given.values()
    n_heads, n_kv = len(W_Q), len(W_K)
    if not n_heads or not n_kv or n_heads % n_kv or len(W_V) != n_kv or len(W_O) != n_heads:
        raise UserError(f"{problem}: W_Q and W_O need a matrix per head, W_K and W_V the same or a divisor of that")
    d_model = x.shape[2]
    if any(W.shape[1] != d_model for W in (W_Q, W_K, W_V)):
        raise UserError(f"{problem}: W_Q, W_K and W_V need {d_model} rows each, the width of x")
    if W_Q.shape[2] != W_K.shape[2] or W_V.shape[2] != W_O.shape[1]:
        raise UserError(f"{problem}: W_Q and W_K need equally many columns, and W_V as many columns as W_O has rows")
