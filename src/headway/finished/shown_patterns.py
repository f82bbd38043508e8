"""Finished: the patterns that are shown of a model, packed sequence by sequence, as far as a page has room for them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headway.finished.opened import Opened
from headway.finished.to_read import described
from headway.heads.model_on_text import AttentionHeads, labels_of
from headway.heads.packed import PackedPatterns
from headway.heads.repeated import drawn_repeats
from headway.heads.view import ShownSequence, chosen_heads
from headway.words import counted

if TYPE_CHECKING:
    from headway.model.trace import Trace

_SHORTEST = 16
"""Sequences are not cut to fewer tokens than these."""
_AT_ONCE = 1024
"""Tokens that are traced at once."""
Patterns = Mapping[tuple[str, int], PackedPatterns]
"""By attention and number of the sequence."""


@dataclass(frozen=True, kw_only=True)
class SeenModel:
    """A model under view: the text's tokens, what its attentions are, and the heads whose patterns are wanted."""

    opened: Opened
    tokens: np.ndarray
    attentions: tuple[AttentionHeads, ...]
    chosen: Mapping[str, list[int]]

    @classmethod
    def first(cls, opened: Opened, tokens: np.ndarray, heads: str | None) -> "SeenModel":
        """After a first short pass, which says what attentions there are."""
        # A module of one's own may read sequences of one length alone.
        few = tokens[:1] if opened.brought else tokens[:1, :2]
        found = tuple(map(described, opened.trace(few).attentions))
        labels = labels_of(found)
        chosen = chosen_heads(heads, labels, {each.name: each.n_heads for each in found})
        return cls(opened=opened, tokens=tokens, attentions=found, chosen=chosen)

    @property
    def n_heads(self) -> int:
        """Of all attentions."""
        return sum(attention.n_heads for attention in self.attentions)

    @property
    def of_one_length(self) -> bool:
        """Whether it may read sequences of one length alone: what sees everything has nothing that comes later."""
        return self.opened.brought and not self.opened.causal

    def notes(self) -> Iterator[str]:
        """Whose patterns were not asked for."""
        few = sum(map(len, self.chosen.values()))
        if few < self.n_heads:
            yield f"patterns are kept of {few} of {counted(self.n_heads, 'head')}, as asked (--heads)"

    def traces(self) -> "Iterator[tuple[int, Trace]]":
        """What every head does with the text, some sequences at a time, and the number of their first."""
        at_once = max(1, _AT_ONCE // self.tokens.shape[1])
        for first in range(0, len(self.tokens), at_once):
            yield first, self.opened.trace(self.tokens[first : first + at_once])

    def packed(self, sequence: ShownSequence) -> dict[str, PackedPatterns]:
        """The patterns of the wanted heads in one sequence, by attention."""
        trace = self.opened.trace(np.array(sequence.tokens)[None])
        return {
            each.name: PackedPatterns.of(each.patterns()[0, heads].float().cpu().numpy(), heads)
            for each in trace.attentions
            if (heads := self.chosen.get(each.name))
        }


@dataclass(frozen=True, kw_only=True)
class ShownPatterns:
    """Patterns as far as they fit.

    Attributes:
        patterns: of the wanted heads.
        sequences: that they are of.
        room: bytes that are left.
        cuts: what was left out, in sentences.
    """

    patterns: Patterns
    sequences: tuple[ShownSequence, ...]
    room: int
    cuts: tuple[str, ...]


def shown_patterns(seen: SeenModel, n: int, room: int, *, seed: int, below: str) -> ShownPatterns:
    """The patterns of as many sequences as fit, of the text and of repeated tokens in turn.

    Args:
        seen: the model.
        n: sequences of each.
        room: bytes for them.
        seed: of the repeated tokens.
        below: why there is no more room, and what gives more, in words.
    """
    length = seen.tokens.shape[1]
    while True:
        every = _sequences(seen, n, length, seed)
        patterns: dict[tuple[str, int], PackedPatterns] = {}
        left, fitted = room, 0
        for at, sequence in enumerate(every):
            packed = seen.packed(sequence)
            size = sum(len(found.data) for found in packed.values())
            if size > left:
                break
            patterns |= {(name, at): found for name, found in packed.items()}
            left, fitted = left - size, fitted + 1
        if fitted >= min(2, len(every)) or length <= _SHORTEST or seen.of_one_length:
            break
        length //= 2
    cuts = tuple(_cuts(fitted, len(every), length, seen.tokens.shape[1], below))
    return ShownPatterns(patterns=patterns, sequences=every[:fitted], room=left, cuts=cuts)


def _cuts(fitted: int, asked: int, length: int, whole: int, below: str) -> Iterator[str]:
    if length < whole:
        yield f"sequences are cut to {length} of {whole} tokens, {below}"
    if not fitted:
        yield f"no patterns are kept, {below}"
    elif fitted < asked:
        yield f"patterns of {fitted} of {counted(asked, 'sequence')} are kept, {below}"


def _sequences(seen: SeenModel, n: int, length: int, seed: int) -> tuple[ShownSequence, ...]:
    """Of the text and of repeated tokens, in turn, so that both are there where few fit."""
    texts = [ShownSequence(kind="text", tokens=tuple(row[:length].tolist())) for row in seen.tokens[:n]]
    period = min(length // 2, seen.opened.vocab_size)
    if period < 2 or seen.of_one_length:
        return tuple(texts)
    drawn = drawn_repeats(seen.opened.vocab_size, period, len(texts), seed)
    repeated = [
        ShownSequence(kind="repeated", tokens=tuple(row.tolist()), begins=int(begins), period=int(each))
        for row, begins, each in zip(drawn.tokens, drawn.begins, drawn.periods, strict=True)
    ]
    return tuple(each for both in zip(texts, repeated, strict=True) for each in both)
