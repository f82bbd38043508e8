"""Runs: the numbered files that leases are: how they appear, whole and once, and how they are read.

A number is made by a hard link, which is a rename that replaces nothing: of any number of contenders one succeeds, on
one machine and on a network file system alike, however late the others see it.
"""

import contextlib
import errno
import json
import os
import secrets
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import psutil

from headway.files import NotOrdinary, entries, ordinary, read_bytes, refuse_link, remove, write_new
from headway.runs.processes import born_at, is_alive, machine

_KEPT = 32
"""Former leases that stay. A number that was removed could be taken twice, by one who sees the others late."""
_NO_FILE = (FileNotFoundError, IsADirectoryError, NotOrdinary)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """What a lease says: which process, and how far its run is."""

    host: str
    machine: str
    pid: int
    started: float
    step: int = 0
    steps_per_s: float = 0.0
    released: bool = False
    born: int = 0
    """When its process began, in ticks since its machine did: setting a clock does not move it. 0 of before."""
    token: str = ""
    """Of this lease alone."""
    beat: int = 0
    """Counted up, so that every beat changes the file."""
    held_s: float = 0.0
    """How long it had been held at the last beat, by the holder's own clock."""
    at: str = ""
    """Who works on the run, where that is not the holder itself but somebody that it writes for."""

    @property
    def worker(self) -> str:
        """Who works on the run: a host, and a process there."""
        return self.at or f"{self.host} {self.pid}"


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A lease as it was seen once.

    Attributes:
        number: of the file.
        holder: what it says; None for one that is just being created.
        mark: whatever a beat changes. Two marks are equal or not; nothing else is to be read from them.
    """

    number: int
    holder: Holder | None
    mark: tuple[bytes, int]

    @property
    def is_free(self) -> bool:
        """Whether it is certain at once that nobody holds it: it was released, or its process here has ended."""
        holder = self.holder
        return holder is not None and (
            holder.released or (holder.machine == machine() and not is_alive(holder.pid, holder.started, holder.born))
        )


def file_of(directory: Path, number: int) -> Path:
    """Where the lease of a number stands."""
    return directory / f"{number:06d}.json"


def newest(directory: Path) -> int:
    """The highest number, 0 if there is none."""
    return max(_numbers(directory), default=0)


def seen(directory: Path) -> Sight | None:
    """The newest lease of a folder; None where there is none."""
    refuse_link(directory)
    number = 0
    for _ in range(3):  # one that vanishes was followed by others
        number = newest(directory)
        if not number:
            return None
        with contextlib.suppress(*_NO_FILE), ordinary(file_of(directory, number)) as file:
            content = file.read()
            mark = content, os.fstat(file.fileno()).st_mtime_ns
            return Sight(number=number, holder=parsed(content), mark=mark)
    return Sight(number=number, holder=None, mark=(b"", 0))


def follow(directory: Path, number: int, holder: Holder) -> bool:
    """Make the lease of a number; False when somebody else made it, or one after it.

    Raises:
        OSError: when nothing can be written there.
    """
    if not _create(file_of(directory, number), holder):
        return False
    former = list(_numbers(directory))
    if max(former, default=0) > number:  # it is one of those that were removed, as long ago was it that we looked
        return False
    swept = [file_of(directory, n) for n in former if n <= number - _KEPT]
    for path in [*swept, *entries(directory, "*.tmp")]:
        remove(path)
    return True


def give_up(directory: Path, sight: Sight) -> bool:
    """Let a lease go whose holder gives no sign of life: it is followed by one that is released.

    Whether nobody else has it now, as far as one knows; False when another was faster.

    Raises:
        OSError: when the disk is full: nobody can work there, and to look again would change nothing.
    """
    if sight.is_free:
        return True
    try:
        return follow(directory, sight.number + 1, replace(this_process(), released=True))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False


def is_of(directory: Path, number: int, token: str) -> bool:
    """Whether a lease stands there as it was made."""
    return _has(file_of(directory, number), token)


def _numbers(directory: Path) -> Iterator[int]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    yield from (int(stem) for stem in stems if stem.isascii() and stem.isdecimal())


def _create(path: Path, holder: Holder) -> bool:
    """Make a lease appear whole under its name, if nothing has that name."""
    temporary = path.with_name(f"{path.stem}.{holder.token}.tmp")
    try:
        write_new(temporary, json.dumps(asdict(holder)).encode())
        os.link(temporary, path)  # a rename that replaces nothing, which Python has not
        return True
    except FileExistsError:
        # A network file system may do it, lose the answer, and find it done when it tries again.
        return _has(path, holder.token)
    except FileNotFoundError:
        return False  # swept away by one who was faster; or the folder is gone, which the next look tells
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _claim(path, temporary)
    finally:
        with contextlib.suppress(OSError):
            remove(temporary)


def _claim(path: Path, temporary: Path) -> bool:
    """The same where there are no hard links: the name is taken first, and filled by a rename."""
    try:
        with open(path, "x"):
            pass
    except FileExistsError:
        return False
    os.replace(temporary, path)
    return True


def _has(path: Path, token: str) -> bool:
    try:
        holder = parsed(read_bytes(path))
    except _NO_FILE:
        return False
    return holder is not None and holder.token == token


def parsed(content: bytes) -> Holder | None:
    """What a lease says; None for one that is just being created. What a later Headway adds is left out."""
    kinds: dict[str, Any] = {each.name: (float, int) if each.type is float else each.type for each in fields(Holder)}
    try:
        told = {name: value for name, value in json.loads(content).items() if name in kinds}
        return Holder(**told) if all(isinstance(value, kinds[name]) for name, value in told.items()) else None
    except (ValueError, TypeError, AttributeError):
        return None


def this_process() -> Holder:
    """A lease of this process, of a token of its own."""
    return Holder(
        host=socket.gethostname(),
        machine=machine(),
        pid=os.getpid(),
        started=psutil.Process().create_time(),
        born=born_at(os.getpid()),
        token=secrets.token_hex(8),
    )
