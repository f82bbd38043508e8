"""Exact effects and estimates of 192 heads, in forward passes.

    python benchmarks/ablate.py            # about six minutes; --quick: a minute, to see that it works

A GPT-Neo of d_model 768, 4 layers and 48 heads a layer, all layers global, on 4 sequences of 512 random tokens; the
vocabulary is 512, since the read-out of a large one is work that nothing can share. Asked: all heads in at most 60
forward passes' time with at most two passes' memory, estimates in at most 3 times a forward and backward pass. Forward
passes, effects and estimates by turns in one process, effects of a part of the heads in each turn; memory in a process
each, the peak above what was held before. What the operations amount to stands beside, the least that is possible
without another algorithm.
"""

import argparse

from headway.runs.worker import set_up_process

set_up_process(threads=1)  # before torch reads it

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch

from headway.declare.tokens.transformer import GptNeo
from headway.heads.causes.attribution import attribute
from headway.heads.causes.passes import work_of
from headway.heads.causes.substitutes import heads_of, substitutes
from headway.heads.causes.without import Removal, losses_without
from headway.model.transformer import Transformer, mean_nll
from headway.model.weights import initial_weights
from headway.train.meter import Meter

VOCAB = 512


class Bench:
    """A model, a text and another text."""

    def __init__(self, batch: int, context: int) -> None:
        declared = GptNeo(family="gpt-neo", d_model=768, n_layers=4, n_heads=48, windows=(None,))
        self.model = Transformer(declared, VOCAB, initial_weights(declared, VOCAB, 0)).eval()
        draw = torch.Generator().manual_seed(0)
        tokens, other = (torch.randint(0, VOCAB, (batch, context + 1), generator=draw) for _ in range(2))
        self.inputs, self.targets = tokens[:, :-1], tokens[:, 1:]
        self.stand_ins = substitutes(self.model, self.inputs, other[:, :-1])
        self.heads = heads_of(self.model)

    def forward(self) -> None:
        """A pass and its loss."""
        with torch.no_grad():
            mean_nll(self.model(self.inputs)[0], self.targets)

    def forward_and_backward(self) -> None:
        """A step without its optimizer."""
        mean_nll(self.model(self.inputs)[0], self.targets).backward()
        self.model.zero_grad()

    def effects(self, part: int, parts: int, kind: str = "mean") -> float:
        """Of every `parts`-th head; forward passes by the count of operations."""
        removals = [Removal((head,), self.stand_ins.of[kind]) for head in self.heads[part::parts]]  # type: ignore[index]
        return losses_without(self.model, self.inputs, self.targets, removals).forward_passes

    def estimates(self) -> None:
        """Michel's and first-order, of all heads and kinds."""
        attribute(self.model, self.inputs, self.targets, self.stand_ins)


def seconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def memory(what: str, batch: int, context: int) -> int:
    """Peak bytes above what was held, in this process."""
    bench = Bench(batch, context)
    meter = Meter(torch.device("cpu"))
    meter.begin_training()  # what building took, the other text's pass included, is forgotten
    if what == "forward":
        bench.forward()
    else:
        bench.effects(0, 16)
    return int(meter.metrics()["memory_bytes"])


def in_process(what: str, batch: int, context: int) -> int:
    command = [sys.executable, __file__, "--memory", what, str(batch), str(context)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return int(json.loads(done.stdout.splitlines()[-1]))


def spread(values: list[float], digits: int = 2) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short sequences")
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.memory:
        what, *sizes = asked.memory
        print(json.dumps(memory(what, *map(int, sizes))))
        return
    batch, context = (2, 64) if asked.quick else (4, 512)
    bench, parts = Bench(batch, context), 6
    bench.forward(), bench.forward_and_backward()
    forward, both, effects, estimates, work = [], [], [], [], []
    for part in range(parts):
        forward.append(seconds(bench.forward))
        began = time.perf_counter()
        work.append(bench.effects(part, parts))
        effects.append(time.perf_counter() - began)
        forward.append(seconds(bench.forward))
        both.append(seconds(bench.forward_and_backward))
        estimates.append(seconds(bench.estimates))
    one, heads = statistics.median(forward), len(bench.heads)
    shares = work_of(bench.model.model, VOCAB, context)
    print(f"{heads} heads, {batch} x {context} tokens; seconds: median (range)")
    # Others' work on the machine shows here: above this benchmark's own process, times say little.
    print(f"processes that ran or waited: {os.getloadavg()[1]:.1f}, on {os.cpu_count()} cores")
    print(f"forward pass: {spread(forward)}; forward and backward: {spread(both)}")
    in_passes = [s / (sum(forward[2 * i : 2 * i + 2]) / 2) * parts for i, s in enumerate(effects)]
    print(
        f"exact effects of one kind: {sum(effects):.1f} s, {sum(effects) / one:.0f} forward passes; by turns "
        f"{spread(in_passes, 0)}; operations of {sum(work) - parts + 1:.0f}, read-out {shares.readout:.0%} of a pass"
    )
    ratios = [e / b for e, b in zip(estimates, both, strict=True)]
    print(f"estimates of all three kinds: {spread(ratios)} times forward and backward")
    used = {what: in_process(what, batch, context) for what in ("forward", "effects")}
    print(f"memory: forward {used['forward'] / 1e6:.0f} MB, effects {used['effects'] / 1e6:.0f} MB", end=", ")
    print(f"{used['effects'] / used['forward']:.2f} times")


if __name__ == "__main__":
    main()
