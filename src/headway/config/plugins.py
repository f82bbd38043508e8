"""Plugins: the user's own code, how Headway finds and runs it, and the tables that it adds to.

A plugin registers things of several kinds, each in the table of Headway's own things. A plugin is known by its content.
Of two versions the one loaded last stands in the tables.

Headway runs a plugin if an experiment names it in `plugins`, if `--plugin` names it, or if a worker's directory does. A
results directory keeps each file under a name that has its hash. Reading a directory runs a kept plugin only if this
user asked for that content before on this machine. A directory received from a stranger runs nothing.
"""

import hashlib
import importlib
import inspect
import operator
import re
import sys
import traceback
from collections.abc import Callable, Container, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import PydanticUserError

from headway.base import rng
from headway.base.files import inside, private_folder, read_bytes
from headway.base.identity import digest as digest_of
from headway.config.yaml import read_file
from headway.errors import DeclarationError, ResultsError, UserError, near, shortened

FOLDER = "plugins"
"""The folder of a results directory that keeps plugins."""
CHANGES_NOTHING = ("figure", "callback", "family")
"""Kinds of things that no result of a run depends on; a family's choices are written out in the run itself."""

SHORT = 16
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

Table = MutableMapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Something that a plugin registers.

    Attributes:
        kind: the kind of entry, such as `task`.
        name: the name that the user asks for.
        value: the registered type or function.
        tables: the tables of Headway that hold it, and its name in each.
    """

    kind: str
    name: str
    value: Any
    tables: tuple[tuple[Table, str], ...] = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """A file or a package that was loaded.

    Attributes:
        name: the name of the file without its ending, or of the entry point.
        given: the name or path that the user gave.
        digest: the SHA-256 of its content.
        text: the text of the file; None for a package, which is installed and not kept.
        entries: the entries that it registers.
    """

    name: str
    given: str
    digest: str
    text: bytes | None = field(repr=False)
    entries: tuple[Entry, ...]

    @property
    def written(self) -> str:
        """The text by which the document of a results directory names this plugin."""
        short = self.digest[:SHORT]
        return f"{self.name}@{short}" if self.text is None else f"{FOLDER}/{self.name}-{short}.py"

    @property
    def changes_results(self) -> bool:
        """True if the result of a run may depend on this plugin, so that it is part of the run's id."""
        return any(entry.kind not in CHANGES_NOTHING for entry in self.entries)

    @property
    def sentence(self) -> str:
        """A sentence that names the plugin and what it adds."""
        added = ", ".join(f"{entry.kind} {entry.name}" for entry in self.entries)
        return f"plugin {self.given} ({self.digest[:SHORT]}): {added}"


_loaded: dict[str, Plugin] = {}
"""The plugins in the tables by name; of two versions of a file the one loaded last."""
_collected: list[list[Entry]] = []
"""The things that the plugin being loaded has registered; empty if none is being loaded."""


def register(kind: str, name: str, value: Any, *tables: tuple[Table, str, Any], taken: Container[str] = ()) -> None:
    """Add something to tables of Headway, for the plugin that is being loaded.

    Args:
        kind: the kind of entry, such as `task`.
        name: the name that the user asks for.
        value: the registered type or function.
        tables: the tables that hold the entry, with its key and its value in each.
        taken: further names that are not free.

    Raises:
        DeclarationError: outside of a plugin, or when a name is none or exists already.
    """
    if not _collected:
        raise DeclarationError(
            f"{kind} {name}: it was registered outside of a plugin; put it into a file that the experiment names in "
            "plugins, so that workers find it"
        )
    if not _NAME.fullmatch(name):
        raise DeclarationError(f"{kind} {name!r} is not a name; use letters, digits, dashes and underscores")
    beside = any(entry.kind == kind and entry.name == name for entry in _collected[-1])
    if beside or name in taken or any(key in table for table, key, _ in tables):
        raise DeclarationError(f"{kind} {name!r} exists already{_by_whom(kind, name)}; give it another name")
    for table, key, made in tables:
        table[key] = made
    _collected[-1].append(
        Entry(kind=kind, name=name, value=value, tables=tuple((table, key) for table, key, _ in tables))
    )


_tried: set[Callable[..., Any]] = set()
"""Functions of plugins that gave the same value twice."""


