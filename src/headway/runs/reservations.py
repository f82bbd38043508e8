"""Lab: what is to be said of a results directory, runs that are damaged apart, before what it says is believed."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.runs import planned_looks, resolved
from headway.runs.folder import Run
from headway.runs.timing_files import read_timings, timing_file
from headway.words import counted, listed


def reservations(directory: Path, runs: Sequence[Run], gone: Sequence[str]) -> Iterator[str]:
    """A sentence each on what is not as it was written, is gone, or was never sealed: document, looks, timings, runs.

    Args:
        directory: the results directory.
        runs: those whose seals matter.
        gone: the runs that were there before, `ARM/seed-N`.
    """
    if doubt := resolved.doubt(directory):
        yield doubt
    yield from planned_looks.damages(directory)
    if lost := resolved.given_up(directory):
        it = "it" if len(lost) == 1 else "them"
        yield (
            f"{listed(f'looks/{name}.json' for name in lost)}: lost here, and `headway verify --adopt` did without "
            f"{it}; verdicts err more often than they say where seeds were chosen by what stood there"
        )
    for name, timing in read_timings(directory).items():
        if timing is None:
            file = timing_file(directory, name)
            what = "is damaged and left out" if file.exists() else "is gone"
            yield f"{file} {what}; `headway run` with --timing measures it again"
    if gone:
        it, one = ("it", "its folder is") if len(gone) == 1 else ("them", "their folders are")
        yield (
            f"{listed(gone)}: finished here before, and {one} gone; `headway run` trains {it} anew, and "
            f"`headway verify {directory} --adopt` takes what is there for all there is"
        )
    if unsealed := sum(run.status == "done" and run.seal is None for run in runs):
        yield (
            f"{counted(unsealed, 'run')} of {len(runs)} {'was' if unsealed == 1 else 'were'} made before runs were "
            f"sealed, so not every damage is noticed; `headway verify {directory} --adopt` seals what is there"
        )
