"""Data: a corpus of token ids that another program made: a numpy file with one row of whole numbers.

The token that ends a text parts the documents where it occurs; empty ones are dropped. The file is mapped, never read
whole.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Integer

from headway.errors import UserError

AT_ONCE = 1 << 20
"""Ids that are looked at together, and of a piece of a long document."""


def read_ids(path: Path, vocab_size: int, end_of_text: int) -> Iterator[tuple[np.ndarray, bool]]:
    """The documents of a file in pieces, and of each piece whether its document ends with it.

    Raises:
        UserError: where it is no row of whole numbers, or holds one that is no token.
    """
    array = _mapped(path)
    begun = False
    for first in range(0, len(array), AT_ONCE):
        block = array[first : first + AT_ONCE]
        _check(path, block, first, vocab_size)
        start = 0
        for end in np.flatnonzero(block == end_of_text).tolist():
            if end > start or begun:
                yield block[start:end], True
            start, begun = end + 1, False
        if start < len(block):
            begun = True
            yield block[start:], False
    if begun:
        yield array[:0], True


def _mapped(path: Path) -> Integer[np.ndarray, " token"]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path}: no numpy file of numbers ({error}); write one with numpy.save") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.ndim != 1:
        has = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "several arrays"
        raise UserError(
            f"{path}: it holds {has}, where token ids are a single row of whole numbers; convert it, as with "
            "array.astype('uint16').ravel()"
        )
    return array


def _check(path: Path, block: Integer[np.ndarray, " token"], first: int, vocab_size: int) -> None:
    wrong = np.flatnonzero((block < 0) | (block >= vocab_size))
    if len(wrong):
        raise UserError(
            f"{path}: id {block[wrong[0]]} at position {first + int(wrong[0]):,}, but task.tokenizer has the ids 0 to "
            f"{vocab_size - 1:,}; name the tokenizer that made them, or ids-N with N above the largest"
        )
