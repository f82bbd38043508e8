"""Runs: what a node of a Ray cluster says of itself; it is sent there as it stands, and imports nothing of ours."""

import hashlib
import importlib.util
import os
import platform
import socket
from pathlib import Path


def package_hash(folder: Path) -> str:
    """What the files of a package hold, whatever its version says; short."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".cpp", ".hpp", ".yaml", ".j2"):
            found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def look(probe: str, token: str) -> dict[str, str]:
    """Which Headway there is, and whether a directory can be seen and written.

    Args:
        probe: a file of it, and the beginning of the name of one that is to be made.
        token: what that file holds.
    """
    found = importlib.util.find_spec("headway")
    folder = Path(found.origin).parent if found and found.origin else None
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
        "headway": package_hash(folder) if folder else "",
        "sees": sees,
        "writes": writes,
        "why_not": why_not,
        "pid": str(os.getpid()),
    }
