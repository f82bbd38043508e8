"""The allowed changes of a directory's document: everything except what an existing run was asked to do.

Runs are compared by what they are asked to do, never by the text of a document. So arms, controls, groups, baselines,
labels and seeds can be added and changed at any time, and a directory always describes every run it holds.
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headway.base.files import entries, inside, names_in
from headway.base.identity import without
from headway.base.text import counted, listed, some_names
from headway.config import own_program, plugins
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.run import RunSpec
from headway.config.yaml import differing, leaves
from headway.errors import ResultsError
from headway.store import document
from headway.store.lease import Lease, LeaseHeld
from headway.store.records import run_folders
from headway.store.run import Run, read
from headway.store.watch import Watch

_PATIENCE_S = 90.0
"""Longer than it takes to give up on another machine that ended without a word."""
_MOST_KEYS = 8


@contextmanager
def turn(directory: Path) -> Iterator[None]:
    """In the block, be the only process that changes the document of a directory and which run folders it has.

    Raises:
        ResultsError: when another process does not end doing so.
        OSError: when nothing can be written there.
    """
    until, watch = time.monotonic() + _PATIENCE_S, Watch()
    while True:
        try:
            lease = Lease.take(directory / ".lease")
            break
        except LeaseHeld as held:
            if time.monotonic() > until:
                raise ResultsError(f"{directory} is being changed by another process: {held}; try again") from None
            watch.is_held(directory / ".lease")
            time.sleep(0.05)
    with lease:
        yield


def check(directory: Path, former: Experiment | None, experiment: Experiment) -> None:
    """Raise ResultsError if a document does not describe every run of a directory as it was run.

    Args:
        directory: the directory.
        former: the directory's document until now; None if it is lost.
        experiment: the document that is to take its place.

    Raises:
        ResultsError: when it is another experiment, lacks an arm of a run or asks for another run in its place; the
            message names what differs.
    """
    if former is not None and former.name != experiment.name:
        raise ResultsError(
            f"{directory} holds results of another experiment: it is {former.name}, and this one is "
            f"{experiment.name}; choose another directory"
        )
    arms, runs = {arm.full_name: arm for arm in experiment.arms}, _readable(directory)
    named = () if document.doubt(directory) else sorted(document.named(directory))
    if gone := [name for name in dict.fromkeys((*(run.name for run in runs), *dict(named))) if name not in arms]:
        raise ResultsError(
            f"{directory} has runs of {listed(gone)}, and the file has no such arm; keep it there, or "
            f"{_drop(directory, gone)}"
        )
    if changed := [run for run in runs if arms[run.name].spec(run.seed).id != run.id]:
        raise ResultsError(_changed(directory, changed, arms))


def check_content(path: Path) -> None:
    """Raise ResultsError if a directory is neither empty nor one of results.

    Raises:
        ResultsError: when it holds other things.
    """
    content = [name for name in names_in(path) if not name.startswith(".")]
    if content and all(_is_kept_folder(path, name) for name in content):
        return
    if content and document.FILE not in content and not run_folders(path):
        raise ResultsError(
            f"{path} holds other things ({', '.join(sorted(content)[:3])}, ...) and no experiment.yaml; "
            "choose an empty or new directory"
        )


def _is_kept_folder(directory: Path, name: str) -> bool:
    """Return whether a folder holds kept code alone, as it does before there is a document."""
    kept = {plugins.FOLDER: plugins.KEPT_NAME, own_program.FOLDER: own_program.KEPT_NAME}.get(name)
    folder = inside(directory, name)
    return kept is not None and folder.is_dir() and all(map(kept.fullmatch, names_in(folder)))


def why_not_asked(directory: Path, run: Run, arm: Arm | None) -> str:
    """Return why a run is not the one that the document of a directory asks for; empty if it is.

    Args:
        directory: the directory.
        run: a run of it.
        arm: the arm of the document that has its name, if any.
    """
    if arm is None:
        it = f"{run.path}: its arm is not in {directory / 'experiment.yaml'}"
        return f"{it}; {document.todo(directory)}, or {_drop(directory, [run.name])}"
    if run.config == arm.configuration(run.seed) or run.id == (asked := arm.spec(run.seed)).id:
        return ""  # equal configurations have equal ids, and are known sooner
    return (
        f"{run.path}: it was run as {run.id}, and {directory / 'experiment.yaml'} asks for {asked.id}, which differs "
        f"in {_differences(run.spec, asked)}; {document.todo(directory)}, or {_drop(directory, [run.name])}"
    )


def _changed(directory: Path, changed: Sequence[Run], arms: dict[str, Arm]) -> str:
    run, asked = changed[0], arms[changed[0].name].spec(changed[0].seed)
    drop = _drop(directory, list(dict.fromkeys(run.name for run in changed)))
    then, now = (without(spec.content(), "plugins") for spec in (run.spec, asked))
    if run.spec.plugins != asked.plugins and then == now:
        return (
            f"{directory}: the code of its plugins was changed since arm {run.name} seed {run.seed} was run, and its "
            f"result may depend on it; {directory / 'plugins'} has the former code: restore it, choose another "
            f"directory, or {drop}"
        )
    others = f" (as {counted(len(changed) - 1, 'other run')} would)" if changed[1:] else ""
    return (
        f"{directory}: arm {run.name} seed {run.seed} was run as {run.id}, and with this file it would be "
        f"{asked.id}: it differs in {_differences(run.spec, asked)}{others}; choose another directory, or make these "
        f"keys equal, or {drop}"
    )


def _differences(former: RunSpec, asked: RunSpec) -> str:
    then, now = (leaves(spec.model_dump(mode="json")) for spec in (former, asked))
    keys = differing(then, now)
    changes = {key: f"{_value(then, key)} -> {_value(now, key)}" for key in keys} | {"plugins": "changed code"}
    return some_names([f"{key} ({changes[key]})" for key in keys], _MOST_KEYS)


def _value(values: dict[str, Any], key: str) -> str:
    return "absent" if key not in values else "null" if values[key] is None else str(values[key])


def _drop(directory: Path, names: Sequence[str]) -> str:
    return f"put these runs aside with `headway drop {directory} {' '.join(names)}`"


def _readable(path: Path) -> list[Run]:
    """Return the runs whose run.json tells their task; the others are damaged, and described by no document."""
    runs = []
    for file in entries(path, "runs/*/seed-*/run.json"):
        with contextlib.suppress(ResultsError):
            run = read(file.parent)
            run.check_name()
            runs.append(run)
    return runs
