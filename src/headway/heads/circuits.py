"""QK and OV circuits of every head, read off the weights alone, in float64 on the CPU.

Vectors are rows: a query at stream x scores a key at stream y by x QK y^T with QK = W_Q W_K^T, and an attended position
adds y OV with OV = W_V W_O. Both are d_model x d_model but of rank d_head. So they are kept as two factors, and every
statement about them goes through the small cores of these factors.

Norms before the sub-layers are folded in, as the field does it. A head reads the stream less its mean over the entries
(LayerNorm only) times the norm's weight, so both belong to W_Q, W_K, W_V and the read-out. No LayerNorm sees what a
head writes along the mean, so that direction is taken out of W_O. Norms after the sums belong to the stream, not to a
head: nothing is folded there. Biases, the logits' scale, rotary turns (circuits are those at distance 0) and the norms'
division by the spread are no part of a circuit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config.head_metrics import HEAD_METRICS, OfCircuits
from headway.errors import UserError, near
from headway.heads.scores import HeadScores, Scores
from headway.models.attention import Attention
from headway.models.layers import LowRank, Map, enter, read_entries
from headway.models.trace import Trace
from headway.models.transformer import Transformer

Vectors = Float[Tensor, "*some d_model"]


@dataclass(frozen=True, kw_only=True)
class Factored:
    """A matrix for each head as the product of two: left @ right."""

    left: Float[Tensor, "head d_model rank"]
    right: Float[Tensor, "head rank d_model"]
    width: int
    """The dimensions of the stream that heads read."""
    ranks: tuple[int | None, int | None] = (None, None)
    """The ranks of both factors, where these are products; None: full."""

    def singular_values(self) -> Float[Tensor, "head few"]:
        """Return the nonzero singular values, largest first: those of the core R_left R_right^T of the factors' QR."""
        return torch.linalg.svdvals(_triangle(self.left) @ _triangle(self.right.mT).mT)

    def effective_rank(self) -> Float[Tensor, " head"]:
        """Return exp of the entropy of the normalised singular values: 1 for one direction, the rank for even ones.

        NaN for a matrix of zeros.

        Paper: Roy and Vetterli 2007, "The effective rank: a measure of effective dimensionality".
        """
        values = self.singular_values()
        return torch.special.entr(values / values.sum(1, keepdim=True)).sum(1).exp()

    def gaussian_rank(self) -> float:
        """Return the mean effective rank of Gaussian weights of these shapes and ranks."""
        return gaussian_effective_rank(self.width, self.left.shape[2], *self.ranks)

    def as_writer(self) -> Float[Tensor, "head few d_model"]:
        """Return a short matrix whose product with any matrix on its right has the norm of the full product."""
        return _triangle(self.left) @ self.right

    def transposed(self) -> "Factored":
        """Return the transposed matrices."""
        return Factored(left=self.right.mT, right=self.left.mT, width=self.width, ranks=self.ranks[::-1])


