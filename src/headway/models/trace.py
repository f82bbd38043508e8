"""The record of every head in a forward pass.

One type serves Headway's models and all others: `W_O` is cut into the heads' slices, and keys and values stay those of
the KV heads. So nothing is as large as heads times keys times queries until patterns are asked for.

`Edits` intervene inside a forward pass: functions that replace the tensor at a named site. Ablating, patching and
pruning are made of these alone. Each kind of tensor has one site, so that no mask is ever multiplied into another mask,
nor into the output of the output projection.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Site = Literal["q", "k", "v", "z"]
"""q and k as they enter the dot product (k and v of the KV heads), v, and z, the contexts that enter the output
projection, after gates: each (batch, head, pos, d_head)."""

READ: tuple[Site, ...] = ("q", "k", "v")
"""The sites that a head computes from the residual stream."""

Edit = Callable[[Tensor], Tensor]

Edits = Mapping[tuple[int, Site], Edit]
"""Edits by layer and site. Law: an edit that returns its argument changes no bit."""


def edited(x: Tensor, edits: Edits | None, layer: int, site: Site) -> Tensor:
    """Return the tensor at a site, edited if the site has an edit."""
    edit = None if edits is None else edits.get((layer, site))
    return x if edit is None else edit(x)


@dataclass(frozen=True, kw_only=True)
class SomeQueries:
    """Queries of an attention that stand for all of them."""

    places: Int[Tensor, "batch query"]
    """Their positions in each text, ascending."""
    of: int
    """The number of all queries."""
    keys_counted: Bool[Tensor, "batch key"]
    """The keys that some counting query sees, whether or not it is one of these."""

    def in_texts(self, x: Tensor) -> Tensor:
        """Return the entries of (batch, pos, ...) at these places: (batch, query, ...)."""
        return x[torch.arange(len(self.places), device=x.device)[:, None], self.places]

    def in_heads(self, x: Tensor) -> Tensor:
        """Return the entries of (batch, head, pos, ...) at these places: (batch, head, query, ...)."""
        return self.in_texts(x.transpose(1, 2)).transpose(1, 2)

    def of_pairs(self, x: Tensor) -> Tensor:
        """Return these queries of (query, key), (batch, query, key) or (batch, head, query, key), by text."""
        if x.ndim == 2:
            return x[self.places]
        x = x.expand(len(self.places), *x.shape[1:])
        return self.in_texts(x) if x.ndim == 3 else self.in_heads(x)


@dataclass(frozen=True, kw_only=True)
class PlainWeights:
    """Matrices of an attention whose queries, keys and values are linear maps of one stream, before rotary turns."""

    x: Float[Tensor, "batch pos d_model"]
    maps: Mapping[str, tuple[Float[Tensor, "some d_model width"], Float[Tensor, "some width"] | None]]
    """The matrix of each head and its bias, of queries (`q`), and of the KV heads' keys (`k`) and values (`v`)."""

    def mapped(self) -> Iterator[Float[Tensor, "batch some pos width"]]:
        """Yield the queries and keys, before any turn, and the values, which attention averages."""
        for W, b in self.maps.values():
            made = torch.einsum("bpm,hmd->bhpd", self.x, W)
            yield made if b is None else made + b[None, :, None]


