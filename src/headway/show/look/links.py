"""Show: sentences in which every head that is named is a link to it."""

import re
from collections.abc import Collection, Iterable

Part = tuple[str, str | None]
"""A piece of a sentence, and the head that it names; None for the rest."""


def linked(sentence: str, labels: Iterable[str], heads: Collection[str]) -> list[Part]:
    """A sentence in pieces.

    Args:
        sentence: of a finding.
        labels: what the attentions are called.
        heads: what heads there are.

    Examples:
        >>> linked("alike: L0H1 and H3 (.4)", ["L0"], ["L0H1", "L0H3"])
        [('alike: ', None), ('L0H1', 'L0H1'), (' and ', None), ('H3', 'L0H3'), (' (.4)', None)]
    """
    longest_first = sorted(labels, key=len, reverse=True)
    named = re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})(H\d+)(?:( and )(H\d+))?")
    parts: list[Part] = []
    at = 0
    for found in named.finditer(sentence):
        label, first, between, second = found.groups()
        parts.append((sentence[at : found.start()], None))
        parts.append((label + first, _known(label + first, heads)))
        if second:
            parts += [(between, None), (second, _known(label + second, heads))]
        at = found.end()
    parts.append((sentence[at:], None))
    return [part for part in parts if part[0]]


def _known(head: str, heads: Collection[str]) -> str | None:
    return head if head in heads else None
