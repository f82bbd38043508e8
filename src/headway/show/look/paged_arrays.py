"""Show: arrays of numbers packed into a page, each an element of its own that is read when it is needed."""

import base64
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class PagedArrays:
    """Arrays by the id of their element, as base64: text that nothing in a page can mistake for anything else."""

    texts: dict[str, str] = field(default_factory=dict)

    def numbers(self, name: str, values: np.ndarray) -> None:
        """Add numbers as float32, row by row; what is not known is NaN."""
        self.packed(name, np.ascontiguousarray(values, "<f4").tobytes())

    def packed(self, name: str, data: bytes) -> None:
        """Add bytes as they are."""
        self.texts[name] = base64.b64encode(data).decode()
