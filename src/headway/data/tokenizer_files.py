"""Limits on tokenizer files from strangers, checked before the tokenizer reads a text.

A tokenizer is a small program: its steps may replace a character by many, again and again, until a short text fills the
memory. So Headway first bounds how many characters the steps can make of a text.
"""

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers

from headway.base.files import kept_json, read_bytes
from headway.errors import UserError, shortened

_LARGEST = {"tokenizer.json": 40_000_000, "vocab.json": 16_000_000, "merges.txt": 16_000_000}
"""The most bytes of each file; the largest known tokenizer.json has 34 MB."""
_MOST_GROWTH = 1_000
"""The most characters that the steps of a tokenizer may make of one."""
_LARGEST_ID = 10_000_000
"""The largest id: ten times the largest vocabulary. The library keeps 4 bytes for every smaller id without a token."""
_LONGEST_WORD = 10_000
"""The longest word that WordPiece searches for pieces, in a time that grows with the square."""


class NoEndOfText(UserError):
    """An error: a tokenizer has no token for the end of a text."""


def check_tokenizer(folder: Path) -> None:
    """Raise UserError if a tokenizer's files or ids are larger than those of real tokenizers.

    Raises:
        UserError: saying what is wrong with them.
    """
    for name, largest in _LARGEST.items():
        try:
            found = (folder / name).stat()
        except OSError:
            continue
        if stat.S_ISREG(found.st_mode) and found.st_size > largest:
            raise UserError(
                f"tokenizer {folder}: {name} has {found.st_size / 1e6:,.0f} MB, and no tokenizer has more than "
                f"{largest / 1e6:g} MB; give another"
            )
    _check_ids(folder)


def _check_ids(folder: Path) -> None:
    """Raise UserError if ids are too large: the library walks through all ids below the largest.

    Raises:
        UserError: naming the largest.
    """
    for name in ("tokenizer.json", "vocab.json"):
        # The library, which reads the file next, reports invalid JSON or an invalid tokenizer.
        content = kept_json(folder / name, links=True)
        largest = max((id for id in _ids(content) if isinstance(id, int)), default=0)
        if largest > _LARGEST_ID:
            raise UserError(
                f"tokenizer {folder}: a token of {name} has the id {shortened(str(largest))}, and {_LARGEST_ID:,} is "
                "the largest that is allowed; give another"
            )


def _ids(content: Any) -> Iterator[Any]:
    """Yield the entries that stand for ids in a tokenizer.json or a vocab.json."""
    if not isinstance(content, dict):
        return
    model, added = content.get("model"), content.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else content
    yield from vocabulary.values() if isinstance(vocabulary, dict) else ()
    yield from (token.get("id") for token in added if isinstance(token, dict)) if isinstance(added, list) else ()


def check_growth(inner: tokenizers.Tokenizer, name: str) -> None:
    """Raise UserError if a tokenizer makes many characters of one or searches words of unbounded length.

    Raises:
        UserError: saying what it would do.
    """
    growth = max(1.0, 1.0 * _growth(_state(inner.normalizer)), 1.0 * _growth(_state(inner.decoder)))
    if growth > _MOST_GROWTH:
        raise UserError(
            f"tokenizer {name}: its steps would make {growth:,.0f} characters of one, and {_MOST_GROWTH:,} are "
            "allowed; give another"
        )
    longest = getattr(inner.model, "max_input_chars_per_word", 0)
    if longest > _LONGEST_WORD:
        raise UserError(
            f"tokenizer {name}: its max_input_chars_per_word is {longest:,}, and {_LONGEST_WORD:,} are allowed; give "
            "another"
        )


def _state(step: Any) -> Any:
    """Return what a tokenizer's step does, as its file states it; empty without a step."""
    return {} if step is None else json.loads(step.__getstate__())


def _growth(step: Any) -> float:
    """Return about how many characters a step makes of one, at most."""
    inner = [each for key in ("normalizers", "decoders") for each in step.get(key, ())]
    growth = 1.0
    for each in inner:
        growth *= _growth(each)
    if step.get("type") == "Replace":
        pattern, content = step["pattern"], len(step["content"])
        replaced = len(pattern.get("String", "")) or 1
        growth *= max(1.0, content / replaced) if pattern.get("String") else 1.0 + content
    if step.get("type") == "Prepend":
        growth *= 1.0 + len(step["prepend"]) / 100
    if step.get("type") == "Precompiled":
        growth *= 20.0 if len(step["precompiled_charsmap"]) < 4_000_000 else 1e6
    return growth


def named_end(folder: Path) -> str | None:
    """Return the token that tokenizer_config.json names as the end of a text; None if it names none."""
    try:
        said = json.loads(read_bytes(folder / "tokenizer_config.json", links=True))
    except (OSError, ValueError, RecursionError):
        return None  # such a file is no part of a tokenizer
    given = said.get("eos_token") if isinstance(said, dict) else None
    given = given.get("content") if isinstance(given, dict) else given
    return given if isinstance(given, str) else None
