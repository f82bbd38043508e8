"""Lab: running out of memory: which arm, what it needs by the estimate, and what would fit.

Nothing here imports torch: its errors are known by their names.
"""

from collections.abc import Sequence

import psutil

from headway.declare.budget import budget
from headway.declare.run import TextRun
from headway.declare.text_budget import fitting_batch
from headway.errors import UserError
from headway.lab.run import Run

_SAID = ("can't allocate memory", "not enough memory", "out of memory")
_FEWER = "run fewer at a time with --workers, or lower training.batch_size"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on a GPU or elsewhere."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID))
    )


def out_of_memory(run: Run) -> str:
    """The outcome of a run whose memory ran out: its arm, the estimate, and the batch that would fit."""
    said, estimate = f"out of memory: {run.name}", estimated_bytes(run)
    if estimate is None:
        return f"{said}; {_FEWER}"
    said += f" needs about {_size(estimate)}"
    there = run.execution.get("gpu_memory_bytes") or psutil.virtual_memory().total
    if estimate <= there or not isinstance(run.spec, TextRun):
        return f"{said} by the estimate, and {_size(there)} are there if nothing else has them; {_FEWER}"
    fits = fitting_batch(run.spec, there)
    if fits is None:
        return f"{said}, and {_size(there)} do not even hold a batch of one; take a smaller model or another machine"
    return (
        f"{said} with a batch of {run.spec.training.batch_size}; into {_size(there)} one of {fits} would fit: lower "
        "training.batch_size, or keep it and raise training.accumulate"
    )


def too_much(runs: Sequence[Run], workers: int) -> str | None:
    """A warning when the largest of the runs, as many as there are workers, would not fit into memory together."""
    estimates = [estimated_bytes(run) or 0 for run in runs if run.status not in ("done", "damaged")]
    largest = sorted(estimates, reverse=True)[:workers]
    there = psutil.virtual_memory().total
    if sum(largest) <= there:
        return None
    fit = max((n for n in range(len(largest) + 1) if sum(largest[:n]) <= there), default=0)
    advice = f"take --workers {fit}" if fit else "lower training.batch_size, or raise training.accumulate"
    return (
        f"{len(largest)} runs at a time would need about {_size(sum(largest))}, and this machine has {_size(there)}; "
        f"{advice}"
    )


def estimated_bytes(run: Run) -> int | None:
    """What a run needs while it trains, as far as it can be counted beforehand."""
    try:
        return budget(run.spec).training_bytes
    except UserError:  # such as a tokenizer's folder that is gone
        return None


def _size(n: int) -> str:
    return f"{n / 1e9:.1f} GB" if n >= 1e8 else f"{n / 1e6:.1f} MB"
