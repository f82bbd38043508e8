"""Examples of tasks with known answers and of the user's own tasks: every input listed, or drawn.

* parity: rows of bits and a query that asks whether the number of ones is odd;
* endpoint selection: edges, a selector and a query that asks for the end the selector names;
* retrieval: normal inputs, and the sum of their largest projections asked at the class token;
* hops: letters of which none follows itself, and where hops from each of them end;
* recall: keys with values, then the keys again among fillers; their values are asked;
* induction: letters, and what followed the latest earlier occurrence of each.

A plugin's type declares and draws examples of the user's own task. They are checked against `task_laws` before anything
is trained on them.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int64

from headway.base import rng
from headway.base.identity import digest
from headway.config.lm.synthetic import EndpointTask, HopsTask, InductionTask, ParityTask, RecallTask, RetrievalTask
from headway.config.lm.task import SyntheticTask
from headway.config.metrics import METRICS
from headway.config.plugins import line_of
from headway.config.spec import whole
from headway.data.batch import MASKED, Batch, Examples, joined_batches
from headway.data.task_laws import broken, raised
from headway.errors import UserError, near

JUDGED = 1_024
"""The number of evaluation sequences if the evaluation gives none."""

_DRAWN_AT_ONCE = 32
"""The number of evaluation sequences drawn at once, so that arms of different batch sizes get the same ones."""

Draw = Callable[[np.random.Generator, int], Batch]
"""A function that draws a number of examples from a generator."""


class SyntheticExamples(Examples):
    """The examples of a synthetic task: drawn for each step, or all inputs listed.

    Law: the batch of a step is a function of (task, seed, step, batch size). A batch as large as all inputs holds each
    of them once, in one order, whatever the seed.
    """

    def __init__(self, task: SyntheticTask, *, every: Batch | None = None, draw: Draw | None = None):
        """Take one of two.

        Args:
            task: the task of the examples.
            every: the complete list of inputs, if there is one.
            draw: the function that draws examples; None: rows of `every`.
        """
        self.task, self._every = task, every
        self.vocab_size = task.vocab_size
        self.digest = digest(task.content())  # nothing but the declaration makes the examples
        self._draw = draw or self._row

    def _row(self, random: np.random.Generator, n: int) -> Batch:
        assert self._every is not None
        return self._every.rows(random.integers(len(self._every.inputs), size=n))

    def training_batch(self, seed: int, step: int, batch_size: int) -> Batch:
        """Return all inputs once, or the examples that the seed draws for the step."""
        if self._every is not None and batch_size == len(self._every.inputs):
            return self._every
        return self._draw(rng.generator(seed, "known task", self.task.kind, step), batch_size)

    def evaluation_batches(self, sequences: int | None, batch_size: int) -> Iterator[Batch]:
        """Yield all inputs once, or drawn examples that are equal for every seed; 1,024 if no number is given."""
        judged = self._every if self._every is not None else self._fixed(sequences or JUDGED)
        yield from _cut(judged, batch_size)

    def _fixed(self, n: int) -> Batch:
        """Draw n examples that are a prefix of any larger number, however they are cut into batches."""
        generators = (
            rng.generator(0, "known evaluation", self.task.kind, first) for first in range(0, n, _DRAWN_AT_ONCE)
        )
        return joined_batches([self._draw(random, _DRAWN_AT_ONCE) for random in generators]).rows(slice(n))

    def steps_per_epoch(self, batch_size: int) -> float:
        """Return the steps until every input was seen once; drawn examples never end."""
        return float("inf") if self._every is None else max(1.0, len(self._every.inputs) / batch_size)

    def targets_per_step(self, batch_size: int) -> float:
        """Return the mean number of answers that a step asks for."""
        return batch_size * self._asked

    @cached_property
    def _asked(self) -> float:
        some = self._every or self._draw(rng.generator(0, "known task, counted", self.task.kind), 256)
        return float(some.asked.sum(1).mean())


def _cut(batch: Batch, size: int) -> Iterator[Batch]:
    """Yield a batch in batches of a size, the last filled up with masked sequences."""
    total = len(batch.inputs)
    for first in range(0, total, size):
        part = batch.rows(np.arange(first, first + size) % total)
        if first + size > total:
            targets: Any = part.targets.copy()
            targets[total - first :] = np.nan if np.issubdtype(targets.dtype, np.floating) else MASKED
            part = replace(part, targets=targets)
        yield part


def asked_last(inputs: np.ndarray, answers: np.ndarray) -> Batch:
    """Return sequences of which only the last position is asked, with its answers."""
    targets = np.full(inputs.shape, MASKED, np.int64)
    targets[:, -1] = answers
    return Batch(inputs=inputs, targets=targets)


QUERY = 2


def parity_examples(task: ParityTask) -> SyntheticExamples:
    """Return every row of bits, once.

    Examples:
        >>> task = ParityTask(kind="parity", n_bits=2)
        >>> batch = parity_examples(task).training_batch(seed=0, step=0, batch_size=4)
        >>> batch.inputs.tolist(), batch.targets[:, -1].tolist()
        ([[0, 0, 2], [1, 0, 2], [0, 1, 2], [1, 1, 2]], [0, 1, 1, 0])
    """
    bits = np.arange(task.n_inputs, dtype=np.int64)[:, None] >> np.arange(task.n_bits) & 1
    inputs = np.concatenate((bits, np.full((task.n_inputs, 1), QUERY)), axis=1)
    return SyntheticExamples(task, every=asked_last(inputs, bits.sum(1) % 2))


def endpoint_examples(task: EndpointTask) -> SyntheticExamples:
    """Return every edge with either selector, once.

    Examples:
        >>> task = EndpointTask(kind="endpoint", vertices=2, graph="tournament")
        >>> batch = endpoint_examples(task).training_batch(seed=0, step=0, batch_size=2)
        >>> batch.inputs.tolist(), batch.targets[:, -1].tolist()
        ([[0, 1, 2, 4], [0, 1, 3, 4]], [0, 1])
    """
    edges = np.repeat(np.array(task.pairs, np.int64), 2, axis=0)
    which = np.tile([0, 1], len(task.pairs))
    n = len(edges)
    inputs = np.column_stack((edges, task.vertices + which, np.full(n, task.vertices + 2)))
    return SyntheticExamples(task, every=asked_last(inputs, edges[np.arange(n), which]))


def directions(task: RetrievalTask) -> np.ndarray:
    """Return the directions a_i of a task, of length 1; at right angles as long as there is room."""
    drawn = rng.generator(0, "directions", task.d_x, task.targets).standard_normal((task.targets, task.d_x))
    vectors = drawn.copy()
    for i in range(1, min(task.targets, task.d_x)):
        basis = np.linalg.qr(vectors[:i].T)[0]
        vectors[i] -= basis @ (basis.T @ vectors[i])
    unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def retrieval_examples(task: RetrievalTask) -> SyntheticExamples:
    """Return examples with fresh inputs for every step."""
    a = directions(task)

    def draw(random: np.random.Generator, n: int) -> Batch:
        inputs = random.standard_normal((n, task.length, task.d_x), np.float32)
        targets = np.full((n, task.n_ctx, 1), np.nan, np.float32)
        targets[:, -1, 0] = (inputs @ a.T.astype(np.float32)).max(1).sum(1)
        return Batch(inputs=inputs, targets=targets)

    return SyntheticExamples(task, draw=draw)


_GUESSED = 4_000
"""The number of sequences in which guesses are counted."""


def letters_without_repeats(
    random: np.random.Generator, n: int, length: int, letters: int
) -> Int64[np.ndarray, "n length"]:
    """Return uniform sequences of letters in which no letter follows itself."""
    steps = random.integers(1, letters, size=(n, length))
    steps[:, 0] = random.integers(letters, size=n)
    sequences: np.ndarray = steps.cumsum(1) % letters
    return sequences


def hop(sequences: Int64[np.ndarray, "n length"]) -> Int64[np.ndarray, "n length"]:
    """Return the position after the latest earlier occurrence of each position's letter; -1 where there is none.

    Examples:
        >>> hop(np.array([[0, 1, 0, 2, 1]])).tolist()
        [[-1, -1, 1, -1, 2]]
    """
    n, length = sequences.shape
    latest = np.full((n, int(sequences.max()) + 1), -1)
    found, rows = np.empty_like(sequences), np.arange(n)
    for at in range(length):
        before = latest[rows, sequences[:, at]]
        found[:, at] = np.where(before < 0, -1, before + 1)
        latest[rows, sequences[:, at]] = at
    return found


def end_of_hops(sequences: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return where k hops from every position end, k by sequence; -1 where a hop finds nothing."""
    n, length = sequences.shape
    once, rows = hop(sequences), np.arange(n)[:, None]
    at = np.broadcast_to(np.arange(length), (n, length)).copy()
    for done in range(int(k.max(initial=0))):
        at = np.where((k > done)[:, None], np.where(at < 0, -1, once[rows, at]), at)
    return at


