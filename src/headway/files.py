"""Ground floor: files that are whole or absent.

What is written here appears under its name all at once and only after it has reached the disk, so a process that is
killed at any moment leaves the old content or the new, never a mixture. Numbers that JSON cannot hold become null.
"""

import errno
import hashlib
import json
import math
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from headway.errors import ResultsError, UserError, shortened

DEEPEST_JSON = 64
"""Mappings and lists inside one another, in a file that others may have written."""

_AT_ONCE = 1 << 20
"""Bytes of a file that are in memory while it is hashed."""


class NotOrdinary(OSError):
    """What was to be read is a directory, a pipe or a device."""


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
        todo = "move what stands there away" if error.errno == errno.EISDIR else todo
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
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """What `write_json` writes."""
    return json.dumps(plain(value), indent=1, allow_nan=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a file holds, known by its length and its hash."""

    n_bytes: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> "Content":
        """The content that some bytes are."""
        return cls(n_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    @classmethod
    def of_file(cls, path: Path, until: int | None = None) -> "Content":
        """The content of a file, or of its first `until` bytes; read in a stream.

        Raises:
            OSError: when it cannot be read.
        """
        found, n_bytes = hashlib.sha256(), 0
        with ordinary(path, buffering=0) as file:
            while data := file.read(_AT_ONCE if until is None else min(_AT_ONCE, until - n_bytes)):
                found.update(data)
                n_bytes += len(data)
        return cls(n_bytes=n_bytes, sha256=found.hexdigest())


def ordinary(path: Path, *, buffering: int = -1) -> IO[bytes]:
    """An ordinary file, open for reading: a named pipe that nobody writes to would hold its reader for ever.

    Raises:
        OSError: when it cannot be opened; NotOrdinary when it is no ordinary file.
    """
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=buffering)  # noqa: SIM115 - the caller's
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise NotOrdinary(errno.EINVAL, "it is no ordinary file", str(path))


def read_bytes(path: Path) -> bytes:
    """The content of an ordinary file.

    Raises:
        OSError: when it cannot be read.
    """
    with ordinary(path) as file:
        return file.read()


def parsed(text: bytes) -> Any:
    """The value that JSON says.

    Raises:
        ValueError: saying why it says none, in words.
    """
    try:
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except RecursionError:
        raise ValueError("lists and mappings stand too deep inside one another") from None
    except ValueError:
        raise ValueError("one of its numbers has thousands of digits") from None


def kept_json(path: Path) -> Any:
    """What a derived JSON file says; None where it says nothing, and is to be made again."""
    try:
        return parsed(read_bytes(path))
    except (OSError, ValueError):
        return None


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


def read_json(path: Path, largest: int) -> Any:
    """What a JSON file says that others may have written.

    Args:
        path: of the file.
        largest: bytes that it may have.

    Raises:
        FileNotFoundError: when there is none.
        UserError: when it is no file, larger, nested deeply, or no JSON.
    """
    try:
        with ordinary(path) as file:
            text = file.read(largest + 1)
        if len(text) > largest:
            raise UserError(f"{path}: it is larger than {largest / 1e6:g} MB, as no such file is; fetch it again")
        content = json.loads(text)
        if _is_deeper(content, DEEPEST_JSON):
            raise RecursionError
    except (FileNotFoundError, UserError):
        raise
    except RecursionError:
        raise UserError(
            f"{path}: more than {DEEPEST_JSON} mappings and lists stand inside one another; fetch it again"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: it cannot be read ({shortened(str(error))})") from None
    return content


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(inner) and (levels == 0 or any(_is_deeper(each, levels - 1) for each in inner))


def plain(value: Any) -> Any:
    """A value as JSON holds it: arrays as lists, numpy's numbers as Python's, and non-finite numbers as None.

    A dataclass is a mapping of its fields, as `dataclasses.asdict` has it, but nothing is copied on the way.

    Examples:
        >>> plain({"w": np.array([0.5, np.nan]), "n": np.int64(3)})
        {'w': [0.5, None], 'n': 3}
    """
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
