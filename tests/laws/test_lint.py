"""Laws of the house that other tools hold: form, habits, types, and which floor may import from which."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.house import ROOT


@pytest.mark.parametrize("line", ["ruff format --check .", "ruff check .", "mypy", "lint-imports"])
def test_nothing_is_found(line):
    tool, *options = line.split()
    found = subprocess.run(
        [Path(sys.executable).with_name(tool), *options], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
