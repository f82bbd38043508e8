"""Finished: a model to be looked at head by head; what `headway.look` and the verb are.

Patterns are traced sequence by sequence and packed at once, until the page that they are for would be too large; what
was left out is said. The numbers are those of an x-ray on the same text.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headway.data.tokens.corpus import find_corpus
from headway.errors import UserError
from headway.finished.looked_at import numbers
from headway.finished.measurable import check_measurable, length_of, positive
from headway.finished.model_folder import model_folder
from headway.finished.opened import Opened
from headway.finished.opening import open_model
from headway.finished.own_text import own_text
from headway.finished.token_words import token_words
from headway.finished.xray import TOKENS, described
from headway.heads.model_on_text import AttentionHeads, labels_of
from headway.heads.packed import PackedPatterns
from headway.heads.repeated import drawn_repeats
from headway.heads.view import AttendedPair, Circuits, Head, ModelView, ShownSequence, chosen_heads
from headway.words import counted

if TYPE_CHECKING:
    from headway.model.trace import Trace

SEQUENCES, LENGTH = 4, 128
"""Sequences of the text, and as many of repeated tokens, and tokens of each, where nobody says."""
LARGEST = 10_000_000
"""Bytes of a page where nobody says."""
_BESIDES, _OF_A_HEAD = 300_000, 3_000
"""Bytes of a page that are no patterns: of any page, and of each head."""
_SHORTEST = 16
"""Sequences are not cut to fewer tokens than these."""
_IN_CIRCUITS = 512
"""Tokens between which circuits are read: the text's most frequent, or a whole vocabulary that is no larger."""
_AT_ONCE = 1024
"""Tokens that are traced at once."""


