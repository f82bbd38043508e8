"""Heads: what can be read off the weights alone: the QK and OV circuits of every head, and how heads compose.

Vectors are rows: a query at stream x scores a key at stream y by x QK y^T with QK = W_Q W_K^T, and what is attended to
adds y OV with OV = W_V W_O. Both are d_model x d_model but of rank d_head, so they are kept as two factors, and all
that is said of them goes through the small cores of these. Float64 throughout, on the CPU.

Norms before the sub-layers are folded in, as the field does it: what a head reads is the stream less its mean over the
entries (LayerNorm only) times the norm's weight, so both belong to W_Q, W_K, W_V and the read-out; and what a head
writes along the mean no LayerNorm sees, so it is taken out of W_O. Norms after the sums belong to the stream, not to
a head: nothing is folded there. Biases, the logits' scale, rotary turns (circuits are those at distance 0) and the
norms' division by the spread are no part of a circuit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.declare.head_metrics import HEAD_METRICS
from headway.errors import UserError, near
from headway.heads.registry import metric
from headway.heads.scores import HeadScores
from headway.model.attention import Attention
from headway.model.maps import LowRank, Map
from headway.model.residual import read_entries
from headway.model.transformer import Transformer

CIRCUITS = tuple(name for name, declared in HEAD_METRICS.items() if declared.family == "circuits")
"""The metrics that need no trace."""
_VOCABULARY_BLOCK = 8192


@dataclass(frozen=True, kw_only=True)
class Factored:
    """A matrix for each head as the product of two: left @ right."""

    left: Float[Tensor, "head d_model rank"]
    right: Float[Tensor, "head rank d_model"]

    def whole(self) -> Float[Tensor, "head d_model d_model"]:
        """The matrices themselves: heads x d_model x d_model; nothing here needs them."""
        return self.left @ self.right

    def singular_values(self) -> Float[Tensor, "head few"]:
        """All that can differ from 0, largest first: those of the core R_left R_right^T of the factors' QR."""
        return torch.linalg.svdvals(_triangle(self.left) @ _triangle(self.right.mT).mT)

    def effective_rank(self) -> Float[Tensor, " head"]:
        """Exp of the entropy of the singular values over their sum: 1 for one direction, the rank for even ones.

        NaN for a matrix of zeros.

        Paper: Roy and Vetterli 2007, "The effective rank: a measure of effective dimensionality".
        """
        values = self.singular_values()
        return torch.special.entr(values / values.sum(1, keepdim=True)).sum(1).exp()

    def as_writer(self) -> Float[Tensor, "head few d_model"]:
        """A short matrix whose product with anything on its right has the norm that the whole matrix's would have."""
        return _triangle(self.left) @ self.right

    def transposed(self) -> "Factored":
        """The transposed matrices."""
        return Factored(left=self.right.mT, right=self.left.mT)


@dataclass(frozen=True, kw_only=True)
class HeadCircuits:
    """The circuits of the heads of one attention; those that share keys have the same W_K and W_V in them."""

    name: str
    layer: int
    qk: Factored
    ov: Factored


@dataclass(frozen=True, kw_only=True)
class Composition:
    """How much of what a head writes a later layer's head reads, for all pairs of heads of a model.

    Attributes:
        heads: (attention, head) of each row and column.
        q: (head, head), ||OV_1 QK_2|| / (||OV_1|| ||QK_2||), Frobenius norms: into the later head's queries; 0 to 1.
            Rows are earlier heads, columns later ones; NaN where the row's layer is not before the column's, or where
            a circuit is 0.
        k: the same into its keys, OV_1 QK_2^T.
        v: the same into its values, OV_1 OV_2.
        null: the root mean square of all three when the circuits of two heads are turned at random to one another,
            whatever their spectra: 1 / sqrt(the entries of the stream, less one for a LayerNorm's mean).

    Paper: Elhage et al. 2021, A Mathematical Framework for Transformer Circuits.
    """

    heads: tuple[tuple[str, int], ...]
    q: Float[np.ndarray, "earlier later"]
    k: Float[np.ndarray, "earlier later"]
    v: Float[np.ndarray, "earlier later"]
    null: float


def circuits(model: Transformer) -> tuple[HeadCircuits, ...]:
    """The QK and OV circuits of every layer that has heads, in the model's order.

    Raises:
        UserError: naming the layer whose weights hold NaN or infinity.
    """
    return tuple(_circuits(model, layer) for layer, n_heads in enumerate(model.model.layout.n_heads) if n_heads)


