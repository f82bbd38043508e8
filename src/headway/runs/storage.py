"""Runs: what to say, and what to do, when a run folder cannot be written or read.

A file system may be full, be used up to a quota, become read-only, vanish or stop answering at any moment. What was
recorded before stays, since files are whole or absent and the checkpoint commits.
"""

import errno
from pathlib import Path

DISK_FULL, UNREACHABLE = 74, 73
"""Exit codes of workers: EX_IOERR and EX_CANTCREAT of sysexits.h for a full disk, and for any other that fails."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_GONE = (errno.ENOENT, errno.ENOTDIR)
_FAILING = (errno.EROFS, errno.EIO, errno.ESTALE, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.ETIMEDOUT)


def is_of_storage(error: BaseException, path: Path) -> bool:
    """Whether an error says that a disk is full or fails, or that this folder is gone."""
    if not isinstance(error, OSError):
        return False
    return error.errno in (*_FULL, *_FAILING) or (error.errno in _GONE and not path.is_dir())


def exit_code(error: OSError) -> int:
    """What a worker ends with."""
    return DISK_FULL if error.errno in _FULL else UNREACHABLE


def disk_full(path: Path) -> str:
    """The outcome of a run that could not be written."""
    return f"the disk is full; nothing recorded is lost: free some space where {path} is and run again to go on"


def unreachable(path: Path) -> str:
    """The outcome of a run whose folder failed, as the process that started it knows it."""
    if not path.is_dir():
        return f"{path} is not there any more; put it back to go on, or run again to begin anew"
    return (
        f"{path} could not be written or read; what was recorded stays: see that its file system is there and can be "
        "written, and run again to go on"
    )


def outcome(path: Path, error: OSError) -> str:
    """What happened to a run folder that could not be written, and what to do."""
    at = Path(error.filename) if isinstance(error.filename, str) and error.errno not in _GONE else path
    if error.errno == errno.ENOSPC:
        return disk_full(at)
    if error.errno == errno.EDQUOT:
        return (
            f"the disk quota is used up; nothing recorded is lost: free some of your space where {at} is and run "
            "again to go on"
        )
    if error.errno in _GONE and not path.is_dir():
        return unreachable(path)
    todo = "mount it for writing" if error.errno == errno.EROFS else "see that its file system works"
    return f"{at} cannot be written: {error.strerror}; what was recorded stays: {todo}, and run again to go on"
