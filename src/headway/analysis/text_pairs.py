"""Texts for interventions: a text with another that supplies substitutes, and clean and corrupted texts.

`two_texts` reads a text whose loss is measured without some heads, and the text that stands in for those heads.
`TextPairs` holds pairs of texts and the answers after them, for activation patching.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.analysis.inputs import OwnExamples, length_of, positive
from headway.analysis.look_tokens import token_words
from headway.analysis.model import Opened
from headway.base.text import counted
from headway.data.corpus import find_corpus
from headway.errors import UserError

if TYPE_CHECKING:
    import torch

    from headway.analysis.model import TokenIds


TOKENS, LENGTH = 8192, 256
"""The default numbers of tokens and of tokens in a sequence: intervals are over sequences, so there are many."""


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
        """True if the text's own sequences stand in for one another."""
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
    """Return examples of a task and others as substitutes; if these are all examples, they replace one another.

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
    """Return tokens with the targets that a user gives, which need not be every next token.

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
    """Return the sequences of one text, read as `two_texts` reads both."""
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


MOST = 1024
"""Pairs that are read, all at once."""
_FEW = 6
"""Pairs below which intervals are called wide."""


@dataclass(frozen=True, kw_only=True)
class TextPairs:
    """Pairs of texts and answers, as tokens, and what is written for each token.

    Attributes:
        clean: the tokens of the clean text of each pair.
        corrupted: those of the corrupted one, as many.
        right: of the answer after each pair.
        wrong: of what should not follow; None if none was given.
        words: what is written for a token.
        texts: the texts, in words.
    """

    clean: list[list[int]]
    corrupted: list[list[int]]
    right: list[list[int]]
    wrong: list[list[int]] | None
    words: dict[int, str]
    texts: str

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(self.clean)

    @classmethod
    def of(
        cls,
        opened: Opened,
        clean: str | Sequence[str],
        corrupted: str | Sequence[str],
        answer: str | Sequence[str],
        wrong: str | Sequence[str] | None,
    ) -> "TextPairs":
        """Make pairs from the texts of a user: one text or several, with answers for all pairs or for each.

        Raises:
            UserError: for texts of different numbers or lengths, and answers that are none.
        """
        texts = _texts(clean, corrupted)
        pairs = [[opened.encoder.whole(text) for text in some] for some in texts]
        for at, (one, other) in enumerate(zip(*pairs, strict=True)):
            _check_pair(opened, one, other, _of_pair(at, len(pairs[0])))
        right = _answers(opened, texts[0], answer, "answer")
        other = None if wrong is None else _answers(opened, texts[0], wrong, "wrong")
        for at, (one, two) in enumerate(zip(right, other or [], strict=False)):
            if one[0] == two[0]:
                said = [each if isinstance(each, str) else each[at] for each in (answer, wrong or "")]
                raise UserError(
                    f"answer {said[0]!r} and wrong {said[1]!r} begin with the same token{_of_pair(at, len(right))}; "
                    "give two that differ in it"
                )
        every = [*(ids for some in pairs for ids in some), *(ids[:1] for ids in [*right, *(other or [])])]
        said_of_first = f"{texts[0][0]!r} and {texts[1][0]!r}"
        return cls(
            clean=pairs[0],
            corrupted=pairs[1],
            right=right,
            wrong=other,
            words=token_words(opened, [token for ids in every for token in ids]),
            texts=said_of_first if len(right) < 2 else f"the first pair {said_of_first}",
        )

    def check_lengths(self, opened: Opened, *, by_position: bool) -> None:
        """Raise UserError if the pairs cannot be read side by side.

        Raises:
            UserError: for pairs of different lengths where these must be one.
        """
        first = len(self.clean[0])
        for at, ids in enumerate(self.clean):
            if len(ids) == first:
                continue
            why = "each position is patched by itself" if by_position else "this model attends to what comes later"
            if by_position or opened.kind == "future":
                raise UserError(
                    f"pair 1 has texts of {first} tokens and pair {at + 1} of {len(ids)}, but {why}, so all pairs must "
                    "be of one length; give pairs of one length"
                )

    def tensors(self, opened: Opened) -> "tuple[torch.Tensor, torch.Tensor]":
        """Clean and corrupted tokens, filled up to one length: what comes after a text changes nothing before it."""
        import torch

        place, longest = next(opened.module.parameters()).device, max(map(len, self.clean))
        clean, corrupted = (
            opened.checked([[*ids, *ids[-1:] * (longest - len(ids))] for ids in some])
            for some in (self.clean, self.corrupted)
        )
        return torch.as_tensor(clean, device=place), torch.as_tensor(corrupted, device=place)

    def metric(self, logits: "torch.Tensor") -> "torch.Tensor":
        """Return the metric of each pair, from the logits after its text."""
        import torch

        def at(ids: list[list[int]]) -> torch.Tensor:
            return last.gather(1, torch.tensor([[each[0]] for each in ids], device=logits.device))[:, 0]

        ends = torch.tensor([len(ids) - 1 for ids in self.clean], device=logits.device)
        last = logits[torch.arange(self.n, device=logits.device), ends].float()
        if self.wrong is not None:
            return at(self.right) - at(self.wrong)
        return at(self.right) - last.logsumexp(1)

    def said(self) -> str:
        """The metric, in words."""
        right = self._answer(self.right, "the answer")
        if self.wrong is None:
            return f"the logarithm of the probability of {right} after the text, in nats"
        return f"the logit of {right} after the text less that of {self._answer(self.wrong, 'the wrong one')}"

    def written(self, ids: list[list[int]]) -> tuple[str, ...]:
        """The tokens of the first pair."""
        return tuple(self.words[token] for token in ids[0])

    def positions(self) -> tuple[str, ...]:
        """Return a name of each position: its token in the corrupted text, or its number where pairs differ."""
        length = max(map(len, self.clean))
        at = [{ids[i] for ids in self.corrupted if i < len(ids)} for i in range(length)]
        return tuple(self.words[min(found)] if len(found) == 1 else f"({i + 1})" for i, found in enumerate(at))

    def notes(self) -> Iterator[str]:
        """Yield sentences on the limits of the findings."""
        for name, tokens in (("answer", self.right), ("wrong", self.wrong or [])):
            first = next((ids for ids in tokens if len(ids) > 1), None)
            if first is not None:
                yield f"{name} has {len(first)} tokens; its first, [{self.words[first[0]]}], is asked about"
        if self.n == 1:
            yield (
                "one pair of texts says what happens on these texts, and nothing of others: there is no interval; give "
                "files with a text in each line for intervals over pairs"
            )
        elif self.n < _FEW:
            yield f"intervals are over {self.n} pairs only, and so they are wide: give more"

    def _answer(self, ids: list[list[int]], several: str) -> str:
        first = {each[0] for each in ids}
        return f"[{self.words[first.pop()]}]" if len(first) == 1 else several


