"""Model: what a recorded forward pass gives back of every head.

One type for Headway's models and for any other: `W_O` is cut into the heads' slices and keys and values stay those of
the KV heads, so nothing is as large as heads times keys times queries until patterns are asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SomeQueries:
    """Queries of an attention that stand for all of them."""

    places: Int[Tensor, "batch query"]
    """Which they are, ascending, in each text."""
    of: int
    """How many there are in all."""
    keys_counted: Bool[Tensor, "batch key"]
    """The keys that any query sees which counts, one of these or not."""

    def in_texts(self, x: Tensor) -> Tensor:
        """Of (batch, pos, ...) what is at these places: (batch, query, ...)."""
        return x[torch.arange(len(self.places), device=x.device)[:, None], self.places]

    def in_heads(self, x: Tensor) -> Tensor:
        """Of (batch, head, pos, ...) what is at these places: (batch, head, query, ...)."""
        return self.in_texts(x.transpose(1, 2)).transpose(1, 2)

    def of_pairs(self, x: Tensor) -> Tensor:
        """Of (query, key), (batch, query, key) or (batch, head, query, key) those of these queries, by text."""
        if x.ndim == 2:
            return x[self.places]
        x = x.expand(len(self.places), *x.shape[1:])
        return self.in_texts(x) if x.ndim == 3 else self.in_heads(x)


@dataclass(frozen=True, kw_only=True)
class PlainWeights:
    """Matrices of an attention whose queries, keys and values are linear maps of one stream, but for rotary turns."""

    x: Float[Tensor, "batch pos d_model"]
    W_Q: Float[Tensor, "head d_model d_head"]
    W_K: Float[Tensor, "kv_head d_model d_head"]
    W_V: Float[Tensor, "kv_head d_model d_value"]
    b_Q: Float[Tensor, "head d_head"] | None = None
    b_K: Float[Tensor, "kv_head d_head"] | None = None
    b_V: Float[Tensor, "kv_head d_value"] | None = None

    def queries(self) -> Float[Tensor, "batch head pos d_head"]:
        """Before any turn."""
        return _mapped(self.x, self.W_Q, self.b_Q)

    def keys(self) -> Float[Tensor, "batch kv_head pos d_head"]:
        """Before any turn."""
        return _mapped(self.x, self.W_K, self.b_K)

    def values(self) -> Float[Tensor, "batch kv_head pos d_value"]:
        """What is averaged."""
        return _mapped(self.x, self.W_V, self.b_V)


@dataclass(frozen=True, kw_only=True)
class AttentionTrace:
    """What the heads of one attention did.

    Law: contributions sum to the attention's output minus its bias; where a norm follows W_O, to what enters the stream
    minus b_O times the gain and minus the norm's own bias.
    """

    name: str
    layer: int
    kind: Literal["self", "encoder", "cross"]
    q: Float[Tensor, "batch head query d_head"]
    """As they enter the dot product: after rotary turns and norms, before the scale."""
    k: Float[Tensor, "batch kv_head key d_head"]
    v: Float[Tensor, "batch kv_head key d_value"]
    z: Float[Tensor, "batch head query d_value"]
    """Contexts: attention weights times values, times the head's gate."""
    kv_of: tuple[int, ...]
    """The KV head of each query head."""
    W_O: Float[Tensor, "head d_value d_model"]
    b_O: Float[Tensor, " d_model"] | None
    scale: float
    """What logits are multiplied by."""
    softcap: float | None = None
    """Logits x become softcap tanh(x / softcap)."""
    scores: Callable[[Tensor], Tensor] | None = None
    """What becomes of logits, after all else, where an attention is not the usual one."""
    mask: Bool[Tensor, "*batch query key"] | None = None
    """True where a query sees a key (causality, window and padding together); None: everywhere."""
    bias: Float[Tensor, "*biased query key"] | None = None
    """Added to the logits, after scale and softcap."""
    rows: Bool[Tensor, "batch query"] | None = None
    """True for queries that count; padding does not. None: all."""
    gain: Float[Tensor, "batch query"] | None = None
    """What a norm after W_O multiplies all heads with at a position; its weight is in W_O and b_O. None: there is none.
    """
    some: SomeQueries | None = None
    """Which queries these are, where they stand for more; None: all."""
    plain: PlainWeights | None = None
    """Of an attention that others wrote, its matrices where they are plain."""

    def at(self, some: SomeQueries | None) -> "AttentionTrace":
        """The same of some of its queries; of all where none are named."""
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
        """The same of one head alone, and of the keys and values that it reads."""
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
            plain=None,
        )

    def contributions(self) -> Float[Tensor, "batch head query d_model"]:
        """What each head adds to the stream: z_h W_O^h, times the gain of a norm after it."""
        written = torch.einsum("bhqd,hdm->bhqm", self.z, self.W_O)
        return written if self.gain is None else written * self.gain[:, None, :, None]

    def logits(
        self,
        heads: slice = slice(None),
        batch: slice = slice(None),
        queries: slice | list[int] = slice(None),
        keys: slice = slice(None),
    ) -> Float[Tensor, "examples some chosen span"]:
        """What enters the softmax for some heads, examples, queries and keys; -inf where nothing is seen."""
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
        """The attention weights of some heads, 0 for a query that sees nothing.

        Ask in blocks where heads times keys times queries is much.
        """
        weights = self.logits(heads).softmax(3)
        everything = slice(None)
        # The softmax of nothing but -inf is NaN.
        return (
            weights
            if self.mask is None
            else weights.masked_fill(~_part(self.mask, everything, heads, everything, everything), 0)
        )

    def sees(
        self, batch: slice = slice(None), queries: slice = slice(None), keys: slice = slice(None)
    ) -> Bool[Tensor, "#examples #heads some span"]:
        """Which keys some queries see; 1 for examples and for heads where they do not differ."""
        if self.mask is not None:
            return _part(self.mask, batch, slice(None), queries, keys)
        one = torch.ones((), dtype=torch.bool, device=self.q.device)
        return one.expand(1, 1, self.q.shape[2], self.k.shape[2])[:, :, queries, keys]


