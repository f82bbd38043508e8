"""Runs: running out of memory: which arm, what it needs by the estimate, and what would fit.

Nothing here imports torch: its errors are known by their names.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import psutil

from headway.declare.run import RunSpec
from headway.errors import UserError
from headway.words import counted

if TYPE_CHECKING:
    from headway.runs.folder import Run

_SAID = ("can't allocate memory", "not enough memory", "out of memory")
_FEWER = "run fewer at a time (fewer workers), or lower training.batch_size"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, on a GPU or elsewhere."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID))
    )


def out_of_memory(run: "Run") -> str:
    """The outcome of a run whose memory ran out: its arm, the estimate, and the batch that would fit."""
    estimate = estimated_bytes(run.spec)
    if estimate is None:
        return f"out of memory: {run.name}; {_FEWER}"
    there = run.execution.get("gpu_memory_bytes") or psutil.virtual_memory().total
    if run.batch is not None:
        return f"out of memory: {_about_batch(run, there)}"
    if estimate <= there:
        return (
            f"out of memory: {run.name} needs about {_size(estimate)} by the estimate, and {_size(there)} are there "
            f"if nothing else has them; {_FEWER}"
        )
    return f"out of memory: {_too_large(run.name, run.spec, estimate, there)}"


def check_memory(runs: Sequence[tuple[str, RunSpec]], workers: int) -> None:
    """Nothing, when by the estimate, which is rather low, runs fit into this machine's memory.

    Args:
        runs: those that are still to be trained, each with the full name of its arm.
        workers: how many are trained at once.

    Raises:
        UserError: when one of the runs does not, naming its arm, what it needs and the batch that would fit; or when
            the largest of them, as many as there are workers, do not together.
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
            f"{len(largest)} runs at a time need about {_size(sum(largest))}, and this machine has {_size(there)}; "
            f"take {counted(max(fit, 1), 'worker')}"
        )


def check_batches(runs: Sequence["Run"]) -> None:
    """Nothing, when each batch fits into this machine's memory by the estimate: it may have been made on another one.

    Raises:
        UserError: when one does not; a part of it would be another program, and end with other bits.
    """
    there = psutil.virtual_memory().total
    firsts: dict[str, Run] = {}
    for run in runs:
        if run.batch is not None:
            firsts.setdefault(run.batch.id, run)
    for run in firsts.values():
        if needed_bytes(run) > there:
            raise UserError(_about_batch(run, there))


def needed_bytes(run: "Run") -> int:
    """What a run and those that are trained together with it need, by the estimate; 0 where there is none."""
    return (estimated_bytes(run.spec) or 0) * (1 if run.batch is None else len(run.batch.members))


def _about_batch(run: "Run", there: int) -> str:
    """What a batch needs, and what to do where it does not fit: it is resumed whole or not at all."""
    assert run.batch is not None
    return (
        f"{run.name} seed {run.seed} is in a batch of {len(run.batch.members)} runs, which is trained as one program "
        f"and needs about {_size(needed_bytes(run))}; {_size(there)} are there. Resume it on a machine with more "
        "memory, or put its runs aside with `headway drop` and make them anew with `--together 1`"
    )


def _too_large(name: str, spec: RunSpec, estimate: int, there: int) -> str:
    """Which arm, what it needs, and the batch that would fit."""
    said = f"{name} needs about {_size(estimate)}"
    if spec.budget.judging_bytes > there:
        return f"{said} for the prompts that it is judged on, and {_size(there)} are there; {spec.saves_judging}"
    fits = spec.fitting_batch(there)
    if fits is None:
        return f"{said}, and {_size(there)} do not even hold a batch of one; take a smaller model or another machine"
    return (
        f"{said} with a batch of {spec.training.batch_size}; into {_size(there)} one of {fits} would fit: "
        f"{spec.saves_memory}"
    )


def estimated_bytes(spec: RunSpec) -> int | None:
    """What a run needs while it trains or is judged, as far as it can be counted beforehand."""
    try:
        return spec.budget.peak_bytes
    except UserError:  # such as a tokenizer's folder that is gone
        return None


def _size(n: int) -> str:
    return f"{n / 1e9:.1f} GB" if n >= 1e8 else f"{n / 1e6:.1f} MB"
