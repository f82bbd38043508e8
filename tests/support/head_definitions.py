"""Every metric of a trace by its definition, in float64 with loops; and attentions of every kind to hold it against."""

import math
from dataclasses import dataclass, fields, replace

import numpy as np
import torch

from headway.models.trace import AttentionTrace, Trace

BATCH, LENGTH = 3, 13


def attention(
    seed=0,
    *,
    heads=4,
    kv_of=None,
    d_head=5,
    d_value=None,
    d_model=16,
    queries=LENGTH,
    keys=LENGTH,
    kind="self",
    batch=BATCH,
    spread=1.5,
    dtype=torch.float32,
    name="layers.0.attention",
    layer=0,
    **given,
):
    """A random attention whose contexts are those of its weights; rows that see nothing give 0."""
    random = torch.Generator().manual_seed(seed)
    kv_of = tuple(range(heads)) if kv_of is None else kv_of
    n_kv, d_value = max(kv_of) + 1, d_value or d_head

    def normal(*shape):
        return torch.randn(shape, generator=random, dtype=torch.float64).to(dtype)

    q, k = spread * normal(batch, heads, queries, d_head) + 0.4, normal(batch, n_kv, keys, d_head) + 0.3
    v, W_O = normal(batch, n_kv, keys, d_value) + 0.5, normal(heads, d_value, d_model)
    trace = AttentionTrace(
        name=name, layer=layer, kind=kind, q=q, k=k, v=v, z=v[:, list(kv_of)][:, :, :1].expand(-1, -1, queries, -1),
        kv_of=kv_of, W_O=W_O, b_O=normal(d_model), scale=d_head**-0.5, **given,
    )  # fmt: skip
    return replace(trace, z=(pattern(trace) @ trace.v[:, list(kv_of)].double()).to(dtype))


def causal(queries=LENGTH, keys=LENGTH, window=None):
    ago = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
    return (ago >= 0) & (ago < (window or keys + 1))


LENGTHS = torch.tensor([LENGTH, 9, 5])
RIGHT = torch.arange(LENGTH) < LENGTHS[:, None]
LEFT = RIGHT.flip(1)


def with_broken_padding(trace, rows):
    """Padding whose numbers must not enter any metric: NaN in queries and contexts, which models that pad left have."""
    spoilt = {name: torch.where(rows[:, None, :, None], getattr(trace, name), torch.nan) for name in ("q", "z")}
    return replace(trace, **spoilt, rows=rows)


def cases():
    random = torch.Generator().manual_seed(5)
    bias = torch.randn(4, LENGTH, LENGTH, generator=random)
    own_masks = (torch.rand(1, 4, LENGTH, LENGTH, generator=random) < 0.6) & causal()
    left = causal() & LEFT[:, None]
    return {
        "causal": attention(mask=causal()),
        "all keys": attention(kind="encoder"),
        "one head": attention(heads=1, mask=causal()),
        "windowed": attention(mask=causal(window=4)),
        "a window of one": attention(mask=causal(window=1)),
        "future": attention(mask=causal().T & ~torch.eye(LENGTH, dtype=bool)),
        "grouped": attention(kv_of=(0, 0, 1, 2, 2, 2), heads=6, d_model=18, mask=causal()),
        "other widths": attention(heads=3, d_head=7, d_value=4, d_model=20, mask=causal()),
        "wider than the stream": attention(heads=2, d_head=9, d_model=6, mask=causal()),
        "cross": attention(kind="cross", queries=8, keys=LENGTH),
        "cross, padded": attention(kind="cross", queries=8, keys=LENGTH, mask=RIGHT[:, None].expand(-1, 8, -1)),
        "after other keys": attention(queries=6, keys=LENGTH, mask=causal(6)),
        "padded right": with_broken_padding(attention(mask=causal()), RIGHT),
        "padded left": with_broken_padding(attention(mask=left), LEFT),
        "padded left, windowed": with_broken_padding(attention(mask=left & causal(window=3)), LEFT),
        "encoder, padded": with_broken_padding(attention(kind="encoder", mask=RIGHT[:, None, None]
                                               .expand(-1, 1, LENGTH, -1)), RIGHT),
        "softcapped": attention(mask=causal(), softcap=1.5, spread=4.0),
        "biased": attention(mask=causal(), bias=bias[0]),
        "biased by head": attention(mask=causal(), bias=bias[None]),
        "masks of their own": attention(mask=own_masks),
        "sharp": attention(mask=causal(), spread=60.0),
        "learned sinks": attention(mask=causal(), sinks=torch.tensor([-1.0, 0.5, 2.0, 40.0])),
        "learned sinks of shared keys": attention(kv_of=(0, 0, 1, 1), mask=causal(window=4), sinks=bias[0, 0, :4]),
        "a text that does not count": with_broken_padding(attention(mask=causal()),
                                                          RIGHT & torch.tensor([[True], [False], [True]])),
    }  # fmt: skip


