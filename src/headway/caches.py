"""Ground floor: where what can be made again is kept, and which of it nobody else can have put there.

Tokens, hashes and compiled code stand in one folder. What is executed from it, compiled code and pickles, stands in a
part that belongs to this user alone, since whoever can write there decides what runs here.
"""

import atexit
import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

_PRIVATE = 0o700
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder() -> Path:
    """Where results are kept: `$HEADWAY_CACHE`, `$XDG_CACHE_HOME/headway` or `~/.cache/headway`."""
    if own := os.environ.get("HEADWAY_CACHE"):
        return Path(own).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "headway"


def private_folder(name: str) -> tuple[Path, str]:
    """A folder of the cache that is this user's alone, and a sentence if it cannot be used, else nothing.

    Then it is another that ends with this process: what is kept there is made anew each time.
    """
    # One for each user: a cache may be shared, and this part of it never is.
    folder = cache_folder() / f"{name}-{os.getuid()}"
    why_not = _why_not_private(folder)
    if not why_not:
        return folder, ""
    instead = Path(tempfile.mkdtemp(prefix=f"headway-{name}-"))
    atexit.register(shutil.rmtree, instead, ignore_errors=True)
    return instead, f"{folder} is not used: {why_not}; {name} keeps nothing from run to run until that is put right"


def _why_not_private(folder: Path) -> str:
    """Makes a folder, if need be, that nobody else can write to; why that is not one, or nothing."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=_PRIVATE)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            return "it is no folder but a file or a link; remove it"
        if found.st_uid != os.getuid():
            return "it belongs to somebody else, who decides what would be run from it; remove it"
        if found.st_mode & _OTHERS_WRITE:
            return "others can write to it, and what would be run from it may be theirs; remove it"
        above = folder.parent.stat().st_mode
        if above & stat.S_IWOTH and not above & stat.S_ISVTX:
            return f"everybody can write to {folder.parent} and exchange it; take that right away, then remove it"
        folder.chmod(_PRIVATE)
        if not os.access(folder, os.W_OK | os.X_OK):
            return "it cannot be written; check permissions"
    except OSError as error:
        return f"{error.strerror or error}; free space or check permissions, or name another cache in HEADWAY_CACHE"
    return ""
