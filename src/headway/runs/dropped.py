"""Runs: runs that are put aside: `DIR/dropped/ARM/seed-N`, where nothing looks for them.

A folder is moved as it is, so moving it back is all that it takes to have the run again.
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from headway.errors import ResultsError, near
from headway.files import entries, folder_in, inside, names_in
from headway.runs.growth import turn
from headway.runs.lease import Lease, LeaseHeld
from headway.runs.watching import take_patiently
from headway.words import numbered


def drop(
    directory: Path, names: Sequence[str], *, seeds: int | Sequence[int] | None = None, delete: bool = False
) -> tuple[Path, ...]:
    """Put runs of a results directory aside; where they are now.

    Args:
        directory: the results directory.
        names: arms, each as `ARM` or `ARM+CONTROL`.
        seeds: those of this seed, or of these, only; all if None.
        delete: whether they are deleted instead, and nothing is left of them.

    Raises:
        ResultsError: when what is given is no seed, an arm has no such runs, a process works on one of them (then none
            is moved), or the directory cannot be written.
    """
    asked = None if seeds is None else _seeds(seeds)
    try:
        with turn(directory), ExitStack() as owned:
            folders = [folder for name in dict.fromkeys(names) for folder in _folders(directory, name, asked)]
            for folder in folders:
                owned.enter_context(_lease(folder))
            return tuple(_move(directory, folder, delete) for folder in folders)
    except OSError as error:
        raise ResultsError(f"{directory} cannot be written: {error.strerror}; nothing more was dropped") from None


def seed_of(folder: Path) -> int:
    """The seed of a run by the name of its folder, where it was dropped to, too."""
    return int(folder.name.split("-")[1])


def _seeds(asked: int | Sequence[int]) -> list[int]:
    seeds = [asked] if isinstance(asked, int) else [] if isinstance(asked, str) else list(asked)
    if not seeds or not all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in seeds):
        raise ResultsError(f"seeds {asked!r}: give the seeds themselves, such as 2 or [0, 2]; nothing was dropped")
    return seeds


def _folders(directory: Path, name: str, seeds: Sequence[int] | None) -> list[Path]:
    arms = list(dict.fromkeys(folder.parent.name for folder in entries(directory, "runs/*/seed-*")))
    if name not in arms:
        raise ResultsError(f"{directory} has no runs of arm {name!r}; {near(name, arms)}")
    found = entries(inside(directory, "runs", name), "seed-*")
    wanted = found if seeds is None else [f for f in found if f.name in {f"seed-{seed}" for seed in seeds}]
    if not wanted:
        there = numbered("seed", map(seed_of, found))
        raise ResultsError(f"{directory}: arm {name} has no run of {numbered('seed', seeds or ())}; it has {there}")
    return wanted


def _lease(folder: Path) -> Lease:
    """Own a run folder while it moves, so that no worker begins on it."""
    try:
        return take_patiently(folder / "lease")
    except LeaseHeld as held:
        raise ResultsError(
            f"{folder} cannot be dropped: {held}; stop that first, or wait for its end. Nothing was moved"
        ) from None


def _move(directory: Path, folder: Path, delete: bool) -> Path:
    target = _free(folder_in(directory, "dropped", folder.parent.name) / folder.name)
    folder.rename(target)
    if delete:
        shutil.rmtree(target)
        _remove_if_empty(target.parent, target.parent.parent)
    else:
        shutil.rmtree(target / "lease")
    _remove_if_empty(folder.parent)
    return target


def _free(target: Path) -> Path:
    """The name, or the first of NAME-1, NAME-2, ... that is free."""
    taken = 0
    while os.path.lexists(candidate := target if not taken else target.with_name(f"{target.name}-{taken}")):
        taken += 1
    return candidate


def _remove_if_empty(*folders: Path) -> None:
    for folder in folders:
        if folder.is_dir() and not names_in(folder):
            folder.rmdir()
