"""The lease of a run folder: which process works on the run.

A lease is a numbered file. The process that created the highest number owns the folder. A free lease is followed by the
next number. A lease is free if it was released, if its process on this machine has ended, or if somebody watched it for
60 s and saw no beat (`headway.store.watch`). Before every write, the owner checks that it still has the highest number.
After it has slept, it must win a next number before it resumes.

A number is made by a hard link, which is a rename that replaces nothing. The file appears whole, under a name that no
other process can take. So one of any number of contenders succeeds, on one machine and on a network file system alike,
however late the others see it. Processes of this machine are distinguished from later ones that reuse their numbers.

No clock of one machine is compared with that of another.

An owner that was suspended between checking and writing can still write once after another took over. That is
harmless. The new owner writes to new files, and under the old names it would write equal content, since a run is a
function of its configuration.
"""

import contextlib
import errno
import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import psutil
from pydantic import Field, TypeAdapter

from headway.base.files import NotOrdinary, entries, folder_in, ordinary, refuse_link, remove, write_new
from headway.errors import HeadwayError, LeaseLost, ResultsError, shortened


def is_alive(pid: int, started: float, born: int) -> bool:
    """Return whether the very process of a holder on this machine lives: a later one may have its number."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if born and (now := born_at(pid)):
            return now == born
        # The start is counted from the time of booting, which moves when the clock is set.
        return abs(process.create_time() - started) < 5
    except psutil.NoSuchProcess:
        return False


def born_at(pid: int) -> int:
    """The start of a process, in ticks since the machine started; 0 if the system does not tell it."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


@cache
def machine() -> str:
    """The scope in which a process number means one process: a host since it booted, and its container."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):  # not on macOS, where there are no such containers either
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


_KEPT = 32
"""Former leases that stay. A number that was removed could be taken twice, by one who sees the others late."""
_NAME = re.compile(r"([0-9]{6}|[1-9][0-9]{6,8})\.json")
"""What `file_of` makes of a number. Any other file is none of Headway's, and no process waits for it."""
_HIGHEST = 10**9 - 1
_LONGEST = 1 << 16
"""Bytes of a lease that are read; a process writes a few hundred."""
_NO_FILE = (FileNotFoundError, IsADirectoryError, NotOrdinary)
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)


