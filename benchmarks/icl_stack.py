"""Steps per second of PyTorch stacks, eager and compiled, side by side on one core.

    python benchmarks/icl_stack.py

The setting is that of `icl-depth`: d 5, L 40, batch 128, two heads, Adam; drawing the batch is part of a step. Both
train the same module; each is measured in five turns, interleaved, since machines vary while they are measured.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch reads it

import statistics
import time

import torch

from headway.config.kinds import parse_run
from headway.config.regression import IclRun
from headway.icl.weights import initial_weights
from headway.train.regression_torch import torch_trainer
from headway.train.torch_trainer import TorchTrainer

TURNS = 5
TURN_S = 1.0


def stack(n_layers: int) -> IclRun:
    return parse_run(
        {
            "task": {"kind": "regression", "d_x": 5, "n_pairs": 40, "noise_variance": 5e-4},
            "model": {"family": "icl-stack", "n_layers": n_layers, "n_heads": 2},
            "training": {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 128, "steps": 50_000},
            "seed": 0,
        }
    )


def opened(run: IclRun, compile: bool) -> tuple[TorchTrainer, float]:
    """A trainer past its first steps, and the seconds that these took."""
    began = time.perf_counter()
    trainer, _, _ = torch_trainer(run, initial_weights(run.model, run.task, run.seed), compile)
    trainer.advance(3)
    return trainer, time.perf_counter() - began


def turn(trainer: TorchTrainer) -> float:
    """Steps per second over about a second."""
    began, steps = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < TURN_S:
        trainer.advance(10)
        steps += 10
    return steps / elapsed


def shown(rates: list[float]) -> str:
    return f"{statistics.median(rates):6.0f} ({min(rates):.0f} to {max(rates):.0f})"


def main() -> None:
    torch.set_num_threads(1)
    print("layers  eager, steps/s        compiled, steps/s     ratio of medians (range over turns)  compiling")
    for n_layers in (1, 2, 3):
        run = stack(n_layers)
        eager, _ = opened(run, compile=False)
        compiled, seconds = opened(run, compile=True)
        turns = [(turn(eager), turn(compiled)) for _ in range(TURNS)]
        slow, fast = (list(rates) for rates in zip(*turns, strict=True))
        ratios = [b / a for a, b in turns]
        ratio = statistics.median(fast) / statistics.median(slow)
        print(
            f"{n_layers:6d}  {shown(slow):20s}  {shown(fast):20s}  "
            f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})  {seconds:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
