"""The check whether a report still matches its results directory.

A report depends on a few small files, and on finished runs, which change no more. Their digest is the state that the
report was written from; it stands at the end of the page.
"""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

from headway.base.files import NotOrdinary, entries, read_bytes
from headway.base.identity import MADE_FROM, signature
from headway.store.run import Run

LOOK = "look.html"
"""The page of `headway look` on a results directory, beside the report."""
_ALL = ("results.json", "experiment.yaml", "timings/*.json", "looks/*.json", "runs/*/seed-*/run.json")


def state(directory: Path, plugins: Sequence[str] = (), out: Path | None = None) -> str:
    """Names what a report of a results directory is made from, and by which code, hashes of plugins among it.

    Args:
        directory: of results.
        plugins: hashes of the code of the user's that draws figures.
        out: the folder of `results.json`, where that is another.
    """
    found = hashlib.sha256(os.fsencode(f"{directory.resolve()} {_code()} {' '.join(plugins)}"))
    for file in sorted(file for pattern in _ALL for file in entries(directory, pattern)):
        found.update(os.fsencode(file.relative_to(directory)))
        with contextlib.suppress(NotOrdinary, IsADirectoryError):  # who reads it says so
            if out is None or file != directory / _ALL[0]:
                found.update(hashlib.sha256(read_bytes(file)).digest())
    if out is not None:
        found.update(hashlib.sha256(read_bytes(out / _ALL[0])).digest())
    return found.hexdigest()[:32]


def with_look(state: str, directory: Path) -> str:
    """Return the state of a page that links to the page of its heads, if there is one."""
    return f"{state}+look" if (directory / LOOK).is_file() else state


def look_state(runs: Iterable[Run]) -> str:
    """Names what a page on which one looks at the heads of runs is made from, and by which code."""
    made_from = "".join(f"\n{run.name} {run.seed} {run.id} {run.seal}" for run in runs)
    return hashlib.sha256(f"{_code()}{made_from}".encode()).hexdigest()[:32]


def signed(page: str, state: str) -> str:
    """Return a page that names the state that it was written from, and the digest of its content."""
    return f"{page}\n{signature(state, page.encode())}\n"


def is_of(path: Path, state: str) -> bool:
    """Return whether a page exists, was written from a state, and has not changed since."""
    try:
        page, _, last = read_bytes(path).rstrip().rpartition(b"\n")
    except OSError:
        return False
    return last == signature(state, page).encode()


def names_state(path: Path) -> bool:
    """Return whether a page exists and names the state that it was written from, whichever that is."""
    try:
        return read_bytes(path).rstrip().rpartition(b"\n")[2].startswith(MADE_FROM.encode())
    except OSError:
        return False


@cache
def _code() -> str:
    """Names the code that is at work: a newer one may tell more."""
    root = Path(__file__).parents[2]
    files = sorted(file for kind in ("py", "j2", "yaml", "json") for file in root.rglob(f"*.{kind}"))
    stamps = [(file.name, found.st_mtime_ns, found.st_size) for file in files if (found := file.stat())]
    return f"{stamps} {version('altair')} {version('vl-convert-python')}"
