"""Train: what a run goes on from.

A checkpoint is a pair of files named by its step: the arrays (safetensors) and a JSON file that names them with
their size and hash. The JSON file appears last, when the arrays are on the disk: it is the commit. The checkpoint
before stays until the next commit, so one that turns out to be damaged costs only the steps since the one before.
"""

import hashlib
import json
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays
from safetensors.numpy import save as format_arrays

from headway.files import replacing, write_json
from headway.train.loop import Arrays, Unrecorded

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The state of a trainer at a step, and what its owner counts up (seconds, peaks).

    `unrecorded` is what lies between the last record and the step, None where the step itself is recorded.
    """

    step: int
    state: Arrays
    counters: Mapping[str, Any] = field(default_factory=dict)
    unrecorded: Unrecorded | None = None

    @property
    def recorded(self) -> int:
        """The last step that was recorded before it was stored."""
        return self.unrecorded.since if self.unrecorded else self.step

    def weights(self) -> Arrays:
        """The weights in the state, without their prefix."""
        prefix = "weights/"
        return {name.removeprefix(prefix): value for name, value in self.state.items() if name.startswith(prefix)}


def save(directory: Path, checkpoint: Checkpoint) -> None:
    """Commit a checkpoint, and remove all but it and the one before.

    Raises:
        OSError: when it cannot be written; the former checkpoints are then as they were.
    """
    directory.mkdir(exist_ok=True)  # not its parents: a run folder that was removed stays so
    _share(directory)
    stem = f"{checkpoint.step:09d}"
    # Formatted in memory: safetensors' own file writer hides which error the system reported.
    data = format_arrays({name: np.ascontiguousarray(value) for name, value in checkpoint.state.items()})
    with replacing(directory / f"{stem}.safetensors") as temporary:
        temporary.write_bytes(data)
        _share(temporary)
    commit = {
        "schema": SCHEMA,
        "step": checkpoint.step,
        "data": f"{stem}.safetensors",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "counters": checkpoint.counters,
    }
    if between := checkpoint.unrecorded:
        # Not among the arrays: stored again when the step is recorded, they are the same file.
        commit["unrecorded"] = {"since": between.since, "losses": between.losses.tolist()}
    write_json(directory / f"{stem}.json", commit)
    _share(directory / f"{stem}.json")
    _prune(directory, stem)


def load(directory: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest undamaged checkpoint, if any, and a sentence about each newer one that is damaged.

    Raises:
        OSError: when one cannot be read now, which is no damage; what it holds is not given up.
    """
    damages: list[str] = []
    for commit in _commits(directory):
        try:
            return _read(commit), damages
        except (ValueError, KeyError, TypeError, AttributeError, FileNotFoundError, SafetensorError) as error:
            damages.append(f"the checkpoint of step {int(commit.stem)} is damaged ({error}) and was left out")
    return None, damages


def _commits(directory: Path) -> list[Path]:
    """Committed checkpoints, newest first."""
    commits = [path for path in directory.glob("*.json") if path.stem.isdecimal()]
    return sorted(commits, key=lambda path: int(path.stem), reverse=True)


def _read(path: Path) -> Checkpoint:
    commit = json.loads(path.read_text(encoding="utf-8"))
    if commit["schema"] != SCHEMA:
        raise ValueError(f"it has schema {commit['schema']}, and this Headway reads {SCHEMA}")
    data = (path.parent / commit["data"]).read_bytes()
    if len(data) != commit["bytes"]:
        raise ValueError(f"{commit['data']} has {len(data)} bytes instead of {commit['bytes']}")
    if hashlib.sha256(data).hexdigest() != commit["sha256"]:
        raise ValueError(f"{commit['data']} does not have the content that was committed")
    return Checkpoint(
        step=commit["step"],
        state=parse_arrays(data),
        counters=commit["counters"],
        unrecorded=_unrecorded(commit.get("unrecorded")),
    )


def _unrecorded(content: Mapping[str, Any] | None) -> Unrecorded | None:
    if content is None:
        return None
    return Unrecorded(since=int(content["since"]), losses=np.array(content["losses"], dtype=np.float64))


def _prune(directory: Path, stem: str) -> None:
    # A later step than the one just committed is a damaged one: the run went on from before it.
    kept = {stem, *[path.stem for path in _commits(directory) if int(path.stem) < int(stem)][:1]}
    for path in sorted(directory.iterdir()):  # the JSON of a pair goes first: no commit without its data
        if path.stem not in kept:
            path.unlink(missing_ok=True)


def _share(path: Path) -> None:
    """Let the group read, whatever the umask."""
    mode = path.stat().st_mode
    path.chmod(stat.S_IMODE(mode) | stat.S_IRGRP | (stat.S_IXGRP if path.is_dir() else 0))