def pattern(trace):
    """(batch, head, query, key) weights; all 0 where a query sees nothing."""
    logits = trace.q.double() @ trace.k.double()[:, list(trace.kv_of)].mT * trace.scale
    if trace.softcap is not None:
        logits = trace.softcap * torch.tanh(logits / trace.softcap)
    if trace.bias is not None:
        logits = logits + trace.bias
    largest = logits.masked_fill(~visible(trace), -math.inf).amax(3, keepdim=True)
    weights = torch.exp(logits - largest) * visible(trace)
    total = weights.sum(3, keepdim=True)
    if trace.sinks is not None:
        total = total + torch.exp(trace.sinks.double()[:, None, None] - largest)
    return torch.nan_to_num(weights / total)


def visible(trace):
    """(batch, head, query, key) whether a query sees a key."""
    shape = *trace.q.shape[:3], trace.k.shape[2]
    if trace.mask is None:
        return torch.ones(shape, dtype=torch.bool)
    mask = trace.mask[:, None] if trace.mask.ndim == 3 else trace.mask
    return mask.expand(shape)


@dataclass
class Slow:
    """One attention, as loops want it."""

    trace: AttentionTrace
    streams: tuple = ()
    period: int | None = None
    tokens: torch.Tensor | None = None

    def __post_init__(self):
        t = self.trace
        self.sees = visible(t).numpy()
        self.p = np.where(self.sees, pattern(t).numpy(), 0)
        self.batch, self.H, self.Q, self.K = self.p.shape
        rows = np.ones((self.batch, self.Q), bool) if t.rows is None else t.rows.numpy()
        self.counted = rows & self.sees.any((1, 3))
        self.keys = [
            [k for k in range(self.K) if any(self.sees[b, :, q, k].any() for q in range(self.Q) if self.counted[b, q])]
            for b in range(self.batch)
        ]
        self.q, self.z, self.v, self.W_O = (x.double().numpy() for x in (t.q, t.z, t.v, t.W_O))

    def rows(self):
        return [(b, q) for b in range(self.batch) for q in range(self.Q) if self.counted[b, q]]

    def stacked(self, x, head):
        return np.array([x[b, head, q] for b, q in self.rows()])

    def queries(self, head, least=1):
        """Weights on the keys seen, the text's number of keys, and where, of queries that see enough keys."""
        for b, q in self.rows():
            if self.sees[b, head, q].sum() >= least:
                yield self.p[b, head, q][self.sees[b, head, q]], len(self.keys[b]), (b, q)

    def place(self, q):
        return q + self.K - self.Q

    def at(self, head, b, q, key):
        return self.p[b, head, q, key] if 0 <= key < self.K else 0.0


def pairs(slow, value):
    return np.array([[value(i, j) for j in range(slow.H)] for i in range(slow.H)])


def heads(slow, value):
    return np.array([value(h) for h in range(slow.H)])


def cosine(x, y):
    norms = np.linalg.norm(x) * np.linalg.norm(y)
    return 0.0 if norms == 0 else x @ y / norms


def mean(values):
    values = list(values)
    return float(np.mean(values)) if values else math.nan


def cka(X, Y):
    norm = np.linalg.norm
    return norm(X.T @ Y) ** 2 / (norm(X.T @ X) * norm(Y.T @ Y))


def centred(X):
    return X - X.mean(0)


def output(slow, b, head, q):
    return slow.z[b, head, q] @ slow.W_O[head]


def slices(slow, b, q):
    t = slow.trace
    whole = sum(output(slow, b, h, q) for h in range(slow.H)) + t.b_O.double().numpy()
    return whole.reshape(slow.H, -1)


def published_variance(slow, head):
    variances = []
    for b in range(slow.batch):
        weights = np.array([slow.p[b, head, q, slow.keys[b]] for q in range(slow.Q) if slow.counted[b, q]])
        if len(weights) > 1:
            variances.append(weights.var(0, ddof=1).mean())
    return mean(variances)


