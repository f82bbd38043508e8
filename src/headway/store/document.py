"""The file `experiment.yaml`: the resolved document of a results directory, under a line with the hash of the rest.

If somebody edits it, the directory tells so: the names of its arms and their baselines stand nowhere else. Its last
key, `headway`, is a note of Headway's own. It holds versions, the machine, what is sealed here, and the hash of every
file of `looks/`, whose loss nothing else would tell.

    seals: [runs, beside, looks]  all of these are sealed: a part without a seal has lost it
    looks: {plan: [HASH], ...}    the allowed contents of a file; two, or null for none, while it is being written
    given_up: [plan, ...]         files that were lost, and that somebody gave up
    timed: [ARM, ...]             arms that have a timing
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from headway.base.files import (
    Content,
    entries,
    folder_in,
    inside,
    is_bare,
    kept_json,
    parsed,
    read_bytes,
    remove,
    write_bytes,
    write_json,
    write_text,
)
from headway.base.identity import DIGEST, is_as_signed, signed
from headway.config.experiment import Experiment
from headway.config.plugins import FOLDER, keep
from headway.config.yaml import read_yaml, write_yaml
from headway.errors import DeclarationError
from headway.store.environment import surroundings

FILE = "experiment.yaml"
LOOKS = "looks"
_HEAD = "# SHA-256 of what follows: "
KINDS = ("runs", "beside", LOOKS)
"""What may be sealed."""
SIGNED = ("estimators/*.json", "timings/*.json", "results.json")
"""Files beside the runs that have a digest of themselves."""
_NOTE = "\nheadway:\n"
"""Where the note begins."""

State = str | None
"""What a file holds, by its hash; None where it is not there."""


def write(directory: Path, experiment: Experiment) -> None:
    """Make an experiment the document of a directory, with versions and machine.

    Raises:
        OSError: when it cannot be written.
    """
    for name, content in keep(directory, experiment.plugins).items():
        folder_in(directory, FOLDER)
        write_bytes(inside(directory, *name.split("/")), content)
    if experiment.plugins:
        folder_in(directory, FOLDER)  # by which readers know that there are some
    _write(directory, write_yaml({**experiment.plain(), "headway": {**surroundings(), **_seals(directory)}}))


def adopt(directory: Path) -> None:
    """Take the document and what stands beside it as they are: they are signed, and it says that they are sealed.

    Raises:
        OSError: when something cannot be written.
    """
    for file in (file for pattern in SIGNED for file in entries(directory, pattern)):
        content = kept_json(file)
        if isinstance(content, dict) and DIGEST not in content:
            write_json(file, signed(content))
    _change(directory, {**_seals(directory, anew=True), "timed": _timings(directory)})


def note(directory: Path, name: str, states: Sequence[State]) -> None:
    """Note what a file of `looks/` may hold, for whoever has the turn; not in a document of before, nor a damaged one.

    One that can only be absent is forgotten.

    Raises:
        OSError: when it cannot be written.
    """
    if (directory / FILE).exists() and is_headed(directory) and not doubt(directory):
        found = {**anchors(directory), name: list(dict.fromkeys(states))}
        _change(directory, {LOOKS: {name: states for name, states in found.items() if states != [None]}})


def give_up(directory: Path, name: str) -> None:
    """Do without a file of `looks/` that is damaged or lost: it is put aside, and the document says so from then on.

    Raises:
        OSError: when it cannot be written.
    """
    file = look_file(directory, name)
    if file.exists():
        write_bytes(inside(directory, LOOKS, f"{file.name}.given-up"), read_bytes(file))
        remove(file)
    left = {key: states for key, states in anchors(directory).items() if key != name}
    _change(directory, {LOOKS: left, "given_up": sorted({*given_up(directory), name})})


def anchors(directory: Path) -> Mapping[str, Sequence[State]]:
    """What each file of `looks/` may hold, by its name, as the document says."""
    found = _note_of(directory).get(LOOKS)
    states = found.items() if isinstance(found, dict) else ()
    return {name: each for name, each in states if isinstance(each, list) and is_look(name)}


def given_up(directory: Path) -> Sequence[str]:
    """The files of `looks/` that somebody did without."""
    found = _note_of(directory).get("given_up")
    return [name for name in found if is_look(name)] if isinstance(found, list) else []


def timed(directory: Path) -> Sequence[str]:
    """The arms whose timings were there, as the document says."""
    found = _note_of(directory).get("timed")
    return [name for name in found if isinstance(name, str) and is_bare(name)] if isinstance(found, list) else []


def lacks_timings(directory: Path) -> bool:
    """Whether there are timings that the document could name and does not."""
    there = set(_timings(directory))
    return not there <= set(timed(directory)) and is_sealed(directory, LOOKS) and not doubt(directory)


def note_timings(directory: Path) -> None:
    """Note the timings that are there, for whoever has the turn.

    Raises:
        OSError: when it cannot be written.
    """
    _change(directory, {"timed": sorted({*timed(directory), *_timings(directory)})})


def _timings(directory: Path) -> list[str]:
    return [file.stem for file in entries(directory, "timings/*.json")]


def is_look(name: object) -> bool:
    """Whether something is the name of a file of `looks/`; a document that was received may say anything."""
    return isinstance(name, str) and re.fullmatch(r"plan|search|picked|(after|seen|round)-[0-9]{1,9}", name) is not None


def look_file(directory: Path, name: str) -> Path:
    """A file of `looks/`.

    Raises:
        ResultsError: where a symbolic link stands.
    """
    return inside(directory, LOOKS, f"{name}.json")


def looks_there(directory: Path) -> list[str]:
    """The names of the files of `looks/` that are there."""
    return [file.stem for file in entries(directory, f"{LOOKS}/*.json") if is_look(file.stem)]


def is_sealed(directory: Path, what: str) -> bool:
    """Whether all `runs`, all `looks` or all files `beside` are sealed in a directory: what has no seal has lost it."""
    return what in str(_note_of(directory).get("seals"))


def state_of(file: Path) -> State:
    """What a file holds."""
    try:
        return Content.of(read_bytes(file)).sha256[:16]
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _seals(directory: Path, *, anew: bool = False) -> dict[str, Any]:
    """The note on seals of a document that is written now; what it said stays, unless it is damaged or made anew."""
    known = is_sealed(directory, LOOKS) and not anew and not doubt(directory)
    looks, files = dict(anchors(directory)), [look_file(directory, name) for name in looks_there(directory)]
    there = {file.stem: [state_of(file)] for file in files if not known and _is_whole(file)}
    runs = is_sealed(directory, "runs") or not any(map(_is_unsealed, entries(directory, "runs/*/seed-*/run.json")))
    beside = [file for pattern in SIGNED for file in entries(directory, pattern)]
    all_signed = is_sealed(directory, "beside") or all(_is_whole(file, is_signed=True) for file in beside)
    lost, arms = given_up(directory), timed(directory)
    return {
        "seals": [*(["runs"] if runs else []), *(["beside"] if all_signed else []), LOOKS],
        **({LOOKS: looks | there} if looks or there else {}),
        **({"given_up": lost} if lost else {}),
        **({"timed": arms} if arms else {}),
    }


def _is_whole(file: Path, *, is_signed: bool = False) -> bool:
    """Whether a file is as it was signed, or was not, as those of before, unless it must be."""
    try:
        content = parsed(read_bytes(file))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and (is_as_signed(content) or (DIGEST not in content and not is_signed))


def _is_unsealed(file: Path) -> bool:
    found = kept_json(file)
    return isinstance(found, dict) and found.get("status") == "done" and found.get("seal") is None


def _change(directory: Path, changed: Mapping[str, Any]) -> None:
    """Change the note of a document, and nothing else of it."""
    head, _, rest = read_bytes(directory / FILE).partition(b"\n")
    text = (rest if _is_head(head) else head + b"\n" + rest).decode()
    before, there, last = text.rpartition(_NOTE)
    end = write_yaml({**_read(last if there else ""), "headway": {**_note_of(directory), **changed}})
    _write(directory, f"{before if there else text.rstrip()}\n{end}")


def _write(directory: Path, text: str) -> None:
    write_text(directory / FILE, f"{_HEAD}{Content.of(text.encode()).sha256}\n{text}")


def _note_of(directory: Path) -> Mapping[str, Any]:
    """What the document says under `headway`; nothing where there is none, or it cannot be read."""
    try:
        text = read_bytes(directory / FILE).decode()
    except (OSError, UnicodeDecodeError):
        return {}
    _, there, last = text.rpartition(_NOTE)
    found = _read(last).get("headway") if there else None
    return found if isinstance(found, dict) else {}


@lru_cache(maxsize=8)
def _read(last: str) -> Mapping[str, Any]:
    """The keys of the end of a document, from the note on."""
    try:
        found = read_yaml(_NOTE + last, FILE)
    except DeclarationError:
        return {}
    return found if isinstance(found, dict) else {}


def is_headed(directory: Path) -> bool:
    """Whether the document has the line, be it damaged or not; those of before have none."""
    return _is_head(read_bytes(directory / FILE).partition(b"\n")[0])


def _is_head(line: bytes) -> bool:
    """Whether the first line is ours: where it is damaged, a word or a piece of its hash is left."""
    return b"SHA-256" in line or b" follows: " in line or re.search(rb"[0-9a-f]{24}", line) is not None


def doubt(directory: Path) -> str:
    """What is to be said of the document when it is not as it was written; empty where it is, or is of before."""
    try:
        head, _, rest = read_bytes(directory / FILE).partition(b"\n")
    except OSError:
        return ""  # whoever opens it tells that
    if not _is_head(head):  # of before, or it lost its line: then there were seals already
        sealed = _note_of(directory).get("seals") or entries(directory, "runs/*/seed-*/seal.json")
        return _edited(directory) if sealed else ""
    if head == f"{_HEAD}{Content.of(rest).sha256}".encode():
        return ""
    return _edited(directory)


def _edited(directory: Path) -> str:
    return f"{directory / FILE} is not as Headway wrote it: it is damaged, or it was edited; {todo(directory)}"


def todo(directory: Path) -> str:
    """What to do about a document that is damaged, or gone."""
    return f"`headway run FILE --out {directory}` with the file that it was run from writes it anew"
