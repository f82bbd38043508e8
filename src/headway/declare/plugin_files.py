"""Declare: code of one's own is found and run: files and packages that an experiment names in `plugins`.

A plugin is run where somebody asks for it: by an experiment that names it, by `--plugin`, by a worker of its directory.
A results directory keeps each file under a name that has its hash. To read a directory runs what it keeps only if that
content was asked for before, by this user on this machine: a directory that was sent to somebody runs nothing.
"""

import hashlib
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from headway.caches import private_folder
from headway.declare.mapping import read_file
from headway.declare.plugins import FOLDER, SHORT, Plugin, is_loaded, loaded
from headway.errors import DeclarationError, ResultsError, near, shortened
from headway.files import inside, read_bytes

GROUP = "headway.plugins"
"""The entry points by which packages offer plugins."""
LARGEST = 1_000_000
_KEPT = re.compile(rf"{FOLDER}/(?P<name>[^/\0]+)-(?P<digest>[0-9a-f]{{{SHORT}}})\.py")
_PACKAGE = re.compile(rf"(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*?)(?:@(?P<digest>[0-9a-f]{{{SHORT}}}))?")


class NotAllowed(ResultsError):
    """To read a results directory would run code that nobody asked for here.

    Attributes:
        directory: that is read.
        plugin: what allows it once it is given.
    """

    def __init__(self, directory: Path, written: str, plugin: str):
        super().__init__(
            f"{directory} is of code of its own, {written}, which you have not run here yet, and to read its runs "
            "would run it; look at it, then open the directory once with that plugin, which allows it from then on"
        )
        self.directory, self.plugin = directory, plugin


def load(given: str, folder: Path = Path()) -> Plugin:
    """Run a plugin that the user asked for.

    Args:
        given: the path of a file, or the name of an entry point.
        folder: where a path begins.

    Raises:
        DeclarationError: when there is none, it fails, or what it registers exists already.
    """
    if given.endswith(".py") or "/" in given:
        path = folder / Path(given).expanduser()
        found = _file(given, path, _read(path, given))
    else:
        found = _package(given)
    private, _ = private_folder(FOLDER)
    (private / found.digest).touch()
    return found


def directory_of(run: Path) -> Path:
    """The results directory of a run's folder."""
    return run.absolute().parent.parent.parent


def load_kept(directory: Path) -> tuple[Plugin, ...]:
    """The plugins of a results directory, run if they were asked for before.

    Raises:
        DeclarationError: when they never were here, are missing, or are not what they were.
    """
    return tuple(_kept(directory, written) for written in _written(directory))


def load_needed(run: Path, digests: Sequence[str]) -> None:
    """See that the code that a run depends on is loaded, from its directory if it is not.

    Raises:
        DeclarationError: as `load_kept`.
    """
    if not all(map(is_loaded, digests)):
        load_kept(directory_of(run))


def allow(directory: Path) -> tuple[Plugin, ...]:
    """The plugins of a results directory, run since its runs are to be worked on.

    Raises:
        DeclarationError: as `load`, and for a file that is none of those that a directory keeps.
    """
    return tuple(_allowed(directory, written) for written in _written(directory))


def _allowed(directory: Path, written: str) -> Plugin:
    if _KEPT.fullmatch(written):
        inside(directory, *written.split("/"))
    elif not _PACKAGE.fullmatch(written):
        raise DeclarationError(
            f"plugins: {directory / 'experiment.yaml'} names {shortened(repr(written))}, and a directory keeps its "
            f"plugins as {FOLDER}/NAME-HASH.py; no other file is run; fetch the directory again"
        )
    return load(written, directory)


def _written(directory: Path) -> tuple[str, ...]:
    """What its document names; directories without plugins have no such folder, and are not read."""
    if not inside(directory, FOLDER).is_dir() or not inside(directory, "experiment.yaml").is_file():
        return ()
    found = read_file(directory / "experiment.yaml").get("plugins") or ()
    return tuple(str(each) for each in found)


def _kept(directory: Path, written: str) -> Plugin:
    """What a directory keeps, if it is what it was and was asked for before; nothing is run that was not looked at."""
    is_file = _KEPT.fullmatch(written)
    if is_file:
        text = _read(inside(directory, *written.split("/")), written)
        digest = _checked(directory / written, text)
    else:
        text, digest = b"", _digest_of_package(_entry_point(written))
    private, _ = private_folder(FOLDER)
    if not is_loaded(digest) and not (private / digest).exists():
        what = str(directory / written) if is_file else written.partition("@")[0]
        raise NotAllowed(directory, written, what)
    return _file(written, directory / written, text) if is_file else _package(written)


