"""Lab: the seal of a finished run, `seal.json`: what each file of its folder holds, by length and hash.

It is written when the run is done, and run.json, which is written after it, has its digest and one of its own: neither
is believed where it is not as it was written. The hashes are those of what was written, taken while it was, and not of
what the disk has in the end. A seal covers what Headway reads; the log, the lease and what a user puts beside are free.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Literal, Protocol

from headway.errors import ResultsError, shortened
from headway.files import Content, json_text, write_json
from headway.identity import DIGEST, is_as_signed, signed
from headway.runs.records import READ, anew, is_of_run, mapping_in, read_bytes, step_files
from headway.words import counted

FILE = "seal.json"
SCHEMA = 1
Depth = Literal["sizes", "changed", "whole"]
"""How files are looked at: their sizes alone; whole where they changed since somebody did so; whole."""


class Known(Protocol):
    """Remembers which runs were found as they were sealed."""

    def unchanged(self, folder: Path, seal: str) -> tuple[set[str], bool]:
        """The files of a run that were not touched since; whether that is all."""

    def is_sealed(self, folder: Path) -> bool:
        """Whether a run was found as it was sealed, be it now or not."""

    def was_done(self, folder: Path) -> bool:
        """Whether a run was found done, be it now or not."""

    def note(self, folder: Path, seal: str, names: Iterable[str]) -> None:
        """All files of a sealed run were found so just now."""


def write(path: Path, contents: Mapping[str, Content]) -> str:
    """Seal a run's folder; the digest that its run.json is to have.

    Args:
        path: the folder.
        contents: what its files must hold, by path in it.

    Raises:
        OSError: when it cannot be written.
    """
    seal = signed({"schema": SCHEMA, "files": {name: asdict(contents[name]) for name in sorted(contents)}})
    write_json(path / FILE, seal)
    return str(seal[DIGEST])


def read(path: Path, digest: str) -> dict[str, Content]:
    """What the files of a run's folder must hold.

    Args:
        path: the folder.
        digest: of the seal, as its run.json has it.

    Raises:
        ResultsError: when it has no such seal.
    """
    file = path / FILE
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


def check(path: Path, digest: str, depth: Depth, known: Known | None = None) -> None:
    """See that a sealed folder holds what was written.

    Args:
        path: the folder.
        digest: of its seal, as its run.json has it.
        depth: how its files are looked at.
        known: what is known of them already, and takes what is found; None: nothing is.

    Raises:
        ResultsError: naming a file that is damaged.
    """
    same, all_same = known.unchanged(path, digest) if known is not None and depth != "whole" else (set[str](), False)
    if all_same:
        return
    sealed = read(path, digest)
    found = list(damages(path, {name: sealed[name] for name in sealed if name not in same}, by_size=depth == "sizes"))
    found += foreign(path, sealed)
    if found:
        more = f" (and {counted(len(found) - 1, 'other file')})" if found[1:] else ""
        raise ResultsError(f"{path}: {found[0]}{more}; {anew(path)}")
    if known is not None and depth != "sizes":
        known.note(path, digest, (FILE, *sealed))


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
    """What is wrong with files of a folder that must hold something, a few words for each, beginning with its name.

    They are read whole, in a stream, unless they are judged by their sizes alone.
    """
    for name, content in contents.items():
        if why := _why_not(path / name, content, by_size=by_size):
            yield f"{name} {why}"


def foreign(path: Path, sealed: Iterable[str]) -> list[str]:
    """The same for each file that Headway would read and that a run had not when it was sealed."""
    return [f"{name} was not there when the run was finished" for name in sorted(_present(path) - set(sealed))]


def _why_not(file: Path, content: Content, *, by_size: bool) -> str:
    """Why a file is not what it must be; empty where it is."""
    try:
        n_bytes = file.stat().st_size
        if n_bytes != content.n_bytes:
            return f"has {n_bytes:,} bytes instead of {content.n_bytes:,}"
        if not by_size and Content.of_file(file) != content:
            return "does not have the content that was written"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return ""


def _present(path: Path) -> set[str]:
    """What a folder holds of what Headway would read, checkpoints apart: of those only a sealed one is opened."""
    return {*step_files(path), *(name for name in READ if (path / name).exists())}
