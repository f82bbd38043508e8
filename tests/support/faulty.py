"""Processes that meet their end, or a full disk, at a chosen operation on the file system.

Python announces file operations to audit hooks before it does them; writing and syncing are announced here.
"""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headway.execute.work
from headway.errors import UserError
from headway.execute.work import work
from headway.store.run import Run
from support import quadratic

KILLED = 9
_ANNOUNCED = ("open", "os.rename", "os.mkdir", "os.link", "os.chmod")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Operations:
    """Counts a process's operations on files below a directory; from the one of a number on, does something else.

    With `once`, at that one alone; with `reading`, files that are opened for reading are counted too.
    """

    def __init__(
        self, below: Path, number: int, instead: Callable[[], None], *, once: bool = False, reading: bool = False
    ):
        self._below, self._left, self._instead = str(below), number, instead
        self._once, self._reading = once, reading
        self.write, self.fsync = os.write, os.fsync
        os.write, os.fsync = self._write, self._fsync
        sys.addaudithook(self._hear)

    def _count(self) -> None:
        self._left -= 1
        if self._left == 0 or (self._left < 0 and not self._once):
            self._instead()

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        # Removing needs no space on a disk.
        if event not in (*_ANNOUNCED, *(("os.remove",) if self._instead is die else ())):
            return
        if self._below not in str(arguments[0]):
            return
        if event == "open":
            _, mode, flags = arguments
            if not (self._reading or set(mode or "") & set("wax+") or flags & _WRITING):
                return
        self._count()

    def _write(self, descriptor: int, data: bytes) -> int:
        if self._left == 1:
            self.write(descriptor, data[: len(data) // 2])
        self._count()
        return self.write(descriptor, data)

    def _fsync(self, descriptor: int) -> None:
        self._count()
        self.fsync(descriptor)


def die() -> None:
    """What kill -9 does: nothing more."""
    os._exit(KILLED)


def disk_full() -> None:
    """What a full disk answers."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def failing(number: int) -> Callable[[], None]:
    """What a file system answers that fails with an error of that number."""

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def working(run: Run, number: int, instead: Callable[[], None], *, checkpoint_every_s: float = 0.0, **how: bool) -> int:
    """The exit code of a process that works on a run until its operation of a number."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            headway.execute.work.CHECKPOINT_EVERY_S = checkpoint_every_s
            Operations(run.path, number, instead, **how)
            code = work(run.path, quadratic.study)
        except UserError:
            code = 2  # as the worker's command line ends then
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
