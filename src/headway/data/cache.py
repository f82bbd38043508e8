"""Cached results that take long to make, each in a folder that is whole or absent.

A result is built in a temporary folder and renamed. Its manifest lists the size and the hash of every file, so that
remains of a kill, a full disk or a stray write are never taken for a whole result. If several processes want one
result, one builds it and the others wait. The lock is the kernel's and ends with its process.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headway.base import files
from headway.base.files import cache_folder
from headway.base.identity import digest
from headway.errors import UserError

MANIFEST = "manifest.json"


def cached(name: str, build: Callable[[Path], None], *, reread: bool = False) -> Path:
    """Return the folder of a result, built by `build(temporary folder)` if it is missing or damaged.

    Args:
        name: the name of the folder in the cache.
        build: the function that makes the result in a folder.
        reread: True to read every file whole, and not only files that were touched since: a failing disk touches no
            file.

    Raises:
        UserError: when the cache cannot be written, or what `build` raises.
    """
    folder = cache_folder() / name
    with _told():
        if _is_whole(folder, reread=reread):
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(f"{folder.name}.lock")) as alone:
            if alone:
                for left in folder.parent.glob(f".{folder.name}.*.tmp"):  # leftovers of killed builders
                    shutil.rmtree(left)
            if not _is_whole(folder, reread=reread):
                _build(folder, build, reread=reread)
    return folder


def content_hash(path: Path) -> str:
    """Return the SHA-256 of a file, read again only if its size or a time of change differs.

    Raises:
        OSError: when the file cannot be read.
    """
    path = path.absolute()
    status = path.stat()
    stamp = [str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
    seen = cache_folder() / "hashes" / digest(stamp)
    if seen.is_file():
        digest_kept, _, check = seen.read_text(encoding="utf-8", errors="replace").partition(" ")
        if check == digest([digest_kept, *stamp]):
            return digest_kept
    text = files.Content.of_file(path, links=True).sha256
    with contextlib.suppress(OSError):  # a cache that can only be read serves as well; it is hashed each time
        seen.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(seen, f"{text} {digest([text, *stamp])}")
    return text


def _build(folder: Path, build: Callable[[Path], None], *, reread: bool) -> None:
    temporary = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        build(temporary)
        made = sorted(path for path in temporary.iterdir() if path.is_file())
        for path in made:
            files.sync(path)
        manifest = {path.name: {"bytes": path.stat().st_size, "sha256": content_hash(path)} for path in made}
        files.write_json(temporary / MANIFEST, manifest)
        if folder.exists() and not _is_whole(folder, reread=reread):
            shutil.rmtree(folder)
        os.rename(temporary, folder)
        files.sync(folder.parent)
    except OSError as error:
        # Where locks do not work, another builder was faster; its result is as good as ours.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not _is_whole(folder):
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _is_whole(folder: Path, *, reread: bool = False) -> bool:
    manifest = files.kept_json(folder / MANIFEST)
    hash_of = (lambda path: files.Content.of_file(path, links=True).sha256) if reread else content_hash
    try:
        return all(
            (folder / name).stat().st_size == entry["bytes"] and hash_of(folder / name) == entry["sha256"]
            for name, entry in manifest.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Wait for a lock and hold it; False where the file system has none: there, each builds and one result stays."""
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise
            yield False
        else:
            yield True


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"the cache {cache_folder()} cannot be written: {error.strerror or error}; free space or check "
            "permissions, or name another folder in HEADWAY_CACHE"
        ) from error
