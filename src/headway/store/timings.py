"""The timings of a results directory, `DIR/timings/ARM.json`, read."""

from pathlib import Path
from typing import Any

from headway.base.files import entries, inside, kept_json
from headway.base.identity import is_as_signed
from headway.store import document

SCHEMA = 1


def timing_file(directory: Path, name: str) -> Path:
    """The file of an arm's timing."""
    return inside(directory, "timings", f"{name}.json")


def read_timing(file: Path) -> dict[str, Any] | None:
    """Return a timing, or None if it cannot be read or has changed since it was written."""
    found = kept_json(file)
    if not isinstance(found, dict) or not is_as_signed(found):
        return None
    return found if found.get("arm", file.stem) == file.stem else None


def read_timings(directory: Path) -> dict[str, dict[str, Any] | None]:
    """Return every timing of a directory, by the full name of its arm; None for a damaged or missing timing."""
    there = {file.stem: read_timing(file) for file in entries(inside(directory, "timings"), "*.json")}
    return {**dict.fromkeys(document.timed(directory)), **there}
