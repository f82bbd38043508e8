"""Diversity of the heads of a layer, and the unevenness of a head's attention: raw as published, and normalised.

Metrics of pairs are functions of sums (`headway.heads.attention`), which they name as their arguments. Metrics of
attention are functions of the looks of a block of queries (`headway.heads.patterns`), averaged over the queries. One
metric says how much each head adds to the residual stream, beside the other heads of its layer.

Paper: article of May 2024, "x-raying heads", whose four metrics are the raw ones. Raw metrics follow its formulas;
metrics "as published" follow its code, defects included, to show what the defects do. We leave a head's pair with
itself out of a layer's mean. CKA (Kornblith et al. 2019, arXiv 1905.00414), cosines of contributions and even attention
as zero make metrics comparable across numbers, widths and scales of heads.

Paper: Li et al. 2018, arXiv 1810.10183, for the disagreement of heads in their values, their attended positions and
their contexts.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from headway.heads.attention import MaskedAttention, additive, cosines, only, rows
from headway.heads.metric import metric
from headway.heads.patterns import Looks, PlacedLooks, blocks, every_query, per_query, some_head_sees, two_keys

Gram = Float[Tensor, "head width head width"]
Total = Float[Tensor, "head width"]
Pairs = Float[Tensor, "head head"]
Number = Float[Tensor, ""]
Values = Float[Tensor, "batch head query"]


@metric("query_orthogonality_raw")
def query_orthogonality_raw(query_gram: Gram) -> Pairs:
    """Return the sum over entries of |Q_i^T Q_j|."""
    return query_gram.abs().sum((1, 3))


@metric("query_cka")
def query_cka(query_gram: Gram) -> Pairs:
    """Return ||Q_i^T Q_j||_F^2 / (||Q_i^T Q_i||_F ||Q_j^T Q_j||_F)."""
    return cka(query_gram)


@metric("query_cka_centred")
def query_cka_centred(query_gram: Gram, query_total: Total, rows: Number) -> Pairs:
    """Return the CKA of queries less their mean."""
    return _cka_centred(query_gram, query_total, rows)


@metric("context_nonorthogonality_raw")
def context_nonorthogonality_raw(context_gram: Gram) -> Pairs:
    """Return ||C_i^T C_j||_F."""
    return context_gram.square().sum((1, 3)).sqrt()


@metric("context_cka")
def context_cka(context_gram: Gram) -> Pairs:
    """Return ||C_i^T C_j||_F^2 / (||C_i^T C_i||_F ||C_j^T C_j||_F)."""
    return cka(context_gram)


@metric("context_cka_centred")
def context_cka_centred(context_gram: Gram, context_total: Total, rows: Number) -> Pairs:
    """Return the CKA of contexts less their mean."""
    return _cka_centred(context_gram, context_total, rows)


@metric("context_dissimilarity")
def context_dissimilarity(context_cosines: Pairs, rows: Number) -> Pairs:
    """Return - mean over rows of cos(z_i, z_j)."""
    return -context_cosines / rows


@metric("output_dissimilarity")
def output_dissimilarity(output_cosines: Pairs, rows: Number) -> Pairs:
    """Return - mean over rows of cos(z_i W_O^i, z_j W_O^j)."""
    return -output_cosines / rows


@metric("similarity_to_layer_0")
def similarity_to_layer_0(stream_cosines: Number, rows: Number) -> Number:
    """Return the mean over rows of cos(stream before layer 0, stream after this layer).

    Paper: Voita et al. 2019, arXiv 1909.01380, compare representations by mutual information and CKA; this is a cosine.
    """
    return stream_cosines / rows


@per_query("attention_variance_raw", over=every_query)
def attention_variance_raw(looks: Looks) -> Values:
    """Return sum p^2 / T - 1 / T^2 with T keys of the text.

    Its mean is the population variance of all T x T weights.
    """
    return looks.square / looks.text_keys - 1 / looks.text_keys.square()


@per_query("attention_diversity", over=two_keys)
def attention_diversity(looks: Looks) -> Values:
    """Return (m sum p^2 - 1) / (m - 1) with m keys seen."""
    return (looks.n_keys * looks.square - 1) / (looks.n_keys - 1)


@per_query("attention_excess", over=two_keys)
def attention_excess(looks: Looks) -> Values:
    """Return m sum p^2 - 1 with m keys seen."""
    return looks.n_keys * looks.square - 1


def cka(gram: Gram) -> Pairs:
    """Return linear CKA of every pair of heads from X^T X; 0 with a head of zeros."""
    cross = gram.square().sum((1, 3))
    own = cross.diagonal()
    there = own > 0
    lengths = torch.where(there, own, 1).sqrt()  # a root has no slope at 0
    return torch.where(there[:, None] & there, cross / torch.outer(lengths, lengths), 0)


def centre(gram: Gram, total: Total, rows: Number) -> Gram:
    """Return X^T X of rows less their mean."""
    return gram - torch.einsum("ia,jb->iajb", total, total) / rows


def _cka_centred(gram: Gram, total: Total, rows: Number) -> Pairs:
    """Return centred CKA; NaN for a single row, of which centring leaves nothing."""
    return torch.where(rows > 1, cka(centre(gram, total, rows)), torch.nan)


@metric("disagreement_subspace")
def disagreement_subspace(value_cosines: Pairs, value_rows: Number) -> Number:
    """Return - 1/H^2 sum over i, j of the mean cosine of V_i and V_j, i = j included."""
    return -value_cosines.mean() / value_rows


@metric("disagreement_output")
def disagreement_output(context_cosines: Pairs, rows: Number) -> Number:
    """Return - 1/H^2 sum over i, j of the mean cosine of the contexts, i = j included."""
    return -context_cosines.mean() / rows


@per_query("disagreement_position", over=some_head_sees, per="text")
def disagreement_position(looks: PlacedLooks) -> Float[Tensor, "batch 1 query"]:
    """Return - 1/H^2 sum over i, j and keys of A_i * A_j, i = j included; summed over the queries of a text."""
    return -looks.overlap


@additive
def shared_values(of: MaskedAttention) -> Number:
    """Return the share of pairs of heads, a head with itself included, that have the same values."""
    kv_of = torch.tensor(of.attention.kv_of, device=of.attention.q.device)
    return (kv_of[:, None] == kv_of).double().mean()


@additive
def batches(of: MaskedAttention) -> Number:
    """Return the number of batches that were added."""
    return torch.ones((), dtype=torch.float64, device=of.attention.q.device)


@metric("output_share")
def output_share(output_sizes: Float[Tensor, " head"]) -> Float[Tensor, " head"]:
    """Return ||z_h W_O^h||^2, summed over rows, over its sum over heads; 0 where no head adds anything.

    Contributions that cancel or reinforce one another do so in the stream. Shares compare the heads' own sizes, and sum
    to 1.
    """
    whole = output_sizes.sum()
    return torch.where(whole > 0, output_sizes / whole, 0)


@metric("output_dissimilarity_published")
def output_dissimilarity_published(
    slice_cosines: Float[Tensor, "head head"], sliced_rows: Float[Tensor, ""]
) -> Float[Tensor, "head head"]:
    """Return - mean over rows of the cosine of two slices of the attention's output, which are no heads."""
    return -slice_cosines / sliced_rows