@lru_cache(maxsize=16)
def guessed(task: HopsTask) -> tuple[float, ...]:
    """Return the accuracy, by k, of a model that knows k, the position and its letter, and looks nothing up.

    Such a model gives the most frequent answer: none, or a letter at a fixed distance in the alphabet. Longer sequences
    and fewer hops make none rarer.
    """
    sequences = letters_without_repeats(rng.generator(0, "hops guessed"), _GUESSED, task.length, task.letters)
    shares = []
    for k in range(task.hops + 1):
        at = end_of_hops(sequences, np.full(_GUESSED, k))
        answers = np.take_along_axis(sequences, at.clip(0), axis=1)
        further = np.where(at < 0, task.letters, (answers - sequences) % task.letters)
        counts = np.stack([(further == answer).sum(0) for answer in range(task.letters + 1)])
        shares.append(float(counts.max(0).mean() / _GUESSED))
    return tuple(shares)


def hops_examples(task: HopsTask) -> SyntheticExamples:
    """Return examples with fresh letters for every step; sequences are distinguished by k."""

    def draw(random: np.random.Generator, n: int) -> Batch:
        k = random.integers(task.hops + 1, size=n)
        sequences = letters_without_repeats(random, n, task.length, task.letters)
        at = end_of_hops(sequences, k)
        answers = np.where(at < 0, task.letters, np.take_along_axis(sequences, at.clip(0), axis=1))
        inputs = np.concatenate(((task.letters + k)[:, None], sequences), axis=1)
        return Batch(inputs=inputs, targets=np.concatenate((np.full((n, 1), MASKED), answers), axis=1), kinds=k)

    return SyntheticExamples(task, draw=draw)


