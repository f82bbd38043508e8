"""Data: what making the tokens of a task would say, as far as it can be known without making them.

A corpus is read until it plainly has enough: a word is a token at least. Where that stays open, the corpus is small,
and its tokens are made as a run would make them. Nothing is fetched.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headway.caches import cache_folder
from headway.data.tokens import hub, packing
from headway.data.tokens.building import Sources, check_split, held_out_documents
from headway.data.tokens.corpus import Corpus, find_corpus, find_ids
from headway.data.tokens.corpus_tokens import kept_tokens
from headway.data.tokens.one_document import cut_of
from headway.data.tokens.tokenizer import open_tokenizer, trained_bpe
from headway.declare.tokens.text import TextTask, holds_ids
from headway.errors import UserError

MARGIN = 16
"""How many times what is needed is plainly enough, of a corpus that is not read to its end."""
_MOST_SAMPLE = 1 << 23


def outlook(task: TextTask, batch_size: int) -> Iterator[str]:
    """What is to be said of the text of a task, in sentences.

    Raises:
        UserError: what a run would raise, as far as it is looked at.
    """
    asked = {"task.corpus": (task.corpus, task.stories), "task.validation": (task.validation, None)}
    from_hub = [
        f"{key} {name}" for key, (name, limit) in asked.items() if name == "tinystories" and not hub.is_fetched(limit)
    ]
    if task.tokenizer == "gpt2":
        from_hub.append("task.tokenizer gpt2")
    if task.tokenizer_folder is not None:
        assert task.vocab_size  # read first in a run too, for its memory
        open_tokenizer(task.tokenizer, tuple)
    if from_hub:
        for key, (name, limit) in asked.items():
            if name is not None and holds_ids(name):
                find_ids(name, limit=limit, asked=key, vocab_size=task.vocab_size, end_of_text=0)
            elif name is not None and name != "tinystories":
                find_corpus(name, limit=limit, asked=key)
        are = "comes" if len(from_hub) == 1 else "come"
        yield f"not looked at: {' and '.join(from_hub)}, which {are} from the hub when runs are made"
        return
    sources = Sources.of(task)
    if (cache_folder() / sources.folder).is_dir() or (found := _Seen.of(sources, batch_size)).is_open:
        tokens = kept_tokens(task, sources)
        packing.check(tokens, task, batch_size)
        if tokens.note:
            yield tokens.note
    elif found.n == 1 and task.validation is None:
        yield cut_of(sources.corpus, task.held_out).sentence(task.corpus)


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What was read of a corpus: words at least, of each document, and the beginning itself."""

    words: tuple[int, ...]
    texts: tuple[Any, ...]
    is_open: bool
    """Whether it may be too little."""

    @property
    def n(self) -> int:
        """Documents that were read."""
        return len(self.words)

    @classmethod
    def of(cls, sources: Sources, batch_size: int) -> "_Seen":
        task = sources.task
        needs = _Needs(task=task, batch_size=batch_size)
        seen = cls._read(sources.corpus, needs)
        if sources.validation is not None and not seen.is_open:
            judged = cls._read(sources.validation, replace(needs, judged=True))
            seen = replace(seen, is_open=judged.is_open)
        if not seen.is_open and task.tokenizer.startswith("bpe-"):
            try:
                trained_bpe(seen.texts, task.vocab_size)
            except UserError:  # of what was read; all of it may have enough
                seen = replace(seen, is_open=True)
        return seen

    @classmethod
    def _read(cls, corpus: Corpus[Any], needs: "_Needs") -> "_Seen":
        words, texts, length, total = [0], [], 0, 0
        for piece, ended in corpus.pieces():
            found = len(piece.split()) if isinstance(piece, str) else len(piece)
            words[-1] += found
            total += found
            if isinstance(piece, str) and length < _MOST_SAMPLE:
                texts.append(piece)
                length += len(piece)
            if ended:
                words.append(0)
                if needs.plainly_met(len(words) - 1, total):
                    return cls(words=tuple(words[:-1]), texts=tuple(texts), is_open=False)
        whole = tuple(words[:-1])
        return cls(words=whole, texts=tuple(texts), is_open=not needs.met(whole))


@dataclass(frozen=True, kw_only=True)
class _Needs:
    """What a task needs of a corpus."""

    task: TextTask
    batch_size: int
    judged: bool = False
    """Whether the corpus is the one that is held out whole."""

    @property
    def share(self) -> float:
        return self.task.held_out if self.task.validation is None else float(self.judged)

    def plainly_met(self, n: int, words: int) -> bool:
        """Whether the beginning of a corpus is so much that the whole is enough, whatever is held out of it."""
        held = math.ceil(self.share * n)
        if self.task.padding == "published":
            return self.judged or (n - held >= self.batch_size and self.task.n_ctx > 1)
        enough = self.share == 0 or (held >= MARGIN and words * self.share >= MARGIN * (self.task.n_ctx + 1))
        return enough and (self.judged or words * (1 - self.share) >= MARGIN * self.batch_size * self.task.n_ctx)

    def met(self, words: tuple[int, ...]) -> bool:
        """Whether a corpus that was read to its end is enough.

        Raises:
            UserError: when it cannot be split.
        """
        task = self.task
        if not self.judged:
            check_split(task, len(words))
        if task.padding == "published":
            return self.plainly_met(len(words), sum(words))
        if len(words) == 1 and task.validation is None:
            training = sum(words) * (1 - task.held_out)
            return training >= 2 * self.batch_size * task.n_ctx and sum(words) * task.held_out >= 2 * (task.n_ctx + 1)
        held = np.full(len(words), self.judged) if task.validation else held_out_documents(len(words), task.held_out)
        counts = np.array(words)
        enough = task.validation is not None and not self.judged
        enough = enough or int(counts[held].sum()) > task.n_ctx
        return enough and (self.judged or int(counts[~held].sum()) >= self.batch_size * task.n_ctx)
