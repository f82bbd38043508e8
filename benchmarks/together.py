"""How much faster runs of one shape are together than one by one, on one core: `python benchmarks/together.py`.

Together: one worker process trains all seeds as one batched program. One by one: a fresh worker process for each run,
as `headway run --together 1` starts them; a few of them are timed, and their mean stands for all. Processor seconds are
told beside seconds of the clock, since other work on the machine takes the clock's alone.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from headway import api
from headway.declare.experiment import Experiment
from headway.declare.loading import load, resolve
from headway.runs.devices import slots

LANGUAGE = {
    "name": "small-language-model",
    "task": {"kind": "text", "corpus": "stories", "stories": 2_000, "tokenizer": "bytes", "n_ctx": 64},
    "model": {"family": "llama", "tied": True, "d_model": 64, "n_layers": 2, "n_heads": 4, "n_positions": 64},
    "training": {"optimizer": "adamw", "learning_rate": 0.003, "batch_size": 8, "steps": 100},
    "samples": None,
    "arms": {"plain": {}},
    "baseline": "plain",
}
SETTINGS: dict[str, tuple[str | dict[str, Any], str, int, list[str]]] = {
    "parity (n 3, H 3), 64 seeds": ("heads-for-parity", "n3-h3", 64, []),
    "retrieval (D 2, H 2), 16 seeds": ("heads-for-retrieval", "d2-h2", 16, ["training.steps=1000"]),
    "language model of d_model 64, 8 seeds": (LANGUAGE, "plain", 8, []),
}  # fmt: skip
ALONE = 3
"""Runs that are timed one by one."""


def prepared(experiment: Experiment, folder: Path) -> list[Path]:
    _, runs = api.prepare(experiment, folder, slots("cpu", workers=1, runs=1))
    return [run.path for run in runs]


def timed(run: Path, together: str) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "headway.runs.worker", str(run), "--together", together, "--device", "cpu"]
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(names: list[str]) -> None:
    for title, (name, arm, seeds, settings) in SETTINGS.items():
        if names and not any(name in title for name in names):
            continue
        declared = resolve(name) if isinstance(name, dict) else load(name, settings=settings)
        experiment = declared.select(arms=[arm], seeds=seeds)
        with tempfile.TemporaryDirectory() as folder:
            alone = [timed(run, "1") for run in prepared(experiment, Path(folder) / "alone")[:ALONE]]
            whole = timed(prepared(experiment, Path(folder) / "together")[0], str(seeds))
        clock, processor = (seeds * sum(times) / len(alone) for times in zip(*alone, strict=True))
        print(
            f"{title}: together {whole[0]:.0f} s ({whole[1]:.0f} s of processor), one by one {clock:.0f} s "
            f"({processor:.0f} s); {clock / whole[0]:.1f} times faster ({processor / whole[1]:.1f} times in processor)",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