def circuit_scores(model: Transformer, metrics: Sequence[str] | None = None) -> dict[str, HeadScores]:
    """What the weights say of every head: `qk_effective_rank`, `ov_effective_rank` and `copying_score`.

    The null of the ranks is their mean over Gaussian weights of the same shapes (and ranks, where maps are products).
    A score of NaN is that of a circuit of zeros.

    Args:
        model: one of ours.
        metrics: some of the three; None: all.

    Raises:
        UserError: for another metric, or weights that hold NaN or infinity, by layer.

    Paper: copying scores are those of Elhage et al. 2021, A Mathematical Framework for Transformer Circuits.
    """
    wanted = CIRCUITS if metrics is None else tuple(metrics)
    for name in wanted:
        if name not in CIRCUITS:
            raise UserError(f"{name} cannot be read off weights; {near(name, CIRCUITS)}")
    found, scores = circuits(model), {}
    for name in wanted:
        values, null = _copying(model, found) if name == "copying_score" else _ranks(model, found, name)
        scores[name] = HeadScores(metric=name, values=values, null=null, n_rows=0)
    return scores


@metric("qk_effective_rank")
def qk_effective_rank(here: HeadCircuits) -> Float[Tensor, " head"]:
    """In how many directions queries match keys."""
    return here.qk.effective_rank()


@metric("ov_effective_rank")
def ov_effective_rank(here: HeadCircuits) -> Float[Tensor, " head"]:
    """How many directions are moved."""
    return here.ov.effective_rank()


@metric("copying_score")
def copying_score(
    here: HeadCircuits, embedding_of_read_out: Float[Tensor, "d_model d_model"]
) -> Float[Tensor, " head"]:
    """Sum of the eigenvalues of W_E W_V W_O W_U over the sum of their absolute values; NaN for a circuit of zeros.

    They are those of the d_head x d_head matrix W_O (W_U W_E) W_V, and what is in brackets is the same for all heads.
    The read-out is taken as it is; its mean over the vocabulary, which moves all logits alike, stays in.

    Paper: Elhage et al. 2021, A Mathematical Framework for Transformer Circuits.
    """
    eigenvalues = torch.linalg.eigvals(here.ov.right @ embedding_of_read_out @ here.ov.left)
    return eigenvalues.sum(1).real / eigenvalues.abs().sum(1)


def compositions(model: Transformer) -> Composition:
    """Q-, K- and V-composition between all pairs of heads in different layers.

    Raises:
        UserError: naming the layer whose weights hold NaN or infinity.
    """
    found = circuits(model)
    heads = tuple((here.name, head) for here in found for head in range(len(here.ov.left)))
    first = np.cumsum([0, *(len(here.ov.left) for here in found)])
    tables = {kind: np.full((len(heads), len(heads)), np.nan) for kind in "qkv"}
    writers = [here.ov.as_writer() for here in found]
    # What reads is a writer seen from the other side.
    readers = [{kind: circuit.transposed().as_writer() for kind, circuit in _read_by(here).items()} for here in found]
    for earlier, later in combinations(range(len(found)), 2):
        here = slice(first[earlier], first[earlier + 1]), slice(first[later], first[later + 1])
        for kind, reader in readers[later].items():
            tables[kind][here] = _ratios(writers[earlier], reader).numpy()
    return Composition(heads=heads, **tables, null=_seen_width(model) ** -0.5)


def _read_by(here: HeadCircuits) -> dict[str, Factored]:
    return {"q": here.qk, "k": here.qk.transposed(), "v": here.ov}


def _ratios(
    writer: Float[Tensor, "earlier few d_model"], reader: Float[Tensor, "later some d_model"]
) -> Float[Tensor, "earlier later"]:
    """||W_i R_j^T|| / (||W_i|| ||R_j||) for all pairs, by one product of the heads' matrices stacked."""
    products = writer.flatten(0, 1) @ reader.flatten(0, 1).T
    cores = products.view(*writer.shape[:2], *reader.shape[:2])
    norms = cores.square().sum((1, 3)).sqrt()
    return norms / writer.square().sum((1, 2)).sqrt()[:, None] / reader.square().sum((1, 2)).sqrt()


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
    kv_of = torch.tensor([kv for kv, count in enumerate(attention.queries) for _ in range(count)])
    return HeadCircuits(
        name=f"layers.{layer}.attention",
        layer=layer,
        qk=Factored(left=W_Q.mT, right=W_K[kv_of]),
        ov=Factored(left=W_V[kv_of].mT, right=W_O),
    )


