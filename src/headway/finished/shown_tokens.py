"""Finished: the tokens that are shown of a model: their pairs, and those that circuits are read between."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from headway.finished.opened import Opened
from headway.finished.shown_patterns import SeenModel
from headway.heads.view import AttendedPair, Circuits, Head, ShownSequence

_IN_CIRCUITS = 512
"""Tokens between which circuits are read: the text's most frequent, or a whole vocabulary that is no larger."""


def attended_pairs(seen: SeenModel) -> dict[Head, tuple[AttendedPair, ...]]:
    """The most attended pairs of tokens of every head, over the text."""
    from headway.heads.attended import TokenPairs

    by_kind = {}
    decoded = seen.tokens
    if seen.opened.kind == "encoder-decoder":
        decoded = np.concatenate((np.full_like(seen.tokens[:, :1], _start(seen.opened)), seen.tokens[:, :-1]), axis=1)
    for kind in {attention.kind for attention in seen.attentions}:
        queries = seen.tokens if kind == "encoder" else decoded
        keys = decoded if kind == "self" else seen.tokens
        by_kind[kind] = TokenPairs(queries, keys, same=kind in ("self", "encoder"))
    for first, trace in seen.traces():
        for attention in trace.attentions:
            by_kind[attention.kind].add(attention, first)
    return {
        (attention.name, head): found
        for attention in seen.attentions
        for head, found in by_kind[attention.kind].top(attention.name).items()
    }


def _start(opened: Opened) -> int:
    """The token that a decoder over an encoder begins with, as `hf.tracing` gives it."""
    config = opened.module.config
    starts = (getattr(config, name, None) for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"))
    return int(next((token for token in starts if token is not None), 0))


def circuit_tokens(opened: Opened, tokens: np.ndarray) -> list[int]:
    """The tokens between which circuits are read: a whole vocabulary that is small, or the text's most frequent."""
    if opened.vocab_size <= _IN_CIRCUITS:
        return list(range(opened.vocab_size))
    return sorted(token for token, _ in Counter(tokens.ravel().tolist()).most_common(_IN_CIRCUITS))


def occurring(
    sequences: Sequence[ShownSequence],
    pairs: Mapping[Head, Sequence[AttendedPair]],
    every_circuits: Iterable[Circuits | None],
) -> Iterator[int]:
    """The tokens that a page names."""
    for sequence in sequences:
        yield from sequence.tokens
    for of_head in pairs.values():
        for pair in of_head:
            yield from (pair.query, pair.key)
    for circuits in every_circuits:
        for said in () if circuits is None else circuits.of.values():
            for token, _ in (*said.copies, *said.suppresses):
                yield token
            for one, other, _ in (*said.raises, *said.matches):
                yield from (one, other)
