"""Heads: how much each head adds to the residual stream, beside the other heads of its layer."""

import torch
from jaxtyping import Float
from torch import Tensor

from headway.heads.registry import metric


@metric("output_share")
def output_share(output_sizes: Float[Tensor, " head"]) -> Float[Tensor, " head"]:
    """||z_h W_O^h||^2, summed over rows, over its sum over heads; 0 where no head adds anything.

    Contributions that cancel or reinforce one another do so in the stream, not here: shares are of the heads' own
    sizes, and sum to 1.
    """
    whole = output_sizes.sum()
    return torch.where(whole > 0, output_sizes / whole, 0)
