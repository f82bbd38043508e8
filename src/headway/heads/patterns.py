"""Attention patterns in blocks of queries, for metrics that are means over queries.

Every number that a metric needs of attention weights p comes from the logits s of one block of queries, with only the
keys that any of them sees. With e = exp(s - max s), sum p^2 = sum e^2 / (sum e)^2 and the entropy is ln sum e - sum e
ln e / sum e. So no T x T matrix of all heads is ever held. A learned sink has a share of sum e and counts as one more
outcome in the entropy; no key has its weight.

`EvenAttention` gives the same numbers for a head whose attention is even over the keys that it sees, which is the null
of these metrics.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.heads.attention import MaskedAttention, PerText

BLOCK_BYTES = 16 * 2**20
"""The bytes of a block's logits in float32; a few tensors of that size are held at once."""
_ROWS = 64
"""The queries of a block, if they fit: in a causal text larger blocks see fewer of their keys."""
_FEW_ROWS = 16
"""The queries of a block of some queries that stand for all, which lie farther apart."""

Places = Int[Tensor, "#batch query"]
"""A key for each query."""
ChosenKeys = Bool[Tensor, "batch query key"]
ChosenQueries = Bool[Tensor, "batch some query"]
Values = Float[Tensor, "batch head query"]
"""A number per query; one head stands for all where they do not differ."""


@dataclass(frozen=True, kw_only=True)
class QueryAttention(ABC):
    """Queries of some examples, with the numbers that a metric may use of their attention weights p."""

    counted: Bool[Tensor, "batch 1 query"]
    """True if the query counts."""
    n_keys: Float[Tensor, "batch some query"]
    """The number m of keys that it sees; one head stands for all where they see the same."""
    text_keys: Float[Tensor, "batch 1 #query"]
    """The number T of keys of its text that count."""
    sees: Bool[Tensor, "#batch #head query key"]
    start: int
    """The first key of the block."""
    one_text: bool
    """True if queries and keys are of the same text."""
    places: Places
    """The keys at the places of the queries, if both are of one text."""
    first: Int[Tensor, "batch 1"]
    """The first key of the text."""
    period: Int[Tensor, "#batch 1"] | None
    """The period of repeated tokens."""
    begins: Int[Tensor, "#batch 1"] | None
    """The first repeated key, counted from `first`, if there is a period."""
    tokens: Int[Tensor, "batch token"] | None
    """The tokens of the text, at all its keys."""

    @abstractmethod
    def largest_at(self, keys: Places) -> Values:
        """Return 1 where the largest weight is on that key, else 0; of equal weights the first is the largest."""

    @property
    def has_partner(self) -> Bool[Tensor, "batch 1 query"]:
        """True if the query's text has a partner, which has a query at the same place."""
        n = len(self.counted) // 2 * 2
        pairs = self.counted[:n].unflatten(0, (-1, 2))
        places = self.places.expand(len(self.counted), -1)[:n].unflatten(0, (-1, 2))
        both = pairs.all(1) & (places[:, 0] == places[:, 1])[:, None]
        found = torch.zeros_like(self.counted)
        found[:n] = both.repeat_interleave(2, 0)
        return found

    def largest_on_neighbours(self) -> Float[Tensor, "2 batch head query"]:
        """Return whether the largest weight is on the token before, and whether on the token after."""
        return torch.stack((self.largest_at(self.places - 1), self.largest_at(self.places + 1)))

    @property
    def twin(self) -> Int[Tensor, "batch query"]:
        """The key one period before each query."""
        assert self.period is not None, "measured without a period"
        return (self.places - self.period).expand(len(self.counted), -1)

    @property
    def repeated(self) -> Bool[Tensor, "batch 1 query"]:
        """True for a query on the second or a later occurrence of a repeated token."""
        assert self.period is not None, "measured without a period"
        assert self.begins is not None
        return (self.places >= self.first + self.begins + self.period)[:, None] & self.one_text

    def after_twins(self, distance: int) -> ChosenKeys:
        """Return the block's keys so many places after an earlier occurrence of the query's token, if known."""
        if self.tokens is None:
            return torch.zeros_like(self.sees[:, 0]).expand(len(self.counted), -1, -1)
        start = self.start - distance
        twins = torch.arange(start, start + self.sees.shape[3], device=self.tokens.device)
        earlier = (twins >= self.first[:, :, None]) & (twins < self.places[..., None])
        own = self.tokens.gather(1, self.places.expand(len(self.tokens), -1))
        return earlier & (self.tokens[:, None, twins.clamp(min=0)] == own[..., None])

    def sees_some(self, keys: ChosenKeys) -> ChosenQueries:
        """Return whether a query sees one of these keys of the block."""
        return (self.sees & keys[:, None]).any(3)

    def sees_at(self, keys: Places) -> ChosenQueries:
        """Return whether a query sees one key."""
        return self._seen_at(keys)[1]

    def _seen_at(self, keys: Places) -> tuple[Int[Tensor, "batch 1 query 1"], ChosenQueries]:
        """Return keys as entries of the block, and whether they exist and are seen."""
        entries = (keys - self.start).expand(self.counted.shape[0], -1)[:, None, :, None]
        n_keys = self.sees.shape[3]
        there = (entries >= 0) & (entries < n_keys)
        entries = entries.clamp(0, n_keys - 1)
        sees = self.sees.expand(len(entries), -1, -1, -1)
        seen = sees.gather(3, entries.expand(-1, sees.shape[1], -1, -1))
        return entries, (seen & there)[..., 0]


