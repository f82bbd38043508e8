"""Data: batches of token sequences, as a pure function of (task, seed, step, batch size).

Packed: the documents are one ring of tokens. Each epoch cuts it, from a random place on, into windows that share
nothing but their borders, and takes the windows in a fresh random order; the end of a text is an ordinary target.

Published: every story is a sequence of its own, cut at n_ctx tokens; what follows it is filled with the end-of-text
token and masked in the loss, that of the story's own end included, so the model never learns to stop. The published
runs fill up to the longest of each 1,000 stories. Here every batch is n_ctx long, since compiled code wants one shape;
under a causal mask what stands to the right of a token changes nothing, so the losses are the same.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64, Integer

from headway import streams
from headway.data.tokens.examples import MASKED, Batch
from headway.declare.tokens.text import TextTask
from headway.errors import UserError


@runtime_checkable
class TokenArrays(Protocol):
    """The tokens that batches are cut from."""

    @property
    def train(self) -> Integer[np.ndarray, " token"]:
        """Training documents, each ended by the end-of-text token."""

    @property
    def held_out(self) -> Integer[np.ndarray, " token"]:
        """Held-out documents, likewise."""

    @property
    def train_ends(self) -> Int64[np.ndarray, " document"]:
        """For each training document the position after its end-of-text token."""

    @property
    def held_out_ends(self) -> Int64[np.ndarray, " document"]:
        """For each held-out document, likewise."""

    @property
    def end_of_text(self) -> int:
        """The token that ends a document."""


def sequences_per_epoch(tokens: TokenArrays, task: TextTask) -> int:
    """Training sequences of an epoch: packed, windows of the tokens; published, documents."""
    return len(tokens.train_ends) if task.padding == "published" else len(tokens.train) // task.n_ctx


def steps_per_epoch(tokens: TokenArrays, task: TextTask, batch_size: int) -> float:
    """Training steps until every sequence was seen once.

    Raises:
        UserError: as `check`.
    """
    check(tokens, task, batch_size)
    return sequences_per_epoch(tokens, task) / batch_size


def check(tokens: TokenArrays, task: TextTask, batch_size: int) -> None:
    """Look whether there is text enough to train and to judge.

    Raises:
        UserError: when the training text is shorter than a batch, or the held-out text than a sequence.
    """
    if task.padding == "published" and task.n_ctx < 2:
        raise UserError("task.n_ctx 1 with published padding leaves no token to predict; give 2 or more")
    available = sequences_per_epoch(tokens, task)
    if available < batch_size:
        held = "documents" if task.padding == "published" else f"sequences of n_ctx {task.n_ctx}"
        raise UserError(
            f"the training text has {available:,} {held} ({len(tokens.train):,} tokens), but training.batch_size is "
            f"{batch_size}; give a larger corpus, or lower batch_size or task.n_ctx"
        )
    if len(tokens.held_out) <= task.n_ctx and task.padding == "packed":
        raise UserError(
            f"the held-out text has {len(tokens.held_out):,} tokens, fewer than one sequence of n_ctx {task.n_ctx} and "
            "the token after it; raise task.held_out, give task.validation, or lower task.n_ctx"
        )


def training_batch(tokens: TokenArrays, task: TextTask, seed: int, step: int, batch_size: int) -> Batch:
    """The batch of a step, from 0; the same seed gives every model the same batches.

    Raises:
        UserError: as `check`.
    """
    check(tokens, task, batch_size)
    per_epoch = sequences_per_epoch(tokens, task)
    wanted = step * batch_size + np.arange(batch_size)
    parts = []
    for epoch in np.unique(wanted // per_epoch).tolist():
        within = wanted[wanted // per_epoch == epoch] % per_epoch
        chosen = _order(seed, epoch, per_epoch)[within]
        if task.padding == "published":
            parts.append(_padded(tokens.train, tokens.train_ends, tokens.end_of_text, chosen, task.n_ctx))
        else:
            start = int(streams.generator(seed, "where windows begin", epoch).integers(len(tokens.train)))
            parts.append(_windows(tokens.train, start + chosen * task.n_ctx, task.n_ctx))
    return Batch(
        inputs=np.concatenate([part.inputs for part in parts]), targets=np.concatenate([part.targets for part in parts])
    )


@lru_cache(maxsize=4)  # two epochs that a batch may straddle, for a trainer and whoever looks at its data
def _order(seed: int, epoch: int, n: int) -> Int64[np.ndarray, " sequence"]:
    order = streams.generator(seed, "order of sequences", epoch).permutation(n)
    order.flags.writeable = False
    return order


def evaluation_batches(tokens: TokenArrays, task: TextTask, sequences: int | None, batch_size: int) -> Iterator[Batch]:
    """The held-out sequences that a model is judged on, in batches of one shape.

    Packed, each held-out token but the first is a target once. Which sequences are taken depends on the task alone:
    a fixed random choice of so many, all for None. What fills up the last batch is masked.
    """
    published = task.padding == "published"
    available = len(tokens.held_out_ends) if published else -(-(len(tokens.held_out) - 1) // task.n_ctx)
    chosen = np.sort(streams.generator(0, "evaluation").permutation(available)[:sequences])
    for first in range(0, len(chosen), batch_size):
        some = chosen[first : first + batch_size]
        if published:
            part = _padded(tokens.held_out, tokens.held_out_ends, tokens.end_of_text, some, task.n_ctx)
        else:
            part = _windows(tokens.held_out, some * task.n_ctx, task.n_ctx)
            positions = some[:, None] * task.n_ctx + np.arange(task.n_ctx)
            # The windows of a ring go on at its beginning; here the text is over.
            part.targets[positions >= len(tokens.held_out) - 1] = MASKED
        yield _filled(part, batch_size, tokens.end_of_text)


def _windows(ring: Integer[np.ndarray, " token"], starts: Int64[np.ndarray, " batch"], n_ctx: int) -> Batch:
    positions = (starts[:, None] + np.arange(n_ctx + 1)) % len(ring)
    taken = ring[positions].astype(np.int64)
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
