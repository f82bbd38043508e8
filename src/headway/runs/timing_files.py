"""Lab: the timings that a results directory keeps, `DIR/timings/ARM.json`, read."""

import json
from pathlib import Path
from typing import Any

from headway.identity import DIGEST, is_as_signed

SCHEMA = 1


def timing_file(directory: Path, name: str) -> Path:
    """The file of an arm's timing."""
    return directory / "timings" / f"{name}.json"


def read_timing(file: Path) -> dict[str, Any] | None:
    """A timing; None where it cannot be read or is not as it was written. Those of before were not signed."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = (
        isinstance(found, dict)
        and (DIGEST not in found or is_as_signed(found))
        and found.get("arm", file.stem) == file.stem
    )
    return found if whole else None


def read_timings(directory: Path) -> dict[str, dict[str, Any] | None]:
    """Every timing of a directory, by the full name of its arm; None for one that is damaged."""
    return {file.stem: read_timing(file) for file in sorted((directory / "timings").glob("*.json"))}
