"""Finished: what is written for a token: its text, of which every character is seen, and no more than a few of them."""

import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tokenizers.decoders import ByteLevel

from headway.data.tokens.endless_tokenizer import EndlessTokenizer
from headway.data.tokens.tokenizer import Tokenizer, byte_characters

if TYPE_CHECKING:
    from headway.finished.opened import Opened

LONGEST = 32
"""Characters of a token that are written."""
_SIGNS = {"\n": "↵", "\t": "⇥", "\r": "⇤", " ": " "}
_UNSEEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")
"""Kinds of characters that leave no mark: controls, marks of direction, joiners, spaces other than the usual one."""
_BYTES = byte_characters()
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"


def token_words(opened: "Opened", tokens: Iterable[int]) -> dict[int, str]:
    """What is written for each token, by its id; a part of a character as its bytes or as the tokenizer names it.

    Without a tokenizer a token is its number.
    """
    tokenizer = opened.tokenizer
    if tokenizer is None:
        return {token: f" {token}" for token in sorted(set(tokens))}
    anchor = list(opened.encoder.some)[-1:]
    before = _decoded(tokenizer, anchor)
    return {token: _shown(tokenizer, token, anchor, before) for token in sorted(set(tokens))}


def visible(text: str) -> str:
    r"""A token's text with its odd characters by number, cut where it is long.

    Examples:
        >>> visible(" the"), visible("\n"), visible("\u200b"), visible("")
        (' the', '↵', '⟨U+200B⟩', '⟨nothing⟩')
        >>> visible("ab" * 20)
        'abababababababababababababababab… (40 characters)'
    """
    if not text:
        return "⟨nothing⟩"
    few = text if len(text) <= LONGEST else text[:LONGEST]
    said = "".join(map(_seen, few))
    # A mark that combines with what is before it would leave its token.
    lead = "◌" if unicodedata.combining(few[0]) else ""
    return f"{lead}{said}" + (f"… ({len(text):,} characters)" if len(text) > LONGEST else "")


def _seen(character: str) -> str:
    if character in _SIGNS:
        return _SIGNS[character]
    return f"⟨U+{ord(character):04X}⟩" if unicodedata.category(character) in _UNSEEN else character


def _shown(tokenizer: Any, token: int, anchor: list[int], before: str) -> str:
    try:
        text = _word(tokenizer, token, anchor, before)
        # Some tokenizers put a space between tokens: it is written, and is none of the token's own characters.
        between = text[:1] == " " and text[1:] == _named(tokenizer, token)
        return " " + visible(text[1:]) if between else visible(text)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        return f"⟨token {token}⟩"  # a padded vocabulary has tokens that its tokenizer does not know


def _word(tokenizer: Any, token: int, anchor: list[int], before: str) -> str:
    """A token's text after another one: some tokenizers take the space from the first word of a text."""
    both = _decoded(tokenizer, [*anchor, token])
    text = both[len(before) :] if both.startswith(before) else _decoded(tokenizer, [token])
    if text and _UNKNOWN not in text:
        return text
    named = _named(tokenizer, token)
    return named if named is not None else text


def _decoded(tokenizer: Any, tokens: list[int]) -> str:
    if isinstance(tokenizer, Tokenizer | EndlessTokenizer):
        return tokenizer.decode(tokens)
    return str(tokenizer.decode(tokens, clean_up_tokenization_spaces=False))


def _named(tokenizer: Any, token: int) -> str | None:
    """What the tokenizer calls a token; of bytes that are no whole character, which they are."""
    if not isinstance(tokenizer, Tokenizer | EndlessTokenizer):
        found = tokenizer.convert_ids_to_tokens(token)
        return None if found is None else str(found)
    name = tokenizer.inner.id_to_token(token)
    if name is not None and isinstance(tokenizer.inner.decoder, ByteLevel) and set(name) <= set(_BYTES):
        return "".join(f"⟨{_BYTES.index(character):02X}⟩" for character in name)
    return None if name is None else str(name)
