"""The run that another run is initialised from: its place, and its weights.

A run knows its parent by id, and finds it in its own directory among the runs of its seed. A child needs the weights of
the parent's last step, or of a step that the parent's folder was told to keep.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headway.base.files import entries
from headway.base.text import command_line, numbered
from headway.errors import ResultsError
from headway.store.records import beginning_of
from headway.store.run import Run
from headway.train.loop import InitFrom


def parent_of(run: Run) -> Run | None:
    """The run that a run starts from, as it stands; None where it starts from nothing.

    Raises:
        ResultsError: when its directory has none of that id and seed.
    """
    if run.spec.init_from is None:
        return None
    wanted = run.spec.init_from.run
    found = next((each for each in _of_seed(run) if each.id == wanted), None)
    if found is None:
        raise ResultsError(
            f"it starts from {wanted} with seed {run.seed}, and {_directory(run)} has no such run; `headway run` with "
            "the file that it was run from makes it"
        )
    return found


def why_never(parent: Run) -> str:
    """Why a run cannot start from another that has ended; empty where that is done."""
    if parent.status == "done":
        return ""
    return f"it starts from {parent.name} seed {parent.seed}, which {_how(parent)}"


def _how(parent: Run) -> str:
    said = f": {parent.message}" if parent.message else ""
    return {"failed": f"failed{said}", "damaged": f"is damaged{said}"}.get(parent.status, f"is {parent.status}{said}")


def origin_of(path: Path) -> InitFrom | None:
    """What a run in a folder starts from, for whoever trains it; None where it starts from nothing.

    Raises:
        ResultsError: when there is no such run, or it is not done.
    """
    run = Run.open(path)
    parent = parent_of(run)
    if parent is None:
        return None
    parent = Run.examine(parent.path)
    if why_not := why_never(parent):
        raise ResultsError(f"{why_not}; run again when it is done")

    def weights(step: int | None) -> dict[str, Any]:
        return parent.weights() if step is None else _stored(parent, step)

    return InitFrom(
        name=f"{parent.name} seed {parent.seed}",
        run=parent.spec,
        beginning=beginning_of(parent.path),
        steps=parent.steps,
        weights=weights,
    )


def _stored(parent: Run, step: int) -> dict[str, Any]:
    if step not in parent.weight_steps():
        drop = command_line("drop", _directory(parent), parent.name, seeds=str(parent.seed))
        kept = [*parent.weight_steps(), parent.steps]
        raise ResultsError(
            f"weights of step {step:,} of {parent.name} seed {parent.seed} were asked for, and it stored those of "
            f"{numbered('step', kept)}: it was run before an arm asked for them; `{drop}` puts it aside, and "
            "`headway run` trains it anew and keeps them"
        )
    return parent.weights(step)


def _of_seed(run: Run) -> Iterable[Run]:
    for folder in entries(_directory(run), f"runs/*/{run.path.name}"):
        if folder != run.path and (folder / "run.json").is_file():
            try:
                yield Run.open(folder)
            except ResultsError:  # a damaged one is none that can be known by its id
                continue


def _directory(run: Run) -> Path:
    return run.path.parent.parent.parent
