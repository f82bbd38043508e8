"""Attention by its definition, with all logits in memory, which `headway.models.attention` has to equal."""

import torch

from headway.models.attention import sees


def reference_attention(q, k, v, *, scale, window=None, attends="past"):
    """Return a softmax of all logits, unseen ones at -inf, times the values."""
    logits = q @ k.mT * scale
    hidden = ~sees(q.shape[2], k.shape[2], window, q.device, attends)
    # A query that sees nothing has a row of -inf, whose softmax is NaN.
    return logits.masked_fill(hidden, -torch.inf).softmax(3).masked_fill(hidden, 0) @ v
