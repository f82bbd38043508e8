"""Batches of runs that are trained as one program, the memory that runs need, and the data that they share.

A batch is fixed when the folders of its runs are made. The number of runs in a program changes how their sums are
rounded, and training amplifies that. So the members of a batch, and the threads of a run, stand in run.json from the
start. A process that later works on one member works on all of them, in the same order. Neither later options nor
failed or dropped members change a bit of the others.

If memory runs out, the error names the arm, the memory that it needs by the estimate, and what would fit. Nothing here
imports torch: its errors are known by their names.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from headway.base.files import inside, is_bare
from headway.base.identity import digest, grouped
from headway.base.text import counted, size
from headway.config.kinds import part_of
from headway.config.run import RunSpec
from headway.errors import UserError, shortened
from headway.store.environment import Slot, free_gpu_bytes

if TYPE_CHECKING:
    from headway.store.run import Run


_SAID = ("can't allocate memory", "not enough memory", "out of memory")
_FEWER = "run fewer at a time (fewer workers), or lower training.batch_size"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out, on a GPU or elsewhere."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID))
    )


def explain_out_of_memory(run: "Run") -> str:
    """The outcome of a run whose memory ran out: its arm, the estimate, and the batch that would fit."""
    estimate = estimated_bytes(run.spec)
    if estimate is None:
        return f"out of memory: {run.name}; {_FEWER}"
    there = run.execution.get("gpu_memory_bytes") or psutil.virtual_memory().total
    if run.batch is not None:
        return f"out of memory: {_about_batch(run, there)}"
    if estimate <= there:
        return (
            f"out of memory: {run.name} needs an estimated {size(estimate)}, and {size(there)} are available if "
            f"nothing else uses memory; {_FEWER}"
        )
    return f"out of memory: {_too_large(run.name, run.spec, estimate, there)}"


def check_memory(runs: Sequence[tuple[str, RunSpec]], workers: int) -> None:
    """Raise UserError if runs do not fit into this machine's memory, by a rather low estimate.

    Args:
        runs: the runs that are still to be trained, each with the full name of its arm.
        workers: the number of runs that are trained at once.

    Raises:
        UserError: if a run does not fit, naming its arm, its memory and a batch size that fits; or if the largest runs,
            one for each worker, do not fit together.
    """
    needs = [estimated_bytes(spec) or 0 for _, spec in runs]
    there = psutil.virtual_memory().total
    for (name, spec), estimate in zip(runs, needs, strict=True):
        if estimate > there:
            raise UserError(_too_large(name, spec, estimate, there))
    largest = sorted(needs, reverse=True)[:workers]
    if sum(largest) > there:
        fit = max((n for n in range(len(largest) + 1) if sum(largest[:n]) <= there), default=0)
        raise UserError(
            f"{len(largest)} runs at a time need about {size(sum(largest))}, and this machine has {size(there)}; "
            f"take {counted(max(fit, 1), 'worker')}"
        )


def check_and_prepare(
    runs: Sequence[tuple[str, RunSpec]], slots: Sequence[Slot], tell: Callable[[str], object]
) -> None:
    """Check memory and prepare data before runs start; the memory of GPUs is not known in advance.

    Only runs on a corpus, or with examples of one's own, have data to prepare. `data/batch.py` calls the function that
    the type of the task names; for a text it is in `data/text.py`, which makes the tokens by `data/token_store.py`.

    Args:
        runs: the runs, each with the full name of its arm.
        slots: the places of the runs, one run at a time in each; empty: other machines.
        tell: the function that is given sentences about unexpected changes to texts.

    Raises:
        UserError: when a corpus or tokenizer cannot be used, examples of one's own break a law, or runs that are worked
            on at once do not fit into memory.
    """
    if slots and all(slot.device == "cpu" for slot in slots):
        check_memory(runs, len(slots))
    looked_at = [spec for _, spec in runs if spec.task.corpora or (spec.plugins and spec.traits.measures_user_metrics)]
    with_data = {(spec.task, spec.budget.batch_size): spec for spec in looked_at}
    for note in dict.fromkeys(n for spec in with_data.values() for n in part_of(spec, "prepare")(spec)):
        tell(note)


def check_batches(runs: Sequence["Run"]) -> None:
    """Raise UserError if a batch, perhaps made on another machine, does not fit into this machine's memory.

    Raises:
        UserError: when one does not; a part of it would be another program, and end with other bits.
    """
    there = psutil.virtual_memory().total
    for run in runs:
        if run.batch is not None and needed_bytes(run) > there:
            raise UserError(_about_batch(run, there))


def needed_bytes(run: "Run") -> int:
    """Return the estimated bytes of a run and of those trained together with it; 0 without an estimate."""
    return (estimated_bytes(run.spec) or 0) * (1 if run.batch is None else len(run.batch.members))


def _about_batch(run: "Run", there: int) -> str:
    """Return the error about a batch that does not fit; a batch is resumed whole or not at all."""
    assert run.batch is not None
    return (
        f"{run.name} seed {run.seed} is in a batch of {len(run.batch.members)} runs, which is trained as one program "
        f"and needs about {size(needed_bytes(run))}; {size(there)} are there. Resume it on a machine with more "
        "memory, or move its runs aside with `headway drop` and train them again with `--batch-runs 1`"
    )


def _too_large(name: str, spec: RunSpec, estimate: int, there: int) -> str:
    """Return which arm needs too much memory, how much, and the batch that would fit."""
    said = f"{name} needs about {size(estimate)}"
    if spec.budget.judging_bytes > there:
        advice = spec.traits.judging_memory_advice
        return f"{said} for its evaluation prompts, but {size(there)} are available; {advice}"
    fits = spec.budget.fitting_batch(there)
    if fits is None:
        return f"{said}, and {size(there)} do not even hold a batch of one; use a smaller model or another machine"
    return (
        f"{said} with a batch of {spec.budget.batch_size}; a batch of {fits} would fit into {size(there)}: "
        f"{spec.traits.memory_advice}"
    )


def estimated_bytes(spec: RunSpec) -> int | None:
    """Return the estimated bytes of a run during training and evaluation, as far as they can be counted in advance."""
    try:
        return spec.budget.peak_bytes
    except UserError:  # such as a tokenizer's folder that is gone
        return None


USUAL = 64
"""The default limit of runs that are trained together."""

_MEMORY = 0.5
"""The share of the machine's memory, or of what is free of a GPU's, that runs may take together, by the estimate."""

_WORTH_THREADS = 4e9
"""Operations, forward, of a step of a batch, from which on it gets more than one thread.

