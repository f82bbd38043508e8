"""Attention of one layer with any number of heads: scores, positions, KV cache and batched models.

A query sees keys up to its own position, and with a window only the last `window` of them, its own included. One
published model instead lets a query see strictly later keys only; a query that sees nothing gives 0. Scores go through
torch's scaled_dot_product_attention, which never holds heads x queries x keys: memory grows with the queries alone,
however many heads share them.

A user's own attention function changes the scores before their softmax. The weights of a query thereby sum to 1 and are
0 where it sees nothing, as all measurements of heads expect.

Positions enter as vectors added to the stream, or by rotating queries and keys. The KV cache holds keys and values that
were already computed, so that a further token costs one position. `torch.vmap` computes the attention of many models of
one shape at once.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config.lm.model import OWN_ATTENTIONS, SOFTMAX, Attends, TransformerModel
from headway.config.plugins import call, form_of
from headway.models.layers import Stream, linear
from headway.models.trace import AttentionTrace, Edits, SomeQueries, edited

Queries = Float[Tensor, "batch head query d_head"]
Keys = Float[Tensor, "batch head key d_head"]
KVKeys = Float[Tensor, "batch kv_head key d_head"]


class KVCache:
    """Keys and values of every layer for up to `n_positions` positions, allocated once.

    `length` positions are filled; `extend` writes those after them, layer by layer, and `advance` counts them.
    """

    def __init__(
        self,
        model: TransformerModel,
        n_positions: int,
        *,
        batch: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.length = 0
        self._kept = [
            torch.empty(2, batch, heads.n_kv_heads, n_positions, heads.d_head, dtype=dtype, device=device)
            for heads in model.layout.layers
        ]

    def extend(
        self, layer: int, k: Float[Tensor, "batch kv_head new d_head"], v: Float[Tensor, "batch kv_head new d_head"]
    ) -> tuple[KVKeys, KVKeys]:
        """Return the keys and values of all positions so far, the new ones included."""
        end = self.length + k.shape[2]
        kept = self._kept[layer]
        kept[0, :, :, self.length : end] = k
        kept[1, :, :, self.length : end] = v
        return kept[0, :, :, :end], kept[1, :, :, :end]

    def advance(self, n_new: int) -> None:
        """Count the new positions, which are now in every layer."""
        self.length += n_new


Scores = Callable[[Tensor], Tensor]
"""A function from logits (..., query, key), -inf where a key is not seen, to the input of the softmax."""


def weighed(
    scores: Scores, q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Bool[Tensor, "..."], dropout: float = 0.0
) -> Queries:
    """Return the attention of queries that see the keys of a mask, with the scores changed by a function."""
    weights = scores((q @ k.mT * scale).masked_fill(~seen, -torch.inf)).softmax(3).masked_fill(~seen, 0)
    return nn.functional.dropout(weights, dropout) @ v


def sinusoids(n_positions: int, width: int) -> Float[Tensor, "n_positions width"]:
    """Return fixed position vectors: entry 2i is sin(pos / 10000^(2i / width)), entry 2i + 1 its cosine.

    Paper: Vaswani et al. 2017, arXiv 1706.03762. Whether the embedding is multiplied by sqrt(d_model) is
    declared apart (`embedding_scale`).
    """
    angles = _angles(n_positions, width + width % 2, base=10_000.0)
    return torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)[:, :width].float()


def rotary_table(n_positions: int, d_head: int, base: float) -> Float[Tensor, "2 n_positions d_head"]:
    """Return cosines and sines of the angles by which `rotate` turns, both halves of a head alike."""
    angles = _angles(n_positions, d_head, base).repeat(1, 2)
    return torch.stack((angles.cos(), angles.sin())).float()


def rotate(
    x: Float[Tensor, "batch head pos d_head"], table: Float[Tensor, "2 *#batch pos d_head"]
) -> Float[Tensor, "batch head pos d_head"]:
    """Return queries or keys turned by their position, entry i paired with entry i + d_head / 2.

    Paper: Su et al. 2021, arXiv 2104.09864, pairs neighbours (2i, 2i + 1); halves, as GPT-NeoX and Hugging Face's
    Llama pair them, are the same model with the rows of W_Q and W_K in another order.
    """
    cos, sin = table.to(x.dtype)
    first, second = x.chunk(2, dim=3)
    return x * cos + torch.cat((-second, first), dim=3) * sin


def _angles(n_positions: int, width: int, base: float) -> Float[Tensor, "n_positions half"]:
    frequencies = base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies


_BLOCKS, _SMALLEST_BLOCK = 4, 32
"""The number of query blocks: their work is 5/8 of one block without a window, less with one; more cost overhead."""


def own_scores(name: str) -> Scores:
    """Return the attention of a plugin, tried on scores of six queries.

    Raises:
        UserError: naming the file and the line, if it changes the shape or what a query sees.
    """
    seen = torch.ones(6, 6, dtype=torch.bool, device="cpu").tril()
    scores = torch.linspace(-2, 2, 36, device="cpu").reshape(1, 1, 6, 6).masked_fill(~seen, -torch.inf)

    def why_not(value: object) -> str:
        if not isinstance(value, Tensor) or value.shape != scores.shape:
            return f"gave {form_of(value)} of scores {tuple(scores.shape)}; give one for each query and key"
        sees = (value[..., ~seen] == -torch.inf).all() and (value > -torch.inf).any(3).all() and not value.isnan().any()
        return "" if sees else "changed what a query sees; keep -inf where a score is -inf, with torch.where"

    function = OWN_ATTENTIONS[name]
    with torch.device("cpu"):  # a model may be made on the device `meta`
        call(f"attention {name}", function, scores, why_not=why_not, equal=torch.equal)
    return function


class Attention(nn.Module):
    """Self-attention of one layer: any number of query heads, each on one of the KV heads."""

    def __init__(self, model: TransformerModel, layer: int) -> None:
        super().__init__()
        heads = model.layout.layers[layer]
        q_width, kv_width = heads.q_width, heads.kv_width
        self.layer, self.queries, self.kv_of, self.d_head = layer, heads.queries, heads.kv_of, heads.d_head
        self.window, self.scale, self.dropout = model.window(layer), model.logit_scale(layer), model.dropout
        self.attends = model.mask
        self.scores: Scores | None = None if model.attention == SOFTMAX else own_scores(model.attention)
        self.attend: Callable[..., Tensor] = attend
        """The function that computes softmax contexts; models that are trained together have `attend_of_many` here."""
        for name, out in (("q", q_width), ("k", kv_width), ("v", kv_width)):
            setattr(self, name, linear(model.d_model, out, model.rank(name, layer), bias="qkv" in model.biases))  # type: ignore[arg-type]
        self.smear = nn.Parameter(torch.empty(heads.n_kv_heads)) if model.smeared_keys else None
        self.o = linear(q_width, model.d_model, model.rank("o", layer), bias="output" in model.biases)

    def forward(
        self,
        x: Stream,
        rotary: Float[Tensor, "2 pos d_head"] | None = None,
        gate: Tensor | None = None,
        cache: KVCache | None = None,
        record: bool = False,
        edits: Edits | None = None,
        last: int | None = None,
    ) -> tuple[Float[Tensor, "batch query d_model"], AttentionTrace | None]:
        """Return what the heads together write and, when recording, what each of them did.

        Args:
            x: the (normed) stream.
            rotary: rows of the rotary table at these positions.
            gate: the factor of the heads' contexts; it broadcasts to (batch, head).
            cache: keys and values of the positions before; these positions' are added to it.
            record: True to return the trace.
            edits: the replacements for q, k, v and z, of any layers.
            last: the number of last positions that have queries; None: all. Not with a model that attends to the
                future.
        """
        k, v = (self._split(getattr(self, name)(x)) for name in "kv")
        # Flat: with a single position torch would multiply many batched models one by one.
        W_Q: Callable[[Tensor], Tensor] = self.get_submodule("q")
        q = self._split(W_Q(x) if last is None else W_Q(x[:, -last:].flatten(0, 1)).unflatten(0, (-1, last)))
        if rotary is not None:
            q, k = rotate(q, rotary if last is None else rotary[:, -last:]), rotate(k, rotary)
        q, v = edited(q, edits, self.layer, "q"), edited(v, edits, self.layer, "v")
        if self.smear is None:
            k = edited(k, edits, self.layer, "k")
        if cache is not None:
            k, v = cache.extend(self.layer, k, v)
        if self.smear is not None:
            # After the cache: the first of the new keys is mixed with the last of those before.
            k = edited(smeared(k, self.smear), edits, self.layer, "k")
        attended = q, of_queries(k, self.queries), of_queries(v, self.queries)
        dropout = self.dropout if self.training else 0.0
        if self.scores is None:
            z = self.attend(*attended, scale=self.scale, window=self.window, attends=self.attends, dropout=dropout)
        else:
            z = weighed(self.scores, *attended, self.scale, self._sees(q, k), dropout)
        if gate is not None:
            z = z * gate.broadcast_to(z.shape[:2])[:, :, None, None]
        z = edited(z, edits, self.layer, "z")
        return self.o(z.transpose(1, 2).flatten(2)), self._trace(q, k, v, z) if record else None

    def at(
        self, x: Stream, rotary: Float[Tensor, "2 pos d_head"] | None, some: SomeQueries
    ) -> tuple[Float[Tensor, "batch query d_model"], AttentionTrace]:
        """Return the output and the record of some queries; nothing is computed for the others."""
        read = {"q": some.in_texts(x), "k": x, "v": x}
        q, k, v = (self._split(getattr(self, name)(stream)) for name, stream in read.items())
        if rotary is not None:
            q, k = rotate(q, rotary[:, some.places][:, :, None]), rotate(k, rotary)
        mask = _sees(some.places, x.shape[1], self.window, self.attends)
        attended = (q, of_queries(k, self.queries), of_queries(v, self.queries), self.scale)
        z = _attend_at(*attended, mask) if self.scores is None else weighed(self.scores, *attended, mask[:, None])
        return self.o(z.transpose(1, 2).flatten(2)), replace(self._trace(q, k, v, z), mask=mask, some=some)

    def _split(self, x: Tensor) -> Float[Tensor, "batch head pos d_head"]:
        return x.unflatten(2, (-1, self.d_head)).transpose(1, 2)

    def _trace(self, q: Tensor, k: Tensor, v: Tensor, z: Tensor) -> AttentionTrace:
        return AttentionTrace(
            name=f"layers.{self.layer}.attention",
            layer=self.layer,
            kind="self",
            q=q,
            k=k,
            v=v,
            z=z,
            kv_of=self.kv_of,
            W_O=self.o.weight.T.unflatten(0, (-1, self.d_head)),
            b_O=self.o.bias,
            scale=self.scale,
            scores=self.scores,
            mask=self._sees(q, k),
        )

    def _sees(self, q: Tensor, k: Tensor) -> Tensor:
        return sees(q.shape[2], k.shape[2], self.window, q.device, self.attends)


class NoHeads(nn.Module):
    """An attention that lost all its heads: it still writes its bias."""

    def __init__(self, model: TransformerModel) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.empty(model.d_model)) if "output" in model.biases else None

    def forward(self, x: Stream) -> Stream:
        """Return the bias at every position."""
        return torch.zeros_like(x) if self.bias is None else self.bias.expand_as(x)


def smeared(k: KVKeys, smear: Float[Tensor, " kv_head"]) -> KVKeys:
    """Return each key mixed with the one before it, k_j = s k_j + (1 - s) k_(j-1), with s = sigmoid(smear).

    The first key is kept.

    Paper: Olsson et al. 2022, arXiv 2209.11895, whose model has no rotary positions; here keys are mixed after they
    are turned.
    """
    share = smear.sigmoid()[:, None, None]
    return share * k + (1 - share) * torch.cat((k[:, :, :1], k[:, :, :-1]), dim=2)


def of_queries(x: KVKeys, queries: tuple[int, ...]) -> Keys:
    """Return the keys or values of each query head from those of the KV heads.

    `queries` counts the query heads of each KV head.
    """
    if len(set(queries)) > 1:
        # After pruning: a KV head may have lost some of its query heads.
        kv_of = [kv for kv, count in enumerate(queries) for _ in range(count)]
        return x.index_select(1, torch.tensor(kv_of, device=x.device))
    return x if queries[0] == 1 else x[:, :, None].expand(-1, -1, queries[0], -1, -1).flatten(1, 2)


def sees(
    n_queries: int, n_keys: int, window: int | None, device: torch.device, attends: Attends = "past"
) -> Bool[Tensor, "{n_queries} {n_keys}"]:
    """Return which keys each query sees; the queries are the last positions of the keys."""
    return _sees(torch.arange(n_keys - n_queries, n_keys, device=device), n_keys, window, attends)


def _sees(
    places: Int[Tensor, "*batch query"], n_keys: int, window: int | None, attends: Attends
) -> Bool[Tensor, "*batch query {n_keys}"]:
    ago = places[..., None] - torch.arange(n_keys, device=places.device)
    if attends == "future":
        return ago < 0
    return ago >= 0 if window is None else (ago >= 0) & (ago < window)


def attend(
    q: Queries,
    k: Keys,
    v: Keys,
    *,
    scale: float,
    window: int | None = None,
    attends: Attends = "past",
    dropout: float = 0.0,
) -> Queries:
    """Return the contexts of each head; the queries are the last positions of the keys.

    Queries that attend to the future are as many as the keys. CPUs compute in float32 at least: their bfloat16 backward
    pass is slower. With dropout torch holds the scores of a block of queries, heads x queries x keys; without it never.
    """
    if attends == "future":
        return _to_the_future(q, k, v, scale=scale, dropout=dropout)
    attention = partial(nn.functional.scaled_dot_product_attention, scale=scale, dropout_p=dropout)
    if q.is_cuda:
        # For widths that are no multiple of 8, torch may fall back to a kernel that holds all scores.
        d_head = q.shape[3]
        if d_head % 8:  # padding by nothing would copy them
            q, k, v = (nn.functional.pad(x, (0, -d_head % 8)) for x in (q, k, v))
        n_queries, n_keys = q.shape[2], k.shape[2]
        if n_queries == n_keys and (window is None or window >= n_keys):
            return attention(q, k, v, is_causal=True)[..., :d_head]
        return _in_blocks(attention, q, k, v, window)[..., :d_head]
    wide = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        return _in_blocks(attention, q.to(wide), k.to(wide), v.to(wide), window).to(q.dtype)


def _attend_at(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Bool[Tensor, "batch query key"]) -> Tensor:
    """Return the contexts of queries at any positions, in blocks against the keys up to the last that each sees."""
    wide, blocks = torch.promote_types(q.dtype, torch.float32), []
    for rows in torch.arange(mask.shape[1], device=q.device).tensor_split(min(_BLOCKS, mask.shape[1])):
        seen = mask[:, None, rows]
        keys = seen.flatten(0, 2).any(0).nonzero()
        end = int(keys[-1]) + 1 if len(keys) else 1
        queries, keys_there, values_there = (x.to(wide) for x in (q[:, :, rows], k[:, :, :end], v[:, :, :end]))
        block = nn.functional.scaled_dot_product_attention(
            queries, keys_there, values_there, attn_mask=seen[..., :end], scale=scale
        )
        # Torch may give NaN where a query sees nothing.
        blocks.append(block.masked_fill(~seen.any(3, keepdim=True), 0))
    return torch.cat(blocks, dim=2).to(q.dtype)


def _to_the_future(q: Tensor, k: Tensor, v: Tensor, *, scale: float, dropout: float) -> Tensor:
    """Compute attention to strictly later keys: read backwards, with keys one position on, they are the past."""
    nothing = torch.zeros_like(q[:, :, :1])  # the last query has none
    if q.shape[2] == 1:
        return nothing
    backwards = (x.flip(2) for x in (q[:, :, :-1], k[:, :, 1:], v[:, :, 1:]))
    return torch.cat((attend(*backwards, scale=scale, dropout=dropout).flip(2), nothing), dim=2)


def _in_blocks(attention: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, window: int | None) -> Tensor:
    """Return contexts in blocks of queries, each against the keys that it sees: torch computes hidden scores too.

    On CPUs torch does so even for causal attention, of up to 512 keys; GPUs skip later keys by themselves.
    """
    n_queries, past = q.shape[2], k.shape[2] - q.shape[2]
    size = max(_SMALLEST_BLOCK, -(-n_queries // _BLOCKS))
    blocks = []
    for start in range(0, n_queries, size):
        end = min(start + size, n_queries)
        first = 0 if window is None else max(0, past + start - window + 1)
        keys = slice(first, past + end)
        mask = None if end - start == 1 else sees(end - start, past + end - first, window, q.device)
        block = attention(q[:, :, start:end], k[:, :, keys], v[:, :, keys], attn_mask=mask)
        blocks.append(block.transpose(1, 2))
    return torch.cat(blocks, dim=1).transpose(1, 2)


def attend_of_many(
    q: Queries,
    k: Keys,
    v: Keys,
    *,
    scale: float,
    window: int | None = None,
    attends: Attends = "past",
    dropout: float = 0.0,
) -> Queries:
    """Compute `attention.attend` under `torch.vmap`, which otherwise goes through torch's attention model by model.

    There is no dropout. Models are put side by side as more sequences of a batch. For a single query scores are sums of
    products entry by entry: thousands of one-row matrices are slow to multiply.
    """
    assert not dropout
    if q.shape[2] > 1 or attends == "future":
        contexts: Tensor = _OfMany.apply(q, k, v, scale, window, attends)
        return contexts
    # Heads side by side, as the maps wrote them: a product with `heads` sums a head's entries, or repeats its number.
    n_heads, d_head = q.shape[1], q.shape[3]
    q, k, v = (x.transpose(1, 2).flatten(2) for x in (q, k, v))
    heads = torch.eye(n_heads, dtype=q.dtype, device=q.device).repeat_interleave(d_head, 0)
    seen = slice(None) if window is None else slice(-window, None)
    weights = (((q if scale == 1 else q * scale) * k[:, seen]) @ heads).softmax(1)
    return ((weights @ heads.T) * v[:, seen]).sum(1, keepdim=True).unflatten(2, (n_heads, d_head)).transpose(1, 2)


class _OfMany(torch.autograd.Function):
    """`attend` with a rule for `torch.vmap`; autograd follows the rule, and needs none of its own."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None, attends: Attends) -> Tensor:
        return attend(q, k, v, scale=scale, window=window, attends=attends)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scale: float,
        window: int | None,
        attends: Attends,
    ) -> tuple[Tensor, int]:
        q, k, v = (
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip((q, k, v), in_dims[:3], strict=True)
        )
        contexts = attend(*(x.flatten(0, 1) for x in (q, k, v)), scale=scale, window=window, attends=attends)
        return contexts.unflatten(0, (info.batch_size, -1)), 0
