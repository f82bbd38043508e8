"""Heads: how alike the heads of a layer are, and how uneven a head's attention is; raw as published and normalised.

Metrics of pairs are functions of sums (`headway.heads.sums`), which they name as their arguments; metrics of attention
are functions of the looks of a block of queries (`headway.heads.query_blocks`), averaged over the queries.

Paper: article of May 2024, "x-raying heads", whose four metrics are the raw ones. We leave a head's pair with itself
out of a layer's mean; CKA (Kornblith et al. 2019, arXiv 1905.00414), cosines of contributions and even attention as
zero make them comparable over other numbers, widths and scales of heads.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from headway.heads.query_blocks import Looks, every_query, per_query, two_keys
from headway.heads.registry import metric

Gram = Float[Tensor, "head width head width"]
Total = Float[Tensor, "head width"]
Pairs = Float[Tensor, "head head"]
Number = Float[Tensor, ""]
Values = Float[Tensor, "batch head query"]


@metric("query_orthogonality_raw")
def query_orthogonality_raw(query_gram: Gram) -> Pairs:
    """Sum over entries of |Q_i^T Q_j|."""
    return query_gram.abs().sum((1, 3))


@metric("query_cka")
def query_cka(query_gram: Gram) -> Pairs:
    """||Q_i^T Q_j||_F^2 / (||Q_i^T Q_i||_F ||Q_j^T Q_j||_F)."""
    return cka(query_gram)


@metric("query_cka_centred")
def query_cka_centred(query_gram: Gram, query_total: Total, rows: Number) -> Pairs:
    """The same of queries less their mean."""
    return _cka_centred(query_gram, query_total, rows)


@metric("context_nonorthogonality_raw")
def context_nonorthogonality_raw(context_gram: Gram) -> Pairs:
    """||C_i^T C_j||_F."""
    return context_gram.square().sum((1, 3)).sqrt()


@metric("context_cka")
def context_cka(context_gram: Gram) -> Pairs:
    """||C_i^T C_j||_F^2 / (||C_i^T C_i||_F ||C_j^T C_j||_F)."""
    return cka(context_gram)


@metric("context_cka_centred")
def context_cka_centred(context_gram: Gram, context_total: Total, rows: Number) -> Pairs:
    """The same of contexts less their mean."""
    return _cka_centred(context_gram, context_total, rows)


@metric("context_dissimilarity")
def context_dissimilarity(context_cosines: Pairs, rows: Number) -> Pairs:
    """- mean over rows of cos(z_i, z_j)."""
    return -context_cosines / rows


@metric("output_dissimilarity")
def output_dissimilarity(output_cosines: Pairs, rows: Number) -> Pairs:
    """- mean over rows of cos(z_i W_O^i, z_j W_O^j)."""
    return -output_cosines / rows


@metric("similarity_to_layer_0")
def similarity_to_layer_0(stream_cosines: Number, rows: Number) -> Number:
    """Mean over rows of cos(stream before layer 0, stream after this layer).

    Paper: Voita et al. 2019, arXiv 1909.01380, compare representations by mutual information and CKA; this is a cosine.
    """
    return stream_cosines / rows


@per_query("attention_variance_raw", over=every_query)
def attention_variance_raw(looks: Looks) -> Values:
    """With T keys of the text, sum p^2 / T - 1 / T^2: in the mean, the population variance of all T x T weights."""
    return looks.square / looks.text_keys - 1 / looks.text_keys.square()


@per_query("attention_diversity", over=two_keys)
def attention_diversity(looks: Looks) -> Values:
    """With m keys seen, (m sum p^2 - 1) / (m - 1)."""
    return (looks.n_keys * looks.square - 1) / (looks.n_keys - 1)


@per_query("attention_excess", over=two_keys)
def attention_excess(looks: Looks) -> Values:
    """With m keys seen, m sum p^2 - 1."""
    return looks.n_keys * looks.square - 1


def cka(gram: Gram) -> Pairs:
    """Linear CKA of every pair of heads from X^T X; 0 with a head of zeros."""
    cross = gram.square().sum((1, 3))
    own = cross.diagonal()
    there = own > 0
    lengths = torch.where(there, own, 1).sqrt()  # a root has no slope at 0
    return torch.where(there[:, None] & there, cross / torch.outer(lengths, lengths), 0)


def centre(gram: Gram, total: Total, rows: Number) -> Gram:
    """X^T X of rows less their mean."""
    return gram - torch.einsum("ia,jb->iajb", total, total) / rows


def _cka_centred(gram: Gram, total: Total, rows: Number) -> Pairs:
    """NaN for a single row, of which nothing is left."""
    return torch.where(rows > 1, cka(centre(gram, total, rows)), torch.nan)