@dataclass(frozen=True, kw_only=True)
class MeasuredAttention(QueryAttention):
    """The attention of the model's heads."""

    powers: Float[Tensor, "batch head query key"]
    """exp(s - max s), 0 for keys that are not seen."""
    total: Values
    """The sum of `powers` and `sink`: 1 at least, and next to 0 where nothing is seen, so that weights there are 0."""
    sink: Values | None = None
    """exp(s - max s) of the learned sink; None without sinks."""

    @cached_property
    def square(self) -> Values:
        """The sum of p^2 over the keys."""
        return (torch.linalg.vector_norm(self.powers, dim=3) / self.total).square()

    @property
    def entropy(self) -> Values:
        """The entropy of each query's attention in nats."""
        # x ln x is 0 at 0, where a key is not seen: 0 times s = -inf would be no number.
        of_keys = torch.special.xlogy(self.powers, self.powers).sum(3)
        of_sink = 0 if self.sink is None else torch.special.xlogy(self.sink, self.sink)
        return self.total.log() - (of_keys + of_sink) / self.total

    @property
    def learned_sink(self) -> Values:
        """The weight on the head's learned sink; 0 without one."""
        return torch.zeros_like(self.total) if self.sink is None else self.sink / self.total

    @property
    def has_sink(self) -> Bool[Tensor, "batch head query"]:
        """True for queries of an attention with learned sinks."""
        return torch.full_like(self.total, self.sink is not None, dtype=torch.bool)

    @property
    def largest(self) -> Values:
        """The largest p."""
        return self.powers.amax(3) / self.total

    @property
    def overlap(self) -> Values:
        """The sum over keys of the squared mean p of all heads; one for all heads."""
        mean = torch.einsum("bhqk,bhq->bqk", self.powers, 1 / self.total) / self.powers.shape[1]
        return mean.square().sum(2)[:, None]

    @property
    def shared_with_partner(self) -> Values:
        """The weight above 1/m that another text's query at the same place puts on the same keys, too.

        Texts 2i and 2i + 1 of a batch are partners.
        """
        n = len(self.powers) // 2 * 2
        weights = (self.powers[:n] / self.total[:n, ..., None]).unflatten(0, (-1, 2))
        shared = torch.zeros_like(self.total)
        above_even = (weights.amin(1) - 1 / self.n_keys[:n:2, ..., None].clamp(min=1)).clamp(min=0)
        shared[:n] = above_even.sum(3).repeat_interleave(2, 0)
        return shared

    def weight_at(self, keys: Places) -> Values:
        """Return the weight on one key for each query; 0 on a key that is not seen or does not exist."""
        entries, seen = self._seen_at(keys)
        found = self.powers.gather(3, entries.expand(-1, self.powers.shape[1], -1, -1))[..., 0]
        return torch.where(seen, found / self.total, 0)

    def weight_on(self, keys: ChosenKeys) -> Values:
        """Return the weight on some of the block's keys together."""
        return torch.einsum("bhqk,bqk->bhq", self.powers, keys.to(self.powers.dtype)) / self.total

    def largest_at(self, keys: Places) -> Values:  # noqa: D102
        entries, seen = self._seen_at(keys)
        return (seen & (self._largest_key == entries[..., 0])).to(self.powers.dtype)

    @cached_property
    def _largest_key(self) -> Int[Tensor, "batch head query"]:
        return self.powers.argmax(3)