def call(
    about: str,
    function: Callable[..., Any],
    *given: Any,
    why_not: Callable[[Any], str],
    equal: Callable[[Any, Any], bool] = operator.eq,
) -> Any:
    """Return what a function of a plugin gives; its first call in a process is made twice.

    Args:
        about: the kind and name of the function.
        function: registered by the plugin.
        given: the arguments.
        why_not: the function that says what is wrong with a value; empty if nothing is.
        equal: the function that compares two values.

    Raises:
        UserError: naming the file and the line, if the function raises, gives a wrong value or another one the second
            time, or draws from a generator that others use.
    """
    is_first = function not in _tried
    states = rng.shared_states() if is_first else ()
    try:
        value = function(*given)
        wrong = why_not(value)
        if is_first and not wrong:
            same = equal(value, function(*given))
            wrong = "" if same else "gave another result the second time; let it depend only on its arguments"
            if rng.shared_states() != states:
                wrong = "changed a global random generator; take random numbers from a generator of a fixed seed"
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{line_of(function, error)}: {about} raised {type(error).__name__}: {error}; fix this error"
        ) from error
    if wrong:
        raise UserError(f"{line_of(function)}: {about} {wrong}")
    _tried.add(function)
    return value


def form_of(value: Any) -> tuple[int, ...] | str:
    """Return the shape of a tensor, or the type of anything else."""
    return tuple(value.shape) if hasattr(value, "shape") else type(value).__name__


def line_of(function: Callable[..., Any], error: BaseException | None = None) -> str:
    """Return the file and line at which a function begins, or in which it raised an error."""
    code = inspect.unwrap(function).__code__
    name = Path(code.co_filename).name
    lines = _lines(error, name) if error else []
    return f"{name}:{lines[-1] if lines else code.co_firstlineno}"


def _lines(error: BaseException, name: str) -> list[int | None]:
    """Return the lines of a file in the traceback of an error."""
    return [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == name]


def _by_whom(kind: str, name: str) -> str:
    for plugin in _loaded.values():
        if any(entry.kind == kind and entry.name == name for entry in plugin.entries):
            return f", of plugin {plugin.given}"
    return ""


def is_registered(digest: str) -> bool:
    """Return whether a plugin of this content stands in the tables."""
    return any(plugin.digest == digest for plugin in _loaded.values())


def of_kind(kind: str, digests: Sequence[str]) -> Iterator[Entry]:
    """Yield the entries of one kind that the plugins of these digests registered."""
    for plugin in _loaded.values():
        if plugin.digest in digests:
            yield from (entry for entry in plugin.entries if entry.kind == kind)


def plugin_of_content(name: str, given: str, digest: str, text: bytes | None, run: Callable[[], object]) -> Plugin:
    """Return the plugin of a content; run it unless it was loaded already.

    Raises:
        DeclarationError: when it fails, registers nothing, or what exists already.
    """
    former = _loaded.get(name)
    if former is not None and former.digest == digest:
        return former
    if former is not None:
        _take_back(_loaded.pop(name).entries)
    _collected.append([])
    try:
        run()
        if not _collected[-1]:
            raise DeclarationError("it registers nothing; see docs/your-own.md for how to")
    except (Exception, SystemExit) as error:
        _take_back(_collected[-1])
        raise DeclarationError(f"plugin {given}: {_said(error, given)}") from error
    finally:
        entries = tuple(_collected.pop())
    plugin = Plugin(name=name, given=given, digest=digest, text=text, entries=entries)
    _loaded[name] = plugin
    return plugin


def _take_back(entries: Sequence[Entry]) -> None:
    for entry in entries:
        for table, name in entry.tables:
            table.pop(name, None)


def _said(error: BaseException, given: str) -> str:
    """Return what is wrong, and in which line of the file."""
    lines = _lines(error, Path(given).name)
    where = f" in line {lines[-1]}" if lines else f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
    if isinstance(error, UserError):
        return f"{error}" + (f" (line {lines[-1]})" if lines else "")
    if isinstance(error, PydanticUserError):  # pydantic adds its own advice and an address
        wrong = f"{error}".partition(". ")[0].partition("\n")[0]
        return (
            f"it cannot be imported: {type(error).__name__}{where}: {wrong}; a field is a key of the YAML file, such "
            "as `length: int = 6`; make anything else a method, a property or a cached_property"
        )
    return f"it cannot be imported: {type(error).__name__}{where}: {error}; fix this error"


