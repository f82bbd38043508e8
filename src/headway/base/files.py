"""Atomic files, safe paths inside directories that strangers may have filled, and Headway's cache folder.

A written file appears under its name all at once, and only after its content has reached the disk. A process killed at
any moment therefore leaves the old content or the new, never a mixture. Numbers that JSON cannot hold become null.

A results directory may come from anybody. The user names the directory, which may be a symbolic link; no link inside
the directory is followed. `inside` and `entries` go down one folder at a time and refuse links. Files are opened
without following links. A file with several names is replaced and never appended to.

The cache folder keeps what Headway can make again: tokens, hashes and compiled code. Compiled code and pickles are
executed, so they stand in a part of the cache that belongs to this user alone: whoever can write there decides what
runs here.
"""

import atexit
import contextlib
import errno
import fnmatch
import hashlib
import json
import math
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import IO, Any

from headway.errors import ResultsError, StorageFailed, UserError, shortened

DEEPEST_JSON = 64
"""The largest nesting depth of mappings and lists in a JSON file that others may have written."""

_AT_ONCE = 1 << 20
"""Bytes of a file in memory at once while it is hashed."""


class NotOrdinary(OSError):
    """A path to be read that is a directory, a pipe, a device, a link in a results directory, or far too large."""


LARGEST_FILES = {".jsonl": 30, ".json": 29, ".yaml": 26, ".py": 24, ".html": 29, ".safetensors": 36}
"""The largest size of each kind of file that is read in a results directory, in bytes as a power of two.

A directory may come from anybody, and a sparse file of any length takes no room on a disk. Headway's own files stay
below a tenth of these sizes.
"""


def largest_size(path: Path) -> int:
    """Return the largest size of a file in a results directory, by its name."""
    # A training command may write a checkpoint of any name, which is only hashed.
    return 1 << (36 if "command" in path.parts[:-1] else LARGEST_FILES.get(path.suffix, 28))


def is_bare(name: str) -> bool:
    """Return whether a text can name a file or folder inside a folder, and so cannot lead out of it."""
    return name not in ("", ".", "..") and not any(sign in name for sign in ("/", "\0", os.sep))


def inside(folder: Path, *names: str) -> Path:
    """Return a path in a results directory, one name for each level, after checking that no level is a link.

    Args:
        folder: the directory, which may be a symbolic link itself.
        names: the names of nested folders, or of a file at the end; they need not exist.

    Raises:
        ResultsError: if a text is not a name, or a level is a symbolic link.
    """
    path = folder
    for name in names:
        if not is_bare(name):
            raise ResultsError(
                f"{path}: {shortened(repr(name))} is not a name of a file or folder in it, and Headway opens no file "
                "outside of a results directory; fetch the directory again"
            )
        path = path / name
        refuse_link(path)
    return path


def refuse_link(path: Path) -> None:
    """Raise ResultsError if something in a directory of results is a symbolic link."""
    if os.path.islink(path):
        raise ResultsError(
            f"{path} is a symbolic link, and Headway follows no link inside a results directory; replace the link by "
            "the file or folder itself, or remove it"
        )


BEGUN_IN = [Path()]
"""The folder in which the opened results were begun; a relative path that leads nowhere from here begins there."""


def located(path: str) -> Path:
    """Return a path that an experiment names: from the working directory, or else from where its results were begun."""
    here = Path(path).expanduser()
    there = BEGUN_IN[0] / here
    return there if os.path.exists(there) and not os.path.exists(here) else here


def beginnings() -> str:
    """Return the folders in which relative paths begin, for messages."""
    return " and ".join(dict.fromkeys(map(str, map(Path.absolute, (Path(), *BEGUN_IN)))))


def folder_in(folder: Path, *names: str) -> Path:
    """Make a folder in a directory of results, with those above it, if it is not there.

    Raises:
        ResultsError: if `inside` would raise it.
        OSError: when it cannot be made.
    """
    path = folder
    for name in names:
        path = inside(path, name)
        path.mkdir(exist_ok=True)
    return path


def entries(folder: Path, pattern: str) -> list[Path]:
    """Find what matches a pattern in a directory of results, sorted: `runs/*/seed-*` has one part for each level.

    Raises:
        ResultsError: where a symbolic link stands for a folder. A link to a file is found, and refused by its reader.
    """
    paths = [folder]
    *above, last = pattern.split("/")
    for part in above:
        paths = [path for each in paths for path in _matching(each, part, inner=True)]
    return sorted(path for each in paths for path in _matching(each, last, inner=False))


