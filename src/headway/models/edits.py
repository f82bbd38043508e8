"""Interventions inside a forward pass: functions that replace the tensor at a named site.

Ablating, patching and pruning are made of these alone. Each kind of tensor has one site, so that no mask is ever
multiplied into another mask, nor into the output of the output projection.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from torch import Tensor

Site = Literal["q", "k", "v", "z"]
"""q and k as they enter the dot product (k and v of the KV heads), v, and z, the contexts that enter the output
projection, after gates: each (batch, head, pos, d_head)."""

Edit = Callable[[Tensor], Tensor]

Edits = Mapping[tuple[int, Site], Edit]
"""Edits by layer and site. Law: an edit that returns its argument changes no bit."""


def edited(x: Tensor, edits: Edits | None, layer: int, site: Site) -> Tensor:
    """Return the tensor at a site, edited if the site has an edit."""
    edit = None if edits is None else edits.get((layer, site))
    return x if edit is None else edit(x)
