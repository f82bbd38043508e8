"""Model: attention by a function of one's own, which changes the scores before their softmax.

Weights of a query thereby sum to 1 and are 0 where it sees nothing, as everything that measures heads expects.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headway.declare.tokens.transformer import OWN_ATTENTIONS, SOFTMAX, Attends

Scores = Callable[[Tensor], Tensor]
"""From logits (..., query, key), -inf where a query does not see a key, to what enters the softmax."""


def scores_of(name: str) -> Scores | None:
    """The function of an attention by its name; None of the usual one."""
    return None if name == SOFTMAX else OWN_ATTENTIONS[name]


def attend_by(
    scores: Scores,
    sees: Callable[..., Bool[Tensor, "query key"]],
    q: Float[Tensor, "batch head query d_head"],
    k: Float[Tensor, "batch head key d_head"],
    v: Float[Tensor, "batch head key d_head"],
    *,
    scale: float,
    window: int | None = None,
    attends: Attends = "past",
    dropout: float = 0.0,
) -> Float[Tensor, "batch head query d_head"]:
    """Contexts of each head, holding all scores; `sees` gives which query sees which key."""
    seen = sees(q.shape[2], k.shape[2], window, q.device, attends)
    return weighed(scores, q, k, v, scale, seen, dropout)


def weighed(
    scores: Scores, q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Bool[Tensor, "..."], dropout: float = 0.0
) -> Float[Tensor, "batch head query d_head"]:
    """The same of queries that see what a mask says."""
    logits = (q @ k.mT * scale).masked_fill(~seen, -torch.inf)
    weights = scores(logits).softmax(3).masked_fill(~seen, 0)
    return nn.functional.dropout(weights, dropout) @ v
