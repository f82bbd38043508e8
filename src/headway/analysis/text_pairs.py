"""Pairs of clean and corrupted texts, and the answers after them, for activation patching."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import torch

from headway.analysis.look_tokens import token_words
from headway.analysis.model import Opened
from headway.base.text import counted
from headway.base.words import say
from headway.causal.patch_result import Asks
from headway.errors import UserError

Texts = str | Sequence[str]
"""One text for all pairs, or a text for each."""
MOST = 1024
"""Pairs that are read, all at once."""
_FEW = 6
"""Pairs below which intervals are called wide."""


@dataclass(frozen=True, kw_only=True)
class TextPairs:
    """Pairs of texts and answers, as tokens, and what is written for each token.

    Attributes:
        clean: the tokens of the clean text of each pair.
        corrupted: the tokens of the corrupted text of each pair, equally many.
        right: the tokens of the right answer of each pair.
        wrong: the tokens of the wrong answer of each pair; None if none was given.
        words: the text of each token.
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

    @property
    def asks(self) -> Asks:
        """The kind of the metric."""
        return "log probability" if self.wrong is None else "logit difference"

    @classmethod
    def of(
        cls,
        opened: Opened,
        clean: Texts,
        corrupted: Texts,
        answer: Texts,
        wrong: Texts | None,
    ) -> "TextPairs":
        """Make pairs from the texts of a user: one text or several, with answers for all pairs or for each.

        Raises:
            UserError: if the texts differ in number or length, or an answer is none.
        """
        texts = _texts(clean, corrupted)
        pairs = [[list(opened.encoder.whole(text)) for text in some] for some in texts]
        for number, (clean_ids, corrupted_ids) in enumerate(zip(*pairs, strict=True)):
            _check_pair(opened, clean_ids, corrupted_ids, _of_pair(number, len(pairs[0])))
        right = _answers(opened, texts[0], answer, "answer")
        not_right = None if wrong is None else _answers(opened, texts[0], wrong, "wrong")
        for number, (answer_ids, wrong_ids) in enumerate(zip(right, not_right or [], strict=False)):
            if answer_ids[0] == wrong_ids[0]:
                words = [each if isinstance(each, str) else each[number] for each in (answer, wrong or "")]
                raise UserError(
                    f"answer {words[0]!r} and wrong {words[1]!r} begin with the same token"
                    f"{_of_pair(number, len(right))}; give two that differ in it"
                )
        answers = (ids[0] for ids in [*right, *(not_right or [])])
        first_pair = f"{texts[0][0]!r} and {texts[1][0]!r}"
        return cls(
            clean=pairs[0],
            corrupted=pairs[1],
            right=right,
            wrong=not_right,
            words=token_words(opened, [*answers, *(token for some in pairs for ids in some for token in ids)]),
            texts=first_pair if len(right) < 2 else f"the first pair {first_pair}",
        )

    def check_lengths(self, opened: Opened, *, by_position: bool) -> None:
        """Raise UserError if the pairs cannot be read side by side.

        Raises:
            UserError: if the pairs differ in length where they must not.
        """
        first = len(self.clean[0])
        if not by_position and opened.kind != "future":
            return
        why = "each position is patched on its own" if by_position else "this model attends to later tokens"
        for at, ids in enumerate(self.clean):
            if len(ids) != first:
                raise UserError(
                    f"pair 1 has texts of {first} tokens and pair {at + 1} of {len(ids)}, but {why}; give pairs of "
                    "equal length"
                )

    def tensors(self, opened: Opened) -> tuple[torch.Tensor, torch.Tensor]:
        """Clean and corrupted tokens, filled up to one length: what comes after a text changes nothing before it."""
        longest = max(map(len, self.clean))

        def filled(some: list[list[int]]) -> torch.Tensor:
            return opened.on_device([[*ids, *ids[-1:] * (longest - len(ids))] for ids in some])

        return filled(self.clean), filled(self.corrupted)

    def metric(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the metric of each pair, from the logits after its text."""

        def logit_of(ids: list[list[int]]) -> torch.Tensor:
            return last.gather(1, torch.tensor([[each[0]] for each in ids], device=logits.device))[:, 0]

        last = logits[range(self.n), [len(ids) - 1 for ids in self.clean]].float()
        if self.wrong is not None:
            return logit_of(self.right) - logit_of(self.wrong)
        return logit_of(self.right) - last.logsumexp(1)

    def metric_in_words(self) -> str:
        """Return the metric as sentences say it."""
        right = self._answer(self.right, "the answer")
        if self.wrong is None:
            return say("log_probability", right=right)
        return say("logit_difference", right=right, wrong=self._answer(self.wrong, "the wrong answer"))

    def written(self, ids: list[list[int]]) -> tuple[str, ...]:
        """The tokens of the first pair."""
        return tuple(self.words[token] for token in ids[0])

    def positions(self) -> tuple[str, ...]:
        """Return a name of each position: its token in the corrupted text, or its number where pairs differ."""
        names = []
        for number, tokens in enumerate(map(set, zip_longest(*self.corrupted)), 1):
            first, *others = tokens - {None}
            names.append(f"({number})" if others else self.words[first])
        return tuple(names)

    def notes(self) -> Iterator[str]:
        """Yield sentences on the limits of the findings."""
        for name, tokens in (("answer", self.right), ("wrong answer", self.wrong or [])):
            if several := [ids for ids in tokens if len(ids) > 1]:
                first, n = several[0][0], len(several[0])
                yield say("long_answer", name=name, n=n, token=self.words[first])
        if self.n == 1:
            yield say("one_pair_only")
        elif self.n < _FEW:
            yield say("few_pairs", n=self.n)

    def _answer(self, ids: list[list[int]], several: str) -> str:
        first = {each[0] for each in ids}
        return f"[{self.words[first.pop()]}]" if len(first) == 1 else several


def text_or_lines(given: str, what: str) -> str | list[str]:
    """A text as it is; of a file's name the file's lines, a text each.

    Raises:
        UserError: if the file cannot be read as text, is empty, has an empty line, or has too many lines; the fault is
            named.
    """
    file = Path(given)
    try:
        if not file.is_file():
            return given
        lines = file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise UserError(f"{what} {given}: this file is not UTF-8 text; give one text per line") from None
    except (OSError, ValueError):
        return given  # what no file system takes as a name is a text
    if lines == [""]:
        raise UserError(f"{what} {given}: the file is empty; give one text per line")
    if empty := [at + 1 for at, line in enumerate(lines) if not line]:
        raise UserError(f"{what} {given}: line {empty[0]} is empty; give one text per line, without empty lines")
    if len(lines) > MOST:
        raise UserError(f"{what} {given}: it has {len(lines):,} lines, but at most {MOST:,} pairs are read; give fewer")
    return lines


def _texts(clean: Texts, corrupted: Texts) -> list[list[str]]:
    texts = [[text] if isinstance(text, str) else list(text) for text in (clean, corrupted)]
    if len(texts[0]) != len(texts[1]) or not texts[0]:
        raise UserError(
            f"{counted(len(texts[0]), 'clean text')} and {counted(len(texts[1]), 'corrupted one')} were given; give "
            "pairs, one corrupted text for each clean one"
        )
    return texts


def _of_pair(at: int, n: int) -> str:
    return f" (pair {at + 1})" if n > 1 else ""


def _answers(opened: Opened, clean: list[str], given: Texts, what: str) -> list[list[int]]:
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
        UserError: if the texts differ in length (their tokens are named), have fewer than two tokens, or are equal.
    """
    if len(clean) == len(corrupted) > 1:
        if clean == corrupted:
            raise UserError(
                f"the clean and the corrupted text are the same{which}, so there is nothing to restore; give two "
                "different texts"
            )
        return
    words = token_words(opened, [*clean, *corrupted])
    first, second = (" ".join(f"[{words[token]}]" for token in ids[:40]) for ids in (clean, corrupted))
    raise UserError(
        f"the clean text has {len(clean)} tokens and the corrupted text {len(corrupted)}{which}; give two texts with "
        f"equal numbers of tokens, at least 2. Clean: {first}. Corrupted: {second}"
    )


def _following(opened: Opened, text: str, answer: str, what: str) -> list[int]:
    """The tokens of an answer after a text: by itself some tokenizers would write it with another first token."""
    encoder = opened.encoder
    before, both = list(encoder.encode(text)), list(encoder.encode(text + answer))
    if both[: len(before)] != before or len(both) == len(before):
        raise UserError(
            f"{what} {answer!r}: it adds no token to the clean text; begin the word with its space, and end the text "
            "without a space"
        )
    return [int(token) for token in both[len(before) :]]
