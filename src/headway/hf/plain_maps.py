"""Models: the matrices that make the queries, keys and values of an attention of transformers, where it is plain.

Nobody's names are trusted: a linear map is taken for that of the values where it gives the values that were seen, and
for that of queries or keys where it gives vectors of their lengths, which rotary turns leave as they are. Where none
does (queries that are normed, say), the attention is not plain.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from headway.hf.recording import Call
from headway.model.trace import AttentionTrace, PlainWeights

_POSITIONS = 16
"""At so many positions of the first text it is tried."""
_ALIKE = 1e-3
_Part = tuple[Tensor, Tensor | None]
"""(head, d_model, width) and (head, width)."""


def plain_weights(
    attention: AttentionTrace, call: Call, maps: "Mapping[str, nn.Linear | Conv1D]"
) -> PlainWeights | None:
    """The matrices of an attention that reads one stream; None where they are not plain."""
    x = call.x
    if attention.kind == "cross" or x.ndim != 3 or x.shape[:2] != (len(attention.q), attention.q.shape[2]):
        return None
    few = x[:1, :_POSITIONS]
    n_heads, n_kv = attention.q.shape[1], attention.k.shape[1]
    parts = [part for each in maps.values() for part in _parts(each, n_heads, n_kv, attention)]
    found: dict[str, _Part] = {}
    for role, seen, exact in (("V", attention.v, True), ("K", attention.k, False), ("Q", attention.q, False)):
        taken = [id(part[0]) for part in found.values()]
        fits = (part for part in parts if id(part[0]) not in taken and _gives(part, few, seen[:1], exact))
        part = next(fits, None)
        if part is None:
            return None
        found[role] = part
    (W_V, b_V), (W_K, b_K), (W_Q, b_Q) = found.values()
    return PlainWeights(x=x, W_Q=W_Q, W_K=W_K, W_V=W_V, b_Q=b_Q, b_K=b_K, b_V=b_V)


def _parts(module: "nn.Linear | Conv1D", n_heads: int, n_kv: int, attention: AttentionTrace) -> Iterator[_Part]:
    """What of a map might be that of one kind: all of it, a stretch of its outputs, or one of three for each head."""
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
    """Whether a map gives what was seen, or vectors as long, but for one factor."""
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
        some = others > 0  # what is read of a padding token is nothing
        if not some.any() or not torch.equal(some, lengths > 0):
            return False
        ratio = lengths[some] / others[some]
        return bool(ratio.isfinite().all()) and bool(ratio.std(correction=0) <= _ALIKE * ratio.mean())
