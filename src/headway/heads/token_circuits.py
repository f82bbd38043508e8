"""Circuits in tokens, composition of heads by their weights, and the token pairs that heads attend to.

QK and OV circuits are taken between token embeddings, normed as the first layer would, and the read-out. They say which
token a head matches, and which token it then makes likelier. That is the view of layer 0; for later layers it is the
part that comes straight from the tokens. Only relations within a circuit mean something, since later norms scale all of
it. So entries are taken less their mean over the entries that a softmax compares, and in standard deviations of the
whole circuit.

Composition says how much of what earlier heads write later heads read, for all pairs, by the weights alone. Its chance
level is known. Let P = W^T W / |W|^2 for the written matrix, Q likewise for the reading one, and U a random turn of the
D dimensions between them. The squared composition is tr(P U Q U^T), with mean 1 / D. A symmetric matrix without trace
turns within a space of (D - 1)(D + 2) / 2 dimensions, in all of them alike, so the variance is 2 (tr P^2 - 1/D)(tr Q^2
- 1/D) / ((D - 1)(D + 2)). For one direction each the distribution is exactly a beta distribution, and for more
directions nearly. Far out the strongest direction decides, so the largest eigenvalues replace tr P^2 and tr Q^2, which
is never too narrow.

Token pairs are ranked by a head's weight over a whole text: the weight summed over all places where one token sees the
other, less the weight that even attention would give there. So pairs do not lead for being frequent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import log
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.base.words import say
from headway.heads.circuits import (
    NO_TOKENS,
    Factored,
    HeadCircuits,
    answers_in_tokens,
    circuits,
    read_out_rows,
    seen_width,
    written_rows,
)
from headway.heads.results import AttendedPair, Circuits, Head, TokenCircuits
from headway.heads.scores import Arrays, Composition
from headway.models.attention import rotate
from headway.models.redraw import Redrawable, redrawn
from headway.models.trace import AttentionTrace, Trace
from headway.models.transformer import Transformer

TOP = 6


def why_no_circuits(model: Transformer | None) -> str:
    """Return why circuits cannot be read in tokens; empty if they can."""
    if model is None:
        return say("own_circuits")
    return "" if answers_in_tokens(model) else say("no_token_circuits", reason=NO_TOKENS)


def token_circuits(model: Transformer | None, tokens: Sequence[int]) -> Circuits | None:
    """Return the circuits of every head, between some tokens; None if they cannot be read (`why_no_circuits`).

    Args:
        model: a model of Headway; None: another model.
        tokens: the tokens that circuits are read between, each once; at least two.

    Raises:
        UserError: naming the layer whose weights hold NaN or infinity.
    """
    if model is None or not answers_in_tokens(model):
        return None
    chosen = torch.as_tensor(list(tokens))
    embedded, read = written_rows(model, chosen).float(), read_out_rows(model, chosen).float()
    by_head: dict[Head, TokenCircuits] = {}
    for here in circuits(model):
        for head in range(len(here.ov.left)):
            by_head[here.name, head] = _of_head(here, head, embedded, read, tokens)
    return Circuits(
        n_tokens=len(tokens),
        all=len(tokens) == model.vocab_size,
        by_chance=(2 * log(len(tokens) ** 2)) ** 0.5,
        of=by_head,
    )


def _of_head(here: HeadCircuits, head: int, embedded: Tensor, read: Tensor, tokens: Sequence[int]) -> TokenCircuits:
    moved = _standard(embedded @ here.ov.left[head].float() @ (here.ov.right[head].float() @ read.T))
    matched = _standard(embedded @ here.qk.left[head].float() @ (here.qk.right[head].float() @ embedded.T))
    own = moved.diagonal()
    others = moved - torch.diag(torch.full_like(own, torch.inf))
    return TokenCircuits(
        copies=_furthest(own, tokens, 1),
        suppresses=_furthest(own, tokens, -1),
        raises=_highest(others, tokens),
        matches=_highest(matched, tokens),
    )


def _largest(entries: Tensor) -> Iterator[tuple[int, float]]:
    """Yield the places and values of the largest entries above 0, largest first."""
    best = entries.flatten().topk(min(TOP, entries.numel()))
    for value, at in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        if value > 0:
            yield at, value


def _furthest(entries: Float[Tensor, " token"], tokens: Sequence[int], sign: int) -> tuple[tuple[int, float], ...]:
    """Return the tokens with the largest entries of a sign, the furthest from 0 first."""
    return tuple((tokens[at], sign * value) for at, value in _largest(sign * entries))


def _standard(circuit: Float[Tensor, "one other"]) -> Float[Tensor, "one other"]:
    centred = circuit - circuit.mean(1, keepdim=True)
    spread = centred.square().mean().sqrt()
    return centred / spread if spread > 0 else torch.zeros_like(centred)


def _highest(circuit: Float[Tensor, "one other"], tokens: Sequence[int]) -> tuple[tuple[int, int, float], ...]:
    n = len(tokens)
    return tuple((tokens[at // n], tokens[at % n], value) for at, value in _largest(circuit))


def compositions(model: Transformer) -> Composition:
    """Return Q-, K- and V-composition between all pairs of heads in different layers.

    Raises:
        UserError: naming the layer whose weights hold NaN or infinity.
    """
    layers, width = circuits(model), seen_width(model)
    heads = tuple((here.name, head) for here in layers for head in range(len(here.ov.left)))
    first = np.cumsum([0, *(len(here.ov.left) for here in layers)])
    tables, chances = _tables("qkv", len(heads)), _tables("qkv", len(heads))
    written = [_with_strongest(here.ov) for here in layers]
    # A reading matrix is a writing matrix transposed.
    read = {
        "q": [_with_strongest(here.qk.transposed()) for here in layers],
        "k": [_with_strongest(here.qk) for here in layers],
        "v": [_with_strongest(here.ov.transposed()) for here in layers],
    }
    for kind, (earlier, later) in product("qkv", combinations(range(len(layers)), 2)):
        (writer, most_written), (reader, most_read) = written[earlier], read[kind][later]
        here = _pairs(first, earlier, later)
        tables[kind][here] = _ratios(writer, reader).numpy()
        chances[kind][here] = composition_chance(tables[kind][here], most_written, most_read, width)
    return Composition(heads=heads, **tables, null=width**-0.5, chances=chances)


def _tables(kinds: str, n_heads: int) -> dict[str, Any]:
    """Return a table of all pairs of heads for each kind, of which nothing is known yet."""
    return {kind: np.full((n_heads, n_heads), np.nan) for kind in kinds}


def _pairs(first: np.ndarray, earlier: int, later: int) -> tuple[slice, slice]:
    """Return the part of a table that has the pairs of heads of two layers."""
    return slice(first[earlier], first[earlier + 1]), slice(first[later], first[later + 1])


def composed_on_text(model: Transformer, reading: Redrawable, found: Composition, draws: int = 0) -> Composition:
    """Return compositions with the share of each path in what later heads do on a text.

    The norm before a later head is taken as it is on the text, so its reading of the stream is linear and the shares of
    all that is in the stream sum to 1, but for biases. Nothing is measured where later heads read no such sum.

    Args:
        model: the model.
        reading: the recorded activations on the text.
        found: the compositions of weights.
        draws: the number of re-initialisations of the later heads, which read the model's own stream.
    """
    declared, trace = model.model, reading.trace
    after = declared.norm_place == "after" and declared.norm != "none"
    if after or not declared.residual or declared.smeared_keys or any(each.scores for each in trace.attentions):
        return found
    layers = circuits(model)
    written = [
        torch.einsum("bhtd,hdm->bhtm", attention.z.cpu().double(), layer.ov.right)
        for attention, layer in zip(trace.attentions, layers, strict=True)
    ]
    shares, nats = _paths(model, trace, written, trace, layers)
    drawn: dict[str, list[np.ndarray]] = {kind: [] for kind in nats}
    for draw in range(draws):
        with redrawn(model, draw):
            others = circuits(model)
        for kind, table in _paths(model, trace, written, reading.redraw(draw), others)[1].items():
            drawn[kind].append(table)
    return replace(
        found, shares=shares, nats=nats, drawn_nats={kind: np.stack(tables) for kind, tables in drawn.items() if tables}
    )


def _paths(
    model: Transformer, own: Trace, written: Sequence[Tensor], readers: Trace, layers: Sequence[HeadCircuits]
) -> tuple[Arrays, Arrays]:
    """Return by kind the shares and the nats of all paths from what heads wrote into later heads."""
    first = np.cumsum([0, *(each.shape[1] for each in written)])
    n_heads = int(first[-1])
    shares, nats = _tables("qkv", n_heads), _tables("qk", n_heads)
    for later, reader in enumerate(readers.attentions[1:], 1):
        of_kinds = _read_on_text(model, own.streams, reader, layers[later])
        for earlier, (kind, (gradient, total, n)) in product(range(later), of_kinds.items()):
            here = _pairs(first, earlier, later)
            part = torch.einsum("bitm,bjtm->ij", written[earlier], gradient)
            shares[kind][here] = (part / total).numpy()
            if kind != "v":
                nats[kind][here] = (part / n).numpy()
    return shares, nats


def _read_on_text(
    model: Transformer, streams: Sequence[Tensor], attention: AttentionTrace, here: HeadCircuits
) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Return by kind what a write into the stream is multiplied with, what all writes together give, and queries."""
    kv = list(attention.kv_of)
    recorded = attention.q, attention.k[:, kv], attention.z, attention.logits(), attention.patterns()
    q, k, z, logits, p = (x.cpu().double() for x in recorded)
    seen = attention.sees().cpu().expand_as(p)
    more = torch.where(seen, p - 1 / seen.sum(3, keepdim=True).clamp(min=1), 0)
    total = (more * logits.masked_fill(~seen, 0)).sum((0, 2, 3))
    n = (seen.sum(3) > 1).sum((0, 2))
    of_queries, of_keys = more @ k * attention.scale, more.mT @ q * attention.scale
    if model.model.positions == "rotary":
        cos, sin = model.get_buffer(f"rotary_{q.shape[3]}")[:, : q.shape[2]].cpu()
        turned_back = torch.stack((cos, -sin))
        of_queries, of_keys = rotate(of_queries, turned_back), rotate(of_keys, turned_back)
    out = torch.einsum("bhtd,hdm->bhtm", z, here.ov.right)
    out = out - out.mean((0, 2), keepdim=True)
    of_values = p.mT @ torch.einsum("bhtm,hdm->bhtd", out, here.ov.right)
    size = _sizes(model, streams[attention.layer].cpu().double())

    def back(vectors: Tensor, matrices: Tensor) -> Tensor:
        return torch.einsum("bhtd,hdm->bhtm", vectors, matrices) / size

    return {
        "q": (back(of_queries, here.qk.left.mT), total, n),
        "k": (back(of_keys, here.qk.right), total, n),
        "v": (back(of_values, here.ov.left.mT), out.square().sum((0, 2, 3)), n),
    }


