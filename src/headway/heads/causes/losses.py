"""Heads: the loss of each sequence, from the stream after the last layer.

Logits of all tokens at once are often the largest thing in a forward pass, and a loss needs them a few rows at a time.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.errors import UserError
from headway.model.intervenable import Intervenable

_LOGITS = 4 << 20
"""Logits that are held at once; more would only leave the processor's cache."""


def sequence_losses(
    model: Intervenable, stream: Float[Tensor, "batch pos d_model"], targets: Int[Tensor, "batch pos"]
) -> Float[Tensor, " batch"]:
    """Mean cross-entropy in nats per token of each sequence, in float64, over the targets that are not -1.

    Law: their mean, weighted by `counted` tokens, is `mean_nll` of the logits.

    Args:
        model: whose read-out it is.
        stream: after the last layer, before the final norm.
        targets: the tokens after each position; -1 where none is counted.
    """
    rows = (targets.flatten() != -1).nonzero()[:, 0]
    streams, wanted = stream.flatten(0, 1), targets.flatten()[rows]
    losses = torch.zeros(targets.numel(), dtype=torch.float64, device=stream.device)
    size = max(1, _LOGITS // model.vocab_size)
    for some, tokens in zip(rows.split(size), wanted.split(size), strict=True):
        logits = model.read_out(streams[some][None])[0].float()
        losses[some] = (logits.logsumexp(1) - logits.gather(1, tokens[:, None])[:, 0]).double()
    return losses.unflatten(0, targets.shape).sum(1) / counted(targets)


def counted(targets: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
    """How many tokens of each sequence count."""
    return (targets != -1).sum(1)


def check_text(model: Intervenable, inputs: Int[Tensor, "batch pos"], targets: Int[Tensor, "others span"]) -> None:
    """Nothing, when effects can be measured on a text.

    Raises:
        UserError: when inputs and targets do not fit each other, a sequence has no target, or the model drops entries.
    """
    if inputs.shape != targets.shape or not inputs.numel():
        raise UserError(
            f"inputs of {list(inputs.shape)} and targets of {list(targets.shape)} (sequence, position) were given; "
            "give as many targets as inputs, of one sequence or more"
        )
    if not bool(counted(targets).all()):
        empty = int((counted(targets) == 0).nonzero()[0, 0])
        raise UserError(
            f"sequence {empty} has no target that counts (all are -1), so no head can matter to it; leave it out"
        )
    if model.training and model.dropout:
        raise UserError(
            f"the model is in training mode and drops {model.dropout:.0%} of entries at random, which would be "
            "taken for effects of heads; call model.eval()"
        )
