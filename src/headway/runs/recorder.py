"""Runs: what the owner of a run folder writes while it trains.

The checkpoint commits. A recorder goes on from the newest checkpoint that the records reach, cuts everything later
away, and writes it again while training repeats those steps: the same, except for times and memory.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from safetensors.numpy import save as format_arrays

from headway.errors import ResultsError, Unreadable
from headway.files import plain, replacing, sweep
from headway.runs.lease import Lease
from headway.runs.records import heads_file, read_records
from headway.train import checkpoint
from headway.train.checkpoint import Checkpoint
from headway.train.loop import Milestone

_LINE_FILES = ("metrics.jsonl", "samples.jsonl")


class Recorder:
    """Writes records, arrays of heads and checkpoints into a run folder, and looks at the lease before each.

    `resumed` is the checkpoint to go on from, None for the start; `recoveries` are sentences about what was found
    damaged on the way. As a context manager it closes its file.
    """

    def __init__(self, path: Path, lease: Lease):
        self._path, self._lease = path, lease
        lease.check()
        for directory in (path, path / "heads"):
            sweep(directory)
        self.resumed, self.recoveries = _resumable(path)
        _cut(path, self.resumed.recorded if self.resumed else -1)
        self._metrics = _appending(path / "metrics.jsonl")
        self._samples: int | None = None

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._metrics)
        if self._samples is not None:
            os.close(self._samples)

    def record(self, milestone: Milestone, wall_s: float) -> None:
        """Append a milestone's record, and keep its arrays and samples.

        Raises:
            LeaseLost: when another process owns the folder.
            OSError: when it cannot be written.
        """
        self._lease.check()
        if milestone.arrays:
            path = heads_file(self._path, milestone.step)
            path.parent.mkdir(exist_ok=True)
            with replacing(path) as temporary:
                temporary.write_bytes(format_arrays(dict(milestone.arrays)))
        for sample in milestone.samples:
            self._write_sample({"step": milestone.step, **sample})
        _append(self._metrics, {"step": milestone.step, "wall_s": round(wall_s, 3), **milestone.metrics})

    def checkpoint(self, state: Checkpoint) -> None:
        """Commit the state of a step; those before it, or what it has not `recorded`, were recorded.

        Raises:
            LeaseLost: when another process owns the folder.
            OSError: when it cannot be written; the former checkpoint then stands.
        """
        self._lease.check()
        # The commit must never be ahead of the records: they reach the disk first.
        os.fsync(self._metrics)
        if self._samples is not None:
            os.fsync(self._samples)
        checkpoint.save(self._path / "checkpoint", state)

    def _write_sample(self, sample: Mapping[str, Any]) -> None:
        if self._samples is None:
            # Opened before the look at the lease: who takes over from here on has cut it into a new file.
            self._samples = _appending(self._path / "samples.jsonl")
            self._lease.check()
        _append(self._samples, sample)


def _appending(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


def _append(descriptor: int, record: Mapping[str, Any]) -> None:
    line = memoryview(json.dumps(plain(record), allow_nan=False).encode() + b"\n")
    while line:  # a disk that gets full takes a part first, and tells at the next part
        line = line[os.write(descriptor, line) :]


def _resumable(path: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that the records reach, and what was wrong with anything newer."""
    found, damages = checkpoint.load(path / "checkpoint")
    if found:
        try:
            reached = any(record.get("step") == found.recorded for record in read_records(path / "metrics.jsonl"))
            damages += [] if reached else [f"metrics.jsonl lacks step {found.recorded} of the checkpoint"]
        except Unreadable:
            raise  # and nothing is cut
        except ResultsError as error:
            reached, damages = False, [*damages, str(error).partition(";")[0]]
        found = found if reached else None
    if damages:
        damages.append(f"going on from step {found.step if found else 0}")
    return found, damages


def _cut(path: Path, step: int) -> None:
    """Remove what was written after a step."""
    for name in _LINE_FILES:
        if (path / name).is_file():
            lines = (path / name).read_bytes().splitlines(keepends=True)
            # Always into a new file: a former owner that is suspended in the middle of a write has the old one open.
            with replacing(path / name) as temporary:
                temporary.write_bytes(b"".join(line for line in lines if _is_record_until(line, step)))
    for heads in (path / "heads").glob("[0-9]*.safetensors"):
        if int(heads.stem) > step:
            heads.unlink()


def _is_record_until(line: bytes, step: int) -> bool:
    if step < 0 or not line.endswith(b"\n"):
        return False
    return bool(json.loads(line)["step"] <= step)
