"""Runs: processes of this machine, told apart from later ones that have their numbers."""

import contextlib
import os
import socket
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path

import psutil


def is_alive(pid: int, started: float, born: int) -> bool:
    """Whether the very process of a holder on this machine lives: a later one may have its number."""
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
    """When a process began, in ticks since the machine did; 0 where that is not told."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def command_lines() -> Iterator[Sequence[str]]:
    """Of the processes of this machine, as far as they may be read."""
    return (process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"]))


def working_in(folder: Path, *, besides: Collection[int] = ()) -> list[psutil.Process]:
    """Find the processes of this user that work in a folder, besides this one and those of some numbers.

    A process works there when its command or its environment names the folder, or when it writes to a file in it.
    """
    found, named = [], str(folder)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid in (os.getpid(), *besides) or process.uids().real != os.getuid():
                continue
            if any(named in word for word in (*process.cmdline(), *process.environ().values())) or any(
                file.path.startswith(f"{named}/") and getattr(file, "mode", "r") != "r" for file in process.open_files()
            ):
                found.append(process)
    return found


@cache
def machine() -> str:
    """Where a process number means the same process: a host since it booted, and its container."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):  # not on macOS, where there are no such containers either
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)