@dataclass(frozen=True, kw_only=True)
class AttentionTrace:
    """The record of the heads of one attention.

    Law: contributions sum to the attention's output minus its bias. If a norm follows W_O, they sum to what enters the
    stream, minus b_O times the gain and minus the norm's own bias.
    """

    name: str
    layer: int
    kind: Literal["self", "encoder", "cross"]
    q: Float[Tensor, "batch head query d_head"]
    """Queries as they enter the dot product: after rotary turns and norms, before the scale."""
    k: Float[Tensor, "batch kv_head key d_head"]
    v: Float[Tensor, "batch kv_head key d_value"]
    z: Float[Tensor, "batch head query d_value"]
    """Contexts: attention weights times values, times the head's gate."""
    kv_of: tuple[int, ...]
    """The KV head of each query head."""
    W_O: Float[Tensor, "head d_value d_model"]
    b_O: Float[Tensor, " d_model"] | None
    scale: float
    """The factor of the logits."""
    softcap: float | None = None
    """Logits x become softcap tanh(x / softcap)."""
    scores: Callable[[Tensor], Tensor] | None = None
    """A function applied to the logits last, if the attention is no softmax attention."""
    mask: Bool[Tensor, "*batch query key"] | None = None
    """True where a query sees a key (causality, window and padding together); None: everywhere."""
    bias: Float[Tensor, "*biased query key"] | None = None
    """A bias added to the logits, after scale and softcap."""
    sinks: Float[Tensor, " head"] | None = None
    """The logit of each head's learned sink, whose share of the weights reaches no key; None: there are no sinks."""
    rows: Bool[Tensor, "batch query"] | None = None
    """True for queries that count; padding does not. None: all count."""
    gain: Float[Tensor, "batch query"] | None = None
    """The factor of all heads at a position from a norm after W_O, whose weight is in W_O and b_O; None: no norm."""
    some: SomeQueries | None = None
    """The queries that are present, if they stand for more; None: all."""
    plain: PlainWeights | None = None
    """The matrices of an attention that others wrote, if they are plain."""

    def at(self, some: SomeQueries | None) -> "AttentionTrace":
        """Return the record of some queries, or of all if none are named."""
        if some is None:
            return self
        return replace(
            self,
            some=some,
            q=some.in_heads(self.q),
            z=some.in_heads(self.z),
            mask=None if self.mask is None else some.of_pairs(self.mask),
            bias=None if self.bias is None else some.of_pairs(self.bias),
            rows=None if self.rows is None else some.in_texts(self.rows),
            gain=None if self.gain is None else some.in_texts(self.gain),
        )

    def of_head(self, head: int) -> "AttentionTrace":
        """Return the record of one head alone, and of the keys and values that it reads."""
        its, kv = slice(head, head + 1), slice(self.kv_of[head], self.kv_of[head] + 1)
        return replace(
            self,
            q=self.q[:, its],
            k=self.k[:, kv],
            v=self.v[:, kv],
            z=self.z[:, its],
            kv_of=(0,),
            W_O=self.W_O[its],
            mask=_of_heads(self.mask, its),
            bias=_of_heads(self.bias, its),
            sinks=None if self.sinks is None else self.sinks[its],
            plain=None,
        )

    def contributions(self) -> Float[Tensor, "batch head query d_model"]:
        """Return what each head adds to the stream: z_h W_O^h, times the gain of a norm after it."""
        written = torch.einsum("bhqd,hdm->bhqm", self.z, self.W_O)
        return written if self.gain is None else written * self.gain[:, None, :, None]

    def logits(
        self,
        heads: slice = slice(None),
        batch: slice = slice(None),
        queries: slice | list[int] = slice(None),
        keys: slice = slice(None),
    ) -> Float[Tensor, "examples some chosen span"]:
        """Return the logits that enter the softmax for some heads, examples, queries and keys; -inf where unseen."""
        kv_of = self.kv_of[heads]
        k = self.k[batch][:, :, keys]
        if kv_of != tuple(range(k.shape[1])):
            k = k[:, list(kv_of)]
        logits = self.q[batch, heads][:, :, queries] * self.scale @ k.mT
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        if self.bias is not None:
            logits = logits + _part(self.bias, batch, heads, queries, keys)
        if self.mask is not None:
            logits = logits.masked_fill_(~_part(self.mask, batch, heads, queries, keys), -torch.inf)
        return logits if self.scores is None else self.scores(logits)

    def patterns(self, heads: slice = slice(None)) -> Float[Tensor, "batch some query key"]:
        """Return the attention weights of some heads, 0 for a query that sees nothing.

        The weights of a query sum to 1, or to less by the share of a learned sink. Ask in blocks where heads times keys
        times queries is much.
        """
        weights = self.weights(self.logits(heads), heads)
        # The softmax of a row of -inf is NaN.
        return weights if self.mask is None else weights.masked_fill(~_part(self.mask, heads=heads), 0)

    def weights(
        self, logits: Float[Tensor, "batch some query key"], heads: slice = slice(None)
    ) -> Float[Tensor, "batch some query key"]:
        """Return the softmax of the logits of some heads, and of their learned sinks; NaN where nothing is seen."""
        if self.sinks is None:
            return logits.softmax(3)
        sinks = self.sinks[heads, None, None].to(logits.dtype).expand(len(logits), -1, logits.shape[2], 1)
        return torch.cat([logits, sinks], 3).softmax(3)[..., :-1]

    def sees(
        self, batch: slice = slice(None), queries: slice = slice(None), keys: slice = slice(None)
    ) -> Bool[Tensor, "#examples #heads some span"]:
        """Return which keys some queries see; 1 for examples and for heads where they do not differ."""
        if self.mask is not None:
            return _part(self.mask, batch, queries=queries, keys=keys)
        everywhere = torch.ones((), dtype=torch.bool, device=self.q.device)
        return everywhere.expand(1, 1, self.q.shape[2], self.k.shape[2])[:, :, queries, keys]


def _of_heads(tensor: Tensor | None, heads: slice) -> Tensor | None:
    """Return some heads of (query, key), (batch, query, key) or (batch, head, query, key)."""
    return tensor if tensor is None or tensor.ndim < 4 or tensor.shape[1] == 1 else tensor[:, heads]


def _part(
    tensor: Tensor,
    batch: slice = slice(None),
    heads: slice = slice(None),
    queries: slice | list[int] = slice(None),
    keys: slice = slice(None),
) -> Tensor:
    """Return, in four axes, the part of a mask or bias that fits part of the logits.

    The tensor is (query, key), (batch, query, key) or (batch, head, query, key).
    """
    while tensor.ndim < 4:
        tensor = tensor[None] if tensor.ndim == 2 else tensor[:, None]
    tensor = tensor if len(tensor) == 1 else tensor[batch]
    tensor = tensor if tensor.shape[1] == 1 else tensor[:, heads]
    return tensor[:, :, queries, keys]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A recorded forward pass."""

    attentions: tuple[AttentionTrace, ...]
    """The attentions in the order of the pass; a layer without heads has none."""
    streams: tuple[Float[Tensor, "batch pos d_model"], ...] = ()
    """The stream before each layer and, last, before the final norm; empty for models that others wrote."""
    tokens: Int[Tensor, "batch token"] | None = None
    """The tokens of a text, for metrics of what a token's earlier occurrences are followed by; None: not given."""

    def with_rows(self, rows: Bool[Tensor, "batch query"] | None) -> "Trace":
        """Return the trace with the queries that count; padding does not count."""
        return replace(self, attentions=tuple(replace(attention, rows=rows) for attention in self.attentions))
