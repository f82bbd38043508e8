"""The tokens and patterns that the page of `headway look` shows of a model, as far as the page has room.

* `shown_patterns`: patterns, packed sequence by sequence; `attended_pairs` and `circuit_tokens`: token pairs, and the
  tokens between which circuits are read;
* `token_words`: the text of a token, at most a few characters, every one visible;
* `PageRoom`: the room that one page has for a model, in bytes and in training steps.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers.decoders import ByteLevel

from headway.analysis.inputs import described
from headway.analysis.model import Opened
from headway.base.words import say
from headway.config.spec import thinned
from headway.data.tokenizer import NoEosTokenizer, Tokenizer, byte_characters
from headway.heads import results

if TYPE_CHECKING:
    from headway.models.trace import Trace


_SHORTEST = 16
"""Sequences are not cut to fewer tokens than these."""
_AT_ONCE = 1024
"""Tokens that are traced at once."""
Patterns = Mapping[tuple[str, int], results.PackedPatterns]
"""Packed patterns by attention and number of the sequence."""


@dataclass(frozen=True, kw_only=True)
class SeenModel:
    """A model under view: the text's tokens, what its attentions are, and the heads whose patterns are wanted."""

    opened: Opened
    tokens: np.ndarray
    attentions: tuple[results.AttentionHeads, ...]
    chosen: Mapping[str, list[int]]

    @classmethod
    def first(cls, opened: Opened, tokens: np.ndarray, heads: str | None) -> "SeenModel":
        """Open a model after a first short pass, which finds its attentions."""
        # A module of one's own may read sequences of one length alone.
        few = tokens[:1] if opened.brought else tokens[:1, :2]
        found = tuple(map(described, opened.trace(few).attentions))
        chosen = results.chosen_heads(heads, results.labels_of(found), {each.name: each.n_heads for each in found})
        return cls(opened=opened, tokens=tokens, attentions=found, chosen=chosen)

    @property
    def n_heads(self) -> int:
        """The number of heads of all attentions."""
        return sum(attention.n_heads for attention in self.attentions)

    @property
    def of_one_length(self) -> bool:
        """True if the model may read sequences of one length only: it reads a task's examples without a causal mask."""
        return self.opened.brought and not self.opened.causal

    def notes(self) -> Iterator[str]:
        """Yield a note on heads whose patterns were not asked for."""
        few = sum(map(len, self.chosen.values()))
        if few < self.n_heads:
            yield say("chosen_patterns", n=few, all=self.n_heads)

    def traces(self) -> "Iterator[tuple[int, Trace]]":
        """Yield the traces of the text, some sequences at a time, each with the number of its first sequence."""
        at_once = max(1, _AT_ONCE // self.tokens.shape[1])
        for first in range(0, len(self.tokens), at_once):
            yield first, self.opened.trace(self.tokens[first : first + at_once])

    def packed(self, sequence: results.ShownSequence) -> dict[str, results.PackedPatterns]:
        """The patterns of the wanted heads in one sequence, by attention."""
        trace = self.opened.trace(np.array(sequence.tokens)[None])
        return {
            each.name: results.PackedPatterns.of(each.patterns()[0, heads].float().cpu().numpy(), heads)
            for each in trace.attentions
            if (heads := self.chosen.get(each.name))
        }


@dataclass(frozen=True, kw_only=True)
class ShownPatterns:
    """The patterns that fit into a page.

    Attributes:
        patterns: the patterns of the wanted heads.
        sequences: the sequences of the patterns.
        room: the bytes that are left.
        cuts: the sentences that say what was left out.
    """

    patterns: Patterns
    sequences: tuple[results.ShownSequence, ...]
    room: int
    cuts: tuple[str, ...]


def shown_patterns(seen: SeenModel, n: int, room: int, *, seed: int, below: str) -> ShownPatterns:
    """The patterns of as many sequences as fit, of the text and of repeated tokens in turn.

    Args:
        seen: the model.
        n: the number of sequences of each kind.
        room: the bytes for the patterns.
        seed: the random seed of the repeated tokens.
        below: the reason why there is no more room, and the way to get more, in words.
    """
    whole = length = seen.tokens.shape[1]
    while True:
        every = _sequences(seen, n, length, seed)
        patterns: dict[tuple[str, int], results.PackedPatterns] = {}
        left = room
        fitted = 0
        for at, sequence in enumerate(every):
            packed = seen.packed(sequence)
            size = sum(len(found.data) for found in packed.values())
            if size > left:
                break
            patterns |= {(name, at): found for name, found in packed.items()}
            left -= size
            fitted += 1
        if fitted >= min(2, len(every)) or length <= _SHORTEST or seen.of_one_length:
            break
        length //= 2
    cuts = list[str]()
    asked = len(every)
    if length < whole:
        cuts.append(say("cut_sequences", length=length, whole=whole, below=below))
    if not fitted:
        cuts.append(say("no_patterns", below=below))
    elif fitted < asked:
        cuts.append(say("kept_patterns", n=fitted, all=asked, below=below))
    return ShownPatterns(
        patterns=patterns,
        sequences=every[:fitted],
        room=left,
        cuts=tuple(cuts),
    )


def _sequences(seen: SeenModel, n: int, length: int, seed: int) -> tuple[results.ShownSequence, ...]:
    """Return sequences of the text and of repeated tokens, in turn, so that a few sequences contain both."""
    texts = [results.ShownSequence(kind="text", tokens=tuple(row[:length].tolist())) for row in seen.tokens[:n]]
    n_tokens = known_tokens(seen.opened)
    period = min(length // 2, n_tokens)
    if period < 2 or seen.of_one_length:
        return tuple(texts)
    from headway.heads.measure import drawn_repeats  # loads torch

    drawn = drawn_repeats(n_tokens, period, len(texts), seed)
    shown = []
    for text, row, begins, each in zip(texts, drawn.tokens, drawn.begins, drawn.periods, strict=True):
        tokens = tuple(row.tolist())
        shown += [text, results.ShownSequence(kind="repeated", tokens=tokens, begins=int(begins), period=int(each))]
    return tuple(shown)


_IN_CIRCUITS = 512
"""Tokens between which circuits are read: the text's most frequent, or a whole vocabulary that is no larger."""


def attended_pairs(seen: SeenModel) -> dict[results.Head, tuple[results.AttendedPair, ...]]:
    """The most attended pairs of tokens of every head, over the text."""
    from headway.heads.token_circuits import TokenPairs

    read = decoded = seen.tokens
    if seen.opened.kind == "encoder-decoder":
        from headway.hf.recorder import start_token

        start = start_token(seen.opened.module)
        decoded = np.concatenate((np.full_like(read[:, :1], start), read[:, :-1]), axis=1)
    by_kind = {}
    for kind in {attention.kind for attention in seen.attentions}:
        queries = read if kind == "encoder" else decoded
        keys = decoded if kind == "self" else read
        by_kind[kind] = TokenPairs(queries, keys, same=kind != "cross")
    for first, trace in seen.traces():
        for attention in trace.attentions:
            by_kind[attention.kind].add(attention, first)
    return {
        (attention.name, head): found
        for attention in seen.attentions
        for head, found in by_kind[attention.kind].top(attention.name).items()
    }


def circuit_tokens(opened: Opened, tokens: np.ndarray) -> list[int]:
    """The tokens between which circuits are read: a whole vocabulary that is small, or the text's most frequent."""
    if (n_tokens := known_tokens(opened)) <= _IN_CIRCUITS:
        return list(range(n_tokens))
    return sorted(token for token, _ in Counter(tokens.ravel().tolist()).most_common(_IN_CIRCUITS))


def known_tokens(opened: Opened) -> int:
    """Return the number of tokens that stand for text: a padded vocabulary has more rows than its tokenizer tokens."""
    tokenizer = opened.tokenizer
    if tokenizer is None:
        return opened.vocab_size
    n_tokens = tokenizer.vocab_size if isinstance(tokenizer, Tokenizer | NoEosTokenizer) else len(tokenizer)
    return min(opened.vocab_size, n_tokens)


def occurring(
    sequences: Sequence[results.ShownSequence],
    pairs: Mapping[results.Head, Sequence[results.AttendedPair]],
    every_circuits: Iterable[results.Circuits | None],
) -> Iterator[int]:
    """The tokens that a page names."""
    for sequence in sequences:
        yield from sequence.tokens
    for pair in chain.from_iterable(pairs.values()):
        yield from (pair.query, pair.key)
    for circuits in filter(None, every_circuits):
        for said in circuits.of.values():
            yield from (token for token, _ in (*said.copies, *said.suppresses))
            for one, other, _ in (*said.raises, *said.matches):
                yield from (one, other)


LONGEST = 32
"""Characters of a token that are written."""
_SIGNS = {"\n": "↵", "\t": "⇥", "\r": "⇤", " ": " "}
_BYTES = byte_characters()
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"


def token_words(opened: "Opened", tokens: Iterable[int]) -> dict[int, str]:
    """Return the text of each token by its id; a part of a character as its bytes or as the tokenizer names it.

    Without a tokenizer, a token's text is its number.
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
    few = text[:LONGEST]
    said = "".join(map(_seen, few))
    # A mark that combines with what is before it would leave its token.
    lead = "◌" if unicodedata.combining(few[0]) else ""
    return f"{lead}{said}" + (f"… ({len(text):,} characters)" if len(text) > LONGEST else "")


def _seen(character: str) -> str:
    return _SIGNS.get(character, character if character.isprintable() else f"⟨U+{ord(character):04X}⟩")


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
    return text if (named := _named(tokenizer, token)) is None else named


def _decoded(tokenizer: Any, tokens: list[int]) -> str:
    if isinstance(tokenizer, Tokenizer | NoEosTokenizer):
        return tokenizer.decode(tokens)
    return str(tokenizer.decode(tokens, clean_up_tokenization_spaces=False))


def _named(tokenizer: Any, token: int) -> str | None:
    """Return the tokenizer's name of a token; for bytes that are no whole character, the bytes."""
    of_headway = isinstance(tokenizer, Tokenizer | NoEosTokenizer)
    name = tokenizer.inner.id_to_token(token) if of_headway else tokenizer.convert_ids_to_tokens(token)
    if name is None:
        return None
    if of_headway and isinstance(tokenizer.inner.decoder, ByteLevel) and set(name) <= set(_BYTES):
        return "".join(f"⟨{_BYTES.index(character):02X}⟩" for character in name)
    return str(name)


_BESIDES, _OF_A_HEAD, _OF_A_STEP = 300_000, 3_000, 1_000
"""Bytes of a page that are no patterns: of any page, of each head, and of each head at a step of its training."""
SMALLEST = 2 * _BESIDES
"""Bytes of the smallest page."""
_SHARE = 0.2
"""The largest share of a page for the circuits of training steps."""
_MOST = 60
"""Steps of a slider."""


@dataclass(frozen=True, kw_only=True)
class PageRoom:
    """The room of a page.

    Attributes:
        largest: the largest size of the page, in bytes.
        n_heads: the number of the model's heads.
    """

    largest: int
    n_heads: int

    @property
    def below(self) -> str:
        """The reason why there is no more room, and the options that give more."""
        return say("page_limit", size=self.largest / 1e6)

    def steps(self, kept: Sequence[int]) -> list[int]:
        """Return the steps with kept weights that are on the page, evenly on a log scale."""
        most = max(2, min(_MOST, int(_SHARE * self.largest / (_OF_A_STEP * self.n_heads))))
        return [kept[at] for at in thinned(kept, most)]

    def left_out(self, kept: Sequence[int]) -> Iterator[str]:
        """Yield a sentence on the steps that the page leaves out."""
        few = len(self.steps(kept))
        if few < len(kept):
            yield say("shown_circuits", n=few, all=len(kept))

    def for_patterns(self, n_steps: int) -> int:
        """Return the bytes that are left for patterns, before a page encodes them as letters."""
        return (self.largest - _BESIDES - (_OF_A_HEAD + _OF_A_STEP * n_steps) * self.n_heads) * 3 // 4
