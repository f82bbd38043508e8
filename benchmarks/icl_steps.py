"""Training steps per second of one-layer in-context attention, side by side on one core.

    python benchmarks/icl_steps.py [--heads 1,2,4,8] [--rounds 7] [--seconds 0.4]

The notebook setting: d 5, 40 pairs, batch 128, Adam. Contestants take turns, a fraction of a second each, `rounds`
times; the table gives the median rate with its range, and ratios of medians. Time is the processor's, so that what else
runs on the machine counts less. Contestants:

* `fused`, once for each instruction set that is built and runs here;
* `eager`: the published formula as a user would write it in PyTorch, on batches that were drawn beforehand, so that
  drawing costs it nothing;
* `draws only`: the floor; the same normals from the same generator, and nothing else.
"""

import argparse
import itertools
import math
import os
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from headway.base import rng
from headway.config.kinds import parse_run
from headway.config.regression import IclRun
from headway.data import native
from headway.data.regression import Scales, draw
from headway.icl.fused import FusedTrainer
from headway.icl.weights import initial_weights

Advance = Callable[[int], object]
PREDRAWN = 64


def notebook_run(n_heads: int) -> IclRun:
    return parse_run(
        {
            "task": {"kind": "regression", "d_x": 5, "n_pairs": 40, "noise_variance": 0.0005},
            "model": {"family": "icl", "n_heads": n_heads, "n_out": 1},
            "training": {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 128, "steps": 500_001},
            "seed": 0,
        }
    )


class PlainAttention(nn.Module):
    """Sum over heads of O_h V_h Z softmax(Z^T K_h^T Q_h z_q / sqrt(D))."""

    def __init__(self, run: IclRun) -> None:
        super().__init__()
        for name, array in initial_weights(run.model, run.task, run.seed).items():
            self.register_parameter(name, nn.Parameter(torch.from_numpy(array[0])))

    def forward(self, tokens: torch.Tensor, query: torch.Tensor) -> torch.Tensor:  # noqa: D102
        q = torch.einsum("hac,bc->bha", self.W_Q, query)
        k = torch.einsum("hac,bic->bhia", self.W_K, tokens)
        v = torch.einsum("hac,bic->bhia", self.W_V, tokens)
        weights = torch.softmax(torch.einsum("bha,bhia->bhi", q, k) / math.sqrt(tokens.shape[-1]), dim=-1)
        return torch.einsum("hoa,bhi,bhia->bo", self.W_O, weights, v)


def eager(run: IclRun) -> Advance:
    key, n = rng.key(run.seed, "training data"), run.training.batch_size
    batches = []
    for step in range(PREDRAWN):
        prompts = draw(run.task, key=key, step=step, batch_size=n)
        x, y, x_query, y_query = map(torch.from_numpy, (prompts.x, prompts.y, prompts.x_query, prompts.y_query))
        batches.append((torch.cat([x, y], -1), torch.cat([x_query, torch.zeros_like(y_query)], -1), y_query))
    endless = itertools.cycle(batches)
    model = PlainAttention(run)
    optimizer = torch.optim.Adam(model.parameters(), lr=run.training.learning_rate)

    def advance(steps: int) -> None:
        for _ in range(steps):
            tokens, query, y_query = next(endless)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(tokens, query), y_query).backward()
            optimizer.step()

    return advance


def floor(run: IclRun, instruction_set: native.InstructionSet) -> Advance:
    library, task = native.library(instruction_set), Scales.of(run.task).native(run.task.n_pairs)
    return lambda steps: library.draw_only(task, 1, run.training.batch_size, steps)


def steps_per_s(advance: Advance, seconds: float) -> float:
    """A first try finds how many steps fill the time."""
    start = time.process_time()
    advance(20)
    steps = max(20, int(20 * seconds / (time.process_time() - start)))
    start = time.process_time()
    advance(steps)
    return steps / (time.process_time() - start)


def contestants(heads: list[int]) -> dict[tuple[str, str], Advance]:
    """What competes, by (who, setting)."""
    found: dict[tuple[str, str], Advance] = {}
    for instruction_set in native.instruction_sets():
        found["draws only", instruction_set] = floor(notebook_run(1), instruction_set)
    for n_heads in heads:
        run = notebook_run(n_heads)
        found["eager", f"H={n_heads}"] = eager(run)
        for name in native.instruction_sets():
            weights = initial_weights(run.model, run.task, run.seed)
            found[f"fused {name}", f"H={n_heads}"] = FusedTrainer(run, weights, instruction_set=name).advance
    return found


def table(rates: dict[tuple[str, str], list[float]]) -> str:
    median = {who: statistics.median(values) for who, values in rates.items()}
    lines = [f"{'':<14}{'':<8}{'steps/s':>10}{'range':>20}{'x eager':>10}{'of draws only':>15}"]
    for (who, setting), values in rates.items():
        line = f"{who:<14}{setting:<8}{median[who, setting]:>10,.0f}{f'{min(values):,.0f}-{max(values):,.0f}':>20}"
        if who.startswith("fused"):
            line += f"{median[who, setting] / median['eager', setting]:>10.1f}"
            line += f"{median[who, setting] / median['draws only', who.split()[1]]:>14.0%}"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", default="1,2,4,8")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.4)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    competing = contestants([int(n) for n in arguments.heads.split(",")])
    rates: dict[tuple[str, str], list[float]] = {who: [] for who in competing}
    for _ in range(arguments.rounds):
        for who, advance in competing.items():
            rates[who].append(steps_per_s(advance, arguments.seconds))
    print(f"one core, {arguments.rounds} rounds, torch {torch.__version__}, d 5, L 40, batch 128, Adam\n")
    print(table(rates))


if __name__ == "__main__":
    main()
