"""Data: how much of a text its tokens give back: words that are unknown, spaces and capitals may be lost.

Bits per byte are bits per byte of the text. Where tokens stand for another text, they are not.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.data.tokens.tokenizer import Tokenizer

_MOST = 1 << 22
"""Characters that are looked at."""


@dataclass(kw_only=True)
class TextKept:
    """Adds up, document by document, how much of it is kept."""

    tokenizer: Tokenizer
    _kept: int = 0
    _of: int = 0

    def look(self, document: Any, ids: np.ndarray) -> None:
        """Look at a text and its tokens; of tokens without a text, at those that are not the unknown one."""
        if self._of >= _MOST:
            return
        if not isinstance(document, str):
            kept = ids if self.tokenizer.unknown is None else ids[ids != self.tokenizer.unknown]
            self._kept, self._of = self._kept + len(kept), self._of + len(ids)
            return
        given_back = self.tokenizer.text_of(ids)
        self._kept += (Counter(document) & Counter(given_back)).total()
        # Spaces that the text does not have would make bytes cheap, too.
        self._of += max(len(document), len(given_back))

    @property
    def share(self) -> float:
        """Of the characters."""
        return self._kept / self._of if self._of else 1.0
