"""An attention under measurement: its trace, the queries and keys that count, and sums over its rows.

A query counts if it is no padding and sees a key. A key counts if such a query sees it. No metric contains anything
else, whatever stands there, NaN included.

A row is a position of one text. Metrics of vectors are functions of sums over rows, for all heads of an attention
together. Sums of several batches are added, so such a metric is measured over all of them. A metric names the sums that
it needs as its arguments.

A cosine with a vector of zeros is 0, with itself too; so a head that writes nothing makes no metric NaN.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.heads.metric import SUMS as SUMS
from headway.models.trace import AttentionTrace


@dataclass(frozen=True, kw_only=True)
class MaskedAttention:
    """The parts of an attention that a metric may use."""

    attention: AttentionTrace
    """The trace of the attention, in float32 at least."""
    counted: Bool[Tensor, "batch query"]
    keys_counted: Bool[Tensor, "batch key"]
    before: Float[Tensor, "batch query d_model"] | None = None
    """The stream before layer 0, if the trace has it."""
    after: Float[Tensor, "batch query d_model"] | None = None
    """The stream after this layer, if the trace has it."""
    period: int | Int[Tensor, " batch"] | None = None
    """The period of repeated random tokens: one, or one for each text."""
    begins: int | Int[Tensor, " batch"] = 0
    """The first position that is repeated, counted from the first key of the text."""

    @property
    def n_heads(self) -> int:
        """Query heads."""
        return self.attention.q.shape[1]

    @property
    def share(self) -> float:
        """The share of queries that are present: 1 unless some queries stand for all."""
        some = self.attention.some
        return 1.0 if some is None else some.places.shape[1] / some.of


def subject(
    attention: AttentionTrace,
    streams: Sequence[Tensor] = (),
    period: int | Int[Tensor, " batch"] | None = None,
    begins: int | Int[Tensor, " batch"] = 0,
) -> MaskedAttention:
    """Return an attention with the queries and keys that count.

    Args:
        attention: what was recorded of it.
        streams: those of the whole trace, or none.
        period: of random tokens that are repeated, one for all texts or one for each.
        begins: the first position that is repeated, likewise.
    """
    attention = _in_float32(attention)
    sees = attention.sees().any(1).expand(len(attention.q), -1, -1)
    counted = sees.any(2)
    if attention.rows is not None:
        counted = counted & attention.rows
    return MaskedAttention(
        attention=attention,
        counted=counted,
        keys_counted=(sees & counted[:, :, None]).any(1) if attention.some is None else attention.some.keys_counted,
        before=streams[0] if streams else None,
        after=streams[attention.layer + 1] if streams else None,
        period=period,
        begins=begins,
    )


def only(
    counted: Bool[Tensor, "batch pos"], x: Float[Tensor, "batch head pos width"]
) -> Float[Tensor, "rows head width"]:
    """Return vectors of heads as rows, zero where a position does not count."""
    return torch.where(counted[:, None, :, None], x, 0).transpose(1, 2).flatten(0, 1)


def _in_float32(attention: AttentionTrace) -> AttentionTrace:
    if attention.q.dtype not in (torch.float16, torch.bfloat16):
        return attention
    tensors = {name: getattr(attention, name) for name in ("q", "k", "v", "z", "W_O", "b_O", "bias", "gain")}
    floats: dict[str, Any] = {name: x if x is None else x.float() for name, x in tensors.items()}
    return replace(attention, **floats)


Sum = Callable[[MaskedAttention], Tensor]
NOTHING = 1e-6
"""The bound below which a contribution, relative to its context and weights, is rounding and counts as zero."""


def additive(function: Sum) -> Sum:
    """Register a sum under its function's name."""
    assert function.__name__ not in SUMS, function.__name__
    SUMS[function.__name__] = function
    return function


@additive
def rows(of: MaskedAttention) -> Float[Tensor, ""]:
    """Return the number of positions that count."""
    return of.counted.sum(dtype=torch.float64)


@additive
def texts(of: MaskedAttention) -> Float[Tensor, ""]:
    """Return the number of texts with a counting position; a partly present text counts by its present share."""
    return of.counted.any(1).sum(dtype=torch.float64) * of.share


@additive
def query_gram(of: MaskedAttention) -> Float[Tensor, "head width head width"]:
    """Return Q_i^T Q_j for every pair of heads."""
    return gram(only(of.counted, of.attention.q), of.counted.flatten())


@additive
def query_total(of: MaskedAttention) -> Float[Tensor, "head width"]:
    """Return the sum of each head's queries."""
    return only(of.counted, of.attention.q).sum(0, dtype=torch.float64)


@additive
def context_gram(of: MaskedAttention) -> Float[Tensor, "head width head width"]:
    """Return C_i^T C_j for every pair of heads."""
    return gram(only(of.counted, of.attention.z), of.counted.flatten())


