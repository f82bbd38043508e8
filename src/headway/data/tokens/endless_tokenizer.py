"""Data: a tokenizer that has no token for the end of a text: enough to read one, not to train on it or to write."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import SupportsIndex

import tokenizers


@dataclass(frozen=True, kw_only=True)
class EndlessTokenizer:
    """A tokenizer without a token for the end of a text: it makes tokens of one, and documents are not parted."""

    inner: tokenizers.Tokenizer = field(repr=False)
    vocab_size: int
    end_of_text: None = None

    @classmethod
    def load(cls, folder: Path) -> "EndlessTokenizer":
        """Read a folder with a tokenizer.json that `Tokenizer.load` refused for that alone."""
        inner = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        inner.no_truncation()
        inner.no_padding()
        return cls(inner=inner, vocab_size=max(inner.get_vocab(with_added_tokens=True).values()) + 1)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(self.inner.encode(text, add_special_tokens=False).ids)

    def encode_as_written(self, text: str) -> list[int]:
        """The same with the tokens that it puts around a text."""
        return list(self.inner.encode(text).ids)

    def decode(self, tokens: Iterable[SupportsIndex]) -> str:
        """The text of tokens."""
        return str(self.inner.decode([int(token) for token in tokens], skip_special_tokens=False))