_PLAUSIBLE = Field(ge=0, lt=2**62)
"""A process writes no negative number, and no time of 1e308 s."""
Whole = Annotated[int, _PLAUSIBLE]
Amount = Annotated[float, _PLAUSIBLE]


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The holder of a lease: its process, and how far its run is."""

    host: str
    machine: str
    pid: Whole
    started: Amount
    step: Whole = 0
    steps_per_s: Amount = 0.0
    released: bool = False
    born: Whole = 0
    """When its process began, in ticks since its machine did: setting a clock does not move it. 0 of before."""
    token: str = ""
    """A random word that no other lease has."""
    beat: Whole = 0
    """Counted up, so that every beat changes the file."""
    held_s: Amount = 0.0
    """How long it had been held at the last beat, by the holder's own clock."""

    @property
    def worker(self) -> str:
        """Who works on the run: a host, and a process there."""
        return shortened(f"{self.host} {self.pid}")


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A lease as it was seen once.

    Attributes:
        number: the number of the lease file.
        holder: the holder that the file names; None for a file that is just being created.
        mark: the number, and the part that a beat changes. Two marks are equal or not; they have no other meaning.
    """

    number: int
    holder: Holder | None
    mark: tuple[int, bytes, int]

    @property
    def is_free(self) -> bool:
        """True if certainly nobody holds the lease: it was released, or its process on this machine has ended."""
        holder = self.holder
        return holder is not None and (
            holder.released or (holder.machine == machine() and not is_alive(holder.pid, holder.started, holder.born))
        )


def file_of(directory: Path, number: int) -> Path:
    """The file of the lease of a number."""
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
            content = file.read(_LONGEST)
            mark = number, content, os.fstat(file.fileno()).st_mtime_ns
            return Sight(number=number, holder=parsed(content), mark=mark)
    return Sight(number=number, holder=None, mark=(number, b"", 0))


def follow(directory: Path, number: int, holder: Holder) -> bool:
    """Make the lease of a number; False when somebody else made it, or one after it.

    Raises:
        OSError: when nothing can be written there.
        ResultsError: when no further number is left.
    """
    if number > _HIGHEST:
        raise ResultsError(
            f"{directory} holds {number - 1}.json, a number that Headway never reaches, so somebody changed the "
            f"folder; remove {directory} when no process works on the run, and try again"
        )
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


def _numbers(directory: Path) -> Iterator[int]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    yield from (int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


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
    """Make a lease where there are no hard links: take its name first, then fill it by a rename."""
    try:
        with open(path, "x"):
            pass
    except FileExistsError:
        return False
    os.replace(temporary, path)
    return True


def _has(path: Path, token: str) -> bool:
    """Return whether a lease stands in a file as it was made."""
    with contextlib.suppress(*_NO_FILE), ordinary(path) as file:
        holder = parsed(file.read(_LONGEST))
        return holder is not None and holder.token == token
    return False


_HOLDER = TypeAdapter(Holder)


def parsed(content: bytes) -> Holder | None:
    """Return the holder that a lease names, without a later Headway's fields; None while the lease is being made."""
    try:
        holder = _HOLDER.validate_json(content, strict=True)
    except ValueError:
        return None
    # A rate fades while a model is evaluated, and whoever divides by it would get no number.
    return replace(holder, steps_per_s=round(holder.steps_per_s, 6))


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


STALE_S = 60.0
"""A holder whose beat did not change for so long, by the clock of who watched it, is given up."""
_BEAT_S = 1.0
_LEFT: set["Lease"] = set()
"""Leases that this process is done with, and whose release could not be written: its end releases them."""
_HELD, _RELEASED = b'"released": false', b'"released": true '


class LeaseHeld(HeadwayError):
    """Another process works on the run folder."""


def last_holder(directory: Path) -> Holder | None:
    """The holder that the newest lease of a run folder names, be the lease held or not."""
    sight = seen(directory)
    return sight.holder if sight else None


def is_held(directory: Path) -> bool:
    """Return whether a process may work on the run folder, as far as one look tells.

    A holder on another machine that has ended without a word is told apart from one that works only by watching.
    """
    sight = seen(directory)
    return sight is not None and not sight.is_free


def release_left() -> bool:
    """Try again to release what this process is done with; whether nothing is left.

    What is left looks held, by a process that lives, for as long as this one does.
    """
    for lease in tuple(_LEFT):
        with contextlib.suppress(OSError):
            lease.release()
    return not _LEFT


