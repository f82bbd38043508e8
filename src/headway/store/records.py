"""The files of a run folder, read: lines of records, arrays of the heads, mappings."""

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file

from headway.base.files import NotOrdinary, checked, entries, inside, is_bare, kept_json, ordinary, parsed
from headway.base.files import read_bytes as bytes_of
from headway.base.identity import is_as_signed
from headway.base.text import command_line, with_numbers
from headway.config.run import WORK
from headway.errors import ResultsError, Unreadable
from headway.store.checkpoint import Arrays

INIT_RECORD = "start.json"
"""The file of a run's folder that says how the run was initialised from another."""

READ = ("metrics.jsonl", "samples.jsonl", "tokenizer.json", "curves.json", INIT_RECORD)
"""The files that Headway reads in a run's folder, beside run.json, checkpoints and the files of single steps; all of
them are sealed."""

OF_STEPS = ("heads", "weights")
"""The folders of a run's folder that hold a file of arrays for each of some steps."""

_OF_A_STEP = re.compile(r"(heads|weights|checkpoint)/[0-9]+\.safetensors|checkpoint/[0-9]+\.json")


def is_of_run(name: str) -> bool:
    """Return whether a path is that of a file which runs have; a stranger's seal may name anything."""
    first, *folders = name.split("/")
    of_command = first == WORK and bool(folders) and all(map(is_bare, folders))
    return name in READ or of_command or _OF_A_STEP.fullmatch(name) is not None


def anew(path: Path) -> str:
    """Return what to do about a damaged run, given its folder or one of its files."""
    folder = next((found for found in (path, *path.parents) if found.name.startswith("seed-")), None)
    seed = "" if folder is None else folder.name.removeprefix("seed-")
    if folder is None or not seed.isdecimal() or folder.parent.parent.name != "runs":
        return "move the run's folder away, and `headway run` trains it again"
    asked = command_line("drop", folder.parents[2], folder.parent.name, seeds=seed)
    return f"`{asked}` moves the run aside, and `headway run` trains it again"


def holds_run(folder: Path) -> bool:
    """Return whether a folder has any part of a run, with or without a run.json."""
    names = ("run.json", *READ, *OF_STEPS, "checkpoint", "seal.json")
    return any(os.path.exists(f"{folder}{os.sep}{name}") for name in names)


def run_folders(directory: Path) -> list[Path]:
    """The folders of a results directory that have anything of a run."""
    return [folder for folder in entries(directory, "runs/*/seed-*") if holds_run(folder)]


@contextmanager
def reached(path: Path) -> Iterator[None]:
    """Raise `Unreadable` for an error of the file system in the block: the data may be intact, but cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise
    except NotOrdinary as error:
        raise ResultsError(f"{path}: {error.strerror}; {anew(path)}") from None
    except OSError as error:
        todo = "check its file system and its permissions, and try again"
        raise Unreadable(f"{path}: cannot be read ({error.strerror}); {todo}") from None


def step_file(path: Path, kind: str, step: int) -> Path:
    """The file of a run folder for the arrays of a step; the kind is one of `OF_STEPS`."""
    return inside(path, kind) / f"{step:09d}.safetensors"


def kept_steps(path: Path, kind: str) -> list[int]:
    """The steps of which a run folder keeps arrays of a kind; the weights of the last step are no such arrays."""
    stems = (file.stem for file in entries(inside(path, kind), "*.safetensors"))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdecimal())


def all_step_files(path: Path) -> list[str]:
    """Return the files that a run folder keeps of single steps, by path in it."""
    files = [step_file(path, kind, step) for kind in OF_STEPS for step in kept_steps(path, kind)]
    return [file.relative_to(path).as_posix() for file in files]


def read_step(path: Path, kind: str, step: int) -> Arrays:
    """The arrays of a kind that a run folder keeps of a step.

    Raises:
        ResultsError: when there are none, or they are damaged.
    """
    if step not in (steps := kept_steps(path, kind)):
        missing = f"the run has no record of its heads at step {step}; it has those of"
        if kind == "weights":
            missing = f"the run has no weights of step {step}; apart from its last step, it has those of"
        raise ResultsError(f"{path}: {missing} {with_numbers('step', steps)}")
    file = step_file(path, kind, step)
    try:
        return load_file(checked(file))
    except (SafetensorError, OSError) as error:
        raise ResultsError(f"{file}: it is damaged ({error}); {anew(file)}") from None


def read_init_record(path: Path) -> dict[str, Any] | None:
    """Return a run's record of its start from another run, or None if it did not start from one.

    Raises:
        ResultsError: when it is damaged.
    """
    return read_json(path / INIT_RECORD) if (path / INIT_RECORD).is_file() else None


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records in a file of JSON lines, a mapping with its step each; none if there is no file.

    A last line that was cut short (a kill or a full disk) is left out with a warning.

    Raises:
        ResultsError: when an earlier line is damaged.
        Unreadable: when the file system does not give it.
    """
    try:
        with reached(path):
            lines = bytes_of(path).split(b"\n")
    except FileNotFoundError:
        return []
    records = _all_at_once(lines[:-1]) or []
    for number, line in enumerate(lines[len(records) : -1], start=1):
        try:
            record = parsed(line)
            int(record["step"])
        except (ValueError, KeyError, TypeError):
            raise ResultsError(f"{path}: line {number} is damaged; {anew(path)}") from None
        records.append(record)
    if lines[-1]:
        warnings.warn(f"{path}: the last line was cut short and is left out", stacklevel=1)
    return records