GROUP = "headway.plugins"
"""The name of the entry points by which packages offer plugins."""
LARGEST = 1_000_000
KEPT_NAME = re.compile(rf"\..*|[^/\0]+-[0-9a-f]{{{SHORT}}}\.py", re.DOTALL)
"""The name of a file in a directory's folder of plugins, as it is before there is a document."""
_KEPT = re.compile(rf"{FOLDER}/(?P<name>[^/\0]+)-(?P<digest>[0-9a-f]{{{SHORT}}})\.py")
_PACKAGE = re.compile(rf"(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]*?)(?:@(?P<digest>[0-9a-f]{{{SHORT}}}))?")


class NotAllowed(ResultsError):
    """An error raised because reading a results directory would run code that nobody asked for here.

    Attributes:
        directory: the directory that is read.
        plugin: the plugin to give, which allows it.
    """

    def __init__(self, directory: Path, written: str, plugin: str):
        super().__init__(
            f"{directory} has its own code, {written}, which you have not run here yet and which reading its runs "
            "would run; read the code, then open the directory once with that plugin to allow it from then on"
        )
        self.directory, self.plugin = directory, plugin


def load(given: str, folder: Path = Path()) -> Plugin:
    """Run a plugin that the user asked for.

    Args:
        given: the path of a file, or the name of an entry point.
        folder: the folder that a relative path starts in.

    Raises:
        DeclarationError: when there is none, it fails, or what it registers exists already.
    """
    if given.endswith((".py", ".yaml", ".yml")) or "/" in given:
        path = folder / Path(given).expanduser()
        plugin = _file(given, path, _read(path, given))
    else:
        plugin = _package(given)
    _mark(FOLDER, plugin.digest).touch()
    return plugin


def directory_of(run: Path) -> Path:
    """Return the results directory of a run's folder."""
    return run.absolute().parent.parent.parent


def load_kept(directory: Path) -> tuple[Plugin, ...]:
    """Return the plugins of a results directory, and run them if they were asked for before.

    Raises:
        DeclarationError: when they never were here, are missing, or are not what they were.
    """
    return tuple(_kept(directory, written) for written in _written(directory))


def load_needed(run: Path, digests: Sequence[str]) -> None:
    """Load the code that a run depends on from its directory, unless it is loaded already.

    Raises:
        DeclarationError: if `load_kept` would raise it.
    """
    if not all(map(is_registered, digests)):
        load_kept(directory_of(run))


def allow(directory: Path) -> tuple[Plugin, ...]:
    """Run the plugins of a results directory whose runs are to be worked on, and return them.

    Raises:
        DeclarationError: if `load` would raise it, or a file is none of those that a directory keeps.
    """
    return tuple(load(written, directory) for written in _written(directory))


def allow_command(*command: Any) -> None:
    """Note that this user has typed or read a command, so that it may run where it is found in a directory."""
    _mark("commands", digest_of(command)).touch()


def is_allowed_command(*command: Any) -> bool:
    """Return whether this user has typed or read a command."""
    return _mark("commands", digest_of(command)).exists()


def _mark(kind: str, digest: str) -> Path:
    """Return the file whose presence says that this user has asked for some code on this machine."""
    private, _ = private_folder(kind)
    return private / digest


def _written(directory: Path) -> tuple[str, ...]:
    """Return the plugins that the directory's document names; a directory without a plugin folder has none.

    Raises:
        DeclarationError: if a file is none of those that a directory keeps.
        ResultsError: if a file that it keeps is a link.
    """
    document = inside(directory, "experiment.yaml")
    if not inside(directory, FOLDER).is_dir() or not document.is_file():
        return ()
    plugins = list(map(str, read_file(document).get("plugins") or ()))
    for written in plugins:
        if _KEPT.fullmatch(written):
            inside(directory, *written.split("/"))
        elif not _PACKAGE.fullmatch(written):
            leads = f", which leads outside of {directory}" if ".." in written or written.startswith("/") else ""
            raise DeclarationError(
                f"plugins: {document} names {shortened(repr(written))}{leads}: somebody changed the document. A "
                f"directory keeps its plugins as {FOLDER}/NAME-HASH.py, and no other file is run; fetch the directory "
                "again"
            )
    return tuple(plugins)


def _kept(directory: Path, written: str) -> Plugin:
    """Return a plugin that a directory keeps, if it is unchanged and was asked for before; run no other code."""
    is_file = _KEPT.fullmatch(written)
    if is_file:
        text = _read(directory / written, written)
        digest = _checked(directory / written, text)
    else:
        text, digest = b"", _digest_of_package(_entry_point(written))
    if not is_registered(digest) and not _mark(FOLDER, digest).exists():
        what = str(directory / written) if is_file else written.partition("@")[0]
        raise NotAllowed(directory, written, what)
    return _file(written, directory / written, text) if is_file else _package(written)


