"""The writer of a run folder: it writes the records during training.

The checkpoint commits. The writer resumes from the newest checkpoint whose records have not changed since. It removes
everything later, and writes it again while training repeats those steps: equal, except for times and memory.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as format_arrays

from headway.base import files
from headway.base.files import Content
from headway.errors import ResultsError, shortened
from headway.store import checkpoint
from headway.store.checkpoint import Arrays, Checkpoint, Commit
from headway.store.lease import Lease
from headway.store.records import OF_STEPS, is_of_run, step_file

_LINE_FILES = ("metrics.jsonl", "samples.jsonl")
_AT_ONCE = 1 << 20


class RunWriter:
    """Writes records, arrays of heads and checkpoints into a run folder, and looks at the lease before each.

    `resumed` is the checkpoint to go on from, None for the start; `recoveries` are sentences about what was found
    damaged on the way. As a context manager it closes its file.
    """

    def __init__(self, path: Path, lease: Lease, run: str = ""):
        self._path, self._lease, self._run = path, lease, run
        lease.check()
        for directory in (path, *(files.inside(path, name) for name in OF_STEPS)):
            files.sweep(directory)
        self.resumed, damages = checkpoint.load(path / "checkpoint", run, partial(_why_not, path))
        self.recoveries = list(dict.fromkeys(damages))
        if damages:
            self.recoveries.append(f"resuming from step {self.resumed.step if self.resumed else 0}")
        self._of_steps = _cut_steps(path, self.resumed)
        for name in _LINE_FILES:
            _cut_lines(path / name, self.resumed)
        self._lines = {"metrics.jsonl": _Lines(path / "metrics.jsonl")}
        if (path / "samples.jsonl").is_file():
            self._lines["samples.jsonl"] = _Lines(path / "samples.jsonl")

    def __enter__(self) -> "RunWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for lines in self._lines.values():
            lines.close()

    @property
    def contents(self) -> dict[str, Content]:
        """The content that each file of the records must have now, by its path in the folder."""
        return {**{name: lines.content for name, lines in self._lines.items()}, **self._of_steps}

    def record(
        self,
        step: int,
        metrics: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        samples: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Append the record of a step, which is returned, and keep its arrays and samples.

        Raises:
            LeaseLost: when another process owns the folder.
            OSError: when it cannot be written.
        """
        self._lease.check()
        if arrays:
            self._keep(step_file(self._path, "heads", step), arrays)
        if samples and "samples.jsonl" not in self._lines:
            # Opened before the look at the lease: who takes over from here on has cut it into a new file.
            self._lines["samples.jsonl"] = _Lines(self._path / "samples.jsonl")
            self._lease.check()
        for sample in samples:
            self._lines["samples.jsonl"].append({"step": step, **sample})
        line = {"step": step, **metrics}
        self._lines["metrics.jsonl"].append(line)
        return line

    def keep_weights(self, step: int, weights: Arrays) -> None:
        """Keep the weights of a step.

        Raises:
            LeaseLost: when another process owns the folder.
            OSError: when it cannot be written.
        """
        self._lease.check()
        self._keep(step_file(self._path, "weights", step), weights)

    def _keep(self, path: Path, arrays: Mapping[str, np.ndarray]) -> None:
        files.folder_in(self._path, path.parent.name)
        data = format_arrays(dict(arrays))
        files.write_bytes(path, data)
        self._of_steps[path.relative_to(self._path).as_posix()] = Content.of(data)

    def checkpoint(self, state: Checkpoint) -> None:
        """Commit the state of a step; those before it, or what it has not `recorded`, were recorded.

        Raises:
            LeaseLost: when another process owns the folder.
            OSError: when it cannot be written; the former checkpoint then stands.
        """
        self._lease.check()
        # The commit must never be ahead of the records: they reach the disk first.
        for lines in self._lines.values():
            lines.sync()
        checkpoint.save(self._path / "checkpoint", replace(state, run=self._run, records=self.contents))


class _Lines:
    """A file of lines that grows, and the hash of what it must hold."""

    def __init__(self, path: Path):
        self._hash, self._n_bytes = hashlib.sha256(), 0
        self._descriptor = files.appending(path)
        with files.ordinary(path) as file:
            while data := file.read(_AT_ONCE):
                self._count(data)

    @property
    def content(self) -> Content:
        return Content(n_bytes=self._n_bytes, sha256=self._hash.hexdigest())

    def append(self, record: Mapping[str, Any]) -> None:
        data = json.dumps(files.plain(record), allow_nan=False).encode() + b"\n"
        line = memoryview(data)
        while line:  # a disk that gets full takes a part first, and tells at the next part
            line = line[os.write(self._descriptor, line) :]
        self._count(data)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def _count(self, data: bytes) -> None:
        self._hash.update(data)
        self._n_bytes += len(data)


def stored_step(path: Path, run: str) -> int:
    """Return the step that an unfinished run resumes from; 0 for the start, or if it cannot be read.

    Args:
        path: the folder of the run.
        run: the id of the run.
    """
    try:
        newest, _, _ = checkpoint.newest(path / "checkpoint", run, partial(_why_not, path))
    except (OSError, ResultsError):
        return 0  # the process that resumes it reports what is wrong
    return newest.step if newest else 0


def why_not_newest(path: Path, run: str) -> list[str]:
    """Return a sentence for each reason why an unfinished run cannot resume from its newest checkpoint.

    Args:
        path: the folder of the run.
        run: the id of the run, which tells its checkpoints from those of another run.
    """
    _, _, damages = checkpoint.newest(path / "checkpoint", run, partial(_why_not, path))
    return list(dict.fromkeys(damages))


def _why_not(path: Path, commit: Commit) -> str:
    """Return why the run in a folder cannot resume from a checkpoint of its own; empty if it can."""
    if commit.records is None:
        return f"the checkpoint of step {commit.step} does not say what was recorded"
    for name, content in commit.records.items():
        if not is_of_run(name):
            return f"its checkpoint names {shortened(repr(name))}, and no run has such a file"
        if not (path / name).is_file():
            return f"{name} is missing"
        if Content.of_file(path / name, content.n_bytes if name in _LINE_FILES else None) != content:
            return f"{name} does not have the content that was recorded until step {commit.step}"
    return ""


def _cut_lines(path: Path, resumed: Checkpoint | None) -> None:
    """Remove the lines that were written after a checkpoint; all for None."""
    if not path.is_file():
        return
    # Always into a new file: a former owner that is suspended in the middle of a write has the old one open.
    if not resumed or path.name not in (resumed.records or {}):
        files.write_bytes(path, b"")  # in place of whatever stands there, be it a link
        return
    with files.replacing(path) as temporary, files.ordinary(path) as lines, open(temporary, "xb") as kept:
        left = (resumed.records or {})[path.name].n_bytes
        while left and (data := lines.read(min(left, _AT_ONCE))):
            kept.write(data)
            left -= len(data)


def _cut_steps(path: Path, resumed: Checkpoint | None) -> dict[str, Content]:
    """Remove the arrays of steps that were kept after a checkpoint; what those that are left must hold."""
    kept = {}
    for file in (file for name in OF_STEPS for file in files.entries(files.inside(path, name), "[0-9]*.safetensors")):
        name = file.relative_to(path).as_posix()
        if resumed and resumed.records and name in resumed.records:
            kept[name] = resumed.records[name]
        else:
            files.remove(file)
    return kept
