"""How much faster runs of one shape are together than one by one, on one core: `python benchmarks/together.py`.

`python benchmarks/together.py threads` tells what a second thread costs a batch: processor and wall-clock time of a
step, with one and two threads in turn, for batches of growing steps. `headway.store.batches` has its threshold from it.

Together: one worker process trains all seeds as one batched program. One by one: a fresh worker process for each run,
as `headway run --batch-runs 1` starts them; a few of them are timed, and their mean stands for all. Processor seconds
are told beside seconds of the clock, since other work on the machine takes the clock's alone.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import itertools
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from headway import api
from headway.config.experiment import Experiment
from headway.config.load import load, resolve
from headway.execute.worker import set_up_process
from headway.store.environment import slots

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


BATCHES = {"parity": (1, 5, 64), "retrieval": (16,), "language model": (2, 8)}
"""Runs of a batch whose steps are timed with one and two threads, by the beginning of a setting's name."""


def prepared(experiment: Experiment, folder: Path, together: int) -> list[Path]:
    _, runs = api.prepare(experiment, folder, slots("cpu", workers=1, runs=1), together=together)
    return [run.path for run in runs]


def timed(run: Path) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "headway.execute.worker", str(run), "--device", "cpu"]
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def stepped(title: str, n: int, n_threads: int, seconds: float = 8.0) -> None:
    """Print what a step of a batch takes, in this process, which has so many threads."""
    set_up_process(n_threads)
    import torch

    from headway.train.loop import training_part_of

    torch.set_num_threads(n_threads)
    name, arm, _, settings = SETTINGS[title]
    experiment = resolve(name) if isinstance(name, dict) else load(name, settings=settings)
    runs = [experiment.arm(arm).spec(seed) for seed in range(n)]
    trainer = training_part_of(runs[0]).open_together(runs, device="cpu")[0].trainer
    trainer.advance(3)
    steps: list[float] = []
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    while time.perf_counter() - began < seconds:
        start = time.perf_counter()
        trainer.advance(1)
        steps.append(time.perf_counter() - start)
    after = resource.getrusage(resource.RUSAGE_SELF)
    processor = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / len(steps)
    flops = n * runs[0].budget.flops_per_example * runs[0].training.batch_size
    print(
        f"{title.partition(' (')[0]}, {n} runs, {flops:.1e} operations a step, {n_threads} threads: "
        f"{1e3 * processor:.2f} ms of processor; clock at least {1e3 * min(steps):.2f} ms, median "
        f"{1e3 * median(steps):.2f} ms",
        flush=True,
    )


def threads() -> None:
    """What a step takes with one and two threads, in turn; a process each, since threads are set once."""
    for start, sizes in BATCHES.items():
        title = next(title for title in SETTINGS if start in title)
        for n, n_threads in itertools.product(sizes, (1, 2)):
            subprocess.run([sys.executable, __file__, "step", title, str(n), str(n_threads)], check=True)


def main(names: list[str]) -> None:
    if names[:1] == ["step"]:
        stepped(names[1], int(names[2]), int(names[3]))
        return
    if names == ["threads"]:
        threads()
        return
    for title, (name, arm, seeds, settings) in SETTINGS.items():
        if names and not any(name in title for name in names):
            continue
        declared = resolve(name) if isinstance(name, dict) else load(name, settings=settings)
        experiment = declared.select(arms=[arm], seeds=seeds)
        with tempfile.TemporaryDirectory() as folder:
            alone = [timed(run) for run in prepared(experiment, Path(folder) / "alone", 1)[:ALONE]]
            whole = timed(prepared(experiment, Path(folder) / "together", seeds)[0])
        clock, processor = (seeds * sum(times) / len(alone) for times in zip(*alone, strict=True))
        print(
            f"{title}: together {whole[0]:.0f} s ({whole[1]:.0f} s of processor), one by one {clock:.0f} s "
            f"({processor:.0f} s); {clock / whole[0]:.1f} times faster ({processor / whole[1]:.1f} times in processor)",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
