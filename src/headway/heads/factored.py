"""Heads: a matrix for each head as the product of two, and what its small core says of it. Float64, on the CPU."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor


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


def _triangle(tall: Float[Tensor, "head tall rank"]) -> Float[Tensor, "head few rank"]:
    """R of the QR factorisation: as R^T R is tall^T tall, norms and singular values of products need no more."""
    return torch.linalg.qr(tall, mode="r").R
