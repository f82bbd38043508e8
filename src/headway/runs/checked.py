"""Lab: which runs of a results directory were read whole and found as they were sealed: `DIR/.checked.json`.

A file that has the same size, times and inode as then is not read again. The note is about this place: in a copy of the
directory every file has another inode, and so is read once more. It can be deleted at any time, and where it cannot be
written, nothing is remembered.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headway.files import write_text

FILE = ".checked.json"
SCHEMA = 1
FOLDERS = (".", "heads")
"""Folders of a run whose own times tell whether something was put there or taken away."""
_COARSE_NS = 2_000_000_000
"""As coarse as the times of files may be: one that changed within it may change again, and look the same."""

Stamp = tuple[int, int, int]
"""When a file was written, how long it is, and which file it is."""


def stamp_of(file: Path) -> Stamp | None:
    """What another file in its place would hardly have, and it after another write; None where there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Checked:
    """What is known of the runs of a directory."""

    def __init__(self, directory: Path):
        self._directory, self._changed = directory, False
        self._runs: dict[str, Any] = _read(directory / FILE)

    def unchanged(self, folder: Path, seal: str) -> tuple[set[str], bool]:
        """The files of a run that were not touched since they were found as they were sealed; whether that is all."""
        noted = self._runs.get(self._name(folder))
        try:
            if noted is None or noted["seal"] != seal:
                return set(), False
            same = {name for name, stamp in noted["stamps"].items() if _stamp(f"{folder}{os.sep}{name}") == stamp}
            return same, len(same) == len(noted["stamps"])
        except (AttributeError, KeyError, TypeError):  # a note that is damaged is none
            return set(), False

    def note(self, folder: Path, seal: str, names: Iterable[str]) -> None:
        """All files of a sealed run were found as they were sealed, just now."""
        stamps = {name: stamp for name in (*FOLDERS, *names) if (stamp := _stamp(f"{folder}{os.sep}{name}"))}
        latest = max(max(stamp[1:3]) for stamp in stamps.values())
        if time.time_ns() - latest > _COARSE_NS:
            self._runs[self._name(folder)] = {"seal": seal, "stamps": stamps}
            self._changed = True

    def save(self) -> None:
        """Write down what is known, as far as it is news."""
        if self._changed:
            self._changed = False
            with contextlib.suppress(OSError):
                write_text(self._directory / FILE, json.dumps({"schema": SCHEMA, "runs": self._runs}))

    def _name(self, folder: Path) -> str:
        return f"{folder.parent.name}/{folder.name}"


def _stamp(file: str) -> list[int] | None:
    """Size, times and inode of a file; nobody can set the time of the inode, which every write moves."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return dict(content["runs"]) if content["schema"] == SCHEMA else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
