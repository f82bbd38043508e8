"""Lab: which files of a results directory were read whole and found as they were sealed: `DIR/.checked.json`.

A file that has the same size, times and inode as then is not read again. The note is about this place: in a copy of the
directory every file has another inode, and so is read once more. It can be deleted at any time, and where it cannot be
written, nothing is remembered.
"""

import contextlib
import json
import os
import time
from pathlib import Path

from headway.files import Content, write_text

FILE = ".checked.json"
SCHEMA = 1
_COARSE_NS = 2_000_000_000
"""As coarse as the times of files may be: one that changed within it may change again, and look the same."""

_Stamp = list[int | str]
"""Size, times and inode of a file, and the beginning of the hash of what it held."""


class Checked:
    """What is known of the files of a directory."""

    def __init__(self, directory: Path):
        self._directory, self._prefix, self._changed = directory, f"{directory}{os.sep}", False
        self._stamps: dict[str, _Stamp] = _read(directory / FILE)

    def has(self, file: Path, content: Content) -> bool:
        """Whether a file was found to have a content, and has not been touched since."""
        stamp = self._stamps.get(self._name(file))
        try:
            return stamp is not None and stamp == _stamp(os.stat(file), content)
        except OSError:
            return False

    def note(self, file: Path, content: Content) -> None:
        """A file was found to have a content just now."""
        with contextlib.suppress(OSError):
            found = os.stat(file)
            if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > _COARSE_NS:
                name, stamp = self._name(file), _stamp(found, content)
                self._changed |= self._stamps.get(name) != stamp
                self._stamps[name] = stamp

    def save(self) -> None:
        """Write down what is known, as far as it is news."""
        if self._changed:
            self._changed = False
            with contextlib.suppress(OSError):
                write_text(self._directory / FILE, json.dumps({"schema": SCHEMA, "files": self._stamps}))

    def _name(self, file: Path) -> str:
        return str(file).removeprefix(self._prefix)


Stamp = tuple[int, int, int]
"""When a file was written, how long it is, and which file it is."""


def stamp_of(file: Path) -> Stamp | None:
    """What another file in its place would hardly have, and it after another write; None where there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _stamp(found: os.stat_result, content: Content) -> _Stamp:
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, content.sha256[:16]]


def _read(path: Path) -> dict[str, _Stamp]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return dict(content["files"]) if content["schema"] == SCHEMA else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