@metric("attention_variance_published")
def attention_variance_published(
    variances: Float[Tensor, " head"], texts_with_variance: Float[Tensor, ""]
) -> Float[Tensor, " head"]:
    """Return the unbiased variance over queries of each key's weight, then the mean over keys and texts."""
    return variances / texts_with_variance


@additive
def slice_cosines(of: MaskedAttention) -> Float[Tensor, "head head"]:
    """Return cosines of slices of the attention's output, one as wide as another, summed over rows.

    They are zero if d_model is no multiple of the number of heads, so that there are no such slices.
    """
    attention, n_heads = of.attention, of.n_heads
    written = only(of.counted, attention.z).flatten(1) @ attention.W_O.flatten(0, 1)
    if not _sliceable(of):
        return torch.zeros(n_heads, n_heads, dtype=torch.float64, device=written.device)
    if attention.b_O is not None:
        written = torch.where(of.counted.flatten()[:, None], written + attention.b_O, 0)
    return cosines(written.unflatten(1, (n_heads, -1)))


@additive
def sliced_rows(of: MaskedAttention) -> Float[Tensor, ""]:
    """Return the number of positions that count, if there are slices."""
    return rows(of) if _sliceable(of) else torch.zeros_like(rows(of))


@additive
def variances(of: MaskedAttention) -> Float[Tensor, " head"]:
    """Return per text the unbiased variance over queries of each key's weight, averaged over keys.

    It is summed over texts.
    """
    attention = of.attention
    shape = len(attention.q), of.n_heads, attention.k.shape[2]
    totals = torch.zeros(shape, dtype=torch.float64, device=attention.q.device)
    squares = torch.zeros(shape[:2], dtype=torch.float64, device=attention.q.device)
    for block in blocks(of):
        looks = block.measured
        weights = torch.where(looks.counted[..., None], looks.powers / looks.total[..., None], 0)
        totals[block.examples, :, block.keys] += weights.sum(2, dtype=torch.float64)
        squares[block.examples] += torch.where(looks.counted, looks.square, 0).sum(2, dtype=torch.float64)
    queries, keys = (x.sum(1)[:, None].double() for x in (of.counted, of.keys_counted))
    spread = (squares - totals.square().sum(2) / queries) / (queries - 1) / keys
    return torch.where(queries > 1, spread, 0).sum(0)


@additive
def texts_with_variance(of: MaskedAttention) -> Float[Tensor, ""]:
    """Return the number of texts with two queries or more."""
    return (of.counted.sum(1) > 1).sum(dtype=torch.float64)


def _sliceable(of: MaskedAttention) -> bool:
    return of.attention.W_O.shape[2] % of.n_heads == 0