def names_in(folder: Path) -> list[str]:
    """Return the sorted names of everything in a folder; an absent folder has none."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _matching(folder: Path, pattern: str, *, inner: bool) -> Iterator[Path]:
    try:
        with os.scandir(folder) as there:
            matching = [each for each in there if fnmatch.fnmatchcase(each.name, pattern)]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    for each in matching:
        if each.is_symlink() and (inner or os.path.isdir(each.path)):
            inside(folder, each.name)
        yield folder / each.name


def instead_of_file(path: Path) -> str:
    """Return words for an entry in place of a file, such as `is a folder and no file`; empty for a file, or nothing.

    Raises:
        OSError: when it cannot be looked at.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return ""
    kinds = ((stat.S_ISREG, ""), (stat.S_ISDIR, "folder"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"))
    kind = next((name for is_kind, name in kinds if is_kind(mode)), "device")
    return f"is a {kind}, not a file" if kind else ""


def appending(path: Path) -> int:
    """Open a descriptor that appends to a file, and create the file if it is missing.

    A link, a pipe or a device is replaced by an empty file. A file with a second name elsewhere is replaced by its
    copy. So nothing is written outside the directory.

    Raises:
        OSError: when it cannot be written.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    for _ in range(3):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode) and (not stat.S_ISREG(status.st_mode) or status.st_nlink > 1):
                write_bytes(path, read_bytes(path) if stat.S_ISREG(status.st_mode) else b"")
        descriptor = os.open(path, flags, 0o666)
        opened = os.fstat(descriptor)
        if stat.S_ISREG(opened.st_mode) and opened.st_nlink <= 1:
            os.set_blocking(descriptor, True)
            return descriptor
        os.close(descriptor)
    raise NotOrdinary(errno.EINVAL, "another process keeps replacing the file", str(path))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write in the block; afterwards the file takes the name `path`, and is on disk.

    Nothing changes under the name if the block raises.
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
        StorageFailed: when the disk is full or fails; with the writers of this file, the former content then stands.
        ResultsError: when it cannot be written for another reason.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        failing, full = error.errno in (errno.EROFS, errno.EIO, errno.ESTALE), error.errno in FULL
        todo = "check that its file system works and is writable" if failing else "free space or check permissions"
        todo = "move away what is there" if error.errno == errno.EISDIR else todo
        wrong, todo = (error.strerror, todo) if not lacks_inodes(error, path) else (NO_INODE, "delete some files there")
        kind = StorageFailed if failing or full else ResultsError
        raise kind(f"{path} cannot be written: {wrong}; {todo}, and try again") from error


FULL = (errno.ENOSPC, errno.EDQUOT)
"""The error numbers of a full disk or quota."""
NO_INODE = "no inode is left for a new file"


def lacks_inodes(error: OSError, path: Path) -> bool:
    """Return whether a disk is full because it has no room for more files, although bytes are free."""
    if error.errno != errno.ENOSPC:
        return False
    disk = os.statvfs(next(each for each in (path, *path.absolute().parents) if each.exists()))
    # The unfinished file is gone again, so a few units of the lacking resource may be free; the other is plentiful.
    return bool(disk.f_files) and disk.f_favail / disk.f_files < disk.f_bavail / max(1, disk.f_blocks)


def sweep(directory: Path) -> None:
    """Remove what killed writers left in a directory that has no other writer."""
    for temporary in entries(directory, ".*.tmp"):
        remove(temporary)


def remove(path: Path) -> None:
    """Remove a file or a link, not what it leads to, if there is one; a folder stays.

    Raises:
        OSError: when it cannot be removed.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()


def write_text(path: Path, text: str) -> None:
    """Replace the content of a file."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the content of a file; what else is called so elsewhere keeps its own."""
    with replacing(path) as temporary:
        write_new(temporary, content)


def write_new(path: Path, content: bytes) -> None:
    """Write a file under a name that nothing has, without waiting for the disk.

    Raises:
        FileExistsError: when something has it, a dangling link included.
    """
    with open(path, "xb") as file:
        file.write(content)


def write_json(path: Path, value: Any) -> None:
    """Replace the content of a file by a JSON value, converted by `plain`."""
    write_text(path, json_text(value))


def write_changed_json(path: Path, value: Any) -> None:
    """Replace the content of a file by a JSON value; a file that has this content stays as old as it is."""
    text = json_text(value).encode()
    with contextlib.suppress(OSError):
        if read_bytes(path) == text:
            return
    write_bytes(path, text)


def is_up_to_date(path: Path, inputs: Iterable[Path]) -> bool:
    """Return whether a file or folder exists and is at least as new as each file that it is made from."""
    try:
        changed = path.lstat().st_mtime_ns
    except FileNotFoundError:
        return False
    return all(each.lstat().st_mtime_ns <= changed for each in inputs)


def json_text(value: Any) -> str:
    """Return the text that `write_json` writes for a value."""
    return json.dumps(plain(value), indent=1, allow_nan=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class Content:
    """The length and the hash of a file's content."""

    n_bytes: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> "Content":
        """Return the length and the hash of some bytes."""
        return cls(n_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    def why_not(self, file: Path, *, by_size: bool = False) -> str:
        """Return why a file does not have this content, in a few words; empty if it has.

        Args:
            file: the file.
            by_size: True to look at its size alone.

        Raises:
            OSError: when it is missing, or cannot be read.
        """
        if stands := instead_of_file(file):
            return stands
        n_bytes = file.stat().st_size
        if n_bytes != self.n_bytes:
            return f"has {n_bytes:,} bytes instead of {self.n_bytes:,}"
        if not by_size and Content.of_file(file) != self:
            return "does not have the content that was written"
        return ""

    @classmethod
    def of_file(cls, path: Path, until: int | None = None, *, links: bool = False) -> "Content":
        """Return the length and the hash of a file, or of its first `until` bytes, read as a stream.

        `links` means what it means in `ordinary`.

        Raises:
            OSError: when it cannot be read.
        """
        hashed, n_bytes = hashlib.sha256(), 0
        with ordinary(path, buffering=0, links=links) as file:
            while data := file.read(_AT_ONCE if until is None else min(_AT_ONCE, until - n_bytes)):
                hashed.update(data)
                n_bytes += len(data)
        return cls(n_bytes=n_bytes, sha256=hashed.hexdigest())


def ordinary(path: Path, *, buffering: int = -1, links: bool = False) -> IO[bytes]:
    """Open an ordinary file for reading.

    A named pipe is refused: without a writer, reading it would never end. A file in a results directory that exceeds
    its size in `LARGEST_FILES` is refused too: it would fill the memory.

    Args:
        path: the path of the file.
        buffering: the buffering, as for `open`.
        links: True if the path may be a symbolic link: a path from the user, or a file of a model that is only read.

    Raises:
        OSError: when it cannot be opened; NotOrdinary when it is not an ordinary file, or too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW))
    except OSError as error:
        if error.errno == errno.ELOOP and not links:
            raise NotOrdinary(errno.EINVAL, "it is a symbolic link", str(path)) from None
        if error.errno == errno.ENXIO:
            raise NotOrdinary(errno.EINVAL, "it is not an ordinary file", str(path)) from None
        raise
    status = os.fstat(descriptor)
    mode, largest = status.st_mode, largest_size(path)
    too_large = not links and status.st_size > largest
    if stat.S_ISREG(mode) and not too_large:
        return open(descriptor, "rb", buffering=buffering)
    os.close(descriptor)
    if stat.S_ISREG(mode):
        sizes = f"{status.st_size / 1e6:,.0f} MB, above the limit of {largest / 1e6:,.0f} MB for such a file"
        raise NotOrdinary(errno.EFBIG, f"it has {sizes}", str(path))
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise NotOrdinary(errno.EINVAL, "it is not an ordinary file", str(path))


def checked(path: Path) -> Path:
    """Return a path for another library to read, after checking that it is an ordinary file and no link.

    Raises:
        OSError: if `ordinary` would raise it.
    """
    ordinary(path).close()
    return path


def read_bytes(path: Path, *, links: bool = False) -> bytes:
    """Return the content of an ordinary file; `links` means what it means in `ordinary`.

    Raises:
        OSError: when it cannot be read.
    """
    with ordinary(path, links=links) as file:
        return file.read()


def parsed(text: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: saying why it says none, in words.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("lists and mappings are nested too deeply") from None


def kept_json(path: Path, *, links: bool = False) -> Any:
    """Return the value of a derived JSON file, or None if the file is unreadable and has to be made again.

    `links` means what it means in `ordinary`.
    """
    try:
        return parsed(read_bytes(path, links=links))
    except (OSError, ValueError):
        return None


def create_text(path: Path, text: str) -> bool:
    """Write a file unless it exists; of several writers at once, one gets True."""
    if path.exists():
        return False
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        write_new(temporary, text.encode())
        sync(temporary)
        os.link(temporary, path)
        sync(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        # A few network and FUSE file systems have no hard links; there, two first writers cannot be distinguished.
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS) or path.exists():
            raise
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path, largest: int) -> Any:
    """Return the value of a JSON file that a stranger may have written.

    Args:
        path: the path of the file.
        largest: the largest size, in bytes.

    Raises:
        FileNotFoundError: when there is none.
        UserError: when it is not a file, larger, nested deeply, or no JSON.
    """
    try:
        with ordinary(path, links=True) as file:
            text = file.read(largest + 1)
        if len(text) > largest:
            raise UserError(f"{path}: it is larger than {largest / 1e6:g} MB, the largest allowed; fetch it again")
        content = json.loads(text)
        if _is_deeper(content, DEEPEST_JSON):
            raise RecursionError
    except (FileNotFoundError, UserError):
        raise
    except RecursionError:
        raise UserError(
            f"{path}: mappings and lists are nested more than {DEEPEST_JSON} deep; fetch it again"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: it cannot be read ({shortened(str(error))})") from None
    return content


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(inner) and (levels == 0 or any(_is_deeper(each, levels - 1) for each in inner))


def plain(value: Any) -> Any:
    """Return a value as JSON holds it: arrays as lists, numpy numbers as Python's, non-finite numbers as None.

    A dataclass is a mapping of its fields, as `dataclasses.asdict` has it, but nothing is copied on the way.

    Examples:
        >>> import numpy as np
        >>> plain({"w": np.array([0.5, np.nan]), "n": np.int64(3)})
        {'w': [0.5, None], 'n': 3}
    """
    if isinstance(value, str | int | None):  # most values
        return value
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "tolist"):  # numpy's, which this module does not load: threads are set before it is
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


_PRIVATE = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder() -> Path:
    """Return the cache folder: `$HEADWAY_CACHE`, `$XDG_CACHE_HOME/headway` or `~/.cache/headway`."""
    if own := os.environ.get("HEADWAY_CACHE"):
        return Path(own).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "headway"


def private_folder(name: str) -> tuple[Path, str]:
    """Return a cache folder that only this user can write to, and a sentence if the cache cannot be used.

    If the cache cannot be used, the folder is a temporary one that ends with this process, and its content is made
    again each time.
    """
    # Each user has one: a cache may be shared, but this part never is.
    folder = cache_folder() / f"{name}-{os.getuid()}"
    why_not = _why_not_private(folder)
    if not why_not:
        return folder, ""
    instead = Path(tempfile.mkdtemp(prefix=f"headway-{name}-"))
    atexit.register(shutil.rmtree, instead, ignore_errors=True)
    return instead, f"{folder} is not used: {why_not}; until this is fixed, {name} keeps nothing between runs"


def _why_not_private(folder: Path) -> str:
    """Make a folder that nobody else can write to; return why that failed, or an empty text."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=_PRIVATE)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return "it is not a folder but a file or a link; remove it"
        if status.st_uid != os.getuid():
            return "it belongs to another user, who could put code into it that would then run; remove it"
        if status.st_mode & _OTHERS_WRITE:
            return "other users can write to it, and their code could run from it; remove it"
        above = folder.parent.stat().st_mode
        if above & stat.S_IWOTH and not above & stat.S_ISVTX:
            return f"every user can write to {folder.parent} and replace it; remove that permission, then remove it"
        folder.chmod(_PRIVATE)
        if not os.access(folder, os.W_OK | os.X_OK):
            return "it cannot be written; check permissions"
    except OSError as error:
        return f"{error.strerror or error}; free space or check permissions, or name another cache in HEADWAY_CACHE"
    return ""
