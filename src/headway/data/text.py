"""Batches of token sequences from a text, and checks that a corpus is large enough, before its tokens are made.

Packed: the documents are one ring of tokens. Each epoch cuts the ring, from a random place on, into windows that share
only their borders, and takes the windows in a fresh random order. The end of a text is an ordinary target.

Published: every story is a sequence of its own, cut at n_ctx tokens. The rest is filled with the end-of-text token and
masked in the loss, the end of the story itself included, so the model never learns to stop. The published runs fill up
to the longest of each 1,000 stories. Here every batch is n_ctx long, since compiled code wants one shape. Under a
causal mask tokens to the right change nothing, so the losses are equal.

Every batch is a pure function of (task, seed, step, batch size).

The checks fetch nothing. A corpus is read until it plainly has enough: a word is at least one token. If the answer
stays open, the corpus is small or has few documents, and its tokens are made as a run would make them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Int64, Integer

from headway.base import rng
from headway.base.files import cache_folder
from headway.config.lm.text import TextTask, holds_ids
from headway.data import corpus as hub
from headway.data.batch import MASKED, Batch, Examples, joined_batches
from headway.data.corpus import Corpus, cut_of, find_corpus, find_ids
from headway.data.token_store import Sources, Tokens, kept_tokens, open_corpus
from headway.data.tokenizer import open_tokenizer, trained_bpe
from headway.errors import UserError


@lru_cache(maxsize=4)  # two epochs that a batch may straddle, for a trainer and whoever looks at its data
def _order(seed: int, epoch: int, n: int) -> Int64[np.ndarray, " sequence"]:
    order = rng.generator(seed, "order of sequences", epoch).permutation(n)
    order.flags.writeable = False
    return order


def _windows(ring: Integer[np.ndarray, " token"], starts: Int64[np.ndarray, " batch"], n_ctx: int) -> Batch:
    taken = ring[(starts[:, None] + np.arange(n_ctx + 1)) % len(ring)].astype(np.int64)
    return Batch(inputs=taken[:, :-1].copy(), targets=taken[:, 1:].copy())


def _padded(
    tokens: Integer[np.ndarray, " token"],
    ends: Int64[np.ndarray, " document"],
    end_of_text: int,
    documents: Int64[np.ndarray, " batch"],
    n_ctx: int,
) -> Batch:
    inputs = np.full((len(documents), n_ctx), end_of_text, np.int64)
    targets = np.full((len(documents), n_ctx), MASKED, np.int64)
    for row, document in enumerate(documents.tolist()):
        first = int(ends[document - 1]) if document else 0
        story = tokens[first : min(int(ends[document]) - 1, first + n_ctx)]
        inputs[row, : len(story)] = story
        targets[row, : len(story) - 1] = story[1:]
    return Batch(inputs=inputs, targets=targets)


def _filled(part: Batch, batch_size: int, end_of_text: int) -> Batch:
    rows = ((0, batch_size - len(part.inputs)), (0, 0))
    return Batch(
        inputs=np.pad(part.inputs, rows, constant_values=end_of_text),
        targets=np.pad(part.targets, rows, constant_values=MASKED),
    )


MARGIN = 16
"""The factor by which a partly read corpus has to exceed the need to count as enough."""
_MOST_SAMPLE = 1 << 23


def preflight(task: TextTask, batch_size: int) -> Iterator[str]:
    """Yield messages about the text of a task before its tokens are made.

    Raises:
        UserError: if a run would raise it, as far as the check is cheap.
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
        yield f"not checked, and fetched from the hub when runs are made: {' and '.join(from_hub)}"
        return
    sources = Sources.of(task)
    n, is_open = (0, True) if (cache_folder() / sources.folder).is_dir() else _read(sources, batch_size)
    if is_open:
        tokens = kept_tokens(task, sources)
        TextExamples(task, tokens).check(batch_size)
        if tokens.note:
            yield tokens.note
    elif n == 1 and task.validation is None:
        yield cut_of(sources.corpus, task.held_out).sentence(task.corpus)


def _read(sources: Sources, batch_size: int) -> tuple[int, bool]:
    """Read as much of the corpora as it takes to say whether they are enough.

    Returns:
        The number of documents of the corpus that were read, and whether the text may be too little.
    """
    task, needs = sources.task, _Needs(task=sources.task, batch_size=batch_size)
    n, texts, is_open = needs.read(sources.corpus)
    if sources.validation is not None and not is_open:
        _, _, is_open = replace(needs, judged=True).read(sources.validation)
    if not is_open and task.tokenizer.startswith("bpe-"):
        try:
            trained_bpe(texts, task.vocab_size)
        except UserError:  # the part that was read; the whole may have enough
            is_open = True
    return n, is_open


@dataclass(frozen=True, kw_only=True)
class _Needs:
    """The amount of text that a task needs."""

    task: TextTask
    batch_size: int
    judged: bool = False
    """True if the corpus is the one that is held out completely."""

    def read(self, corpus: Corpus[Any]) -> tuple[int, list[str], bool]:
        """Read a corpus until it is enough; the documents read, the beginning of the text, and whether it may be short.

        A word is at least one token, so words are a lower bound.
        """
        n, words, texts, length = 0, 0, list[str](), 0
        for piece, ended in corpus.pieces():
            words += len(piece.split()) if isinstance(piece, str) else len(piece)
            if isinstance(piece, str) and length < _MOST_SAMPLE:
                texts.append(piece)
                length += len(piece)
            n += ended
            if ended and self.plainly_met(n, words):
                return n, texts, False
        return n, texts, n > 1 or not self.met_by_one(words)

    @property
    def share(self) -> float:
        return self.task.held_out if self.task.validation is None else float(self.judged)

    def plainly_met(self, n: int, words: int) -> bool:
        """Return whether the beginning of a corpus is already enough, however much of the corpus is held out."""
        held = math.ceil(self.share * n)
        if self.task.padding == "published":
            return self.judged or (n - held >= self.batch_size and self.task.n_ctx > 1)
        enough = self.share == 0 or (held >= MARGIN and words * self.share >= MARGIN * (self.task.n_ctx + 1))
        return enough and (self.judged or words * (1 - self.share) >= MARGIN * self.batch_size * self.task.n_ctx)

    def met_by_one(self, words: int) -> bool:
        """Return whether the only document of a corpus, which is split by position, is enough."""
        task = self.task
        if task.validation is not None or task.padding == "published":
            return False
        training, held_out = words * (1 - task.held_out), words * task.held_out
        return training >= 2 * self.batch_size * task.n_ctx and held_out >= 2 * (task.n_ctx + 1)


