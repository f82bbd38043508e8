"""The documentation site, built once for all tests that read it, whichever processes they run in."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "site"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "is-whole").exists():
            made = [sys.executable, str(ROOT / "docs/site.py"), str(folder)]
            done = subprocess.run(made, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            (folder / "is-whole").touch()
    return folder / "html"
