"""The seal of a finished run, and the note on runs that were found intact.

`seal.json` holds the length and hash of each file of a run's folder. It is written when the run is done. run.json is
written after it, with the digest of the seal and one of its own. Neither file is believed if it has changed. The hashes
are taken while the files are written, not from the disk afterwards. A seal covers what Headway reads; the log, the
lease and the user's own files are free.

`DIR/.checked.json` notes which runs were read whole, and found as they were sealed. A file with an unchanged size,
times and inode is not read again. The note is about this place: in a copy of the directory every file has another
inode, and so is read once more. The note can be deleted at any time; if it cannot be written, nothing is remembered.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from headway.base.files import Content, json_text, kept_json, write_json, write_text
from headway.base.identity import DIGEST, is_as_signed, signed
from headway.base.text import counted
from headway.errors import ResultsError, shortened
from headway.store.records import READ, all_step_files, anew, is_of_run, mapping_in, read_bytes

SEAL = "seal.json"
SCHEMA = 1
Depth = Literal["sizes", "changed", "whole"]
"""How files are looked at: their sizes alone; whole where they changed since somebody did so; whole."""


def write(path: Path, contents: Mapping[str, Content]) -> str:
    """Seal a run's folder; the digest that its run.json is to have.

    Args:
        path: the folder.
        contents: the required content of its files, by path in the folder.

    Raises:
        OSError: when it cannot be written.
    """
    seal = signed({"schema": SCHEMA, "files": {name: asdict(contents[name]) for name in sorted(contents)}})
    write_json(path / SEAL, seal)
    return str(seal[DIGEST])


def read(path: Path, digest: str) -> dict[str, Content]:
    """The content that each file of a run's folder must have, by path in it.

    Args:
        path: the folder.
        digest: the digest of the seal, as its run.json has it.

    Raises:
        ResultsError: when it has no such seal.
    """
    file = path / SEAL
    if not file.exists():
        raise ResultsError(f"{file} is missing, though run.json says that the run is sealed; {anew(path)}")
    text = read_bytes(file, str(path))
    seal = mapping_in(text, file)
    is_whole = is_as_signed(seal) and text == json_text(seal).encode()  # a key that stands twice says the same
    if not is_whole or seal[DIGEST] != digest or seal.get("schema") != SCHEMA:
        raise ResultsError(f"{file}: it is not as it was written; {anew(path)}")
    try:
        contents = {str(name): Content(**content) for name, content in seal["files"].items()}
    except (KeyError, TypeError, AttributeError):
        raise ResultsError(f"{file}: it does not say what files must hold; {anew(path)}") from None
    if wrong := [name for name in contents if not is_of_run(name)]:
        raise ResultsError(f"{file}: it names {shortened(repr(wrong[0]))}, and no run has such a file; {anew(path)}")
    return contents


def check(path: Path, digest: str, depth: Depth, known: "Checked | None" = None) -> None:
    """See that a sealed folder holds what was written.

    Args:
        path: the folder.
        digest: the digest of the seal, as its run.json has it.
        depth: the depth of the check.
        known: the earlier checks of these files, to which the findings are added; None: no earlier checks.

    Raises:
        ResultsError: naming a file that is damaged.
    """
    same, all_same = known.unchanged(path, digest) if known is not None and depth != "whole" else (set[str](), False)
    if all_same:
        return
    sealed = read(path, digest)
    damaged = list(damages(path, {name: sealed[name] for name in sealed if name not in same}, by_size=depth == "sizes"))
    damaged += foreign(path, sealed)
    if damaged:
        more = f" (and {counted(len(damaged) - 1, 'other file')})" if damaged[1:] else ""
        raise ResultsError(f"{path}: {damaged[0]}{more}; {anew(path)}")
    if known is not None and depth != "sizes":
        known.note(path, digest, (SEAL, *sealed))


def check_file(path: Path, digest: str, name: str) -> None:
    """See that a file of a sealed folder holds what was written, if it is there.

    Raises:
        ResultsError: when it holds something else.
    """
    content = read(path, digest).get(name)
    if content is not None and (path / name).exists():
        for damage in damages(path, {name: content}):
            raise ResultsError(f"{path}: {damage}; {anew(path)}")


def damages(path: Path, contents: Mapping[str, Content], *, by_size: bool = False) -> Iterator[str]:
    """Yield a few words on each file of a folder that does not hold what it must, beginning with its name.

    They are read whole, in a stream, unless they are judged by their sizes alone.
    """
    for name, content in contents.items():
        try:
            why = content.why_not(path / name, by_size=by_size)
        except FileNotFoundError:
            why = "is missing"
        except OSError as error:
            why = f"cannot be read ({error.strerror})"
        if why:
            yield f"{name} {why}"


def foreign(path: Path, sealed: Iterable[str]) -> list[str]:
    """Return a sentence for each file that Headway would read and that was not there when the run was sealed.

    Checkpoints are no such files: Headway opens only one that is sealed.
    """
    present = {*all_step_files(path), *(name for name in READ if (path / name).exists())}
    return [f"{name} was not there when the run was finished" for name in sorted(present - set(sealed))]


CHECKED = ".checked.json"
FOLDERS = (".", "heads")
"""Folders of a run whose own times tell whether something was put there or taken away."""
_COARSE_NS = 2_000_000_000
"""As coarse as the times of files may be: one that changed within it may change again, and look the same."""

Stamp = list[int]
"""Size, times and inode of a file; nobody can set the time of the inode, which every write moves."""


def file_stamp(file: Path | str) -> Stamp | None:
    """The stamp of a file, by which a later write is noticed; None if there is no file."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


class Checked:
    """The runs of a directory that were found as they were sealed."""

    def __init__(self, directory: Path):
        self._directory, self._changed = directory, False
        self._runs = _read(directory / CHECKED)

    def unchanged(self, folder: Path, seal: str) -> tuple[set[str], bool]:
        """The files of a run that were not touched since they were found as they were sealed; whether that is all."""
        noted = self._runs.get(self._name(folder))
        try:
            if noted is None or noted["seal"] != seal:
                return set(), False
            same = {name for name, stamp in noted["stamps"].items() if file_stamp(f"{folder}/{name}") == stamp}
            return same, len(same) == len(noted["stamps"])
        except (AttributeError, KeyError, TypeError, ValueError):  # a note that is damaged is none
            return set(), False

    def note(self, folder: Path, seal: str, names: Iterable[str]) -> None:
        """All files of a sealed run were found as they were sealed, just now."""
        stamps = {name: stamp for name in (*FOLDERS, *names) if (stamp := file_stamp(f"{folder}/{name}"))}
        latest = max(max(stamp[1:3]) for stamp in stamps.values())
        if time.time_ns() - latest > _COARSE_NS:
            self._runs[self._name(folder)] = {"seal": seal, "stamps": stamps}
            self._changed = True

    def save(self) -> None:
        """Write down what is known, as far as it is news."""
        if self._changed:
            self._changed = False
            content = {"schema": SCHEMA, "runs": self._runs}
            with contextlib.suppress(OSError):
                write_text(self._directory / CHECKED, json.dumps(content))

    def _name(self, folder: Path) -> str:
        return f"{folder.parent.name}/{folder.name}"


def _read(path: Path) -> dict[str, Any]:
    content = kept_json(path)
    try:
        return dict(content["runs"]) if content["schema"] == SCHEMA else {}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
