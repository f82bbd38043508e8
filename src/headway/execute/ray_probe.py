"""The report of a Ray node on itself; this file is sent to the node as it stands, and imports nothing of Headway."""

import hashlib
import importlib.util
import os
import platform
import socket
from collections.abc import Mapping
from pathlib import Path


def package_hash(folder: Path) -> str:
    """Return a short hash of the files of a package, whatever its version."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".cpp", ".hpp", ".yaml", ".j2"):
            found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def bytes_of(path: str, folder: str) -> int:
    """Return the bytes of a file or of all files of a folder; -1 if missing. Relative paths begin at `folder`."""
    found = Path(folder) / Path(path).expanduser()
    try:
        if found.is_dir():
            return sum(inner.stat().st_size for inner in found.rglob("*") if inner.is_file())
        return found.stat().st_size
    except OSError:
        return -1


def look(probe: str, token: str, folder: str = "", files: Mapping[str, int] | None = None) -> dict[str, str]:
    """Return the node's Headway, whether it can see and write a directory, and which files differ from elsewhere.

    Args:
        probe: a file of it, and the beginning of the name of one that is to be made.
        token: what that file holds.
        folder: where relative paths of files begin.
        files: that are read, by path, and the bytes that each has.
    """
    lacks = [path for path, n_bytes in (files or {}).items() if bytes_of(path, folder) != n_bytes]
    found = importlib.util.find_spec("headway")
    package = Path(found.origin).parent if found and found.origin else None
    sees, writes, why_not = "", "", ""
    try:
        sees = "yes" if Path(probe).read_text() == token else ""
        Path(f"{probe}-{socket.gethostname()}-{os.getpid()}").write_text(token)
        writes = "yes"
    except OSError as error:
        why_not = error.strerror or str(error)
    return {
        "host": socket.gethostname(),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "headway": package_hash(package) if package else "",
        "sees": sees,
        "writes": writes,
        "why_not": why_not,
        "lacks": ", ".join(lacks),
        "pid": str(os.getpid()),
    }