def _weight(linear: Map) -> Float[Tensor, "out into"]:
    if isinstance(linear, LowRank):
        return _weight(linear.second) @ _weight(linear.first)
    return linear.weight.detach().cpu().double()


def _folded(model: Transformer) -> bool:
    return model.model.norm_place == "before" and model.model.norm != "none"


def _seen(model: Transformer, norm: nn.Module, rows: Float[Tensor, "*some d_model"]) -> Float[Tensor, "*some d_model"]:
    """Rows that are multiplied with a normed stream, made such that they are multiplied with the stream itself."""
    return _written(model, rows * norm.get_parameter("weight").detach().cpu().double()) if _folded(model) else rows


def _written(model: Transformer, rows: Float[Tensor, "*some d_model"]) -> Float[Tensor, "*some d_model"]:
    """Rows without what no LayerNorm sees of them, their mean."""
    return rows - rows.mean(-1, keepdim=True) if _folded(model) and model.model.norm == "layer" else rows


def _seen_width(model: Transformer) -> int:
    return model.model.d_model - (1 if _folded(model) and model.model.norm == "layer" else 0)


def _triangle(tall: Float[Tensor, "head tall rank"]) -> Float[Tensor, "head few rank"]:
    """R of the QR factorisation: as R^T R is tall^T tall, norms and singular values of products need no more."""
    return torch.linalg.qr(tall, mode="r").R


def _ranks(
    model: Transformer, found: Sequence[HeadCircuits], name: str
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    rank_of, factors = (qk_effective_rank, "qk") if name == "qk_effective_rank" else (ov_effective_rank, "vo")
    values, null = {}, {}
    for here in found:
        ranks = tuple(model.model.rank(factor, here.layer) for factor in factors)  # type: ignore[arg-type]
        values[here.name] = rank_of(here).numpy()
        null[here.name] = np.array(gaussian_effective_rank(_seen_width(model), here.ov.right.shape[1], *ranks))
    return values, null


@lru_cache(maxsize=256)
def gaussian_effective_rank(
    width: int, d_head: int, left_rank: int | None = None, right_rank: int | None = None
) -> float:
    """The mean effective rank of a circuit whose weights are all independent Gaussians; simulated, the same each time.

    Args:
        width: rows of the left factor, columns of the right one.
        d_head: columns of the left factor, rows of the right one.
        left_rank: of the left factor, itself then a product of two Gaussian matrices; None: full.
        right_rank: the same of the right one.
    """
    random = torch.Generator().manual_seed(0)
    n_draws = max(4, 512 // d_head)  # the wider, the less they differ

    def drawn(rank: int | None) -> Tensor:
        if rank is None:
            return torch.randn(n_draws, width, d_head, generator=random, dtype=torch.float64)
        into = torch.randn(n_draws, width, rank, generator=random, dtype=torch.float64)
        return into @ torch.randn(n_draws, rank, d_head, generator=random, dtype=torch.float64)

    return float(Factored(left=drawn(left_rank), right=drawn(right_rank).mT).effective_rank().mean())


def _copying(model: Transformer, found: Sequence[HeadCircuits]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    through = _embedding_of_read_out(model)
    values = {here.name: copying_score(here, through).numpy() for here in found}
    return values, {here.name: np.array(0.0) for here in found}


def _embedding_of_read_out(model: Transformer) -> Float[Tensor, "d_model d_model"]:
    """W_U W_E with the final norm folded in, summed over the vocabulary in blocks; the lane is 0."""
    embedding = model.embedding.weight.detach()
    read_out = embedding if model.model.tied else model.readout.weight.detach()
    d_model, d_embed = model.model.d_model, model.model.embedding_width
    through = torch.zeros(1, d_model, d_model, dtype=torch.float64)
    entries = read_entries(through[:, :d_embed], model.model)
    for start in range(0, model.vocab_size, _VOCABULARY_BLOCK):
        tokens = slice(start, start + _VOCABULARY_BLOCK)
        entries += embedding[tokens].cpu().double().T @ read_out[tokens].cpu().double()
    seen = _seen(model, model.norm, through[0])
    if not seen.isfinite().all():
        raise UserError(
            "the embedding, the final norm or the read-out holds NaN or infinity, so no head has a copying score; take "
            "an earlier checkpoint"
        )
    return seen.T