@additive
def context_total(of: MaskedAttention) -> Float[Tensor, "head width"]:
    """Return the sum of each head's contexts."""
    return only(of.counted, of.attention.z).sum(0, dtype=torch.float64)


@additive
def context_cosines(of: MaskedAttention) -> Float[Tensor, "head head"]:
    """Return cosines of two heads' contexts, summed over rows."""
    return cosines(only(of.counted, of.attention.z))


@additive
def value_cosines(of: MaskedAttention) -> Float[Tensor, "head head"]:
    """Return cosines of two query heads' values, summed over the keys that count.

    Heads that share values have a cosine of 1.
    """
    kv_of = list(of.attention.kv_of)
    return cosines(only(of.keys_counted, of.attention.v))[kv_of][:, kv_of]


@additive
def value_rows(of: MaskedAttention) -> Float[Tensor, ""]:
    """Return the number of keys that count."""
    return of.keys_counted.sum(dtype=torch.float64)


@additive
def output_cosines(of: MaskedAttention) -> Float[Tensor, "head head"]:
    """Return cosines of what two heads add to the stream, z_i W_O^i and z_j W_O^j, summed over rows.

    With W_O^i = R_i^T B_i, B_i of orthonormal rows, a contribution has the coordinates z_i R_i^T in the directions B_i,
    so cosines need no (row, head, d_model): they are sum over entries of (B_i B_j^T) * (U_i^T U_j), U_i the coordinates
    at length 1.
    """
    W_O = of.attention.W_O
    directions, R = torch.linalg.qr(W_O.mT)
    z = only(of.counted, of.attention.z)
    coordinates = torch.einsum("rhd,hed->rhe", z, R)
    possible = z.norm(dim=2) * torch.linalg.vector_norm(W_O, dim=(1, 2))
    written = coordinates.norm(dim=2, keepdim=True) > NOTHING * possible[:, :, None]
    unit = units(torch.where(written, coordinates, 0)).flatten(1)
    basis = directions.mT.flatten(0, 1)
    products = (basis @ basis.mT) * (unit.mT @ unit)
    n_heads, width = directions.shape[0], directions.shape[2]
    return products.view(n_heads, width, n_heads, width).sum((1, 3), dtype=torch.float64)


@additive
def output_sizes(of: MaskedAttention) -> Float[Tensor, " head"]:
    """Return the squared size of what each head adds to the stream, ||z_h W_O^h||^2 (gain included).

    It is summed over rows. A contribution is as long as its coordinates in the directions that W_O^h writes in, so no
    vector of d_model is needed. The square of those coordinates is never negative, however little W_O^h lets through.
    """
    R = torch.linalg.qr(of.attention.W_O.mT, mode="r").R
    z, gain = of.attention.z, of.attention.gain
    coordinates = torch.einsum("rhd,hed->rhe", only(of.counted, z if gain is None else z * gain[:, None, :, None]), R)
    return coordinates.square().sum((0, 2), dtype=torch.float64)


@additive
def stream_cosines(of: MaskedAttention) -> Float[Tensor, ""]:
    """Return cosines of each token's stream before layer 0 and after this layer, summed over rows."""
    assert of.before is not None
    assert of.after is not None
    pair = torch.stack((of.before, of.after), dim=1).to(of.attention.q.dtype)
    return cosines(only(of.counted, pair))[0, 1]


def gram(x: Float[Tensor, "rows head width"], counted: Bool[Tensor, " rows"]) -> Float[Tensor, "head width head width"]:
    """Return X^T X of all heads side by side, in float64 but at float32's cost.

    The mean is taken out before the product and put back in float64, so that centring later cancels no digits.
    """
    flat = x.flatten(1)
    total = flat.sum(0, dtype=torch.float64)
    about = (total / counted.sum().clamp(min=1)).to(x.dtype)
    centred = torch.where(counted[:, None], flat - about, 0)
    shift = about.double()
    crossed = torch.outer(total, shift)
    whole = (centred.mT @ centred).double() + crossed + crossed.mT - counted.sum() * torch.outer(shift, shift)
    return whole.view(*x.shape[1:], *x.shape[1:])


def cosines(x: Float[Tensor, "rows head width"]) -> Float[Tensor, "head head"]:
    """Return cosines of the vectors of two heads in the same row, summed over rows; rows of zeros add nothing."""
    by_head = units(x).transpose(0, 1).flatten(1)
    return (by_head @ by_head.mT).double()


def units(x: Float[Tensor, "rows head width"]) -> Float[Tensor, "rows head width"]:
    """Return vectors at length 1, zeros left as they are."""
    return torch.nn.functional.normalize(x, dim=2, eps=torch.finfo(x.dtype).tiny ** 0.5)
