"""Runs: who works on a run folder.

A lease is a numbered file. The process that created the highest number owns the folder. A file appears whole, under a
name that nobody else can take: of any number of contenders one succeeds, however late the others see it. A free lease
(it was released, or its process ended on this machine, or somebody watched it for 60 s and saw no beat:
`headway.runs.watching`) is followed by the next number. The owner looks before every write whether it still has the
highest one; when it has slept, it must win a next number before it goes on.

No clock of one machine is compared with that of another. The argument that this is enough stands in docs/running.md.

An owner that was suspended between looking and writing can still write once after another took over. That is
harmless: the new owner writes to new files, and what is written under the old names is what the new owner would
write there, since a run is a function of its configuration.
"""

import contextlib
import json
import os
import secrets
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from headway.errors import HeadwayError, LeaseLost
from headway.files import folder_in, remove, write_new
from headway.runs.lease_files import Holder, file_of, follow, is_of, newest, seen, this_process

STALE_S = 60.0
"""A holder whose beat did not change for so long, by the clock of who watched it, is given up."""
_BEAT_S = 1.0
_LEFT: set["Lease"] = set()
"""Leases that this process is done with, and whose release could not be written: its end releases them."""
_HELD, _RELEASED = b'"released": false', b'"released": true '


class LeaseHeld(HeadwayError):
    """Another process works on the run folder."""


def last_holder(directory: Path) -> Holder | None:
    """What the newest lease of a run folder says, be it held or not."""
    sight = seen(directory)
    return sight.holder if sight else None


def is_held(directory: Path) -> bool:
    """Whether a process may work on the run folder, as far as one look tells.

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
            sight = seen(self._directory)
            holder = sight.holder if sight else None
            who = f"process {holder.pid} on {holder.host}" if holder else "another process"
            raise LeaseLost(
                f"{who} took over {self._directory.parent} after this one gave no sign of life for {STALE_S:.0f} s; "
                "it goes on there"
            )
        # One that was made anew in the meantime may have the same numbers.
        if not number or not is_of(self._directory, self._number, self._holder.token):
            raise LeaseLost(f"{self._directory.parent} was removed while this process worked on it")

    def _win_again(self) -> None:
        """Go on after a sleep in which others may have given up on this process: only with a number of its own.

        What they did may not be seen here yet; that a number is taken is known where it is made.
        """
        renewed = replace(self._holder, token=secrets.token_hex(8))
        if not newest(self._directory) or not follow(self._directory, self._number + 1, renewed):
            self._look()
            raise LeaseLost(
                f"another process took over {self._directory.parent} while this one gave no sign of life; it goes on "
                "there"
            )
        self._number, self._holder, self._beaten = self._number + 1, renewed, _awake_s()

    def progress(self, step: int, steps_per_s: float, at: str = "") -> None:
        """What the coming beats tell."""
        self._told = {"step": step, "steps_per_s": steps_per_s, "at": at}

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
            told = {**self._told, "beat": self._holder.beat + 1, "held_s": round(_awake_s() - self._taken, 1)}
            self._holder = replace(self._holder, **told)
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
            said = os.pread(descriptor, 1 << 16, 0)
            os.pwrite(descriptor, said.replace(_HELD, _RELEASED), 0)
        finally:
            os.close(descriptor)


def _awake_s() -> float:
    """Seconds by a clock of this process that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
