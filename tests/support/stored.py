"""Run folders on the disk, changed as if they had been written so, and data that is not a part of the project.

Tests that need such data skip with a reason where it is missing.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from headway.base.files import Content
from headway.config.experiment import Experiment
from headway.store import checkpoint, document, integrity
from headway.store.records import READ, all_step_files
from headway.store.run import signed_text


def rewrite(folder: Path, **changes: Any) -> None:
    """Change what the run.json of a folder says, with the digest that belongs to it."""
    file = folder / "run.json"
    content = {**json.loads(file.read_text()), **changes}
    file.write_text(signed_text({key: value for key, value in content.items() if key != "digest"}))


def seal(folder: Path) -> None:
    """Sign the run.json of a folder that was made up, and seal what the folder holds if the run is done."""
    done = json.loads((folder / "run.json").read_text())["status"] == "done"
    files = [name for name in (*READ, *all_step_files(folder)) if (folder / name).is_file()]
    contents = {name: Content.of_file(folder / name) for name in files}
    contents |= {f"checkpoint/{name}": found for name, found in checkpoint.contents(folder / "checkpoint").items()}
    rewrite(folder, **({"seal": integrity.write(folder, contents)} if done else {}))


def write_document(directory: Path, experiment: Experiment) -> None:
    """Make an experiment the document of a directory that was made up; it names the runs that have folders."""
    (directory / document.FILE).unlink(missing_ok=True)
    document.write(directory, experiment)


def unseal(folder: Path, **changes: Any) -> None:
    """Take every seal of a run away, and change what its run.json says."""
    file = folder / "run.json"
    content = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: value for key, value in content.items() if key not in ("digest", "seal")}))
    (folder / "seal.json").unlink(missing_ok=True)


def strip(directory: Path) -> None:
    """Take every seal of a directory away."""
    for folder in directory.glob("runs/*/seed-*"):
        unseal(folder)
    file = directory / document.FILE
    file.write_text(file.read_text().partition("\n")[2].partition("\nheadway:")[0] + "\n")
    (directory / integrity.CHECKED).unlink(missing_ok=True)


def first_sealed(directory: Path) -> None:
    """Make a document what the first sealed version wrote, which names no runs."""
    document._change(directory, {"runs": None, "dropped": None, "seals": ["runs", "beside", "looks"]})


_FOLDER = Path(__file__).parents[2] / "../shared/data"


def data(name: str) -> Path:
    """A file or folder of ../shared/data beside the checkout."""
    path = _FOLDER / name
    if not path.exists():
        pytest.skip(f"needs {name} in ../shared/data, which is not a part of the project")
    return path


def truncate(path: Path, end: int) -> None:
    """Keep the bytes of a file up to one of them."""
    path.write_bytes(path.read_bytes()[:end])


def flip(path: Path) -> None:
    """Change a bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def replace(path: Path, old: str, new: str) -> None:
    """Write something else where a file first has a text."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
