"""Laws that the examples of every task keep; Headway checks the user's own tasks against them.

Batches have the declared shapes, ask for something, are a function of (task, seed, step), and leave shared random
generators alone.
"""

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

import numpy as np
from pydantic import ValidationError

from headway.base import rng
from headway.config.lm.model import Gpt2
from headway.config.lm.task import TokensTask
from headway.config.metrics import METRICS
from headway.data.batch import MASKED, Batch, Examples
from headway.errors import UserError, near, shortened

LOOKED_AT = 512
"""The number of examples that are examined."""
_BATCHES = 64
"""The most batches that are drawn to reach that number."""
_ANY_MODEL = Gpt2(family="gpt-2", d_model=24, n_layers=2, n_positions=16, n_heads="3-2")
"""The model with which a task's claims about possible models are checked."""


def broken(task: TokensTask, examples: Examples) -> Iterator[str]:
    """Yield a sentence for each law that a task's examples break, with what to do."""
    n_inputs = getattr(task, "n_inputs", None)
    size = LOOKED_AT if n_inputs is None else min(LOOKED_AT, n_inputs)
    listed = _copied(getattr(task, "listed", None))
    before = rng.shared_states()
    try:
        first, again = (examples.training_batch(7, 3, size) for _ in range(2))
        other = examples.training_batch(8, 4, size)
        # A batch as large as the list of all inputs is the list; a smaller one is drawn.
        drawn, drawn_again = ([*_several(examples, max(1, size - 1), listed)] for _ in range(2))
    except UserError as error:  # its message already says what to do
        yield f"drawing {size} examples: {error}"
        return
    except Exception as error:  # noqa: BLE001 - whatever a type of the user's raises is told
        yield f"drawing {size} examples raised {raised(error)}; let draw(random, n) give n of them"
        return
    if before != rng.shared_states():
        yield (
            "drawing examples changed a global random generator (numpy.random or torch), which others draw "
            "from; take every random number from the `random` that draw is given"
        )
    wrong = [*_shapes(task, first, size)] or [*_kinds(task, drawn[0], max(1, size - 1))]
    wrong += _shapes(task, listed, len(listed.inputs)) if listed is not None and size != n_inputs else []
    yield from wrong
    if wrong:
        return
    if not (_same(first, again) and all(map(_same, drawn, drawn_again))):
        yield (
            "two draws of one seed and step gave different examples; take every random number from the `random` that "
            "draw is given, and keep nothing between calls"
        )
    elif size != n_inputs and _same(first, other):
        yield "another seed and step gave the same examples; take random numbers from the `random` that draw is given"
    if listed is not None:
        yield from [*_listing(task, listed)] or islice(chain(*(_drawn_otherwise(each, listed) for each in drawn)), 1)
    yield from _promises(task)


def raised(error: Exception) -> str:
    """Return an exception of the user's code in one line.

    Examples:
        >>> raised(KeyError("a"))
        "KeyError: 'a'"
    """
    if isinstance(error, ValidationError):
        (errors, *_) = error.errors(include_url=False)
        return f"{type(error).__name__}: {'.'.join(map(str, errors['loc']))}: {errors['msg']}"
    return f"{type(error).__name__}: {shortened(str(error))}"


def _copied(batch: Any) -> Batch | None:
    """Return a batch that nothing else can change; None for an object that is no batch."""
    return batch.rows(np.arange(len(batch.inputs))) if isinstance(batch, Batch) else None