def recall_examples(task: RecallTask) -> SyntheticExamples:
    """Return examples with fresh pairs for every step."""
    half, given = task.vocabulary // 2, 2 * task.pairs

    def draw(random: np.random.Generator, n: int) -> Batch:
        keys = 1 + _distinct(random, n, half - 1, task.pairs)
        values = random.integers(half, task.vocabulary, size=(n, task.pairs))
        inputs = np.zeros((n, task.length), np.int64)
        inputs[:, 0:given:2], inputs[:, 1:given:2] = keys, values
        targets = np.full((n, task.length), MASKED)
        at = given + _distinct(random, n, task.length - given, task.pairs)
        np.put_along_axis(inputs, at, keys, axis=1)
        np.put_along_axis(targets, at, values, axis=1)
        return Batch(inputs=inputs, targets=targets)

    return SyntheticExamples(task, draw=draw)


def _distinct(random: np.random.Generator, n: int, below: int, count: int) -> np.ndarray:
    """Return rows of distinct numbers.

    A small range is shuffled and its first numbers taken; rows from a large range are drawn again until distinct.
    """
    if below <= 64 * count:
        numbers: np.ndarray = random.random((n, below)).argpartition(count - 1, axis=1)[:, :count]
        return random.permuted(numbers, axis=1)
    numbers = random.integers(below, size=(n, count))
    while (again := (np.diff(np.sort(numbers, axis=1), axis=1) == 0).any(1)).any():
        numbers[again] = random.integers(below, size=(int(again.sum()), count))
    return numbers


