"""Laws of the house that other tools hold: form, habits, types, and which floor may import from which."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from support.house import ROOT


@pytest.mark.parametrize("line", ["ruff format --check .", "ruff check .", "mypy", "lint-imports"])
def test_nothing_is_found(line):
    tool, *options = line.split()
    found = subprocess.run(
        [Path(sys.executable).with_name(tool), *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_every_pinned_version_installs_on_the_oldest_python():
    """Debian 12 has Python 3.11.2; a version that asks for 3.11.5 ends `make demo` there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    asked = {name: metadata(name).get("Requires-Python") or "" for name in pinned}
    assert len(asked) > 50
    assert {name: python for name, python in asked.items() if oldest not in SpecifierSet(python)} == {}
