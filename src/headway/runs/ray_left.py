"""Runs: what private Rays leave in the temporary folder when the process that started one is killed, removed later."""

import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from headway.runs.lease_files import parsed, this_process
from headway.runs.processes import is_alive, machine
from headway.runs.ray_address import PRIVATE, command_lines

_OWNER = "headway.json"


@contextlib.contextmanager
def private_folder_of_ray() -> Iterator[str]:
    """A folder for a private Ray, removed after the block; those whose process has ended are removed before."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=PRIVATE))
    try:
        (folder / _OWNER).write_text(json.dumps(asdict(this_process())), encoding="utf-8")
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove the folders of private Rays of this user that nobody needs any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PRIVATE}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Whether it is certain that the process that made it has ended, and with it all of its Ray."""
    try:
        owner = parsed((folder / _OWNER).read_bytes())
    except OSError:
        return False
    if owner is None or owner.machine != machine() or is_alive(owner.pid, owner.started, owner.born):
        return False
    return not any(str(folder) in word for line in command_lines() for word in line)
