"""Some kills of every kind of sweep: no bit, line or step is lost, and no process is left."""

import subprocess
import sys
from pathlib import Path

import pytest

from headway.icl import fused

NATIVE = ("icl, native", "plan")
TORCH = ("icl, stacks", "tokens", "together", "starts")
KILLS = Path(__file__).parents[2] / "tools/faults/kills.py"


@pytest.mark.slow
def test_sweeps_that_are_killed_at_random_moments_and_gone_on_with_lose_nothing():
    native = NATIVE if fused.available() is None else ()
    command = [sys.executable, str(KILLS), "--kills", "8", "--seconds", "40", "--laboratories", *TORCH, *native]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row.split("|")[1].strip(): row.split("|")[-2].strip() for row in done.stdout.splitlines() if "|" in row}
    assert int(rows["kills"]) >= 3
    for problem in ("differing bits", "lost lines", "lost steps", "orphans", "deaf", "other"):
        assert rows[problem] == "0", done.stdout