def _sizes(model: Transformer, stream: Float[Tensor, "batch pos d_model"]) -> Tensor:
    """Return what the norm before the heads divides each position of the stream by."""
    if model.model.norm == "none":
        return torch.ones(1, 1, 1, 1)
    if model.model.norm == "layer":
        stream = stream - stream.mean(2, keepdim=True)
    return (stream.square().mean(2) + model.model.norm_eps).sqrt()[:, None, :, None]


def composition_chance(
    compositions: Float[np.ndarray, "earlier later"],
    written: Float[np.ndarray, " earlier"],
    read: Float[np.ndarray, " later"],
    width: int,
) -> Float[np.ndarray, "earlier later"]:
    """Return how likely circuits turned at random compose at least as much; 1 where nothing is known.

    Args:
        compositions: the composition of each earlier head with each later one.
        written: the largest share of one direction in the squared size of each earlier circuit.
        read: the same share for each later circuit.
        width: dimensions of the stream.
    """
    from scipy.special import betaincc

    if width < 3:
        return np.ones_like(compositions)
    mean = 1 / width
    excess = np.outer(np.maximum(written - mean, 1e-6), np.maximum(read - mean, 1e-6))
    variance = 2 * excess / ((width - 1) * (width + 2))
    size = mean * (1 - mean) / variance - 1
    chances = betaincc(mean * size, (1 - mean) * size, np.clip(np.nan_to_num(compositions), 0, 1) ** 2)
    return np.where(np.isfinite(compositions), np.nan_to_num(chances, nan=1.0), np.nan)


