"""Errors of a run folder that cannot be written or read: what to tell the user, and what to do.

A file system may be full, reach a quota, become read-only, vanish or stop answering at any moment. Earlier records
stay, since files are whole or absent and the checkpoint commits.
"""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headway.base.files import FULL, NO_INODE, NotOrdinary, lacks_inodes
from headway.errors import StorageFailed

DISK_FULL, UNREACHABLE = 74, 73
"""Exit codes of workers: EX_IOERR and EX_CANTCREAT of sysexits.h for a full disk, and for any other that fails."""

_NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
_GONE = (errno.ENOENT, errno.ENOTDIR)
_IN_THE_WAY = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY)
_FAILING = (errno.EROFS, errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.ETIMEDOUT)


def is_of_storage(error: BaseException, path: Path) -> bool:
    """Return whether an error means that a disk is full or fails, or that this folder is gone."""
    if not isinstance(error, OSError):
        return False
    return error.errno in (*FULL, *_FAILING) or (error.errno in _GONE and not path.is_dir())


def what_blocks(path: Path, error: Exception) -> str:
    """A sentence on a folder, link or pipe that stands where a run folder has a file; empty for any other error."""
    if not isinstance(error, OSError) or not (isinstance(error, NotOrdinary) or error.errno in _IN_THE_WAY):
        return ""
    named = error.filename2 or error.filename
    if not isinstance(named, str) or not Path(named).is_relative_to(path) or not path.is_dir():
        return ""
    return f"{named} is not what Headway writes there ({error.strerror}); move it away, and run again to resume"


def exit_code(error: OSError) -> int:
    """Return the exit code of a worker after an error."""
    return DISK_FULL if error.errno in FULL else UNREACHABLE


def disk_full(path: Path) -> str:
    """The outcome of a run that could not be written."""
    return outcome(path, _NO_SPACE)


def unreachable(path: Path) -> str:
    """The outcome of a run whose folder failed, as the process that started it knows it."""
    if not path.is_dir():
        return f"{path} is gone; put it back to resume, or run again to start over"
    return (
        f"{path} could not be written or read; recorded results are safe. Check that its file system is mounted and "
        "writable, and run again to resume"
    )


def outcome(path: Path, error: OSError) -> str:
    """Return what happened to a run folder that could not be written, and what to do."""
    at = Path(error.filename) if isinstance(error.filename, str) and error.errno not in _GONE else path
    if error.errno in _GONE and not path.is_dir():
        return unreachable(path)
    wrong, todo = _about(error, at)
    if error.errno in FULL:
        return f"{wrong}; nothing recorded is lost: {todo} where {at} is and run again to resume"
    return f"{at} cannot be written: {wrong}; recorded results are safe: {todo}, and run again to resume"


def _about(error: OSError, path: Path) -> tuple[str, str]:
    """Return what is wrong with the disk of a path, and what to do."""
    if lacks_inodes(error, path):
        return NO_INODE, "delete some files"
    if error.errno == errno.ENOSPC:
        return "the disk is full", "free some space"
    if error.errno == errno.EDQUOT:
        return "the disk quota is used up", "free some of your space"
    todo = "mount it for writing" if error.errno == errno.EROFS else "check its file system"
    return str(error.strerror), todo


_ROOM = 16_000_000
_FILES = 16
"""A directory in which so many files of so many bytes together cannot be made has no room for a run."""


def why_no_room(directory: Path, n_bytes: int = 0) -> OSError | None:
    """Return why no run can be stored in a directory, found out by trying; None if there is room.

    Args:
        directory: the results directory.
        n_bytes: the bytes that have to be free, if these are more than the default test writes.
    """
    try:
        with ExitStack() as kept:
            for _ in range(_FILES):  # of no name, so that nothing is left of them whatever happens
                file = kept.enter_context(tempfile.TemporaryFile(dir=directory, buffering=0))
                file.write(os.urandom(_ROOM // _FILES))  # which no file system stores in less
                os.fsync(file.fileno())
    except OSError as error:
        return error
    disk = os.statvfs(directory)
    return _NO_SPACE if disk.f_bavail * disk.f_frsize < n_bytes else None


def failure(directory: Path, error: OSError) -> StorageFailed:
    """Return the error for a directory that cannot be written: what is wrong, where, and what to do."""
    at = Path(error.filename) if isinstance(error.filename, str) else directory
    wrong, todo = _about(error, at)
    there = " there" if error.errno in FULL else ""
    place = directory if at.absolute().is_relative_to(directory.absolute()) else at
    again = "run the same command again"
    again += f", or `headway run {directory}`," if (directory / "experiment.yaml").is_file() else ""
    return StorageFailed(
        f"{place} cannot be written: {wrong}. Nothing recorded is lost. {todo.capitalize()}{there}, then {again} to "
        "resume."
    )


@contextmanager
def stored(directory: Path) -> Iterator[None]:
    """Raise `StorageFailed` if a full or failing disk prevents a write in the block.

    Raises:
        StorageFailed: when a disk is full or fails.
    """
    try:
        yield
    except OSError as error:
        if not is_of_storage(error, directory):
            raise
        raise failure(directory, error) from error