def check_kept(path: Path) -> None:
    """See that a file that a results directory keeps is what its name says.

    Raises:
        DeclarationError: when it is not.
        OSError: when it cannot be read.
    """
    _checked(path, read_bytes(path))


def keep(directory: Path, plugins: Sequence[Plugin]) -> Mapping[str, bytes]:
    """What a results directory has to hold of plugins: contents by path; what is there already is left out."""
    wanted = {plugin.written: plugin.text for plugin in plugins if plugin.text is not None}
    return {path: text for path, text in wanted.items() if not (directory / path).is_file()}


def _checked(path: Path, text: bytes) -> str:
    """The hash of a file; one that has it in its name has to be what it was.

    Raises:
        DeclarationError: when it is not.
    """
    digest, kept = hashlib.sha256(text).hexdigest(), _KEPT.fullmatch(f"{path.parent.name}/{path.name}")
    if kept and not digest.startswith(kept["digest"]):
        raise DeclarationError(
            f"{path}: it was changed since runs were made with it, of which its name says so; put it back, or give a "
            "changed one in a file of another name, for another directory"
        )
    return digest


def _file(given: str, path: Path, text: bytes) -> Plugin:
    digest, kept = _checked(path, text), _KEPT.fullmatch(f"{path.parent.name}/{path.name}")
    name = kept["name"] if kept else path.stem

    def run() -> None:
        module = ModuleType(f"headway_plugin_{re.sub(r'[^A-Za-z0-9_]', '_', name)}_{digest[:8]}")
        module.__file__ = str(path)
        sys.modules[module.__name__] = module  # where types find the names that they mention
        before = set(sys.modules)
        exec(compile(text, str(path), "exec"), module.__dict__)
        _check_imports(path, before)

    return loaded(name, given, digest, text, run)


def _read(path: Path, given: str) -> bytes:
    if not path.is_file():
        raise DeclarationError(f"plugins: {given}: there is no such file ({path.absolute()}); give the path of one")
    if path.stat().st_size > LARGEST:
        raise DeclarationError(f"plugins: {given}: it has more than {LARGEST:,} bytes; is it code?")
    return read_bytes(path, links=True)


def _check_imports(path: Path, before: set[str]) -> None:
    """Refuse what stands beside a plugin: it would be in no hash, and not be found again."""
    folder = path.parent.resolve()
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_absolute() and Path(file).resolve().parent == folder:  # torch has some without
            del sys.modules[name]
            raise DeclarationError(
                f"it imports {Path(file).name} from beside it, which would not be kept with the results; put both into "
                f"one file, or make a package with an entry point in {GROUP}"
            )


def _package(given: str) -> Plugin:
    entry, wanted = _entry_point(given), given.partition("@")[2]
    digest = _digest_of_package(entry)
    if wanted and not digest.startswith(wanted):
        raise DeclarationError(
            f"plugins: package {entry.name} was changed since runs were made with it ({wanted} then, "
            f"{digest[:SHORT]} now); install what it was, or choose another directory"
        )

    def run() -> None:
        known = sys.modules.get(entry.module)
        importlib.reload(known) if known is not None else importlib.import_module(entry.module)

    return loaded(entry.name, entry.name, digest, None, run)


def _entry_point(given: str) -> EntryPoint:
    matched = _PACKAGE.fullmatch(given)
    name, offered = matched["name"] if matched else given, {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in offered:
        raise DeclarationError(
            f"plugins: no installed package offers {name!r} ({GROUP}); {near(name, offered)}; a file is given by its "
            "path, such as mine.py"
        )
    return offered[name]


def _digest_of_package(entry: EntryPoint) -> str:
    """The SHA-256 of all Python files of the package that holds a module."""
    found = find_spec(entry.module.partition(".")[0])
    if found is None or found.origin is None:
        raise DeclarationError(f"plugins: {entry.name}: there is no module {entry.module}; install its package anew")
    origin = Path(found.origin)
    files = sorted(origin.parent.rglob("*.py")) if found.submodule_search_locations else [origin]
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.relative_to(origin.parent).as_posix()}\n".encode() + file.read_bytes())
    return whole.hexdigest()