def _with_strongest(circuit: Factored) -> tuple[Float[Tensor, "head few d_model"], Float[np.ndarray, " head"]]:
    """Return short matrices, and the largest share of one direction in the squared size of each; 1 for zeros."""
    matrix = circuit.as_writer()
    squares = torch.linalg.svdvals(matrix).square()
    whole = squares.sum(1)
    return matrix, torch.where(whole > 0, squares[:, 0] / whole, 1).numpy()


def _ratios(
    writer: Float[Tensor, "earlier few d_model"], reader: Float[Tensor, "later some d_model"]
) -> Float[Tensor, "earlier later"]:
    """Return ||W_i R_j^T|| / (||W_i|| ||R_j||) for all pairs, by one product of the heads' stacked matrices."""
    products = writer.flatten(0, 1) @ reader.flatten(0, 1).T
    cores = products.view(*writer.shape[:2], *reader.shape[:2])
    norms = cores.square().sum((1, 3)).sqrt()
    return norms / writer.square().sum((1, 2)).sqrt()[:, None] / reader.square().sum((1, 2)).sqrt()


TOP_TOKENS = 8


class _Sums(NamedTuple):
    weight: Float[np.ndarray, "head pair"]
    even: Float[np.ndarray, " pair"]
    n: Int[np.ndarray, " pair"]


