"""Finished: whether a model's heads can be measured, and how much of a text is read for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headway.errors import UserError
from headway.finished.opened import Opened

if TYPE_CHECKING:
    import torch


@contextmanager
def evaluating(module: "torch.nn.Module") -> Iterator[None]:
    """Within, a module and all in it are in evaluation mode; after it each in its own."""
    modes = {each: each.training for each in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for each, mode in modes.items():
            each.training = mode


def check_measurable(opened: Opened) -> None:
    """It has heads that can be traced, and its weights are numbers; where they are not, their layers are named.

    Raises:
        UserError: where it is not so.
    """
    if opened.brought:
        pass  # it has a trace, or it would not be open
    elif opened.ours is None:
        from headway import hf

        hf.traceable(opened.module)
    elif not opened.ours.model.layout.total:
        raise UserError(f"{opened.name} has no attention heads: there is nothing to measure")
    opened.check_finite("so its heads say nothing")


def length_of(opened: Opened, asked: int | None, at_most: int) -> int:
    """Tokens of a sequence: as asked, or what the model was made for.

    Args:
        opened: the model.
        asked: by somebody; None: nobody did.
        at_most: where nobody did.

    Raises:
        UserError: for fewer than one, or more than the model reads.
    """
    if asked is None:
        return min(opened.n_ctx or at_most, at_most)
    if opened.longest is not None and asked > opened.longest:
        raise UserError(f"length {asked}: {opened.name} reads {opened.longest} tokens at most; give fewer")
    return positive(asked, "length") or at_most


def positive(number: int | None, what: str) -> int | None:
    """A number that was asked for, if it was.

    Raises:
        UserError: when it is below 1.
    """
    if number is not None and number < 1:
        raise UserError(f"{what} {number}: at least 1 is needed")
    return number
