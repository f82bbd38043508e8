"""Data: a corpus of one document is split by position: its end is held out.

A book has no documents to choose from. Its last share is held out, from the nearest paragraph on, else from the nearest
line, else from the nearest space.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from headway.data.tokens.corpus import Corpus, D
from headway.errors import UserError

REACH = 10_000
"""Characters about the place of the share in which a better one is looked for, at most."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Where the only document of a corpus is parted: what lies between the two ends is white space."""

    end_of_training: int
    start_of_held_out: int
    length: int
    unit: str
    """What positions count: characters, or ids."""

    def sentence(self, corpus: str) -> str:
        """What was done, for the user."""
        held = self.length - self.start_of_held_out
        end = "the id that ends a text" if self.unit == "ids" else "<|endoftext|>"
        return (
            f"task.corpus {corpus} is one document, which is split by position: the last {held:,} of its "
            f"{self.length:,} {self.unit} are held out; put {end} between documents to hold out some of them"
        )


def cut_of(corpus: Corpus[D], share: float) -> Cut:
    """Where the last share of the only document begins.

    Raises:
        UserError: when there is too little of it.
    """
    length, unit = 0, "characters"
    for piece, _ in corpus.pieces():
        length += len(piece)
        unit = "characters" if isinstance(piece, str) else "ids"
    if length < 2:
        raise UserError(f"task.corpus {corpus.name}: it is a single one of {unit}, so none can be held out; give more")
    at = min(max(1, length - math.ceil(share * length)), length - 1)
    ends = (at, at)
    if unit == "characters":
        reach = min(REACH, length - at)
        first = max(0, at - reach)
        window = "".join(str(part) for part in between(corpus.pieces(), first, at + reach))
        end, start = nearest_break(window, at - first, reach // 4)
        ends = (first + end, first + start)
    return Cut(end_of_training=ends[0], start_of_held_out=ends[1], length=length, unit=unit)


def nearest_break(text: str, at: int, near: int) -> tuple[int, int]:
    r"""The white space at which a text is best parted: where it begins and ends; (at, at) if there is none.

    Args:
        text: what is parted; its own ends are no places.
        at: where, about.
        near: a paragraph or a line that is at most so far is better than a nearer space.

    Examples:
        >>> nearest_break("one two\n\nthree", 5, 3), nearest_break("one two\n\nthree", 5, 1)
        ((7, 9), (3, 4))
        >>> nearest_break("word", 2, 9)
        (2, 2)
    """
    places = [m for m in re.finditer(r"\s+", text) if m.start() > 0 and m.end() < len(text)]

    def merit(place: re.Match[str]) -> tuple[int, int]:
        away = abs(place.start() - at)
        return (-min(2, place[0].count("\n")) if away <= near else 0, away)

    best = min(places, key=merit, default=None)
    return (at, at) if best is None else best.span()


def between(pieces: Iterator[tuple[D, bool]], first: int, last: int) -> Iterator[D]:
    """What stands from a position to another one, in pieces."""
    position = 0
    for piece, _ in pieces:
        part = piece[max(0, first - position) : max(0, last - position)]
        position += len(piece)
        if len(part):
            yield part
        if position >= last:
            return
