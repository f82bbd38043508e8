"""Finished: how a text becomes a model's tokens, whoever made its tokenizer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headway.data.tokens.endless_tokenizer import EndlessTokenizer
from headway.data.tokens.tokenizer import Tokenizer
from headway.errors import explained


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """How a tokenizer makes tokens of a text.

    Attributes:
        encode: the tokens of a text alone.
        before: what it puts before a text, such as a Llama's first token.
        after: what it puts after a text.
        end: the token for the end of a text; None where there is none.
    """

    encode: Callable[[str], Sequence[int]]
    before: tuple[int, ...]
    after: tuple[int, ...]
    end: int | None

    @classmethod
    def of(cls, tokenizer: Tokenizer | EndlessTokenizer | Any) -> "Encoder":
        """Of Headway's tokenizer, or of one of the library transformers."""
        if isinstance(tokenizer, Tokenizer | EndlessTokenizer):
            return cls._of(tokenizer.encode, tokenizer.encode_as_written, tokenizer.end_of_text)

        @explained("the tokenizer has no token for a part of the text", "give another: --tokenizer")
        def encode(text: str, **options: Any) -> list[int]:
            return list(tokenizer(text, verbose=False, **options)["input_ids"])

        return cls._of(lambda text: encode(text, add_special_tokens=False), encode, tokenizer.eos_token_id)

    @classmethod
    def _of(
        cls, encode: Callable[[str], Sequence[int]], as_written: Callable[[str], Sequence[int]], end: int | None
    ) -> "Encoder":
        plain, whole = list(encode("a")), list(as_written("a"))
        at = next((at for at in range(len(whole)) if whole[at : at + len(plain)] == plain), 0)
        return cls(encode=encode, before=tuple(whole[:at]), after=tuple(whole[at + len(plain) :]), end=end)

    def whole(self, text: str) -> list[int]:
        """The tokens of a text with what the tokenizer puts around it."""
        return [*self.before, *self.encode(text), *self.after]
