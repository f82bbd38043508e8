"""Finished: whether a model's heads can be measured, and how much of a text is read for it."""

import re
from itertools import chain

from headway.errors import UserError
from headway.finished.opened import Opened


def check_measurable(opened: Opened) -> None:
    """It has heads that can be traced, and its weights are numbers; where they are not, their layers are named.

    Raises:
        UserError: where it is not so.
    """
    if opened.ours is None:
        from headway import hf

        hf.traceable(opened.module)
    elif not opened.ours.model.layout.total:
        raise UserError(f"{opened.name} has no attention heads: there is nothing to measure")
    broken: dict[str, list[str]] = {}
    for name, weight in chain(opened.module.named_parameters(), opened.module.named_buffers()):
        if weight.is_floating_point() and not weight.detach().isfinite().all():
            layer = re.match(r".*?\.\d+(?=\.)", name)
            where, rest = (layer[0], name[layer.end() + 1 :]) if layer else ("outside of the layers", name)
            broken.setdefault(where, []).append(rest)
    if broken:
        said = "; ".join(f"{where}: {', '.join(names)}" for where, names in broken.items())
        raise UserError(
            f"{opened.name}: weights are NaN or infinite, so its heads say nothing ({said}); take another checkpoint"
        )


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
