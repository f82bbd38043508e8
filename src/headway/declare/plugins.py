"""Declare: what code of one's own registers: things of several kinds, each in the tables where Headway's own stand.

A plugin is known by its content. Of two versions of one the last that was loaded stands in the tables.
"""

import re
import traceback
from collections.abc import Callable, Container, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import PydanticUserError

from headway.errors import DeclarationError, UserError

FOLDER = "plugins"
"""Where a results directory keeps them."""
CHANGES_NOTHING = ("figure", "callback", "family")
"""Kinds that no result of a run depends on; what a family stands for is written out in it."""

SHORT = 16
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

Table = MutableMapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Something that a plugin registers.

    Attributes:
        kind: such as `task`.
        name: that it is asked for by.
        value: the type or function of it.
        tables: where it stands beside those of Headway, under which names.
    """

    kind: str
    name: str
    value: Any
    tables: tuple[tuple[Table, str], ...] = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """A file or a package that was loaded.

    Attributes:
        name: of the file without its ending, or of the entry point.
        given: how the user named it.
        digest: the SHA-256 of its content.
        text: its content; None of a package, which is installed and not kept.
        entries: what it registers.
    """

    name: str
    given: str
    digest: str
    text: bytes | None = field(repr=False)
    entries: tuple[Entry, ...]

    @property
    def written(self) -> str:
        """How the document of a results directory names it."""
        short = self.digest[:SHORT]
        return f"{self.name}@{short}" if self.text is None else f"{FOLDER}/{self.name}-{short}.py"

    @property
    def changes_results(self) -> bool:
        """Whether the result of a run may depend on it, so that it is part of the run's id."""
        return any(entry.kind not in CHANGES_NOTHING for entry in self.entries)

    @property
    def sentence(self) -> str:
        """Which it is and what it adds."""
        added = ", ".join(f"{entry.kind} {entry.name}" for entry in self.entries)
        return f"plugin {self.given} ({self.digest[:SHORT]}): {added}"


_loaded: dict[str, Plugin] = {}
"""By name: of two versions of a file the one that was loaded last stands in the tables."""
_collected: list[list[Entry]] = []
"""What the plugin registers that is being loaded; empty where none is."""


def register(kind: str, name: str, value: Any, *tables: tuple[Table, str, Any], taken: Container[str] = ()) -> None:
    """Add something to tables of Headway, for the plugin that is being loaded.

    Args:
        kind: of it.
        name: that it is asked for by.
        value: the type or function.
        tables: where it is to stand, under which key, and what stands there.
        taken: further names that are not free.

    Raises:
        DeclarationError: outside of a plugin, or when a name is none or exists already.
    """
    if not _collected:
        raise DeclarationError(
            f"{kind} {name}: it was registered outside of a plugin; put it into a file that the experiment names in "
            "plugins, so that workers find it and runs are known by it"
        )
    if not _NAME.fullmatch(name):
        raise DeclarationError(f"{kind} {name!r} is no name; use letters, digits, dashes and underscores")
    beside = any(entry.kind == kind and entry.name == name for entry in _collected[-1])
    if beside or name in taken or any(key in table for table, key, _ in tables):
        raise DeclarationError(f"{kind} {name!r} exists already{_by_whom(kind, name)}; give it another name")
    for table, key, made in tables:
        table[key] = made
    _collected[-1].append(
        Entry(kind=kind, name=name, value=value, tables=tuple((table, key) for table, key, _ in tables))
    )


def _by_whom(kind: str, name: str) -> str:
    for plugin in _loaded.values():
        if any(entry.kind == kind and entry.name == name for entry in plugin.entries):
            return f", of plugin {plugin.given}"
    return ""


def is_loaded(digest: str) -> bool:
    """Whether a content stands in the tables."""
    return any(plugin.digest == digest for plugin in _loaded.values())


def of_kind(kind: str, digests: Sequence[str]) -> Iterator[Entry]:
    """What of a kind the plugins of these digests registered."""
    for plugin in _loaded.values():
        if plugin.digest in digests:
            yield from (entry for entry in plugin.entries if entry.kind == kind)


def unload(plugin: Plugin) -> None:
    """Take away what a plugin registered."""
    if is_loaded(plugin.digest):
        _take_back(_loaded.pop(plugin.name).entries)


def loaded(name: str, given: str, digest: str, text: bytes | None, run: Callable[[], object]) -> Plugin:
    """The plugin of a content, which is run unless it was loaded already.

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
    """What is wrong, and in which line of the file."""
    name = Path(given).name
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == name]
    where = f" in line {lines[-1]}" if lines else f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
    if isinstance(error, UserError):
        return f"{error}" + (f" (line {lines[-1]})" if lines else "")
    if isinstance(error, PydanticUserError):  # it goes on with what to do in pydantic's own words, and an address
        wrong = f"{error}".partition(". ")[0].partition("\n")[0]
        return (
            f"it cannot be imported: {type(error).__name__}{where}: {wrong}; a field is a key of the YAML file, such "
            "as `length: int = 6`; make anything else a method, a property or a cached_property"
        )
    return f"it cannot be imported: {type(error).__name__}{where}: {error}; put that right"