By processor time, since a busy machine is the usual one (LOG.md; `benchmarks/together.py threads`): below, two threads
take about twice the processor time of one or more, up to seven times, so that they are no faster on idle cores either.
"""

Name = tuple[str, int]
"""A run of a directory: its arm, with its control, and its seed."""


@dataclass(frozen=True, kw_only=True)
class RunBatch:
    """Runs that are trained as one program.

    Attributes:
        members: the members, by row of the program.
    """

    members: tuple[Name, ...]

    @cached_property
    def id(self) -> str:
        """The digest of the members."""
        return digest([list(member) for member in self.members])

    @classmethod
    def read(cls, content: Any) -> "RunBatch":
        """Return the batch of a run.json, after checking it: it is data of a stranger, and names folders to make.

        Raises:
            TypeError: when it says anything but names of arms and seeds, or its id is that of others.
        """
        try:
            batch = cls(members=tuple((arm, seed) for arm, seed in content["members"]))
            # Each has a folder of its own in the directory, and nowhere else.
            are_names = all(is_bare(arm) and type(seed) is int and seed >= 0 for arm, seed in batch.members)
            is_right = are_names and content["id"] == batch.id
        except (KeyError, TypeError, ValueError):
            is_right = False
        if not is_right or not 1 < len(batch.members) == len(set(batch.members)):
            raise TypeError("batch is not as it was written")
        return batch

    @property
    def content(self) -> dict[str, Any]:
        """The content for run.json."""
        return {"id": self.id, "members": [list(member) for member in self.members]}

    def folders(self, run: Path) -> tuple[Path, ...]:
        """The folders of all members, in order.

        Args:
            run: the folder of one of them.

        Raises:
            ResultsError: where a symbolic link stands in the place of one.
        """
        return tuple(inside(run.parent.parent, arm, f"seed-{seed}") for arm, seed in self.members)


@dataclass(frozen=True, kw_only=True)
class Making:
    """The execution of runs that are made now, whoever works on them later.

    Attributes:
        together: the largest number of runs of one shape in a batch; None: `USUAL` if their steps are small.
        threads: the number of threads of each run; None: those of the worker that starts it.
        gpu_bytes: the free memory of the GPU that trains them; None: the machine's memory counts.
    """

    together: int | None = None
    threads: int | None = None
    gpu_bytes: int | None = None

    @classmethod
    def at(cls, slots: Sequence[Slot], together: str | int = "auto") -> "Making":
        """Make the choice for places of this machine; a run elsewhere gets one thread.

        Raises:
            UserError: if `checked_together` would raise it.
        """
        gpus = [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in slots if slot.environment]
        return cls(
            together=checked_together(together),
            threads=slots[0].threads if slots else 1,
            gpu_bytes=free_gpu_bytes(gpus) if gpus else None,
        )

    def batches(self, runs: Mapping[Name, RunSpec]) -> tuple[dict[Name, RunBatch], list[str]]:
        """Return the batches of runs that are made at once, by member, and notes on them.

        Runs of one seed stay in one batch where they fit, so that the halves of a pair are executed alike.
        """
        shapes: dict[str, list[Name]] = {}
        said: dict[str, None] = {}
        for name, spec in runs.items():
            if spec.batching.key is not None:
                shapes.setdefault(spec.batching.key, []).append(name)
            elif self.together is not None and self.together > 1:
                said[f"{name[0]}: {reasons_not_batchable(spec)}"] = None
        found: dict[Name, RunBatch] = {}
        for names in shapes.values():
            limit, sentence = how_many(runs[names[0]], self.together, self.gpu_bytes)
            if sentence and len(names) > limit:
                said[sentence] = None
            for members in _split(names, limit):
                if members[1:]:
                    found |= dict.fromkeys(members, RunBatch(members=tuple(members)))
        return found, list(said)

    def threads_of(self, spec: RunSpec, batch: RunBatch | None) -> int | None:
        """The threads of a run: of a batch one, unless its steps are large enough for more to pay."""
        if self.threads is None or batch is None:
            return self.threads
        step = spec.budget.flops_per_example * spec.budget.batch_size * len(batch.members)
        return self.threads if step >= _WORTH_THREADS else 1


def _split(names: Sequence[Name], limit: int) -> Iterator[list[Name]]:
    """Split runs into portions of a limit, those of one seed in one portion if they fit."""
    portion: list[Name] = []
    for of_seed in grouped(names, lambda name: name[1]).values():
        if portion and len(portion) + len(of_seed) > limit:
            yield portion
            portion = []
        portion += of_seed
        while len(portion) > limit:
            yield portion[:limit]
            portion = portion[limit:]
    if portion:
        yield portion


def checked_together(asked: str | int) -> int | None:
    """Return the number of runs to train together, from its text; None for `auto`.

    Raises:
        UserError: if the text is neither `auto` nor a number from 1.

    Examples:
        >>> checked_together("8")
        8
    """
    text = str(asked)
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"together {shortened(text)}: give auto, or a number of runs; 1 trains each alone")
    return int(text)


def reasons_not_batchable(spec: RunSpec) -> str:
    """Return a sentence on why a run is not trained together with others; empty if it can be."""
    reasons = "; ".join(spec.batching.obstacles)
    return f"trained alone, and not together with others of its shape: {reasons}" if reasons else ""


def how_many(spec: RunSpec, at_most: int | None, gpu_bytes: int | None = None) -> tuple[int, str]:
    """Return how many runs of a shape are trained together, and a sentence if memory bounds it.

    Args:
        spec: the declaration of one of them.
        at_most: the largest number of runs; None: `USUAL` if their steps are small, otherwise one.
        gpu_bytes: the free memory of the GPU, in bytes; None: the machine's memory counts.
    """
    if spec.batching.key is None:
        return 1, ""
    asked = at_most if at_most is not None else USUAL if spec.batching.is_cheap else 1
    if asked == 1:
        return 1, ""
    free = psutil.virtual_memory().total if gpu_bytes is None else gpu_bytes
    each, there = estimated_bytes(spec) or 1, _MEMORY * free
    fit = max(1, int(there / each))
    if fit >= asked:
        return asked, ""
    return fit, (
        f"{counted(asked, 'run')} together need about {size(asked * each)}, and half of "
        f"{'the memory' if gpu_bytes is None else 'what is free of the memory of the GPU'} is {size(there)}: "
        f"{counted(fit, 'run')} {'is' if fit == 1 else 'are'} trained together, the others after them"
    )


def half_made(waiting: Mapping[Path, RunBatch | None], missing: Collection[Name]) -> dict[Name, RunBatch]:
    """Return the batches that a killed process made in part and that no process has started; they are completed.

    Args:
        waiting: the folders of a directory's runs that nobody has begun, each with its batch.
        missing: runs that have no folder.
    """
    batches: dict[Name, RunBatch] = {}
    for batch, folder in {batch: path for path, batch in waiting.items() if batch is not None}.items():
        there = zip(batch.members, batch.folders(folder), strict=True)
        if all(name in missing or path in waiting for name, path in there):
            batches |= {name: batch for name in batch.members if name in missing}
    return batches
