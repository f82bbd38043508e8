"""Regularisation terms that make a layer's heads different; most are metrics of the same name.

A term is a differentiable number of one attention, made of torch operations alone, so that it runs inside a compiled
loss. A mean of cosines over all pairs of heads needs no pairs: it is ||sum_h u_h||^2 / H^2 for vectors u_h of length 1.

Papers: Li et al. 2018, arXiv 1810.10183 (disagreement); Lee et al. 2019, arXiv 1910.04500 (orthogonality; its exact
formula was not available to us: here it is ||A A^T - I||_F^2, rows of A the contexts of the heads at one position at
length 1, averaged over positions).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from headway.config.lm.training import REGULARIZED
from headway.heads.attention import (
    NOTHING,
    MaskedAttention,
    context_gram,
    only,
    query_gram,
    rows,
    subject,
    units,
    value_rows,
)
from headway.heads.diversity import cka
from headway.heads.metric import TERMS as TERMS
from headway.heads.metric import Term
from headway.heads.patterns import block

Number = Float[Tensor, ""]
Pairs = Float[Tensor, "head head"]


def _term(name: str) -> Callable[[Callable[[MaskedAttention], Number]], None]:
    def register(function: Callable[[MaskedAttention], Number]) -> None:
        TERMS[name] = Term(name=name, better=REGULARIZED[name], measure=lambda trace: function(subject(trace)))

    return register


@_term("disagreement_subspace")
def _subspace(of: MaskedAttention) -> Number:
    kv_of = list(of.attention.kv_of)
    values = units(only(of.keys_counted, of.attention.v))[:, kv_of]
    return -values.mean(1).square().sum() / value_rows(of)


@_term("disagreement_position")
def _position(of: MaskedAttention) -> Number:
    """Return the disagreement in position, which holds the weights of all heads, as any differentiable measure does."""
    overlap = block(of).measured.overlap
    texts = of.counted.any(1).sum()
    return -torch.where(of.counted[:, None], overlap, 0).sum() / texts


@_term("disagreement_output")
def _output(of: MaskedAttention) -> Number:
    return -units(only(of.counted, of.attention.z)).mean(1).square().sum() / rows(of)


@_term("orthogonality")
def _orthogonality(of: MaskedAttention) -> Number:
    contexts = units(only(of.counted, of.attention.z))
    own = torch.eye(of.n_heads, device=contexts.device, dtype=contexts.dtype)
    products = contexts @ contexts.mT - own
    return torch.where(of.counted.flatten()[:, None, None], products, 0).square().sum() / rows(of)


@_term("output_dissimilarity")
def _output_dissimilarity(of: MaskedAttention) -> Number:
    """Return minus the mean cosine of outputs: cosines of all pairs sum to the square of the summed unit vectors."""
    W_O = of.attention.W_O
    z = only(of.counted, of.attention.z)
    # In float64, or a context that W_O almost ignores would have a length of rounding errors.
    lengths = torch.einsum("rhd,hde,rhe->rh", z.double(), W_O.double() @ W_O.double().mT, z.double())
    possible = z.square().sum(2) * W_O.square().sum((1, 2))
    written = lengths > NOTHING**2 * possible
    per_length = torch.where(written, lengths, 1).rsqrt().to(z.dtype)
    units_of_output = torch.where(written[:, :, None], z * per_length[:, :, None], 0).flatten(1) @ W_O.flatten(0, 1)
    of_different = units_of_output.square().sum() - written.sum()
    return -of_different / (rows(of) * of.n_heads * (of.n_heads - 1))


@_term("query_cka")
def _query_cka(of: MaskedAttention) -> Number:
    return _of_pairs(cka(query_gram(of)))


@_term("context_cka")
def _context_cka(of: MaskedAttention) -> Number:
    return _of_pairs(cka(context_gram(of)))


def _of_pairs(values: Pairs) -> Number:
    """Return the mean over pairs of different heads."""
    n_heads = len(values)
    return (values.sum() - values.diagonal().sum()) / (n_heads * (n_heads - 1))
