"""Model: interventions inside a forward pass: functions of what stands at a place, whose results stand there instead.

Ablating, patching and pruning are made of these alone. There is one place for each, so that no mask is ever
multiplied into another one, nor into what the output projection returned.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from torch import Tensor

Site = Literal["q", "k", "v", "z"]
"""q and k as they enter the dot product (k and v of the KV heads), v, and z, the contexts that enter the output
projection, after gates: each (batch, head, pos, d_head)."""

Edit = Callable[[Tensor], Tensor]

Edits = Mapping[tuple[int, Site], Edit]
"""By layer and site. Law: an edit that returns what it was given changes no bit."""


def edited(x: Tensor, edits: Edits | None, layer: int, site: Site) -> Tensor:
    """What stands at a site after the edit of it, if there is one."""
    edit = None if edits is None else edits.get((layer, site))
    return x if edit is None else edit(x)
