"""Data: the documents of a corpus of one's own: arrays of token ids that a plugin's function gives."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headway.declare.tokens.text import OWN_CORPORA
from headway.errors import UserError


@dataclass(frozen=True, kw_only=True)
class OwnDocuments:
    """Documents that can be gone through again and again; each is looked at when it is given.

    Attributes:
        name: of the corpus.
        vocab_size: ids that there are; the last of them ends a document, and is not in one.
        asked: what names it, for messages.
    """

    name: str
    vocab_size: int
    asked: str

    def __iter__(self) -> Iterator[np.ndarray]:
        for number, document in enumerate(OWN_CORPORA[self.name]()):
            ids = np.asarray(document)
            if ids.ndim != 1 or ids.dtype.kind not in "iu":
                raise UserError(
                    f"{self.asked}: document {number} is {ids.dtype} of shape {ids.shape}, where it is a row of whole "
                    "numbers; give an array of token ids for each"
                )
            if len(wrong := ids[(ids < 0) | (ids >= self.vocab_size - 1)]):
                raise UserError(
                    f"{self.asked}: document {number} holds id {wrong[0]}, but task.tokenizer has the ids 0 to "
                    f"{self.vocab_size - 2:,} and one that ends a document; give ids-N with N above the largest by 2"
                )
            if len(ids):
                yield ids.astype(np.int64)

    @cached_property
    def digest(self) -> str:
        """Of what it holds: its function may read files that change.

        Raises:
            UserError: when it gives other documents at a second look.
        """
        first, again = (self._hash() for _ in range(2))
        if first != again:
            raise UserError(
                f"{self.asked}: it gave other documents when it was asked again; give the same in the same order, "
                "without a global random generator"
            )
        return first

    def _hash(self) -> str:
        found = hashlib.sha256()
        for ids in self:
            found.update(len(ids).to_bytes(8, "little") + ids.tobytes())
        return found.hexdigest()[:32]