def position(slow):
    per_text = []
    for b in range(slow.batch):
        if slow.counted[b].any():
            A = [slow.p[b, h][slow.counted[b]] for h in range(slow.H)]
            per_text.append(-sum(np.abs(x * y).sum() for x in A for y in A) / slow.H**2)
    return mean(per_text)


def subspace(slow):
    kv = slow.trace.kv_of
    places = [(b, k) for b in range(slow.batch) for k in slow.keys[b]]
    both = [(kv[i], kv[j]) for i in range(slow.H) for j in range(slow.H)]
    return -mean(cosine(slow.v[b, i, k], slow.v[b, j, k]) for i, j in both for b, k in places)


def raw_variance(slow, head):
    """The mean of squares less the square of the mean, over the weights of a text; averaged over queries."""
    return mean((p**2).sum() / T - 1 / T**2 for p, T, _ in slow.queries(head))


def neighbours(slow, head):
    if slow.trace.kind == "cross":
        return math.nan
    top = [(slow.p[b, head, q].argmax(), slow.place(q)) for _, _, (b, q) in slow.queries(head, 2)]
    return max(mean(k == q - 1 for k, q in top), mean(k == q + 1 for k, q in top)) if top else math.nan


def fixed(slow, head):
    """Weight above even attention on the same keys in texts 2i and 2i + 1, at the same position."""
    rows = set(slow.rows())
    chosen = [(b, q) for _, _, (b, q) in slow.queries(head, 2) if (b ^ 1, q) in rows]
    even = {(b, q): 1 / slow.sees[b & ~1, head, q].sum() for b, q in chosen}
    both = {(b, q): np.minimum(slow.p[b, head, q], slow.p[b ^ 1, head, q]) for b, q in chosen}
    return mean(np.maximum(both[at] - even[at], 0).sum() for at in chosen)


def ago(slow, head, distance, least, *, visible=False):
    """Mean weight on the key so many places before, over queries that many after the first of their text or more.

    `visible`: over those of them that see that key.
    """
    if slow.trace.kind == "cross":
        return math.nan
    chosen = [(b, q) for _, _, (b, q) in slow.queries(head) if slow.place(q) >= slow.keys[b][0] + least]
    if visible:
        chosen = [(b, q) for b, q in chosen if slow.sees[b, head, q, slow.place(q) - distance]]
    return mean(slow.at(head, b, q, slow.place(q) - distance) for b, q in chosen)


def on_twins(slow, head, distance):
    """Mean weight on what stands so many places after earlier occurrences of the query's token, where one is seen."""
    if slow.tokens is None or slow.trace.kind != "self" or slow.tokens.shape[1] != slow.trace.k.shape[2]:
        return math.nan
    found = []
    for _, _, (b, q) in slow.queries(head, 2):
        own = slow.place(q)
        twins = [k for k in range(slow.keys[b][0], own) if slow.tokens[b, k] == slow.tokens[b, own]]
        seen = [k + distance for k in twins if slow.sees[b, head, q, k + distance]]
        if seen:
            found.append(sum(slow.at(head, b, q, k) for k in seen))
    return mean(found)


def stream_similarity(slow):
    before, after = (slow.streams[i].double().numpy() for i in (0, slow.trace.layer + 1))
    return mean(cosine(before[b, q], after[b, q]) for b, q in slow.rows())


def output_share(slow):
    sizes = heads(slow, lambda h: sum((output(slow, b, h, q) ** 2).sum() for b, q in slow.rows()))
    return sizes / sizes.sum()


def written(slow, head):
    """What a head adds to the stream, a row for each position that counts."""
    return np.stack([output(slow, b, head, q) for b, q in slow.rows()])


def constant_share(slow, head):
    rows = written(slow, head)
    return (rows.mean(0) ** 2).sum() * len(rows) / (rows**2).sum()


def outcomes(p):
    """The weights of a query, with what a learned sink has of them."""
    return [x for x in (*p, 1 - p.sum()) if x > 1e-15]