def look(
    path: str | Path,
    *,
    text: str | Path | None = None,
    heads: str | None = None,
    sequences: int | None = None,
    length: int | None = None,
    draws: int | None = None,
    tokenizer: str | None = None,
    largest: int = LARGEST,
    device: str = "auto",
    seed: int = 0,
    trust_code: bool = False,
) -> ModelView:
    """What there is to see when one looks at the heads of a finished model.

    Args:
        path: of a run's folder, of its checkpoint, or of any local folder of Hugging Face.
        text: a text file, whose documents are parted by `<|endoftext|>`, or any other corpus that a task can name;
            None: of a run what it was judged on.
        heads: whose patterns are kept, such as `L0H3,L2`; None: all.
        sequences: how many of the text are shown, and as many of repeated tokens; None: 4.
        length: tokens of each; None: what the model was made for, at most 128.
        draws: as in `headway.xray`, from which the numbers are.
        tokenizer: another than the folder's: a folder, `bytes` or `gpt2`.
        largest: bytes of a page: patterns that do not fit are left out, and a note says so.
        device: `auto` (a GPU where torch sees one), `cpu`, `cuda` or `cuda:N`.
        seed: of the repeated random tokens.
        trust_code: whether code that comes with a folder of Hugging Face is run where it cannot be opened without.

    Raises:
        UserError: for a model or text that cannot be opened or measured, or no such head, before anything runs.
    """
    import torch

    from headway.train.device import find_device

    if largest < 2 * _BESIDES:
        raise UserError(f"largest {largest:,} bytes: a page without any patterns needs {2 * _BESIDES:,}; give more")
    folder = model_folder(path)
    name_of_text = str(text) if text is not None else own_text(path)
    corpus = find_corpus(name_of_text, limit=None, asked="text")
    place = find_device(device)
    opened = open_model(path, tokenizer, trust_code=trust_code)
    check_measurable(opened)
    wanted, n = length_of(opened, length, LENGTH), positive(sequences, "sequences") or SEQUENCES
    tokens = opened.sequences(corpus.documents(), n=max(n, TOKENS // wanted), length=wanted)
    opened.module.to(place)
    with torch.inference_mode():
        seen = _Seen.first(opened, tokens, heads)
        patterns, shown, cut = _kept(seen, n, largest, seed)
        pairs = _pairs(seen)
        circuits = _circuits(opened, tokens)
        found = numbers(
            path, opened, tokens, text=name_of_text, attentions=seen.attentions, tokenizer=tokenizer, draws=draws,
            device=device, seed=seed, trust_code=trust_code,
        )  # fmt: skip
    return ModelView(
        name=opened.name,
        found=found,
        words=token_words(opened, _occurring(shown, pairs, circuits)),
        sequences=shown,
        patterns=patterns,
        pairs=pairs,
        pairs_from=len(tokens),
        circuits=circuits,
        run=folder.path if folder.kind == "run" else None,
        decodes=opened.kind == "encoder-decoder",
        notes=(*seen.notes(), *cut),
    )


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A model under view: the text's tokens, what its attentions are, and the heads whose patterns are wanted."""

    opened: Opened
    tokens: np.ndarray
    attentions: tuple[AttentionHeads, ...]
    chosen: Mapping[str, list[int]]

    @classmethod
    def first(cls, opened: Opened, tokens: np.ndarray, heads: str | None) -> "_Seen":
        """After a first short pass, which says what attentions there are."""
        found = tuple(map(described, opened.trace(tokens[:1, :2]).attentions))
        labels = labels_of(found)
        chosen = chosen_heads(heads, labels, {each.name: each.n_heads for each in found})
        return cls(opened=opened, tokens=tokens, attentions=found, chosen=chosen)

    @property
    def n_heads(self) -> int:
        return sum(attention.n_heads for attention in self.attentions)

    def notes(self) -> Iterator[str]:
        """Whose patterns were not asked for."""
        few = sum(map(len, self.chosen.values()))
        if few < self.n_heads:
            yield f"patterns are kept of {few} of {counted(self.n_heads, 'head')}, as asked (--heads)"

    def packed(self, tokens: Sequence[int]) -> dict[str, PackedPatterns]:
        """The patterns of the wanted heads in one sequence, by attention."""
        trace = self.opened.trace(np.array(tokens)[None])
        return {
            each.name: PackedPatterns.of(each.patterns()[0, heads].float().cpu().numpy(), heads)
            for each in trace.attentions
            if (heads := self.chosen.get(each.name))
        }


def _kept(
    seen: _Seen, n: int, largest: int, seed: int
) -> tuple[dict[tuple[str, int], PackedPatterns], tuple[ShownSequence, ...], list[str]]:
    """Patterns as far as they fit, the sequences that they are of, and what was cut, in sentences."""
    room = (largest - _BESIDES - _OF_A_HEAD * seen.n_heads) * 3 // 4
    length = seen.tokens.shape[1]
    while True:
        every = _sequences(seen, n, length, seed)
        patterns: dict[tuple[str, int], PackedPatterns] = {}
        left, fitted = room, 0
        for at, sequence in enumerate(every):
            packed = seen.packed(sequence.tokens)
            left -= sum(len(found.data) for found in packed.values())
            if left < 0:
                break
            patterns |= {(name, at): found for name, found in packed.items()}
            fitted += 1
        if fitted >= min(2, len(every)) or length <= _SHORTEST:
            break
        length //= 2
    return patterns, every[:fitted], _cuts(seen, fitted, len(every), length, largest)


def _cuts(seen: _Seen, fitted: int, asked: int, length: int, largest: int) -> list[str]:
    more = "fewer heads (--heads), a shorter --length or a larger --largest keep more"
    below = f"so that the page stays below {largest / 1e6:,.3g} MB; {more}"
    said = []
    if length < seen.tokens.shape[1]:
        said.append(f"sequences are cut to {length} of {seen.tokens.shape[1]} tokens, {below}")
    if not fitted:
        said.append(f"no patterns are kept, {below}")
    elif fitted < asked:
        said.append(f"patterns of {fitted} of {counted(asked, 'sequence')} are kept, {below}")
    return said


def _sequences(seen: _Seen, n: int, length: int, seed: int) -> tuple[ShownSequence, ...]:
    """Of the text and of repeated tokens, in turn, so that both are there where few fit."""
    texts = [ShownSequence(kind="text", tokens=tuple(row[:length].tolist())) for row in seen.tokens[:n]]
    period = min(length // 2, seen.opened.vocab_size)
    if period < 2:
        return tuple(texts)
    drawn = drawn_repeats(seen.opened.vocab_size, period, len(texts), seed)
    repeated = [
        ShownSequence(kind="repeated", tokens=tuple(row.tolist()), begins=int(begins), period=int(each))
        for row, begins, each in zip(drawn.tokens, drawn.begins, drawn.periods, strict=True)
    ]
    return tuple(each for both in zip(texts, repeated, strict=True) for each in both)


def _pairs(seen: _Seen) -> dict[Head, tuple[AttendedPair, ...]]:
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
    for first, trace in _traces(seen):
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


def _traces(seen: _Seen) -> "Iterator[tuple[int, Trace]]":
    at_once = max(1, _AT_ONCE // seen.tokens.shape[1])
    for first in range(0, len(seen.tokens), at_once):
        yield first, seen.opened.trace(seen.tokens[first : first + at_once])


def _circuits(opened: Opened, tokens: np.ndarray) -> Circuits | None:
    """What circuits say in tokens, of models of ours."""
    from headway.heads.token_circuits import token_circuits

    if opened.ours is None:
        return None
    if opened.vocab_size <= _IN_CIRCUITS:
        return token_circuits(opened.ours, range(opened.vocab_size))
    counts = Counter(tokens.ravel().tolist())
    return token_circuits(opened.ours, sorted(token for token, _ in counts.most_common(_IN_CIRCUITS)))


def _occurring(
    shown: Sequence[ShownSequence], pairs: Mapping[Head, Sequence[AttendedPair]], circuits: Circuits | None
) -> Iterator[int]:
    """The tokens that a page names."""
    for sequence in shown:
        yield from sequence.tokens
    for of_head in pairs.values():
        for pair in of_head:
            yield from (pair.query, pair.key)
    for said in () if circuits is None else circuits.of.values():
        for token, _ in (*said.copies, *said.suppresses):
            yield token
        for one, other, _ in (*said.raises, *said.matches):
            yield from (one, other)