class Lease:
    """Ownership of a run folder; as a context manager it beats in the background and releases at the end."""

    def __init__(self, directory: Path, number: int, holder: Holder):
        self._directory, self._number, self._holder = directory, number, holder
        self._taken = self._beaten = _awake_s()
        self._told: dict[str, Any] = {}
        self._ended, self._turn = threading.Event(), threading.RLock()
        self._thread = threading.Thread(target=self._keep_beating, name="lease", daemon=True)

    @classmethod
    def take(cls, directory: Path) -> "Lease":
        """Take the lease of a run folder.

        Raises:
            LeaseHeld: when another process has it, as far as one look tells, or was faster.
            OSError: when it cannot be written, or a former one of this process not be released.
        """
        for left in [lease for lease in _LEFT if lease._directory == directory]:
            left.release()
        folder_in(directory.parent, directory.name)
        sight = seen(directory)
        if sight and not sight.is_free:
            holder = sight.holder
            raise LeaseHeld(f"process {holder.pid} on {holder.host} works on it" if holder else "another works on it")
        number, holder = (sight.number if sight else 0) + 1, this_process()
        if not follow(directory, number, holder):
            raise LeaseHeld("another process was faster")
        return cls(directory, number, holder)

    def __enter__(self) -> "Lease":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        with contextlib.suppress(OSError):
            self.release()

    def release(self) -> None:
        """Let go, so that everybody sees it at once.

        Raises:
            OSError: when that cannot be written; then it is `left`.
        """
        _LEFT.add(self)
        self._holder = replace(self._holder, released=True)
        with contextlib.suppress(LeaseLost):  # then there is nothing to release
            self._beat()
        _LEFT.discard(self)

    def check(self) -> None:
        """Look whether the folder is still ours.

        Raises:
            LeaseLost: when another process took it over; nothing more may be written.
            OSError: when it has slept, and cannot win its lease again on this disk.
        """
        with self._turn:
            if _awake_s() - self._beaten > STALE_S / 2:
                self._win_again()
            self._look()

    def _look(self) -> None:
        number = newest(self._directory)
        if number > self._number:
            holder = last_holder(self._directory)
            who = f"process {holder.pid} on {holder.host}" if holder else "another process"
            raise LeaseLost(
                f"{who} took over {self._directory.parent} after this process gave no sign of life for {STALE_S:.0f} "
                "s; the run continues there"
            )
        # One that was made anew in the meantime may have the same numbers.
        if not number or not _has(file_of(self._directory, self._number), self._holder.token):
            raise LeaseLost(f"{self._directory.parent} was removed while this process worked on it")

    def _win_again(self) -> None:
        """Go on after a sleep in which others may have given up on this process: only with a number of its own.

        What they did may not be seen here yet; that a number is taken is known where it is made.
        """
        renewed = replace(self._holder, token=secrets.token_hex(8))
        if not newest(self._directory) or not follow(self._directory, self._number + 1, renewed):
            self._look()
            raise LeaseLost(
                f"another process took over {self._directory.parent} while this one gave no sign of life; the run "
                "continues there"
            )
        self._number, self._holder, self._beaten = self._number + 1, renewed, _awake_s()

    def progress(self, step: int, steps_per_s: float) -> None:
        """Set the step and rate that the coming beats report."""
        self._told = {"step": step, "steps_per_s": steps_per_s}

    def _keep_beating(self) -> None:
        # In its own thread: compiling a model or judging it at the end may take longer than a lease lasts.
        while not self._ended.wait(_BEAT_S):
            try:
                self._beat()
            except LeaseLost:
                return  # the main thread finds out before its next write
            except OSError:
                continue  # it may work again; the main thread finds out too

    def _beat(self) -> None:
        with self._turn:
            self.check()
            path = file_of(self._directory, self._number)
            temporary = path.with_suffix(".tmp")
            changed = {**self._told, "beat": self._holder.beat + 1, "held_s": round(_awake_s() - self._taken, 1)}
            self._holder = replace(self._holder, **changed)
            try:
                remove(temporary)
                write_new(temporary, json.dumps(asdict(self._holder)).encode())
                os.replace(temporary, path)
                self._beaten = _awake_s()
            except OSError:
                with contextlib.suppress(OSError):
                    remove(temporary)
                self._release_in_place(path) if self._holder.released else self._touch(path)

    def _touch(self, path: Path) -> None:
        """A beat on a full disk: it needs no space. If even that fails, a missed beat is what the 60 s are for."""
        with contextlib.suppress(OSError):
            os.utime(path, follow_symlinks=False)
            self._beaten = _awake_s()

    def _release_in_place(self, path: Path) -> None:
        """A release on a full disk: one word of the file is written over, which needs no space."""
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            os.pwrite(descriptor, os.pread(descriptor, 1 << 16, 0).replace(_HELD, _RELEASED), 0)
        finally:
            os.close(descriptor)


def _awake_s() -> float:
    """Seconds by a clock of this process that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
