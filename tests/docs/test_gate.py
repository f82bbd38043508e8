"""The page on keeping or discarding changes: its loop runs with any trainer that takes the options."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headway.gate.journal import Journal

PAGE = Path(__file__).parents[2] / "docs/gate.md"
TRAINER = """
import random, sys
values = dict(zip(sys.argv[1::2], map(float, sys.argv[2::2])))
noise = random.Random(str(values)).gauss(0, 0.001)
print("val_loss:", 1 + abs(values["--lr"] - 0.1) + noise)
"""


@pytest.mark.slow
def test_the_loop_tries_changes_and_says_what_became_of_each(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert "range(50)" in code
    (tmp_path / "loop.py").write_text("import random; random.seed(3)\n" + code.replace("range(50)", "range(4)"))
    (tmp_path / "train.py").write_text(TRAINER)
    folder = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([sys.executable, "loop.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    verdicts = [line.split()[0] for line in done.stdout.splitlines()]
    attempts = Journal.read(tmp_path / "results/gate").attempts
    assert verdicts == [attempt.verdict["verdict"] for attempt in attempts]
    assert len(verdicts) == 4