@lru_cache(maxsize=256)
def gaussian_effective_rank(
    width: int, d_head: int, left_rank: int | None = None, right_rank: int | None = None
) -> float:
    """Return the mean effective rank of a circuit of independent Gaussian weights.

    It is simulated, with one result for one shape.

    Args:
        width: the rows of the left factor and the columns of the right one.
        d_head: the columns of the left factor and the rows of the right one.
        left_rank: the rank of the left factor, itself then a product of two Gaussian matrices; None: full rank.
        right_rank: the rank of the right factor, likewise.
    """
    random = torch.Generator().manual_seed(0)
    n_draws = max(4, 512 // d_head)  # the wider, the less they differ

    def drawn(rank: int | None) -> Tensor:
        if rank is None:
            return torch.randn(n_draws, width, d_head, generator=random, dtype=torch.float64)
        into = torch.randn(n_draws, width, rank, generator=random, dtype=torch.float64)
        return into @ torch.randn(n_draws, rank, d_head, generator=random, dtype=torch.float64)

    return float(Factored(left=drawn(left_rank), right=drawn(right_rank).mT, width=width).effective_rank().mean())


def _triangle(tall: Float[Tensor, "head tall rank"]) -> Float[Tensor, "head few rank"]:
    """Return R of the QR factorisation: R^T R is tall^T tall, all that norms and singular values of products need."""
    return torch.linalg.qr(tall, mode="r").R


CIRCUITS = tuple(name for name, declared in HEAD_METRICS.items() if declared.family == "circuits")
"""The metrics that need no trace."""
_VOCABULARY_BLOCK = 8192


NO_TOKENS = "this model does not embed the tokens that it answers with (model.encoder, readout or positions joint)"
"""The reason why circuits are not read in tokens."""


@dataclass(frozen=True, kw_only=True)
class HeadCircuits:
    """The circuits of the heads of one attention; heads that share keys have the same W_K and W_V in them."""

    name: str
    layer: int
    qk: Factored
    ov: Factored

    def copying(self, through: Float[Tensor, "d_model d_model"]) -> Float[Tensor, " head"]:
        """Return the sum of eigenvalues of W_E W_V W_O W_U over the sum of their absolute values; NaN for zeros.

        The eigenvalues are those of the d_head x d_head matrix W_O (W_U W_E) W_V, and `through`, W_U W_E, is the same
        for all heads. The read-out is taken as it is; its mean over the vocabulary, which moves all logits alike, stays
        in.

        Paper: Elhage et al. 2021, A Mathematical Framework for Transformer Circuits.
        """
        eigenvalues = torch.linalg.eigvals(self.ov.right @ through @ self.ov.left)
        return eigenvalues.sum(1).real / eigenvalues.abs().sum(1)


def answers_in_tokens(model: Transformer) -> bool:
    """Return whether a model embeds the tokens that it answers with, so that circuits can be read in tokens."""
    declared = model.model
    return declared.encoder is None and declared.readout is None and declared.positions != "joint"


def readable(model: Transformer) -> tuple[str, ...]:
    """Return the metrics that can be read off a model's weights; those in tokens only if it answers in tokens."""
    return tuple(name for name in CIRCUITS if answers_in_tokens(model) or not _rule(name).in_tokens)


def circuits(model: Transformer) -> tuple[HeadCircuits, ...]:
    """Return the QK and OV circuits of every layer that has heads, in the model's order.

    Raises:
        UserError: naming the layer whose weights hold NaN or infinity.
    """
    return tuple(_circuits(model, layer) for layer, n_heads in enumerate(model.model.layout.n_heads) if n_heads)


def circuit_scores(
    model: Transformer,
    metrics: Sequence[str] | None = None,
    through: Float[Tensor, "d_model d_model"] | None = None,
) -> Scores:
    """Return weight metrics of every head: `qk_effective_rank`, `ov_effective_rank` and `copying_score`.

    The null of the ranks is their mean over Gaussian weights of the same shapes (and ranks, where maps are products). A
    circuit of zeros has a score of NaN.

    Args:
        model: a model of Headway.
        metrics: some of the three metrics; None: all.
        through: the result of `embedding_of_read_out` for this model; None: it is computed, if a metric needs it.

    Raises:
        UserError: if a metric is another one, or weights are NaN or infinite, naming the layers.

    Paper: copying scores are those of Elhage et al. 2021, A Mathematical Framework for Transformer Circuits.
    """
    wanted = CIRCUITS if metrics is None else tuple(metrics)
    for name in wanted:
        if name not in CIRCUITS:
            raise UserError(f"{name} is not a metric of weights; {near(name, CIRCUITS)}")
    layers = circuits(model)
    if through is None and any(_rule(name).in_tokens for name in wanted):
        through = embedding_of_read_out(model)
    return _scores(layers, wanted, through)


def _rule(name: str) -> OfCircuits:
    rule = HEAD_METRICS[name].value
    assert isinstance(rule, OfCircuits), name
    return rule


def _scores(layers: Sequence[HeadCircuits], metrics: Sequence[str], through: Tensor | None) -> Scores:
    scores = {}
    for name in metrics:
        rule, null = _rule(name), HEAD_METRICS[name].null.value
        extra = (through,) if rule.in_tokens else ()
        scores[name] = HeadScores(
            metric=name,
            values={layer.name: rule.function(layer, *extra).numpy() for layer in layers},
            null={layer.name: np.array(null.function(layer)) for layer in layers if isinstance(null, OfCircuits)},
            n_rows=0,
        )
    return scores


def ranks_of_trace(trace: Trace) -> Scores:
    """Return effective ranks of the circuits of plain attentions; none where there is none.

    The circuits are those of the normed stream: no norm is folded in.
    """
    layers = []
    for attention in trace.attentions:
        if (weights := attention.plain) is not None:
            W_Q, W_K, W_V = (_exact(W) for W, _ in weights.maps.values())
            width, kv_of = W_Q.shape[1], list(attention.kv_of)
            qk = Factored(left=W_Q, right=W_K[kv_of].mT, width=width)
            ov = Factored(left=W_V[kv_of], right=_exact(attention.W_O), width=width)
            layers.append(HeadCircuits(name=attention.name, layer=attention.layer, qk=qk, ov=ov))
    return _scores(layers, [name for name in CIRCUITS if not _rule(name).in_tokens], None) if layers else {}


def _exact(W: Tensor) -> Tensor:
    return W.detach().cpu().double()


def _circuits(model: Transformer, layer: int) -> HeadCircuits:
    attention, norm = (model.get_submodule(f"layers.{layer}.{name}") for name in ("attention", "attention_norm"))
    assert isinstance(attention, Attention)
    heads = (-1, attention.d_head)
    W_Q, W_K, W_V = (_seen(model, norm, _weight(getattr(attention, x)).unflatten(0, heads)) for x in "qkv")
    W_O = _written(model, _weight(attention.o).T.unflatten(0, heads))
    if not all(W.isfinite().all() for W in (W_Q, W_K, W_V, W_O)):
        raise UserError(
            f"the attention weights of layer {layer} hold NaN or infinity, so its heads have no circuits; take an "
            "earlier checkpoint"
        )
    kv_of, width, rank = torch.tensor(attention.kv_of), seen_width(model), model.model.rank
    return HeadCircuits(
        name=f"layers.{layer}.attention",
        layer=layer,
        qk=Factored(left=W_Q.mT, right=W_K[kv_of], width=width, ranks=(rank("q", layer), rank("k", layer))),
        ov=Factored(left=W_V[kv_of].mT, right=W_O, width=width, ranks=(rank("v", layer), rank("o", layer))),
    )


def _weight(linear: Map) -> Float[Tensor, "out into"]:
    if isinstance(linear, LowRank):
        return _weight(linear.second) @ _weight(linear.first)
    return _exact(linear.weight)


def _folded(model: Transformer) -> bool:
    return model.model.norm_place == "before" and model.model.norm != "none"


def _seen(model: Transformer, norm: nn.Module, rows: Vectors) -> Vectors:
    """Return rows for products with the stream, equal to given rows' products with the normed stream."""
    return _written(model, rows * _exact(norm.get_parameter("weight"))) if _folded(model) else rows


def _written(model: Transformer, rows: Vectors) -> Vectors:
    """Return rows without their mean, which no LayerNorm sees."""
    return rows - rows.mean(-1, keepdim=True) if _folded(model) and model.model.norm == "layer" else rows


def written_rows(model: Transformer, tokens: Int[Tensor, " token"]) -> Float[Tensor, "token d_model"]:
    """Return what tokens write into the stream, normed as before the first layer, without the norm's weight.

    The weight is folded in elsewhere. Positions are left out, and so is any factor common to all embeddings.
    """
    embedding = model.embedding.weight
    embedded = _exact(embedding[tokens.to(embedding.device)])
    rows = _written(model, enter(embedded[None], None, model.model.d_model)[0])
    if not _folded(model):
        return rows
    return rows / rows.square().mean(-1, keepdim=True).sqrt().clamp_min(1e-12)


def read_out_rows(model: Transformer, tokens: Int[Tensor, " token"]) -> Float[Tensor, "token d_model"]:
    """Return the vectors whose products with the last stream are tokens' logits, the final norm folded in.

    Both the norm's weight and its mean are folded in.
    """
    weight = (model.embedding if model.model.tied else model.readout).weight
    rows = torch.zeros(1, len(tokens), model.model.d_model, dtype=torch.float64)
    read_entries(rows, model.model)[:] = _exact(weight[tokens.to(weight.device)])
    return _seen(model, model.norm, rows[0])


def seen_width(model: Transformer) -> int:
    """Return the dimensions of the stream that a head can read: one less if a LayerNorm takes the mean out."""
    return model.model.d_model - (1 if _folded(model) and model.model.norm == "layer" else 0)


def embedding_of_read_out(model: Transformer) -> Float[Tensor, "d_model d_model"]:
    """Return W_U W_E with the final norm folded in, summed over the vocabulary in blocks; the lane is 0."""
    if not answers_in_tokens(model):
        raise UserError(
            f"copying_score asks whether a head writes the token that it reads, and {NO_TOKENS}; leave that metric out"
        )
    embedding = model.embedding.weight
    read_out = embedding if model.model.tied else model.readout.weight
    d_model, d_embed = model.model.d_model, model.model.embedding_width
    through = torch.zeros(1, d_model, d_model, dtype=torch.float64)
    entries = read_entries(through[:, :d_embed], model.model)
    for start in range(0, model.vocab_size, _VOCABULARY_BLOCK):
        tokens = slice(start, start + _VOCABULARY_BLOCK)
        entries += _exact(embedding[tokens]).T @ _exact(read_out[tokens])
    seen = _seen(model, model.norm, through[0])
    if not seen.isfinite().all():
        raise UserError(
            "the embedding, the final norm or the read-out holds NaN or infinity, so no head has a copying score; use "
            "an earlier checkpoint"
        )
    return seen.T
