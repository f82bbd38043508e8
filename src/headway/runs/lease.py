"""Runs: who works on a run folder.

A lease is a numbered file. The process that created the highest number owns the folder; the file is created
exclusively, so of any number of contenders one succeeds, and the highest number is never removed. A free lease (its
process ended, or no beat came for 60 s) is taken over by creating the next number. The owner looks before every write
whether it still has the highest one.

An owner that was suspended between looking and writing can still write once after another took over. That is
harmless: the new owner writes to new files, and what is written under the old names is what the new owner would
write there, since a run is a function of its configuration.
"""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from types import TracebackType

import psutil

from headway.errors import HeadwayError, LeaseLost

STALE_S = 60.0
_BEAT_S = 1.0


class LeaseHeld(HeadwayError):
    """Another process works on the run folder."""


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


def last_holder(directory: Path) -> Holder | None:
    """What the newest lease of a run folder says, be it held or not."""
    newest = _newest(directory)
    return _read(_file(directory, newest)) if newest else None


def is_held(directory: Path) -> bool:
    """Whether a process works on the run folder, as far as can be seen without writing."""
    newest = _newest(directory)
    return newest > 0 and not _is_free(_file(directory, newest), time.time())


class Lease:
    """Ownership of a run folder; as a context manager it beats in the background and releases at the end."""

    def __init__(self, directory: Path, number: int, holder: Holder):
        self._directory, self._number, self._holder = directory, number, holder
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep_beating, name="lease", daemon=True)

    @classmethod
    def take(cls, directory: Path) -> "Lease":
        """Take the lease of a run folder.

        Raises:
            LeaseHeld: when another process has it, or was faster.
        """
        directory.mkdir(exist_ok=True)
        newest = _newest(directory)
        if newest and not _is_free(_file(directory, newest), _now(directory)):
            holder = _read(_file(directory, newest))
            raise LeaseHeld(f"process {holder.pid} on {holder.host} works on it" if holder else "another works on it")
        number, holder = newest + 1, _myself()
        try:
            with open(_file(directory, number), "x", encoding="utf-8") as file:
                file.write(json.dumps(asdict(holder)))
        except FileExistsError:
            raise LeaseHeld("another process was faster") from None
        except OSError:
            _file(directory, number).unlink(missing_ok=True)  # created on a full disk; nobody has it
            raise
        # Someone may have taken over twice since we looked, and removed the number that we then created.
        if _newest(directory) != number:
            _file(directory, number).unlink(missing_ok=True)
            raise LeaseHeld("another process was faster")
        for former in [_file(directory, n) for n in _numbers(directory) if n < number] + [*directory.glob("*.tmp")]:
            former.unlink(missing_ok=True)
        return cls(directory, number, holder)

    def __enter__(self) -> "Lease":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._holder = replace(self._holder, released=True)
        with contextlib.suppress(LeaseLost):  # then there is nothing to release
            self._beat()

    def check(self) -> None:
        """Look whether the folder is still ours.

        Raises:
            LeaseLost: when another process took it over; nothing more may be written.
        """
        newest = _newest(self._directory)
        if not newest:
            raise LeaseLost(f"{self._directory.parent} was removed while this process worked on it")
        if newest != self._number:
            holder = _read(_file(self._directory, newest))
            who = f"process {holder.pid} on {holder.host}" if holder else "another process"
            raise LeaseLost(
                f"{who} took over {self._directory.parent} after this one gave no sign of life for {STALE_S:.0f} s; "
                "it goes on there"
            )

    def progress(self, step: int, steps_per_s: float) -> None:
        """What the coming beats tell."""
        self._holder = replace(self._holder, step=step, steps_per_s=steps_per_s)

    def _keep_beating(self) -> None:
        # In its own thread: compiling a model or judging it at the end may take longer than a lease lasts.
        while not self._ended.wait(_BEAT_S):
            try:
                self._beat()
            except LeaseLost:
                return  # the main thread finds out before its next write

    def _beat(self) -> None:
        path = _file(self._directory, self._number)
        temporary = path.with_suffix(".tmp")
        try:
            self.check()
            temporary.write_text(json.dumps(asdict(self._holder)), encoding="utf-8")
            os.replace(temporary, path)
        except OSError:
            # On a full disk: touching needs no space. If even that fails, a missed beat is what the 60 s are for.
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
                os.utime(path)


def _file(directory: Path, number: int) -> Path:
    return directory / f"{number:06d}.json"


def _newest(directory: Path) -> int:
    """The highest number, 0 if there is none."""
    return max(_numbers(directory), default=0)


def _numbers(directory: Path) -> Iterator[int]:
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return
    yield from (int(name.removesuffix(".json")) for name in names if name.endswith(".json"))


def _read(path: Path) -> Holder | None:
    """What a lease says; None for one that is just being created, or was removed."""
    try:
        return Holder(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _is_free(path: Path, now: float) -> bool:
    holder = _read(path)
    if holder and (holder.released or (holder.machine == _machine() and not _is_alive(holder))):
        return True
    try:
        return now - path.stat().st_mtime > STALE_S
    except FileNotFoundError:
        return False  # taken over since we looked


def _now(directory: Path) -> float:
    """The time by the clock that stamps files there: a file server's clock may differ from ours."""
    probe = directory / f"clock-{os.getpid()}-{threading.get_ident()}.tmp"
    with open(probe, "w") as file:
        probe.unlink(missing_ok=True)
        return os.fstat(file.fileno()).st_mtime


def _myself() -> Holder:
    return Holder(
        host=socket.gethostname(), machine=_machine(), pid=os.getpid(), started=psutil.Process().create_time()
    )


def _is_alive(holder: Holder) -> bool:
    """Whether the very process of a holder on this machine lives: a later one may have its number."""
    try:
        process = psutil.Process(holder.pid)
        # The start is counted from the time of booting, which moves a little when the clock is set.
        return abs(process.create_time() - holder.started) < 5 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@cache
def _machine() -> str:
    """Where a process number means the same process: a host since it booted, and its container."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):  # not on macOS, where there are no such containers either
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)
