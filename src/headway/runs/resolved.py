"""Lab: `experiment.yaml`, the resolved document of a results directory, under a line that has the hash of the rest.

Somebody may edit it, and then the directory says so: what its arms are called and compared with stands nowhere else.
"""

from pathlib import Path

from headway.declare.experiment import Experiment
from headway.declare.mapping import write_yaml
from headway.files import Content, write_text
from headway.runs.execution import surroundings

FILE = "experiment.yaml"
_HEAD = "# SHA-256 of what follows: "


def write(directory: Path, experiment: Experiment) -> None:
    """Make an experiment the document of a directory, with versions and machine.

    Raises:
        OSError: when it cannot be written.
    """
    text = write_yaml({**experiment.plain(), "headway": surroundings()})
    write_text(directory / FILE, f"{_HEAD}{Content.of(text.encode()).sha256}\n{text}")


def adopt(directory: Path) -> None:
    """Put the line above a document of before, or above one that was edited and is meant.

    Raises:
        OSError: when it cannot be written.
    """
    head, _, rest = (directory / FILE).read_bytes().partition(b"\n")
    text = (rest if head.startswith(_HEAD.encode()) else head + b"\n" + rest).decode()
    write_text(directory / FILE, f"{_HEAD}{Content.of(text.encode()).sha256}\n{text}")


def is_headed(directory: Path) -> bool:
    """Whether the document has the line, be its hash the right one or not; those of before have none."""
    return (directory / FILE).read_bytes().startswith(_HEAD.encode())


def doubt(directory: Path) -> str:
    """What is to be said of the document when it is not as it was written; empty where it is, or is of before."""
    try:
        head, _, rest = (directory / FILE).read_bytes().partition(b"\n")
    except OSError:
        return ""  # whoever opens it tells that
    if not head.startswith(_HEAD.encode()) or head == f"{_HEAD}{Content.of(rest).sha256}".encode():
        return ""
    return (
        f"{directory / FILE} is not as Headway wrote it: it is damaged, or it was edited; `headway run FILE --out "
        f"{directory}` with the file that it was run from writes it anew"
    )