DEFINITIONS = {
    "query_orthogonality_raw": lambda s: pairs(s, lambda i, j: np.abs(s.stacked(s.q, i).T @ s.stacked(s.q, j)).sum()),
    "query_cka": lambda s: pairs(s, lambda i, j: cka(s.stacked(s.q, i), s.stacked(s.q, j))),
    "query_cka_centred": lambda s: pairs(s, lambda i, j: cka(centred(s.stacked(s.q, i)), centred(s.stacked(s.q, j)))),
    "context_nonorthogonality_raw": lambda s: pairs(
        s, lambda i, j: np.linalg.norm(s.stacked(s.z, i).T @ s.stacked(s.z, j))
    ),
    "context_cka": lambda s: pairs(s, lambda i, j: cka(s.stacked(s.z, i), s.stacked(s.z, j))),
    "context_cka_centred": lambda s: pairs(s, lambda i, j: cka(centred(s.stacked(s.z, i)), centred(s.stacked(s.z, j)))),
    "context_dissimilarity": lambda s: pairs(
        s, lambda i, j: -mean(cosine(s.z[b, i, q], s.z[b, j, q]) for b, q in s.rows())
    ),
    "output_dissimilarity": lambda s: pairs(
        s, lambda i, j: -mean(cosine(output(s, b, i, q), output(s, b, j, q)) for b, q in s.rows())
    ),
    "attention_variance_raw": lambda s: heads(s, lambda h: raw_variance(s, h)),
    "attention_diversity": lambda s: heads(
        s, lambda h: mean((len(p) * (p**2).sum() - 1) / (len(p) - 1) for p, _, _ in s.queries(h, 2))
    ),
    "attention_excess": lambda s: heads(s, lambda h: mean(len(p) * (p**2).sum() - 1 for p, _, _ in s.queries(h, 2))),
    "disagreement_subspace": subspace,
    "disagreement_position": position,
    "disagreement_output": lambda s: (
        -mean(cosine(s.z[b, i, q], s.z[b, j, q]) for i in range(s.H) for j in range(s.H) for b, q in s.rows())
    ),
    "similarity_to_layer_0": stream_similarity,
    "attention_entropy_nats": lambda s: heads(
        s, lambda h: mean(-sum(x * math.log(x) for x in outcomes(p)) for p, _, _ in s.queries(h))
    ),
    "learned_sink_share": lambda s: heads(
        s, lambda h: math.nan if s.trace.sinks is None else mean(1 - p.sum() for p, _, _ in s.queries(h))
    ),
    "attention_confidence": lambda s: heads(s, lambda h: mean(p.max() for p, _, _ in s.queries(h, 2))),
    "sink_score": lambda s: heads(s, lambda h: mean(s.at(h, b, q, s.keys[b][0]) for _, _, (b, q) in s.queries(h))),
    "previous_token_score": lambda s: heads(s, lambda h: ago(s, h, 1, 1)),
    "positional_score": lambda s: heads(s, lambda h: neighbours(s, h)),
    "fixed_pattern_score": lambda s: heads(s, lambda h: fixed(s, h)),
    "duplicate_token_score": lambda s: heads(s, lambda h: ago(s, h, s.period, s.period, visible=True)),
    "induction_score": lambda s: heads(s, lambda h: ago(s, h, s.period - 1, s.period, visible=True)),
    "text_duplicate_score": lambda s: heads(s, lambda h: on_twins(s, h, 0)),
    "text_induction_score": lambda s: heads(s, lambda h: on_twins(s, h, 1)),
    "output_dissimilarity_published": lambda s: (
        pairs(s, lambda i, j: -mean(cosine(slices(s, b, q)[i], slices(s, b, q)[j]) for b, q in s.rows()))
        if s.trace.W_O.shape[2] % s.H == 0
        else np.full((s.H, s.H), math.nan)
    ),
    "output_correlation": lambda s: pairs(
        s, lambda i, j: cosine(centred(written(s, i)).ravel(), centred(written(s, j)).ravel())
    ),
    "output_constant_share": lambda s: heads(s, lambda h: constant_share(s, h)),
    "output_share": output_share,
    "attention_variance_published": lambda s: heads(s, lambda h: published_variance(s, h)),
}


def of(trace):
    """A trace of one attention, without streams."""
    return Trace(attentions=(trace,))


def parts(trace, *sizes):
    """A trace cut along its examples."""
    starts = np.cumsum((0, *sizes))
    return [_cut(trace, slice(int(start), int(start) + size)) for start, size in zip(starts, sizes, strict=False)]


def _cut(trace, examples):
    def cut(name, x):
        per_example = name in ("q", "k", "v", "z", "rows") or (name == "mask" and x.ndim > 2 and len(x) > 1)
        return x[examples] if per_example else x

    changed = {f.name: getattr(trace, f.name) for f in fields(trace)}
    return replace(trace, **{name: cut(name, x) for name, x in changed.items() if isinstance(x, torch.Tensor)})