_TAIL_BYTES = 1 << 16
"""The end of a run's records that holds its last lines."""


def last_training_loss(run: Path) -> float | None:
    """Return the training loss that a run recorded last, in nats or squared units of the target.

    None before the first record, and where the records cannot be read: this is shown while a run is trained, and
    `read_records` names what is damaged.
    """
    try:
        file = inside(run, "metrics.jsonl")
        status = file.stat(follow_symlinks=False)
        return _last_loss(file, status.st_mtime_ns, status.st_size)
    except (OSError, ResultsError):
        return None


@lru_cache(maxsize=1024)
def _last_loss(path: Path, _changed_ns: int, _size: int) -> float | None:
    """Return the last training loss in a file of records, which is read again only after it changed."""
    with ordinary(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read().split(b"\n")
    for line in reversed(lines):
        with suppress(ValueError, AttributeError):
            losses = [value for name, value in parsed(line).items() if name.startswith("train_")]
            if losses and isinstance(losses[0], float):
                return losses[0]
    return None


def _all_at_once(lines: Sequence[bytes]) -> list[dict[str, Any]] | None:
    """Return the records of lines as one JSON list, faster than line by line; None if one of them is no record."""
    try:
        records = parsed(b"[" + b",".join(lines) + b"]")
        steps = [int(record["step"]) for record in records]
    except (ValueError, KeyError, TypeError):
        return None
    return records if len(steps) == len(lines) else None


def signed_json(path: Path) -> dict[str, Any] | None:
    """Return the mapping in a file of JSON that is as it was signed; None for any other file, or none."""
    content = kept_json(path)
    return content if isinstance(content, dict) and is_as_signed(content) else None


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a file of JSON.

    Raises:
        ResultsError: when it is missing, damaged or holds no mapping.
        Unreadable: when the file system does not give it.
    """
    return mapping_in(read_bytes(path, str(path.parent)), path)


def read_bytes(path: Path, missing: str) -> bytes:
    """The content of a file; `missing` is what its absence means.

    Raises:
        ResultsError: when it is missing.
        Unreadable: when the file system does not give it.
    """
    try:
        with reached(path):
            return bytes_of(path)
    except FileNotFoundError:
        raise ResultsError(f"{missing}: {path.name} is missing") from None


def mapping_in(text: bytes, path: Path) -> dict[str, Any]:
    """The mapping that the JSON of a file at a path is.

    Raises:
        ResultsError: when it is none.
    """
    try:
        content = parsed(text)
    except ValueError as error:
        raise ResultsError(f"{path}: cannot be read ({error}); {anew(path)}") from None
    if not isinstance(content, dict):
        raise ResultsError(f"{path}: it is not a mapping; {anew(path)}")
    return content