@dataclass(frozen=True, kw_only=True)
class EvenAttention(QueryAttention):
    """The attention of heads that attend evenly to all keys they see; numbers as in `MeasuredAttention`."""

    @property
    def square(self) -> Values:  # noqa: D102
        return 1 / self._n_seen

    largest = square

    @property
    def entropy(self) -> Values:  # noqa: D102
        return self._n_seen.log()

    @property
    def overlap(self) -> Values:  # noqa: D102
        mean = (self.sees / self._n_seen[..., None]).mean(1, keepdim=True)
        return mean.square().sum(3)

    @property
    def shared_with_partner(self) -> Values:  # noqa: D102
        return torch.zeros_like(self._n_seen)

    learned_sink = shared_with_partner

    @property
    def has_sink(self) -> ChosenQueries:  # noqa: D102
        return torch.ones_like(self._n_seen, dtype=torch.bool)

    def weight_at(self, keys: Places) -> Values:  # noqa: D102
        return self._seen_at(keys)[1] / self._n_seen

    def weight_on(self, keys: ChosenKeys) -> Values:  # noqa: D102
        return (self.sees & keys[:, None]).sum(3) / self._n_seen

    @property
    def _n_seen(self) -> Float[Tensor, "batch some query"]:
        return self.n_keys.clamp(min=1)

    largest_at = weight_at
    """The chance that one of the keys seen is the largest."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """The attention of some queries, and that of even heads in their place."""

    measured: MeasuredAttention
    even: EvenAttention
    moved: MeasuredAttention | None
    """The attention of the model's heads beside the tokens of another text; None without tokens, or of one text."""
    examples: slice
    keys: slice


def blocks(masked: MaskedAttention) -> Iterator[Block]:
    """Yield the attention of all queries in blocks: a few examples and queries, all heads, and the keys they see.

    Blocks in which no query counts are left out.
    """
    attention = masked.attention
    batch, n_heads, n_queries, _ = attention.q.shape
    row_bytes = 4 * n_heads * attention.k.shape[2]
    most = _ROWS if attention.some is None else max(_FEW_ROWS, int(_ROWS * masked.share))
    n_pairs = BLOCK_BYTES // (2 * row_bytes * min(n_queries, most))
    n_examples = min(batch, max(2, 2 * n_pairs))  # partners stand in one block
    n_rows = min(most, max(1, BLOCK_BYTES // (row_bytes * n_examples)))
    for example in range(0, batch, n_examples):
        examples = slice(example, min(batch, example + n_examples))
        for row in range(0, n_queries, n_rows):
            queries = slice(row, min(n_queries, row + n_rows))
            seen = (
                (masked.counted[examples, None, queries, None] & attention.sees(examples, queries)).any(2).any(1).any(0)
            )
            if seen.any():
                keys = seen.nonzero()[:, 0]
                yield cut_block(masked, examples, queries, slice(int(keys[0]), int(keys[-1]) + 1))


def cut_block(
    masked: MaskedAttention, examples: slice = slice(None), queries: slice = slice(None), keys: slice = slice(None)
) -> Block:
    """Return some queries and keys, which must be all keys that those queries see."""
    attention, tokens, keys_counted = masked.attention, masked.tokens, masked.keys_counted[examples]
    sees = attention.sees(examples, queries, keys)
    counted = masked.counted[examples, None, queries]
    some, n_queries, n_keys = attention.some, attention.q.shape[2], attention.k.shape[2]
    if some is None:
        places = torch.arange(n_keys - n_queries, n_keys, device=sees.device)[None, queries]
    else:
        places = some.places[examples, queries] + n_keys - some.of
    even = EvenAttention(
        counted=counted,
        n_keys=sees.sum(3).to(attention.q.dtype).expand(len(counted), -1, -1),
        text_keys=keys_counted.sum(1)[:, None, None].to(attention.q.dtype),
        sees=sees,
        start=keys.start or 0,
        one_text=attention.kind != "cross",
        places=places,
        first=keys_counted.int().argmax(1, keepdim=True),
        period=_of_examples(masked.period, examples, sees.device),
        begins=_of_examples(masked.begins, examples, sees.device),
        tokens=None if tokens is None else tokens[examples],
    )
    measured = _measured(attention.logits(batch=examples, queries=queries, keys=keys), attention.sinks, even)
    moved = None
    if tokens is not None and len(tokens) > 1:
        moved = replace(measured, tokens=tokens.roll(1, 0)[examples])
    return Block(measured=measured, even=even, moved=moved, examples=examples, keys=keys)


def _measured(
    logits: Float[Tensor, "batch head query key"], sinks: Float[Tensor, " head"] | None, even: EvenAttention
) -> MeasuredAttention:
    """Return the attention of these logits, which are overwritten, in the place of even heads."""
    largest = logits.amax(3, keepdim=True).detach().clamp(min=torch.finfo(logits.dtype).min)
    if sinks is not None:
        largest = torch.maximum(largest, sinks[:, None, None])
    powers = logits.sub_(largest).exp_()
    sink = None if sinks is None else (sinks[:, None] - largest[..., 0]).exp()
    total = powers.sum(3) if sink is None else powers.sum(3) + sink
    total = total.clamp(min=torch.finfo(powers.dtype).tiny)
    return MeasuredAttention(powers=powers, total=total, sink=sink, **vars(even))


def _of_examples(numbers: PerText | None, examples: slice, device: torch.device) -> Int[Tensor, "some 1"] | None:
    return None if numbers is None else numbers.to(device)[examples, None]
