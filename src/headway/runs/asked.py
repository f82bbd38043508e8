"""Runs: what has been asked for in a results directory: its own document, with the runs that it has."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeGuard

from headway.declare.experiment import Experiment
from headway.declare.plugin_files import allow
from headway.declare.shipped import shipped
from headway.errors import UserError
from headway.runs.records import run_folders
from headway.runs.run_json import check_schema
from headway.runs.store import Store


def is_directory(name: object) -> TypeGuard[str | Path]:
    """Whether a directory is named, where an experiment's name or file may stand, too."""
    return isinstance(name, str | Path) and str(name) not in shipped() and os.path.isdir(name)


def asked_in(directory: Path, *, plugins: Iterable[str | Path] = (), changed: Iterable[str] = ()) -> Experiment:
    """The experiment of a directory, with the runs that it has, done or not; where it has none, all of its document.

    To go on with its runs is to run the code of one's own that it keeps.

    Args:
        directory: of the results.
        plugins: further code of one's own.
        changed: options that were given and would change the document.

    Raises:
        UserError: when something would be changed, or the directory is none, or is of a later Headway.
    """
    for option in changed:
        raise UserError(
            f"{directory} is a results directory, and its own experiment goes on there as it was asked for: leave "
            f"{option} out, or begin another one from a file (`headway show` writes one)"
        )
    check_schema(directory)
    allow(directory)
    store = Store.open(directory, plugins)
    experiment, folders = store.experiment, [f"{path.parent.name}/{path.name}" for path in run_folders(directory)]
    parts = [name.rpartition("/seed-") for name in (*folders, *store.gone())]
    pairs = {(arm, int(seed)) for arm, _, seed in parts if seed.isdecimal()}
    arms = tuple(arm for arm in experiment.arms if any(arm.full_name == name for name, _ in pairs))
    if not arms:
        return experiment
    return replace(
        experiment,
        selected=arms,
        seeds=tuple(sorted({seed for _, seed in pairs})),
        crossed=tuple(dict.fromkeys(arm.control for arm in arms if arm.control is not None)),
        only=frozenset(pairs),
    )
