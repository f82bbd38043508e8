"""Checkpoints from which a run resumes.

A checkpoint is a pair of files named by its step: the arrays (safetensors), and a JSON file that names the arrays with
their size and hash. The JSON file is written last, when the arrays are on the disk: it is the commit. The previous
checkpoint stays until the next commit, so a damaged checkpoint costs only the steps since the previous one.

A commit names its run and the contents of the records at its step. So no run resumes from another run's state, or
beside records that have changed since they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file
from safetensors.numpy import save as format_arrays

from headway.base import files
from headway.base.files import Content
from headway.base.identity import is_as_signed, signed
from headway.errors import shortened

if TYPE_CHECKING:  # jaxtyping takes 40 ms to import
    from jaxtyping import Float64

SCHEMA = 1

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Unrecorded:
    """The losses since the milestone at step `since`, which a run needs to resume between two milestones."""

    since: int
    losses: Float64[np.ndarray, "n ..."]


@dataclass(frozen=True, kw_only=True)
class Commit:
    """The JSON content of a checkpoint: its step, its run, and the state of the run's records.

    Attributes:
        step: the number of optimizer steps done.
        counters: the counters of the owner (seconds, peaks).
        unrecorded: the values between the last record and the step; None if the step itself is recorded.
        run: the id of the run.
        records: the content of each file of the run's records, by path in its folder; None: no run resumes from it.
    """

    step: int
    counters: Mapping[str, Any] = field(default_factory=dict)
    unrecorded: Unrecorded | None = None
    run: str = ""
    records: Mapping[str, Content] | None = None


@dataclass(frozen=True, kw_only=True)
class Checkpoint(Commit):
    """The state of a trainer at a step, and its commit."""

    state: Arrays

    def weights(self) -> Arrays:
        """The weights in the state, without their prefix."""
        prefix = "weights/"
        return {name.removeprefix(prefix): value for name, value in self.state.items() if name.startswith(prefix)}


def save(directory: Path, checkpoint: Checkpoint) -> None:
    """Commit a checkpoint, and remove all but it and the one before.

    Raises:
        OSError: when it cannot be written; the former checkpoints are then as they were.
    """
    files.folder_in(directory.parent, directory.name)  # not its parents: a run folder that was removed stays so
    stem = f"{checkpoint.step:09d}"
    # Formatted in memory: safetensors' own file writer hides which error the system reported.
    data = format_arrays({name: np.ascontiguousarray(value) for name, value in checkpoint.state.items()})
    files.write_bytes(directory / f"{stem}.safetensors", data)
    content = Content.of(data)
    commit = {
        "schema": SCHEMA,
        "step": checkpoint.step,
        "data": f"{stem}.safetensors",
        "bytes": content.n_bytes,
        "sha256": content.sha256,
        "counters": checkpoint.counters,
        "run": checkpoint.run,
        "records": None if checkpoint.records is None else {k: asdict(c) for k, c in checkpoint.records.items()},
    }
    if between := checkpoint.unrecorded:
        # Not among the arrays: stored again when the step is recorded, they are the same file.
        commit["unrecorded"] = {"since": between.since, "losses": between.losses.tolist()}
    files.write_json(directory / f"{stem}.json", signed(files.plain(commit)))
    _prune(directory, stem)


WhyNot = Callable[[Commit], str]
"""Returns why a run cannot resume from a checkpoint; empty if it can."""


def load(directory: Path, run: str = "", why_not: WhyNot = lambda _: "") -> tuple[Checkpoint | None, list[str]]:
    """The newest undamaged checkpoint, if any, and a sentence about each newer one that was left out.

    Args:
        directory: the folder of the checkpoints.
        run: the id of the run, if checkpoints of others are left out.
        why_not: the function that tells further reasons to leave a checkpoint out.

    Raises:
        OSError: when one cannot be read now, which is no damage; what it holds is not given up.
    """
    commit, data, damages = newest(directory, run, why_not)
    return (None if commit is None else Checkpoint(**vars(commit), state=load_file(data))), damages


def newest(directory: Path, run: str, why_not: WhyNot) -> tuple[Commit | None, Path, list[str]]:
    """Return the newest undamaged commit, its file of arrays, and a sentence about each checkpoint that was skipped.

    The arrays are read whole, as a stream; the arguments are those of `load`.

    Raises:
        OSError: if `load` would raise it.
    """
    damages: list[str] = []
    for path in _commits(directory):
        try:
            commit, data, content = _committed(path)
            if commit.run and run and commit.run != run:
                damages.append(f"the checkpoint of step {commit.step} is that of another run")
            elif reason := why_not(commit):
                damages.append(reason)
            elif damage := content.why_not(data):
                raise ValueError(f"{data.name} {damage}")
            else:
                return commit, data, damages
        except _DAMAGES as error:
            damages.append(f"the checkpoint of step {int(path.stem)} is damaged ({error}) and was left out")
    return None, directory, damages


def contents(directory: Path) -> dict[str, Content]:
    """Return the content that each file of an intact checkpoint must have, by file name.

    Raises:
        OSError: when a commit cannot be read.
    """
    contents_by_name: dict[str, Content] = {}
    for path in _commits(directory):
        try:
            _, data, content = _committed(path)
        except _DAMAGES:
            continue
        contents_by_name |= {path.name: Content.of_file(path), data.name: content}
    return contents_by_name


_DAMAGES = (ValueError, KeyError, TypeError, AttributeError, FileNotFoundError, files.NotOrdinary, SafetensorError)
"""Errors that may arise when a changed checkpoint is read."""


def _commits(directory: Path) -> list[Path]:
    """Committed checkpoints, newest first."""
    files.refuse_link(directory)
    commits = [path for path in files.entries(directory, "*.json") if path.stem.isascii() and path.stem.isdecimal()]
    return sorted(commits, key=lambda path: int(path.stem), reverse=True)


def _committed(path: Path) -> tuple[Commit, Path, Content]:
    """Return a commit, its file of arrays, and the content that this file must have."""
    commit = files.parsed(files.read_bytes(path))
    if commit["schema"] != SCHEMA:
        raise ValueError(f"it has schema {commit['schema']}, and this Headway reads {SCHEMA}")
    if not is_as_signed(commit):
        raise ValueError(f"{path.name} is not as it was written")
    if commit["data"] != f"{path.stem}.safetensors":  # and so no file elsewhere
        raise ValueError(f"{path.name} names {shortened(str(commit['data']))} as its arrays")
    records, between = commit.get("records"), commit.get("unrecorded")
    losses = None if between is None else np.array(between["losses"], dtype=np.float64)
    read = Commit(
        step=commit["step"],
        counters=commit["counters"],
        unrecorded=None if losses is None else Unrecorded(since=int(between["since"]), losses=losses),
        run=commit.get("run", ""),
        records=None if records is None else {name: Content(**content) for name, content in records.items()},
    )
    return read, path.parent / commit["data"], Content(n_bytes=commit["bytes"], sha256=commit["sha256"])


def _prune(directory: Path, stem: str) -> None:
    # A later step than the one just committed is a damaged one: the run went on from before it.
    kept = {stem, *[path.stem for path in _commits(directory) if int(path.stem) < int(stem)][:1]}
    for path in files.entries(directory, "*"):  # the JSON of a pair goes first: no commit without its data
        if path.stem not in kept:
            files.remove(path)