def text_or_lines(given: str, what: str) -> str | list[str]:
    """A text as it is; of a file's name the file's lines, a text each.

    Raises:
        UserError: for a file that cannot be read as text, has no line, or too many, or an empty one, saying which.
    """
    file = Path(given)
    try:
        if not file.is_file():
            return given
        lines = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{what} {given}: it is a file that is no text in UTF-8; give one text a line") from None
    except (OSError, ValueError):
        return given  # what no file system takes as a name is a text
    if lines == [""]:
        raise UserError(f"{what} {given}: the file is empty; give one text a line")
    if empty := [at + 1 for at, line in enumerate(lines) if not line]:
        raise UserError(f"{what} {given}: line {empty[0]} is empty; give one text a line, and no line between them")
    if len(lines) > MOST:
        raise UserError(f"{what} {given}: it has {len(lines):,} lines, but at most {MOST:,} pairs are read; give fewer")
    return lines


def _texts(clean: str | Sequence[str], corrupted: str | Sequence[str]) -> list[list[str]]:
    texts = [[text] if isinstance(text, str) else list(text) for text in (clean, corrupted)]
    if len(texts[0]) != len(texts[1]) or not texts[0]:
        raise UserError(
            f"{counted(len(texts[0]), 'clean text')} and {counted(len(texts[1]), 'corrupted one')} were given; give "
            "pairs, one corrupted text for each clean one"
        )
    return texts


def _of_pair(at: int, n: int) -> str:
    return f" (pair {at + 1})" if n > 1 else ""


def _answers(opened: Opened, clean: list[str], given: str | Sequence[str], what: str) -> list[list[int]]:
    answers = [given] * len(clean) if isinstance(given, str) else list(given)
    if len(answers) != len(clean):
        raise UserError(
            f"{what}: {len(answers)} were given for {counted(len(clean), 'pair')} of texts; give one for all, or one "
            "for each"
        )
    return [_following(opened, text, answer, what) for text, answer in zip(clean, answers, strict=True)]


def _check_pair(opened: Opened, clean: list[int], corrupted: list[int], which: str) -> None:
    """Raise UserError if positions of two texts cannot be exchanged, or if there is nothing to restore.

    Raises:
        UserError: for texts of different lengths, saying their tokens, of fewer than two, or the same.
    """
    if len(clean) == len(corrupted) > 1:
        if clean == corrupted:
            raise UserError(
                f"the clean and the corrupted text are the same{which}, so there is nothing to be restored; give two "
                "that differ in what is asked about"
            )
        return
    said = [
        " ".join(f"[{word}]" for word in (token_words(opened, ids)[token] for token in ids))
        for ids in (clean[:40], corrupted[:40])
    ]
    raise UserError(
        f"the clean text has {len(clean)} tokens and the corrupted one {len(corrupted)}{which}; give two texts of "
        f"one number of tokens, at least 2, that differ in what is asked about. Clean: {said[0]}. Corrupted: {said[1]}"
    )


def _following(opened: Opened, text: str, answer: str, what: str) -> list[int]:
    """The tokens of an answer after a text: by itself some tokenizers would write it with another first token."""
    encoder = opened.encoder
    before, both = list(encoder.encode(text)), list(encoder.encode(text + answer))
    if both[: len(before)] != before or len(both) == len(before):
        raise UserError(
            f"{what} {answer!r}: it adds no token of its own to the clean text; give a word as it follows the text, "
            "with the space before it, and end the text without one"
        )
    return [int(token) for token in both[len(before) :]]
