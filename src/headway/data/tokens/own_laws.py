"""Data: laws of the examples of a task: those of Headway keep them, and those of one's own are held to them.

Batches have the declared shapes, ask for something, are a function of (task, seed, step), leave generators that others
use alone, and do not give the answer away.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from headway import streams
from headway.data.tokens.examples import MASKED, Batch, Examples
from headway.declare.tokens.task import TokensTask
from headway.errors import UserError

LOOKED_AT = 512
"""Examples that are looked at."""
_PLACES = 8
"""Positions whose answers are looked for in the input, about."""
_TELLING = 32
"""Of an input that stands so often at a place, with other answers among them, something can be told."""
_LEAK = 0.8
"""Of what shuffled answers leave untold, one token may tell less than this."""


def broken(task: TokensTask, examples: Examples) -> Iterator[str]:
    """What laws the examples of a task break: a sentence for each, with what to do."""
    n_inputs = getattr(task, "n_inputs", None)
    size = LOOKED_AT if n_inputs is None else min(LOOKED_AT, n_inputs)
    before = streams.shared_states()
    try:
        first, again = (examples.training_batch(7, 3, size) for _ in range(2))
        other = examples.training_batch(8, 4, size)
    except UserError as error:  # which says itself what to do
        yield f"drawing {size} examples: {error}"
        return
    except Exception as error:  # noqa: BLE001 - whatever a type of the user's raises is told
        yield f"drawing {size} examples raised {type(error).__name__}: {error}; let draw(random, n) give n of them"
        return
    if before != streams.shared_states():
        yield (
            "drawing examples changed a global random generator (numpy.random or torch), which others draw "
            "from; take every random number from the `random` that draw is given"
        )
    wrong = [*_shapes(task, first, size)]
    yield from wrong
    if wrong:
        return
    if not _same(first, again):
        yield (
            "two draws of one seed and step gave different examples; take every random number from the `random` that "
            "draw is given, and keep nothing between calls"
        )
    elif size != n_inputs and _same(first, other):
        yield "another seed and step gave the same examples; take random numbers from the `random` that draw is given"
    yield from _leaks(task, first)


def _shapes(task: TokensTask, batch: Any, n: int) -> Iterator[str]:
    if not isinstance(batch, Batch):
        yield f"draw gave a {type(batch).__name__}; give a Batch(inputs=..., targets=...)"
        return
    for name, values in (("inputs", batch.inputs), ("targets", batch.targets)):
        if not isinstance(values, np.ndarray) or values.dtype not in (np.int64, np.float32):
            given = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
            yield f"{name} are {given}; give a numpy array of int64 (tokens, answers) or float32 (numbers)"
            return
    is_number = batch.targets.dtype == np.float32
    if (task.loss == "mse") != is_number:
        yield (
            f"targets are {batch.targets.dtype}, and its loss is {task.loss}; answers that are classes are int64 and "
            "go with loss_nats, answers that are numbers are float32 and go with mse"
        )
        return
    yield from _sizes(task, batch, n)
    if batch.targets.shape[:1] == (n,) and not batch.asked.any():
        yield f"nothing is asked: every target is {'NaN' if is_number else MASKED}; put answers where they are asked"


def _sizes(task: TokensTask, batch: Batch, n: int) -> Iterator[str]:
    tokens = batch.inputs.dtype == np.int64
    # Numbers are read at a class token after them.
    lengths = (task.n_ctx,) if tokens else (task.n_ctx, task.n_ctx - 1)
    if len(batch.inputs) != n or batch.inputs.ndim != (2 if tokens else 3) or batch.inputs.shape[1] not in lengths:
        wanted = f"({n}, {task.n_ctx}{'' if tokens else ', numbers'})"
        yield f"inputs have the shape {batch.inputs.shape}, and (n, n_ctx) is {wanted}; make them equal"
        return
    wanted_targets = (n, task.n_ctx) if task.loss != "mse" else (n, task.n_ctx, task.n_answers)
    if batch.targets.shape != wanted_targets:
        yield (
            f"targets have the shape {batch.targets.shape}, and there is one for each position: {wanted_targets}, "
            f"{'NaN' if task.loss == 'mse' else MASKED} where nothing is asked"
        )
        return
    ranges = [("inputs", batch.inputs, 0, task.vocab_size, "vocab_size")] if tokens else []
    ranges += [("targets", batch.targets, MASKED, task.n_answers, "n_answers")] if task.loss != "mse" else []
    for name, values, low, end, key in ranges:
        if values.min() < low or values.max() >= end:
            outside = values[(values < low) | (values >= end)].flat[0]
            yield f"{name} hold {outside}, and {key} is {end}: they are {low} to {end - 1}; make them fit"


def _same(one: Batch, other: Batch) -> bool:
    same_inputs = np.array_equal(one.inputs, other.inputs)
    return same_inputs and np.array_equal(one.targets, other.targets, equal_nan=one.targets.dtype.kind == "f")


def _leaks(task: TokensTask, batch: Batch) -> Iterator[str]:
    """Whether the input at one place gives the answer: shuffled answers would not go with it so often."""
    if batch.inputs.dtype != np.int64 or batch.targets.dtype != np.int64:
        yield from _leaked_numbers(batch)
        return
    places = np.flatnonzero((batch.targets >= 0).any(0))
    looked_at = places[:: max(1, len(places) // _PLACES)].tolist()
    given = {place: _given_away(batch, place) for place in looked_at}
    if there := [place for place in looked_at if place in given[place]]:
        yield (
            f"the answer that is asked at position {there[0]} follows from the input there alone"
            f"{_how_often(given[there[0]][there[0]])}, whatever else stands in it: it leaks; ask it at the position "
            "before, or leave it out of the input"
        )
    # At one place or another an answer may follow from a single token before it; not at all of them.
    elif all(given.values()) and not getattr(task, "copies", False):
        place = looked_at[0]
        at, share = max(given[place].items(), key=lambda found: found[1])
        yield (
            f"the answer that is asked at position {place} follows from the input at position {at} alone"
            f"{_how_often(share)}, and so do the others each from one: they leak; leave them out of the input, or say "
            "`copies = True` in the type if to copy them is what is asked"
        )


def _how_often(share: float) -> str:
    return "" if share == 1 else f" in {share:.0%} of the examples".replace("%", " %")


def _given_away(batch: Batch, place: int) -> dict[int, float]:
    """The positions whose input alone gives the answer that is asked at a place, and in what share of the examples."""
    asked = batch.targets[:, place] >= 0
    answers = batch.targets[asked, place]
    shares = {at: _given(batch.inputs[asked, at], answers) for at in range(place, -1, -1)}
    return {at: share for at, share in shares.items() if share is not None}


def _given(inputs: np.ndarray, answers: np.ndarray) -> float | None:
    """The share of answers that are the usual one of their input token; None where shuffled ones are told as well."""
    counts = np.unique(inputs, return_counts=True)[1]
    if len(np.unique(answers)) < 2 or len(counts) < 2 or int((counts - 1).sum()) < _TELLING:
        return None
    random = streams.generator(0, "answers shuffled")
    chance = float(np.mean([_usual(inputs, random.permutation(answers)) for _ in range(4)]))
    share = _usual(inputs, answers)
    return share if share - chance >= _LEAK * (1 - chance) > 0 else None


def _usual(inputs: np.ndarray, answers: np.ndarray) -> float:
    pairs, counts = np.unique(np.stack((inputs, answers)), axis=1, return_counts=True)
    _, first = np.unique(pairs[0], return_index=True)
    return float(np.maximum.reduceat(counts, first).sum() / len(answers))


def _leaked_numbers(batch: Batch) -> Iterator[str]:
    if batch.inputs.dtype != np.float32 or batch.targets.dtype != np.float32:
        return
    asked = batch.asked
    for answer in range(batch.targets.shape[2]):
        for place in np.flatnonzero(asked.all(0)):
            wanted = batch.targets[:, place, answer][:, None, None]
            share = float(np.isclose(batch.inputs, wanted).mean(0).max())
            if share >= _LEAK:
                often = _how_often(share) or " in every example"
                yield f"a number of the input is the answer{often}: it leaks; leave it out of the input"
                return
