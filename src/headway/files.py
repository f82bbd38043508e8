"""Ground floor: files that are whole or absent.

What is written here appears under its name all at once and only after it has reached the disk, so a process that is
killed at any moment leaves the old content or the new, never a mixture. Numbers that JSON cannot hold become null.
"""

import errno
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import ResultsError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`, to be written in the block; afterwards it takes the name, and is on disk.

    Nothing changes under the name when the block raises.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def derived(path: Path) -> Iterator[None]:
    """Write a derived file in the block, in a directory that is made if need be; failing is told to the user.

    Raises:
        ResultsError: when it cannot be written; with the writers of this file, the former content then stands.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        failing = error.errno in (errno.EROFS, errno.EIO, errno.ESTALE)
        todo = "see that its file system works and can be written" if failing else "free space or check permissions"
        raise ResultsError(f"{path} cannot be written: {error.strerror}; {todo}, and try again") from error


def sweep(directory: Path) -> None:
    """Remove what killed writers left in a directory that has no other writer."""
    for temporary in directory.glob(".*.tmp"):
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace the content of a file."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Replace the content of a file by a JSON value; see `plain`."""
    write_text(path, json.dumps(plain(value), indent=1, allow_nan=False) + "\n")


def create_text(path: Path, text: str) -> bool:
    """Write a file unless it exists; of several writers at once, one gets True."""
    if path.exists():
        return False
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        sync(temporary)
        os.link(temporary, path)
        sync(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        # A few network and FUSE file systems have no hard links; there, two first writers are not told apart.
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS) or path.exists():
            raise
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def plain(value: Any) -> Any:
    """A value as JSON holds it: arrays as lists, numpy's numbers as Python's, and non-finite numbers as None.

    Examples:
        >>> plain({"w": np.array([0.5, np.nan]), "n": np.int64(3)})
        {'w': [0.5, None], 'n': 3}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