def induction_examples(task: InductionTask) -> SyntheticExamples:
    """Return examples with fresh letters for every step; nothing is asked where a letter stands for the first time."""

    def draw(random: np.random.Generator, n: int) -> Batch:
        sequences = letters_without_repeats(random, n, task.length, task.letters)
        at = hop(sequences)
        answers = np.take_along_axis(sequences, at.clip(0), axis=1)
        return Batch(inputs=sequences, targets=np.where(at < 0, MASKED, answers))

    return SyntheticExamples(task, draw=draw)


_LIST = "let every() give a Batch(inputs=..., targets=...) of all inputs"


class OwnTask(SyntheticTask):
    """The base of the user's own tasks; a subclass has `kind`, `n_ctx`, `vocab_size`, and `draw` or `every`.

    Other members are optional: `title`, `n_answers` if answers are no tokens, `best_possible`, `primary`, the metric
    that compares arms, and `loss`, which is `mse` if answers are numbers.
    """

    examples: ClassVar[str] = "headway.data.synthetic.plugin_examples"
    copies: ClassVar[bool] = False
    """Set by types that were written for 0.2, and no longer read."""

    @whole
    def _check_whole(self) -> None:
        for key in ("n_ctx", "vocab_size", "n_answers"):
            try:
                size = getattr(self, key)
            except Exception as error:
                raise ValueError(
                    f"its {key} raised {raised(error)}; give n_ctx and vocab_size as properties"
                ) from error
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{key} is {size!r}; make it a whole number of 1 or more")
        if self.loss not in ("loss_nats", "mse"):
            raise ValueError(f"loss is {self.loss!r}; {near(self.loss, ('loss_nats', 'mse'))}")
        ranked = [name for name, metric in METRICS.items() if metric.better is not None]
        if self.primary not in ranked:
            raise ValueError(f"primary is {self.primary!r}, which cannot rank arms; {near(self.primary, ranked)}")

    def draw(self, random: np.random.Generator, n: int) -> Batch:  # noqa: ARG002
        """Draw n examples from this generator alone.

        Raises:
            UserError: when the type neither draws nor lists its examples.
        """
        raise UserError(
            f"task.kind {self.kind}: it has no examples; give its type a method draw(random, n), or every()"
        )

    def every(self) -> Batch | None:
        """Return all inputs once, if they can be listed; None: they are drawn."""
        return None

    @cached_property
    def listed(self) -> Batch | None:
        """All inputs of the task, made once; None if the task does not list them.

        Raises:
            UserError: when `every` fails, or gives something else.
        """
        try:
            made = self.every()
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"task.kind {self.kind}: every() raised {raised(error)}; {_LIST}") from error
        if made is None or (isinstance(made, Batch) and len(made.inputs)):
            return made
        given = "no input" if isinstance(made, Batch) else f"a {type(made).__name__}"
        raise UserError(f"task.kind {self.kind}: every() gave {given}; {_LIST}")

    @property
    def n_inputs(self) -> int | None:
        """The number of inputs; None if they are not listed."""
        return None if self.listed is None else len(self.listed.inputs)


def plugin_examples(task: OwnTask) -> SyntheticExamples:
    """Return the examples of the user's own task; raise UserError if they break a law.

    Raises:
        UserError: when what it draws breaks a law.
    """
    examples = examples_of(task)
    if wrong := broken(task, examples):
        own = [getattr(type(task), name) for name in ("draw", "every")]
        where = [f"{line_of(function)}: " for function in own if function not in (OwnTask.draw, OwnTask.every)]
        raise UserError(f"{''.join(where[:1])}task.kind {task.kind}: {wrong}")
    return examples


def examples_of(task: OwnTask) -> SyntheticExamples:
    """Return the examples of the user's own task without checking their laws."""
    draws = task.listed is None or type(task).draw is not OwnTask.draw
    return SyntheticExamples(task, every=task.listed, draw=task.draw if draws else None)