def _several(examples: Examples, size: int, listed: Batch | None) -> Iterator[Batch]:
    """Yield batches of a size: one, or if inputs are listed enough to draw most of a few inputs."""
    for step in range(1 if listed is None else min(_BATCHES, -(-LOOKED_AT // size))):
        yield examples.training_batch(7, 5 + step, size)


def _listing(task: Any, listed: Batch) -> Iterator[str]:
    """Yield a sentence if inputs are listed differently a second time, or if one input has two answers."""
    if not _same(task.listed, listed):
        yield "draw changed the arrays that every() gave; let draw make arrays of its own"
    before, again = rng.shared_states(), task.every()
    if before != rng.shared_states():
        yield (
            "every() changed a global random generator (numpy.random or torch), which others draw from; list the "
            "inputs without random numbers"
        )
    if not _same(again, listed):
        yield "every() gave other inputs the second time; list the same ones in the same order, without random numbers"
    rows = np.ascontiguousarray(listed.inputs).reshape(len(listed.inputs), -1)
    _, first, of = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    kept = listed.rows(first[of.reshape(-1)])
    if len(first) < len(rows) and not _same(Batch(inputs=kept.inputs, targets=listed.targets), kept):
        yield "every() lists one input with two different answers; give each input one answer"


def _drawn_otherwise(drawn: Batch, listed: Batch) -> Iterator[str]:
    """Yield a sentence if a drawn input is not listed, or has another answer in the list."""
    rows = {row.tobytes(): at for at, row in enumerate(listed.inputs + 0)}  # so that -0.0 is 0.0
    for at, row in enumerate(drawn.inputs + 0):
        given = f"draw() gives the input {shortened(str(row.tolist()), 120)}"
        there = rows.get(row.tobytes())
        if there is None:
            yield (
                f"{given}, and every() does not list that input. Training draws, and evaluation takes every(); list "
                "all inputs in every(), or leave every() out"
            )
            return
        one, other = drawn.targets[at], listed.targets[there]
        differing = ~np.isclose(one, other, equal_nan=True).reshape(len(one), -1).all(1)
        if differing.any():
            place = int(np.argmax(differing))
            said = [
                shortened(str(batch.targets[which][place].tolist()), 120) if batch.asked[which, place] else "none"
                for batch, which in ((drawn, at), (listed, there))
            ]
            yield (
                f"{given} the answer {said[0]} at position {place}, and every() gives that input {said[1]}. "
                "Training draws, and evaluation takes every(); let both give one answer"
            )
            return


def _promises(task: Any) -> Iterator[str]:
    """Yield a sentence for each bound of a task (`best_possible`, `by_chance`) that is not a value of its metric."""
    if not hasattr(task, "by_chance"):
        return
    for name, promised, advice in (
        ("best_possible", lambda: task.best_possible(_ANY_MODEL), 'a mapping such as {"accuracy": 0.75}'),
        ("by_chance", lambda: {"accuracy": task.by_chance()}, "a share from 0 to 1, or None"),
    ):
        try:
            bounds = promised()
        except Exception as error:  # noqa: BLE001 - whatever a type of the user's raises is told
            yield f"{name} raised {raised(error)}; let it give {advice}"
            continue
        if name == "by_chance" and bounds == {"accuracy": None}:
            continue
        if not isinstance(bounds, Mapping):
            yield f"{name} gave {shortened(repr(bounds))}; let it give {advice}"
            continue
        wrong = (_why_no_promise(metric, value, advice) for metric, value in bounds.items())
        yield from (f"{name} {each}" for each in wrong if each)


def _why_no_promise(metric: str, value: Any, advice: str) -> str:
    """Return why a metric cannot have a value as its best; empty if it can."""
    if metric not in METRICS or METRICS[metric].better is None:
        metrics = [each for each in METRICS if METRICS[each].better is not None]
        return f"names {shortened(repr(metric))}, which is not measured; {near(str(metric), metrics)}"
    if not isinstance(value, int | float) or not np.isfinite(value):
        return f"gave {shortened(repr(value))} for {metric}; let it give {advice}"
    return f"gave an accuracy of {value}; let it give {advice}" if metric == "accuracy" and not 0 <= value <= 1 else ""


def _shapes(task: TokensTask, batch: Any, n: int) -> Iterator[str]:
    wrong = [*_kinds(task, batch, n)]
    yield from wrong
    if wrong or batch.targets.shape[:1] != (n,):
        return
    if not batch.asked.any():
        masked = "NaN" if batch.targets.dtype == np.float32 else str(MASKED)
        yield f"nothing is asked: every target is {masked}; put answers where they are asked"
    elif n > 1 and not _varies(batch):
        yield (
            "at each position the answer is the same in every example, so nothing can be learnt from the input; ask "
            "for what depends on it"
        )


def _kinds(task: TokensTask, batch: Any, n: int) -> Iterator[str]:
    """Yield a sentence unless this is a batch of n examples, of numbers of the right type."""
    if not isinstance(batch, Batch):
        yield f"draw gave a {type(batch).__name__}; give a Batch(inputs=..., targets=...)"
        return
    for name, values in (("inputs", batch.inputs), ("targets", batch.targets)):
        if not isinstance(values, np.ndarray) or values.dtype not in (np.int64, np.float32):
            kind_given = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
            yield f"{name} are {kind_given}; give a numpy array of int64 (tokens, answers) or float32 (numbers)"
            return
    is_number = batch.targets.dtype == np.float32
    if (task.loss == "mse") != is_number:
        yield (
            f"targets are {batch.targets.dtype}, and its loss is {task.loss}; answers that are classes are int64 and "
            "go with loss_nats, answers that are numbers are float32 and go with mse"
        )
        return
    yield from _sizes(task, batch, n)


def _varies(batch: Batch) -> bool:
    """Return whether an answer at some position differs between examples."""
    asked = batch.asked if batch.targets.ndim == 2 else batch.asked[:, :, None]
    high = np.where(asked, batch.targets, -np.inf).max(0)
    low = np.where(asked, batch.targets, np.inf).min(0)
    return bool((high > low).any())


def _sizes(task: TokensTask, batch: Batch, n: int) -> Iterator[str]:
    tokens = batch.inputs.dtype == np.int64
    # A class token follows numbers, and their answer is read there.
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
