"""Check: a file of one's own, and what of it breaks which law."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.declare.plugin_files import load
from headway.declare.plugins import Entry, Plugin, unload
from headway.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Held:
    """What was looked at, and a sentence for each law that it breaks.

    Attributes:
        about: such as `task sort`.
        broken: what is wrong and what to do.
        not_tried: why it was not tried; empty where it was.
    """

    about: str
    broken: tuple[str, ...] = ()
    not_tried: str = ""

    @property
    def sentence(self) -> str:
        """In a line, or one for each law."""
        if self.broken:
            return "\n".join(f"{self.about}: {said}" for said in self.broken)
        return f"{self.about}: {self.not_tried or 'all laws hold'}"


def check(given: str | Path) -> tuple[Held, ...]:
    """Run a plugin, and hold what it registers to the laws; nothing of it is left.

    Args:
        given: the path of a file, or the name that a package offers.
    """
    try:
        plugin = load(str(given))
    except UserError as error:
        return (Held(about=str(given), broken=(str(error),)),)
    try:
        return tuple(_held(entry, plugin) for entry in plugin.entries)
    finally:
        unload(plugin)


def _held(entry: Entry, plugin: Plugin) -> Held:
    about = f"{entry.kind} {entry.name}"
    if entry.kind == "figure":
        return Held(about=about, not_tried="not tried; `headway report DIR --plugin FILE` draws it of results")
    return Held(about=about, broken=tuple(_broken(entry, plugin)))


def _broken(entry: Entry, plugin: Plugin) -> Iterator[str]:
    from headway.check import choices, heads, runs, tasks

    match entry.kind:
        case "task":
            measured = tuple(other.name for other in plugin.entries if other.kind == "run metric")
            yield from tasks.task(entry.name, entry.value, measured)
        case "corpus":
            yield from tasks.corpus(entry.name)
        case "attention":
            yield from choices.attention(entry.name)
        case "family":
            yield from choices.family(entry.name)
        case "head metric":
            yield from heads.head_metric(entry.name, entry.value)
        case "regulariser":
            yield from heads.regularizer(entry.value)
        case "run metric":
            yield from runs.run_metric(entry.value)
        case "callback":
            yield from runs.callback(entry.value)
