"""Lab: `experiment.yaml`, the resolved document of a results directory, under a line that has the hash of the rest.

Somebody may edit it, and then the directory says so: what its arms are called and compared with stands nowhere else.
"""

import re
from pathlib import Path

from headway.declare.experiment import Experiment
from headway.declare.mapping import write_yaml
from headway.declare.plugin_files import keep
from headway.declare.plugins import FOLDER
from headway.files import Content, entries, folder_in, inside, read_bytes, write_bytes, write_text
from headway.runs.execution import surroundings

FILE = "experiment.yaml"
_HEAD = "# SHA-256 of what follows: "


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
    text = write_yaml({**experiment.plain(), "headway": surroundings()})
    write_text(directory / FILE, f"{_HEAD}{Content.of(text.encode()).sha256}\n{text}")


def adopt(directory: Path) -> None:
    """Put the line above a document of before.

    Raises:
        OSError: when it cannot be written.
    """
    head, _, rest = read_bytes(directory / FILE).partition(b"\n")
    text = (rest if _is_head(head) else head + b"\n" + rest).decode()
    write_text(directory / FILE, f"{_HEAD}{Content.of(text.encode()).sha256}\n{text}")


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
        return _edited(directory) if entries(directory, "runs/*/seed-*/seal.json") else ""
    if head == f"{_HEAD}{Content.of(rest).sha256}".encode():
        return ""
    return _edited(directory)


def _edited(directory: Path) -> str:
    return f"{directory / FILE} is not as Headway wrote it: it is damaged, or it was edited; {todo(directory)}"


def todo(directory: Path) -> str:
    """What to do about a document that is damaged, or gone."""
    return f"`headway run FILE --out {directory}` with the file that it was run from writes it anew"
