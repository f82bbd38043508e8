"""Small parities, of which a worker trains several together, for tests of batches of runs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from headway import api
from headway.config.load import resolve
from headway.store.environment import slots

DOCUMENT: dict[str, Any] = {
    "name": "small-parity",
    "task": {"kind": "parity", "n_bits": 2},
    "model": {"family": "gpt-2", "d_model": 8, "n_layers": 1, "n_heads": 2, "d_head": 8, "positions": "joint",
              "n_positions": 3, "norm": "none", "mlp": "none", "residual": False, "tied": False, "readout": 2,
              "init_std": 0.3, "biases": []},
    "training": {"optimizer": "adamw", "learning_rate": 0.01, "batch_size": 4, "steps": 60, "clip": None},
    "evaluation": {"every": 20},
    "samples": None,
    "logging": {"every": 10},
    "arms": {"h2": {}, "wild": {"training": {"learning_rate": 1e14}}},
    "baseline": "h2",
    "seeds": 3,
}  # fmt: skip
# Without biases: that of keys changes nothing, so that Adam makes large steps of the rounding of its gradient.


def prepared(folder: Path, together: str | int = "auto", said: list[str] | None = None, **changes: Any) -> dict:
    """Folders of runs that wait, by arm and seed; what is said of them is added to a list."""
    tell = [].append if said is None else said.append
    _, made = api.prepare(resolve({**DOCUMENT, **changes}), folder, slots("cpu", workers=1, runs=1), tell, together)
    return {(run.arm, run.seed): run.path for run in made}


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def worked(path: Path, *options: str) -> int:
    """The exit code of a worker on a run, and on its batch."""
    command = [sys.executable, "-m", "headway.execute.worker", str(path), "--device", "cpu", *options]
    return subprocess.run(command, env=environment(), check=False).returncode