class TextExamples(Examples):
    """Examples of a text task: batches of sequences, packed or as published."""

    def __init__(self, task: TextTask, tokens: Tokens):
        self.task, self.tokens = task, tokens
        self.tokenizer, self.digest = tokens.tokenizer, tokens.digest
        self.vocab_size = tokens.tokenizer.vocab_size
        self.files = {"tokenizer.json": tokens.tokenizer.inner.to_str()}
        self.notes = (tokens.note,) if tokens.note else ()

    @property
    def sequences_per_epoch(self) -> int:
        """The training sequences of an epoch: packed, windows of the tokens; published, documents."""
        tokens, task = self.tokens, self.task
        return len(tokens.train_ends) if task.padding == "published" else len(tokens.train) // task.n_ctx

    def check(self, batch_size: int) -> None:
        """Raise UserError if the text is too short to train or to evaluate.

        Raises:
            UserError: when the training text is shorter than a batch, or the held-out text than a sequence.
        """
        tokens, task, available = self.tokens, self.task, self.sequences_per_epoch
        if task.padding == "published" and task.n_ctx < 2:
            raise UserError("task.n_ctx 1 with published padding leaves no token to predict; give 2 or more")
        if available < batch_size:
            held = "documents" if task.padding == "published" else f"sequences of n_ctx {task.n_ctx}"
            raise UserError(
                f"the training text has {available:,} {held} ({len(tokens.train):,} tokens), but training.batch_size "
                f"is {batch_size}; give a larger corpus, or lower batch_size or task.n_ctx"
            )
        if len(tokens.held_out) <= task.n_ctx and task.padding == "packed":
            raise UserError(
                f"the held-out text has {len(tokens.held_out):,} tokens, fewer than one sequence of n_ctx {task.n_ctx} "
                "and the token after it; raise task.held_out, give task.validation, or lower task.n_ctx"
            )

    def training_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """Return the batch of a step, from 0."""
        self.check(batch_size)
        tokens, task, per_epoch = self.tokens, self.task, self.sequences_per_epoch
        wanted = step * batch_size + np.arange(batch_size)
        parts = []
        for epoch in np.unique(wanted // per_epoch).tolist():
            chosen = _order(seed, epoch, per_epoch)[wanted[wanted // per_epoch == epoch] % per_epoch]
            if task.padding == "published":
                parts.append(_padded(tokens.train, tokens.train_ends, tokens.end_of_text, chosen, task.n_ctx))
            else:
                start = int(rng.generator(seed, "where windows begin", epoch).integers(len(tokens.train)))
                parts.append(_windows(tokens.train, start + chosen * task.n_ctx, task.n_ctx))
        return joined_batches(parts)

    def evaluation_batches(self, sequences: int | None, batch_size: int) -> Iterator[Batch]:
        """Yield held-out sequences for evaluation, in batches of one shape.

        Packed, each held-out token but the first is a target once. The choice of sequences depends on the task alone: a
        fixed random choice of a given number, or all for None. Sequences that fill up the last batch are masked.
        """
        tokens, n_ctx, published = self.tokens, self.task.n_ctx, self.task.padding == "published"
        available = len(tokens.held_out_ends) if published else -(-(len(tokens.held_out) - 1) // n_ctx)
        chosen = np.sort(rng.generator(0, "evaluation").permutation(available)[:sequences])
        for first in range(0, len(chosen), batch_size):
            some = chosen[first : first + batch_size]
            if published:
                part = _padded(tokens.held_out, tokens.held_out_ends, tokens.end_of_text, some, n_ctx)
            else:
                part = _windows(tokens.held_out, some * n_ctx, n_ctx)
                positions = some[:, None] * n_ctx + np.arange(n_ctx)
                # Windows of a ring continue at its beginning; held-out text ends here.
                part.targets[positions >= len(tokens.held_out) - 1] = MASKED
            yield _filled(part, batch_size, tokens.end_of_text)

    def steps_per_epoch(self, batch_size: int) -> float:
        """Return how many steps an epoch has."""
        self.check(batch_size)
        return self.sequences_per_epoch / batch_size

    def targets_per_step(self, batch_size: int) -> float:
        """Return the mean number of targets of a step: every position, or with padding the mean over documents."""
        if self.task.padding == "packed":
            return float(batch_size * self.task.n_ctx)
        lengths = np.diff(self.tokens.train_ends, prepend=0) - 1
        return batch_size * float((np.minimum(lengths, self.task.n_ctx) - 1).clip(0).mean())


def text_examples(task: TextTask) -> TextExamples:
    """Return the examples of a text task; its tokens are made if the cache has none.

    Raises:
        UserError: if `open_corpus` would raise it.
    """
    return TextExamples(task, open_corpus(task))
