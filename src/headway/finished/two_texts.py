"""Finished: a text whose loss is measured without some heads, and another one that stands in for them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.data.tokens.corpus import find_corpus
from headway.errors import UserError
from headway.finished.measurable import length_of, positive
from headway.finished.opened import Opened
from headway.finished.own_text import OwnExamples
from headway.words import counted

if TYPE_CHECKING:
    from headway.finished.opened import TokenIds

TOKENS, LENGTH = 8192, 256
"""What is read where nobody says: sequences are what intervals are over, so there are many."""


@dataclass(frozen=True, kw_only=True)
class TwoTexts:
    """Sequences of a text and of another one, all of one length.

    Attributes:
        text: what the loss is measured on, by name.
        inputs: its sequences.
        targets: the token after each of theirs; -1 where none is counted.
        other: what stands in, in words.
        other_inputs: its sequences; none of them is one of the text's, unless these are all that there are.
    """

    text: str
    inputs: np.ndarray
    targets: np.ndarray
    other: str
    other_inputs: np.ndarray

    @property
    def among(self) -> bool:
        """Whether the text's own sequences stand in for one another."""
        return self.other_inputs is self.inputs

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return int(self.inputs.shape[1])


def two_texts(
    opened: Opened,
    text: "str | Path | TokenIds",
    reference: "str | Path | TokenIds | None",
    *,
    sequences: int | None,
    length: int | None,
) -> TwoTexts:
    """Read a text and another one; without one, the text's further sequences stand in.

    Args:
        opened: the model.
        text: a text file or another corpus, or (sequence, pos) tokens.
        reference: the same of the other text.
        sequences: of each, at most; None: 8,192 tokens of them.
        length: of a sequence; None: what the model was made for, at most 256. Of tokens it is their own.

    Raises:
        UserError: for a text that cannot be read, is shorter than one sequence, or leaves nothing to stand in.
    """
    if reference is not None and _same(text, reference):
        raise UserError(
            "reference: it is the text itself, so heads would be replaced by what they do anyway; give another "
            "text, or none: then the text's further sequences stand in"
        )
    wanted = length_of(opened, length, LENGTH)
    n = positive(sequences, "sequences") or max(2, TOKENS // wanted)
    if n < 2:
        raise UserError("sequences 1: intervals are over sequences; give 2 or more")
    if reference is not None:
        tokens, other = (_read(opened, *each, n, wanted) for each in ((text, "text"), (reference, "reference")))
        said = f"{counted(len(other), 'sequence')} of {_said(reference)}"
    else:
        both = _read(opened, text, "text", 2 * n, wanted)
        if len(both) < 3:
            raise UserError(
                f"{_said(text)}: it gives {counted(len(both), 'sequence')} of {both.shape[1] - 1:,} tokens, but 3 are "
                "needed: two for an interval, and another to stand in for heads; give a longer text, a smaller length, "
                "or another text as reference"
            )
        half = -(-len(both) // 2)
        tokens, other = both[:half], both[half:]
        said = f"{counted(len(other), 'further sequence')} of {_said(text)}"
    if len(tokens) < 2:
        raise UserError(
            f"{_said(text)}: it gives one sequence of {tokens.shape[1] - 1:,} tokens, but intervals are over sequences"
            "; give a longer text, or a smaller length"
        )
    return TwoTexts(
        text=_said(text), inputs=tokens[:, :-1], targets=tokens[:, 1:], other=said, other_inputs=other[:, :-1]
    )


def of_examples(
    opened: Opened,
    found: OwnExamples,
    reference: "str | Path | TokenIds | None",
    *,
    sequences: int | None,
    length: int | None,
) -> TwoTexts:
    """Examples of a task and others of them; where they are all that there are, they stand in for one another.

    Raises:
        UserError: for another text or length, or too few examples.
    """
    n_ctx = found.inputs.shape[1]
    if reference is not None or length not in (None, n_ctx):
        raise UserError(
            f"{found.name} are read whole ({n_ctx} tokens each), and others of them stand in; leave "
            f"{'reference' if reference is not None else 'length'} out"
        )
    opened.checked(found.inputs)
    n = positive(sequences, "sequences") or max(2, TOKENS // n_ctx)
    if found.complete and n >= len(found.inputs) >= 2:
        said = "the other inputs"
        return TwoTexts(
            text=found.name, inputs=found.inputs, targets=found.targets, other=said, other_inputs=found.inputs
        )  # fmt: skip
    half = min(n, len(found.inputs) // 2)
    own = {row.tobytes() for row in found.inputs[:half]}
    others = np.array([row for row in found.inputs[half : 2 * half] if row.tobytes() not in own])
    if half < 2 or not len(others):
        raise UserError(
            f"{found.name}: there are {len(found.inputs):,} of them, and 4 different ones are needed: two "
            "for an interval and two to stand in for heads; judge the run on more (evaluation.sequences)"
        )
    return TwoTexts(
        text=found.name,
        inputs=found.inputs[:half],
        targets=found.targets[:half],
        other=f"{counted(len(others), 'other')} of them",
        other_inputs=others,
    )


def with_targets(
    opened: Opened, inputs: "str | Path | TokenIds", targets: "TokenIds", reference: "str | Path | TokenIds | None"
) -> TwoTexts:
    """Tokens whose targets somebody gives: not every next token, or not the next ones.

    Raises:
        UserError: for what are no tokens of the model, targets of another shape, or nothing to stand in.
    """
    if isinstance(inputs, str | Path) or reference is None or isinstance(reference, str | Path):
        raise UserError(
            "targets were given, so the text and the other text must be tokens, too; give both text and reference as "
            "(sequence, pos) tokens"
        )
    read, wanted = opened.checked(inputs), np.asarray(targets)
    opened.checked(np.where(wanted == -1, 0, wanted))
    if wanted.shape != read.shape:
        raise UserError(
            f"targets of {list(wanted.shape)} were given for tokens of {list(read.shape)} (sequence, position); give "
            "one for each, -1 where none is counted"
        )
    others = opened.checked(reference)
    return TwoTexts(
        text=_said(inputs),
        inputs=read,
        targets=wanted.astype(np.int64),
        other=f"{counted(len(others), 'sequence')} of other tokens",
        other_inputs=others,
    )


def read_text(
    opened: Opened, text: "str | Path | TokenIds", what: str, *, sequences: int | None, length: int | None
) -> np.ndarray:
    """The sequences of one text, as `two_texts` reads them."""
    wanted = length_of(opened, length, LENGTH)
    return _read(opened, text, what, positive(sequences, "sequences") or max(2, TOKENS // wanted), wanted)


def _read(opened: Opened, text: Any, what: str, n: int, length: int) -> np.ndarray:
    if not isinstance(text, str | Path):
        tokens = opened.checked(text, predicted=True)
        if tokens.shape[1] < 2:
            raise UserError(f"{what}: sequences of one token were given, and nothing is predicted in them; give longer")
        return tokens[:n] if len(tokens) > n else tokens
    corpus = find_corpus(str(text), limit=None, asked=what)
    tokens = opened.sequences(corpus.pieces(), n=n, length=length + 1, predicted=True)
    if tokens.shape[1] <= length:
        raise UserError(
            f"{what} {text}: it has only {tokens.size:,} tokens, fewer than one sequence of {length:,} and the token "
            "after it; give a longer text, or a smaller length"
        )
    return tokens


def _same(text: Any, reference: Any) -> bool:
    if isinstance(text, str | Path) and isinstance(reference, str | Path):
        return str(text) == str(reference) or Path(text).resolve() == Path(reference).resolve()
    return text is reference


def _said(text: Any) -> str:
    return str(text) if isinstance(text, str | Path) else "the given tokens"
