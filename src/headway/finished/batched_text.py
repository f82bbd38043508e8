"""Finished: a text that a checked model reads in batches, with another one that stands in for its heads."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headway.finished.interventions import check_sound
from headway.finished.opened import Opened
from headway.finished.two_texts import TwoTexts

if TYPE_CHECKING:
    from headway.heads.causes.batched import BatchedText
    from headway.model.intervenable import Intervenable

BATCH = 1024
"""Tokens that are read together: gradients hold the whole pass of them."""


def batched_text(
    opened: Opened,
    own: "Intervenable",
    texts: TwoTexts,
    *,
    mean_over: str,
    seed: int,
    tell: Callable[[str], object] = lambda _: None,
) -> "BatchedText":
    """Read the other text, of a model that passed its checks.

    Args:
        opened: the model.
        own: what heads are taken away from.
        texts: both texts.
        mean_over: as in `substitutes`.
        seed: of which sequences stand in for which.
        tell: is given how long it takes, where that is long.

    Raises:
        UserError: for a model that fails a check, naming it, and texts that do not fit each other.
    """
    import torch

    from headway.heads.causes.batched import BatchedText
    from headway.heads.causes.other_text import OtherText

    check_sound(own, texts.inputs)
    place = next(opened.module.parameters()).device
    inputs, wanted = (torch.from_numpy(each).to(place) for each in (texts.inputs, texts.targets))
    other = inputs if texts.among else torch.from_numpy(texts.other_inputs).to(place)
    at_once = max(1, BATCH // texts.length)
    read = OtherText.read(own, inputs, other, mean_over=mean_over, seed=seed, at_once=at_once)
    return BatchedText(model=own, inputs=inputs, targets=wanted, other=read, at_once=at_once, tell=tell)
