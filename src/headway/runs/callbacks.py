"""Runs: what plugins want to be told of: each line that a run logs.

A callback changes nothing: one that fails is told once in log.txt, and is called no more for this run.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headway.declare.plugin_files import directory_of, load_kept
from headway.errors import UserError

if TYPE_CHECKING:
    from headway.runs.folder import Run


def listeners(run: "Run", say: Callable[[str], None]) -> Callable[[Mapping[str, Any]], None]:
    """What is to be called with each logged line of a run; nothing is done where its directory has no callbacks."""
    try:
        of_directory = load_kept(directory_of(run.path))
    except UserError as error:
        say(f"callbacks are not called: {error}")
        of_directory = ()
    called = [entry for plugin in of_directory for entry in plugin.entries if entry.kind == "callback"]

    def tell(line: Mapping[str, Any]) -> None:
        for entry in tuple(called):
            try:
                entry.value(run, dict(line))
            except Exception as error:  # noqa: BLE001 - whatever it raises, training goes on
                called.remove(entry)
                say(f"callback {entry.name} is called no more: {type(error).__name__}: {error}")

    return tell