class TokenPairs:
    """Pairs of tokens of a text with the weight that every head gives them; batches are added one by one."""

    def __init__(
        self, queries: Int[np.ndarray, "sequence query"], keys: Int[np.ndarray, "sequence key"], *, same: bool
    ) -> None:
        """Start with no tokens.

        Args:
            queries: the tokens that look, of all sequences.
            keys: the tokens that they look at.
            same: True if queries and keys stand at the same places. Then no pair has the token of a place with itself:
                they are always one word.
        """
        self._others = ~np.eye(queries.shape[1], keys.shape[1], dtype=bool) | (not same)
        self._width = int(max(queries.max(), keys.max())) + 1
        codes = queries[:, :, None].astype(np.int64) * self._width + keys[:, None, :]
        # A causal model has no use for the pairs above the diagonal; their sums stay 0.
        self._codes, inverse = np.unique(codes, return_inverse=True)
        self._place = inverse.reshape(codes.shape)
        self._sums: dict[str, _Sums] = {}

    def add(self, attention: AttentionTrace, first: int) -> None:
        """Add what an attention does with some sequences.

        Args:
            attention: the recorded activations of the attention.
            first: the number of the first of its sequences.
        """
        weights = attention.patterns().float().cpu().numpy()
        sees = np.broadcast_to(attention.sees().any(1).cpu().numpy(), (len(weights), *weights.shape[2:]))
        place = self._place[first : first + len(weights)].ravel()
        even = sees / np.maximum(sees.sum(2, keepdims=True), 1) * self._others
        weights, sees = weights * self._others, sees & self._others
        n = len(self._codes)
        here = _Sums(
            weight=np.stack([np.bincount(place, weights[:, h].ravel(), n) for h in range(weights.shape[1])]),
            even=np.bincount(place, even.ravel(), n),
            n=np.bincount(place, sees.ravel(), n).astype(np.int64),
        )
        if attention.name in self._sums:
            here = _Sums(*(before + now for before, now in zip(self._sums[attention.name], here, strict=True)))
        self._sums[attention.name] = here

    def top(self, name: str) -> Mapping[int, tuple[AttendedPair, ...]]:
        """Return for each head of an attention the pairs with most weight beyond an even share."""
        sums = self._sums[name]
        return {head: self._top(weight, sums) for head, weight in enumerate(sums.weight)}

    def _top(self, weight: Float[np.ndarray, " pair"], sums: _Sums) -> tuple[AttendedPair, ...]:
        more = weight - sums.even
        few = min(TOP_TOKENS, len(more))
        best = np.argpartition(-more, few - 1)[:few]
        return tuple(
            AttendedPair(
                query=int(self._codes[at] // self._width),
                key=int(self._codes[at] % self._width),
                weight=float(weight[at] / sums.n[at]),
                even=float(sums.even[at] / sums.n[at]),
                n=int(sums.n[at]),
            )
            for at in best[np.argsort(-more[best], kind="stable")]
            if more[at] > 0
        )
