"""Laws that the examples of every task keep; Headway checks the user's own tasks against them.

Batches have the declared shapes, ask for something, are a function of (task, seed, step), and leave shared random
generators alone.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from headway.base import rng
from headway.config.lm.model import Gpt2
from headway.config.lm.task import SyntheticTask
from headway.config.metrics import METRICS
from headway.data.batch import MASKED, Batch, Examples
from headway.errors import UserError, shortened

LOOKED_AT = 512
"""The number of examples that are examined."""
_ANY_MODEL = Gpt2(family="gpt-2", d_model=24, n_layers=2, n_positions=16, n_heads="3-2")
"""The model with which a task's claims about possible models are checked."""


def broken(task: SyntheticTask, examples: Examples) -> str:
    """Return a sentence on the first law that a task's examples break, with what to do; empty if they keep all."""
    given = getattr(task, "listed", None)
    listed = given.rows(np.arange(len(given.inputs))) if isinstance(given, Batch) else None  # nothing else changes it
    # A batch as large as the list of all inputs is the list; any other one is drawn.
    size = LOOKED_AT - (task.n_inputs == LOOKED_AT)
    before = rng.shared_states()
    try:
        first, again = (examples.training_batch(7, 3, size) for _ in range(2))
        other = examples.training_batch(8, 4, size)
    except UserError as error:  # its message already says what to do
        return f"drawing {size} examples: {error}"
    except Exception as error:  # noqa: BLE001 - whatever a type of the user's raises is told
        return f"drawing {size} examples raised {raised(error)}; let draw(random, n) give n of them"
    if before != rng.shared_states():
        return (
            "drawing examples changed a global random generator (numpy.random or torch), which others draw "
            "from; take every random number from the `random` that draw is given"
        )
    wrong = _wrong_batch(task, first, size) or (_wrong_batch(task, listed, len(listed.inputs)) if listed else "")
    if wrong:
        return wrong
    if not _same(first, again):
        return (
            "two draws of one seed and step gave different examples; take every random number from the `random` that "
            "draw is given, and keep nothing between calls"
        )
    if _same(first, other):
        return "another seed and step gave the same examples; take random numbers from the `random` that draw is given"
    return (_wrong_list(task, listed) if listed else "") or _wrong_bound(task)


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


def _wrong_list(task: Any, listed: Batch) -> str:
    """Return a sentence if inputs are listed differently a second time."""
    if not _same(task.listed, listed):
        return "draw changed the arrays that every() gave; let draw make arrays of its own"
    if not _same(task.every(), listed):
        return "every() gave other inputs the second time; list the same ones in the same order, without random numbers"
    return ""


def _wrong_bound(task: SyntheticTask) -> str:
    """Return a sentence on the first bound of a task (`best_possible`, `by_chance`) that is no value of its metric."""
    name, advice = "best_possible", 'measured metrics, such as {"accuracy": 0.75}'
    try:
        bounds: Any = task.best_possible(_ANY_MODEL)
        if _are_bounds(bounds):
            name, advice = "by_chance", "a share from 0 to 1, or None"
            bounds = {"accuracy": task.by_chance()}
    except Exception as error:  # noqa: BLE001 - whatever a type of the user's raises is told
        return f"{name} raised {raised(error)}; let it give {advice}"
    if _are_bounds(bounds) or (name, bounds) == ("by_chance", {"accuracy": None}):
        return ""
    return f"{name} gave {shortened(repr(bounds))}; let it give {advice}"


def _are_bounds(bounds: Any) -> bool:
    return isinstance(bounds, Mapping) and all(_is_bound(*bound) for bound in bounds.items())


def _is_bound(metric: str, value: Any) -> bool:
    """Return whether a metric can have a value as its best."""
    if metric not in METRICS or METRICS[metric].better is None or not isinstance(value, int | float):
        return False
    return 0 <= value <= 1 if metric == "accuracy" else math.isfinite(value)


def _wrong_batch(task: SyntheticTask, batch: Any, n: int) -> str:
    """Return a sentence unless this is a batch of n examples, of numbers of the right type, that asks for something."""
    if not isinstance(batch, Batch):
        return f"draw gave a {type(batch).__name__}; give a Batch(inputs=..., targets=...)"
    for name, values in (("inputs", batch.inputs), ("targets", batch.targets)):
        if not isinstance(values, np.ndarray) or values.dtype not in (np.int64, np.float32):
            kind_given = values.dtype if isinstance(values, np.ndarray) else type(values).__name__
            return f"{name} are {kind_given}; give a numpy array of int64 (tokens, answers) or float32 (numbers)"
    tokens, is_number = batch.inputs.dtype == np.int64, batch.targets.dtype == np.float32
    if (task.loss == "mse") != is_number:
        return (
            f"targets are {batch.targets.dtype}, but the loss is {task.loss}; use int64 targets (classes) "
            "with loss_nats, and float32 targets (numbers) with mse"
        )
    # A class token follows numbers, and their answer is read there.
    lengths = (task.n_ctx,) if tokens else (task.n_ctx, task.n_ctx - 1)
    if len(batch.inputs) != n or batch.inputs.ndim != (2 if tokens else 3) or batch.inputs.shape[1] not in lengths:
        wanted = f"({n}, {task.n_ctx}{'' if tokens else ', numbers'})"
        return f"inputs have the shape {batch.inputs.shape}, and (n, n_ctx) is {wanted}; make them equal"
    masked = "NaN" if is_number else str(MASKED)
    wanted_targets = (n, task.n_ctx, task.n_answers) if is_number else (n, task.n_ctx)
    if batch.targets.shape != wanted_targets:
        return (
            f"targets have the shape {batch.targets.shape}, and there is one for each position: {wanted_targets}, "
            f"{masked} where nothing is asked"
        )
    ranges = [("inputs", batch.inputs, 0, task.vocab_size, "vocab_size")] if tokens else []
    ranges += [] if is_number else [("targets", batch.targets, MASKED, task.n_answers, "n_answers")]
    for name, values, low, end, key in ranges:
        if values.min() < low or values.max() >= end:
            outside = values[(values < low) | (values >= end)].flat[0]
            return f"{name} hold {outside}, but {key} is {end}; use values from {low} to {end - 1}"
    return "" if batch.asked.any() else f"no position has an answer: every target is {masked}; give at least one answer"


def _same(one: Batch, other: Batch) -> bool:
    same_inputs = np.array_equal(one.inputs, other.inputs)
    return same_inputs and np.array_equal(one.targets, other.targets, equal_nan=one.targets.dtype.kind == "f")
