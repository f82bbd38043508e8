"""Finished: how a text becomes a model's tokens, whoever made its tokenizer."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from headway.data.tokens.endless_tokenizer import EndlessTokenizer
from headway.data.tokens.tokenizer import Tokenizer
from headway.errors import UserError, explained

_TRIED = 100
"""Words of a vocabulary that are given to its own tokenizer."""


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """How a tokenizer makes tokens of a text.

    Attributes:
        encode: the tokens of a text alone.
        before: what it puts before a text, such as a Llama's first token.
        after: what it puts after a text.
        end: the token for the end of a text; None where there is none.
        some: the tokens of a short text, whichever it has tokens for.
    """

    encode: Callable[[str], Sequence[int]]
    before: tuple[int, ...]
    after: tuple[int, ...]
    end: int | None
    some: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer | EndlessTokenizer | Any) -> "Encoder":
        """Of Headway's tokenizer, or of one of the library transformers."""
        if isinstance(tokenizer, Tokenizer | EndlessTokenizer):
            words = partial(tokenizer.inner.get_vocab, with_added_tokens=False)
            return cls._of(tokenizer.encode, tokenizer.encode_as_written, tokenizer.end_of_text, words)

        def encode(text: str, **options: Any) -> list[int]:
            return list(tokenizer(text, verbose=False, **options)["input_ids"])

        alone = partial(encode, add_special_tokens=False)
        return cls._of(alone, encode, tokenizer.eos_token_id, tokenizer.get_vocab)

    @classmethod
    def _of(
        cls,
        encode: Callable[[str], Sequence[int]],
        as_written: Callable[[str], Sequence[int]],
        end: int | None,
        vocabulary: Callable[[], Iterable[str]],
    ) -> "Encoder":
        told = explained("the tokenizer has no token for a part of the text", "give another: --tokenizer")
        encode, as_written = told(encode), told(as_written)
        for text in _words(vocabulary):
            with suppress(UserError):
                if plain := list(encode(text)):
                    break
        else:
            raise UserError("the tokenizer has no tokens for any of its own words; give another: --tokenizer")
        whole = list(as_written(text))
        at = next((at for at in range(len(whole)) if whole[at : at + len(plain)] == plain), 0)
        around = tuple(whole[:at]), tuple(whole[at + len(plain) :])
        return cls(encode=encode, before=around[0], after=around[1], end=end, some=tuple(plain))

    def whole(self, text: str) -> list[int]:
        """The tokens of a text with what the tokenizer puts around it."""
        return [*self.before, *self.encode(text), *self.after]


def _words(vocabulary: Callable[[], Iterable[str]]) -> Iterator[str]:
    """A letter, and where a vocabulary, of digits say, has no token for it some of its own words."""
    yield "a"
    yield from sorted(vocabulary())[:_TRIED]
