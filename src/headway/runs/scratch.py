"""Runs: a folder of a process for a while; what a killed process left behind is removed by the next one of its kind."""

import contextlib
import json
import os
import shutil
import stat
import tempfile
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from headway.runs.lease_files import parsed, this_process
from headway.runs.processes import command_lines, is_alive, machine

_OWNER = "headway.json"


class Scratch:
    """A folder in the system's temporary one, removed after the block; those of ended processes are removed before.

    Args:
        kind: what its name begins with, and the names of those that are removed.

    Raises:
        OSError: when it cannot be made.
    """

    def __init__(self, kind: str):
        sweep(kind)
        self.path = Path(tempfile.mkdtemp(prefix=kind))
        try:
            (self.path / _OWNER).write_text(json.dumps(asdict(this_process())), encoding="utf-8")
        except OSError:
            self.remove()
            raise

    def remove(self) -> None:
        """Nothing is left of it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.remove()


def sweep(kind: str) -> None:
    """Remove the folders of a kind, of this user, that nobody needs any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{kind}*"):
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
    return not any(str(folder) in word for line in command_lines() for word in line)
