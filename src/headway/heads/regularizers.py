"""Regularisation terms that make a layer's heads different; most are metrics of the same name.

A term is a differentiable number of one attention, made of torch operations alone, so that it runs inside a compiled
loss. A mean of cosines over all pairs of heads needs no pairs: it is ||sum_h u_h||^2 / H^2 for vectors u_h of length 1.

Papers: Li et al. 2018, arXiv 1810.10183 (disagreement); Lee et al. 2019, arXiv 1910.04500 (orthogonality; its exact
formula was not available to us: here it is ||A A^T - I||_F^2, rows of A the contexts of the heads at one position at
length 1, averaged over positions).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from headway.config.lm.training import OWN_TERMS, REGULARIZED, Better
from headway.heads.attention import MaskedAttention, mask_attention
from headway.heads.patterns import cut_block
from headway.heads.sums import ROUNDING, Number, Pairs, cka, gram, n_rows, units
from headway.models.trace import AttentionTrace


@dataclass(frozen=True, kw_only=True)
class Term:
    """A measure of one attention that is added to a loss.

    Attributes:
        better: the direction, `high` or `low`, in which heads are more different.
        function: the function from an attention of two heads or more to a number.
    """

    better: Better
    function: Callable[[MaskedAttention], Number]

    @property
    def sign(self) -> int:
        """The sign of the term in a loss that is minimised."""
        return -1 if self.better == "high" else 1

    def measure(self, attention: AttentionTrace) -> Number:
        """Return the number of an attention."""
        return self.function(mask_attention(attention))


def _subspace(masked: MaskedAttention) -> Number:
    values = units(masked.values)[:, list(masked.attention.kv_of)]
    return -values.mean(1).square().sum() / masked.keys_counted.sum(dtype=torch.float64)


def _position(masked: MaskedAttention) -> Number:
    """Return the disagreement in position, which holds the weights of all heads, as any differentiable measure does."""
    overlap = cut_block(masked).measured.overlap
    texts = masked.counted.any(1).sum()
    return -torch.where(masked.counted[:, None], overlap, 0).sum() / texts


def _orthogonality(masked: MaskedAttention) -> Number:
    contexts = units(masked.contexts)
    own = torch.eye(masked.n_heads, device=contexts.device, dtype=contexts.dtype)
    products = contexts @ contexts.mT - own
    return torch.where(masked.counted.flatten()[:, None, None], products, 0).square().sum() / n_rows(masked)


def _output_dissimilarity(masked: MaskedAttention) -> Number:
    """Return minus the mean cosine of outputs: cosines of all pairs sum to the square of the summed unit vectors."""
    W_O, z = masked.attention.W_O, masked.contexts
    # In float64, or a context that W_O almost ignores would have a length of rounding errors.
    lengths = torch.einsum("rhd,hde,rhe->rh", z.double(), W_O.double() @ W_O.double().mT, z.double())
    possible = z.square().sum(2) * W_O.square().sum((1, 2))
    written = lengths > ROUNDING**2 * possible
    per_length = torch.where(written, lengths, 1).rsqrt().to(z.dtype)
    units_of_output = torch.where(written[:, :, None], z * per_length[:, :, None], 0).flatten(1) @ W_O.flatten(0, 1)
    of_different = units_of_output.square().sum() - written.sum()
    return -of_different / (n_rows(masked) * masked.n_heads * (masked.n_heads - 1))


def _between_heads(pairs: Pairs) -> Number:
    """Return the mean over pairs of different heads."""
    n_heads = len(pairs)
    return (pairs.sum() - pairs.diagonal().sum()) / (n_heads * (n_heads - 1))


_FUNCTIONS: dict[str, Callable[[MaskedAttention], Number]] = {
    "disagreement_subspace": _subspace,
    "disagreement_position": _position,
    "disagreement_output": lambda masked: -units(masked.contexts).mean(1).square().sum() / n_rows(masked),
    "orthogonality": _orthogonality,
    "output_dissimilarity": _output_dissimilarity,
    "query_cka": lambda masked: _between_heads(cka(gram(masked.queries, masked.counted.flatten()))),
    "context_cka": lambda masked: _between_heads(cka(gram(masked.contexts, masked.counted.flatten()))),
}


def term(name: str) -> Term:
    """Return a term, Headway's own or a plugin's, by its name in `training.regularizers`."""
    return Term(better=REGULARIZED[name], function=OWN_TERMS.get(name) or _FUNCTIONS[name])


TERMS = {name: term(name) for name in _FUNCTIONS}
"""Headway's own terms by name."""
