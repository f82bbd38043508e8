"""Runs: which runs of a results directory were found done, and read whole as they were sealed: `DIR/.checked.json`.

A run that was there and is gone is told. A file that has the same size, times and inode as then is not read again. The
note is about this place: in a copy of the directory every file has another inode, and so is read once more. It can be
deleted at any time, and where it cannot be written, nothing is remembered.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headway.files import is_bare, kept_json, write_text
from headway.runs import resolved
from headway.runs.records import holds_run

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
        self._runs, self._done = _read(directory / FILE)

    def unchanged(self, folder: Path, seal: str) -> tuple[set[str], bool]:
        """The files of a run that were not touched since they were found as they were sealed; whether that is all."""
        noted = self._runs.get(self._name(folder))
        try:
            if noted is None or noted["seal"] != seal:
                return set(), False
            same = {name for name, stamp in noted["stamps"].items() if _stamp(f"{folder}{os.sep}{name}") == stamp}
            return same, len(same) == len(noted["stamps"])
        except (AttributeError, KeyError, TypeError, ValueError):  # a note that is damaged is none
            return set(), False

    def note(self, folder: Path, seal: str, names: Iterable[str]) -> None:
        """All files of a sealed run were found as they were sealed, just now."""
        stamps = {name: stamp for name in (*FOLDERS, *names) if (stamp := _stamp(f"{folder}{os.sep}{name}"))}
        latest = max(max(stamp[1:3]) for stamp in stamps.values())
        if time.time_ns() - latest > _COARSE_NS:
            self._runs[self._name(folder)] = {"seal": seal, "stamps": stamps}
            self._changed = True

    def is_sealed(self, folder: Path) -> bool:
        """Whether a run was found as it was sealed, be it now or not, or every run of the directory is sealed."""
        return self._name(folder) in self._runs or resolved.is_sealed(self._directory, "runs")

    def was_done(self, folder: Path) -> bool:
        """Whether a run was found done, be it now or not."""
        return self._name(folder) in self._done

    def done(self, folders: Iterable[Path]) -> None:
        """Runs are done, and there just now."""
        new = {self._name(folder) for folder in folders} - self._done
        self._done |= new
        self._changed |= bool(new)

    def gone(self) -> list[str]:
        """The runs that were done, `ARM/seed-N`, that have no folder now and were not put aside."""
        missing = (name for name in self._done if not holds_run(self._directory / "runs" / name))
        return sorted(name for name in missing if not (self._directory / "dropped" / name).exists())

    def forget(self, names: Iterable[str]) -> None:
        """Runs that are gone are not missed any more."""
        for name in names:
            self._done.discard(name)
            self._runs.pop(name, None)
            self._changed = True

    def save(self) -> None:
        """Write down what is known, as far as it is news."""
        if self._changed:
            self._changed = False
            content = {"schema": SCHEMA, "runs": self._runs, "done": sorted(self._done)}
            with contextlib.suppress(OSError):
                write_text(self._directory / FILE, json.dumps(content))

    def _name(self, folder: Path) -> str:
        return f"{folder.parent.name}/{folder.name}"


def _stamp(file: str) -> list[int] | None:
    """Size, times and inode of a file; nobody can set the time of the inode, which every write moves."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _read(path: Path) -> tuple[dict[str, Any], set[str]]:
    content = kept_json(path)
    try:
        if content["schema"] != SCHEMA:
            return {}, set()
        done = {str(name) for name in content.get("done", ())}
        return dict(content["runs"]), {name for name in done if all(map(is_bare, name.split("/")))}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}, set()