def check_kept(path: Path) -> None:
    """Raise an error if a file that a results directory keeps differs from the hash in its name.

    Raises:
        DeclarationError: when it is not.
        OSError: when it cannot be read.
    """
    _checked(path, read_bytes(path))


def keep(directory: Path, plugins: Sequence[Plugin]) -> Mapping[str, bytes]:
    """Return the plugin files that a results directory lacks: contents by path."""
    wanted = {plugin.written: plugin.text for plugin in plugins if plugin.text is not None}
    return {path: text for path, text in wanted.items() if not (directory / path).is_file()}


def _checked(path: Path, text: bytes) -> str:
    """Return the hash of a file; a file with a hash in its name has to match it.

    Raises:
        DeclarationError: when it is not.
    """
    digest, kept = hashlib.sha256(text).hexdigest(), _KEPT.fullmatch(f"{path.parent.name}/{path.name}")
    if kept and not digest.startswith(kept["digest"]):
        raise DeclarationError(
            f"{path}: the file was changed after runs were made with it; restore it, or use the changed plug-in under "
            "another name in another directory"
        )
    return digest


def _file(given: str, path: Path, text: bytes) -> Plugin:
    digest, kept = _checked(path, text), _KEPT.fullmatch(f"{path.parent.name}/{path.name}")
    name = kept["name"] if kept else path.stem

    def run() -> None:
        module = ModuleType(f"headway_plugin_{re.sub(r'[^A-Za-z0-9_]', '_', name)}_{digest[:8]}")
        module.__file__ = str(path)
        sys.modules[module.__name__] = module  # types look up their names there
        before = set(sys.modules)
        exec(compile(text, str(path), "exec"), module.__dict__)
        _check_imports(path, before)

    return plugin_of_content(name, given, digest, text, run)


def _read(path: Path, given: str) -> bytes:
    if not path.is_file():
        raise DeclarationError(
            f"plugins: {given}: there is no such file ({path.absolute()}); give a file of Python code"
        )
    if given.endswith((".yaml", ".yml")):
        raise DeclarationError(
            f"plugins: {given}: this is an experiment's file, and a plugin is Python code; `headway plan {given}` "
            "checks it"
        )
    if path.stat().st_size > LARGEST:
        raise DeclarationError(f"plugins: {given}: it has more than {LARGEST:,} bytes; is it code?")
    return read_bytes(path, links=True)


def _check_imports(path: Path, before: set[str]) -> None:
    """Raise an error if a plugin imports a file beside it: that file would be in no hash, and not be found again."""
    folder = path.parent.resolve()
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_absolute() and Path(file).resolve().parent == folder:  # torch has some without
            del sys.modules[name]
            raise DeclarationError(
                f"it imports {Path(file).name} from its folder, which the results would not keep; put both into one "
                f"file, or make a package with an entry point in {GROUP}"
            )


def _package(given: str) -> Plugin:
    entry, wanted = _entry_point(given), given.partition("@")[2]
    digest = _digest_of_package(entry)
    if wanted and not digest.startswith(wanted):
        raise DeclarationError(
            f"plugins: package {entry.name} was changed since runs were made with it ({wanted} then, "
            f"{digest[:SHORT]} now); install the former version, or choose another directory"
        )

    def run() -> None:
        module = sys.modules.get(entry.module)
        importlib.reload(module) if module is not None else importlib.import_module(entry.module)

    return plugin_of_content(entry.name, entry.name, digest, None, run)


def _entry_point(given: str) -> EntryPoint:
    matched = _PACKAGE.fullmatch(given)
    name, offered = matched["name"] if matched else given, {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in offered:
        raise DeclarationError(
            f"plugins: no installed package offers {name!r} ({GROUP}); {near(name, offered)} (a file is given by its "
            "path, such as mine.py)"
        )
    return offered[name]


def _digest_of_package(entry: EntryPoint) -> str:
    """Return the SHA-256 of all Python files of the package that holds a module."""
    spec = find_spec(entry.module.partition(".")[0])
    if spec is None or spec.origin is None:
        raise DeclarationError(f"plugins: {entry.name}: there is no module {entry.module}; install its package again")
    origin = Path(spec.origin)
    files = sorted(origin.parent.rglob("*.py")) if spec.submodule_search_locations else [origin]
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.relative_to(origin.parent).as_posix()}\n".encode() + file.read_bytes())
    return whole.hexdigest()
