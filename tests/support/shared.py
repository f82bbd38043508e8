"""Data that is no part of the project: tests that need it skip with a reason where it is missing."""

from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / "../shared/data"


def data(name: str) -> Path:
    """A file or folder of ../shared/data beside the checkout."""
    path = _FOLDER / name
    if not path.exists():
        pytest.skip(f"needs {name} in ../shared/data, which is no part of the project")
    return path
