"""Runs: a temporary folder of a process, which is removed when the process ends, and when it is killed as well.

A guarded folder has a process that waits for the end of its owner. The guard then ends what still works in the folder,
and removes it. A folder without a guard, or whose guard was killed too, is removed by the next owner of its kind.
"""

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

import psutil

from headway.runs.lease_files import parsed, this_process
from headway.runs.processes import is_alive, machine, working_in

_OWNER = "headway.json"
_LOOK_EVERY_S = 0.25
_GRACE_S, _GIVES_UP_S = 6.0, 12.0
"""Processes of an ended owner may end by themselves until the first, and then are killed until the second."""


class Scratch:
    """A folder that nobody else may enter, removed after the block; those of ended processes are removed before.

    Args:
        kind: what its name begins with, and the names of those that are removed.
        guarded: whether a process removes it when this one is killed.
        within: where it is made; None: in the system's temporary folder.

    Raises:
        OSError: when it cannot be made.
    """

    def __init__(self, kind: str, *, guarded: bool = False, within: str | None = None):
        sweep(kind, within)
        self._guard: subprocess.Popen[bytes] | None = None
        self.path = Path(tempfile.mkdtemp(prefix=kind, dir=within))
        try:
            (self.path / _OWNER).write_text(json.dumps(asdict(this_process())), encoding="utf-8")
            if guarded:
                self._guard = _guard_of(self.path)
        except OSError:
            self.remove()
            raise

    def remove(self) -> None:
        """End what works in the folder, if it is guarded, and remove it."""
        if self._guard is not None:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._guard.wait(2 * _GIVES_UP_S)
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.remove()


def sweep(kind: str, within: str | None = None) -> None:
    """Remove the folders of a kind, of this user, that nobody needs any more."""
    for folder in Path(within or tempfile.gettempdir()).glob(f"{kind}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Whether it is certain that the process that made it has ended, and with it all that it started there."""
    try:
        owner = parsed((folder / _OWNER).read_bytes())
    except OSError:
        return False
    if owner is None or owner.machine != machine() or is_alive(owner.pid, owner.started, owner.born):
        return False
    return not working_in(folder)


def _guard_of(folder: Path) -> subprocess.Popen[bytes]:
    """Start the guard of a folder, which waits until this process ends or closes the guard's standard input.

    The guard leaves the process group, and signals are blocked before it begins: Ctrl-C, a terminal that closes, and a
    scheduler that signals every process must not end the guard before its owner.
    """
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    former = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "headway.runs.scratch", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def guard(folder: Path) -> None:
    """Wait for the end of the owner of a folder, end what still works there, and remove the folder."""
    while os.read(0, 1):
        pass
    ended = time.monotonic()
    # An owner that is not killed waits for its guard, and may still write in the folder.
    while (left := working_in(folder, besides=(os.getppid(),))) and (since := time.monotonic() - ended) < _GIVES_UP_S:
        if since > _GRACE_S:
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
        time.sleep(_LOOK_EVERY_S)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    guard(Path(sys.argv[1]))