def _mapped(x: Tensor, W: Tensor, b: Tensor | None) -> Tensor:
    made = torch.einsum("bpm,hmd->bhpd", x, W)
    return made if b is None else made + b[None, :, None]


def _of_heads(tensor: Tensor | None, heads: slice) -> Tensor | None:
    """Of (query, key), (batch, query, key) or (batch, head, query, key) what is of some heads."""
    alike = tensor is None or tensor.ndim < 4 or tensor.shape[1] == 1
    return tensor if alike or tensor is None else tensor[:, heads]


def _part(tensor: Tensor, batch: slice, heads: slice, queries: slice | list[int], keys: slice) -> Tensor:
    """Of (query, key), (batch, query, key) or (batch, head, query, key), in four axes: what fits part of the logits."""
    while tensor.ndim < 4:
        tensor = tensor[None] if tensor.ndim == 2 else tensor[:, None]
    tensor = tensor if len(tensor) == 1 else tensor[batch]
    tensor = tensor if tensor.shape[1] == 1 else tensor[:, heads]
    return tensor[:, :, queries, keys]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A recorded forward pass."""

    attentions: tuple[AttentionTrace, ...]
    """In the order of the pass; a layer without heads has none."""
    streams: tuple[Float[Tensor, "batch pos d_model"], ...] = ()
    """The stream before each layer and, last, before the final norm; of models that others wrote there is none."""

    def with_rows(self, rows: Bool[Tensor, "batch query"] | None) -> "Trace":
        """The same, of which these queries count; padding does not."""
        return replace(self, attentions=tuple(replace(attention, rows=rows) for attention in self.attentions))
