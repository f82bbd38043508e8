"""Exact effects and estimates of 192 heads, in forward passes; a pruned model beside a masked one.

    python benchmarks/ablate.py            # about six minutes; --quick: a minute, to see that it works

A GPT-Neo of d_model 768, 4 layers and 48 heads a layer, all layers global, on 4 sequences of 512 random tokens; the
vocabulary is 512, since the read-out of a large one is work that nothing can share. Asked: all heads in at most 60
forward passes' time with at most two passes' memory, estimates in at most 3 times a forward and backward pass. What
the operations amount to stands beside, the least that is possible without another algorithm: the layers above a head
that goes see a stream that differs everywhere.

Forward passes, effects and estimates by turns in one process, effects of a part of the heads in each turn, on one
thread; seconds are the processor's (the clock's depend on what else runs). Memory is measured in a process each, the
peak above what was held before. Where TransformerLens is installed, its loop over heads runs on a model of the same
sizes, in its own forward passes.
"""

import argparse
import importlib.util

from headway.execute.worker import set_up_process

set_up_process(threads=1)  # before torch reads it

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch

from headway.causal.attribution import attribute
from headway.causal.pruning import pruned
from headway.causal.removal import Removal, losses_without
from headway.causal.substitutes import OtherText, heads_of
from headway.config.lm.budget import forward_flops
from headway.config.lm.model import GptNeo
from headway.models.transformer import Transformer, mean_nll
from headway.models.weights import initial_weights
from headway.train.device import Meter

VOCAB = 512


class Bench:
    """A model, a text and another text."""

    def __init__(self, batch: int, context: int) -> None:
        declared = GptNeo(family="gpt-neo", d_model=768, n_layers=4, n_heads=48, windows=(None,))
        self.model = Transformer(declared, VOCAB, initial_weights(declared, VOCAB, 0)).eval()
        draw = torch.Generator().manual_seed(0)
        tokens, other = (torch.randint(0, VOCAB, (batch, context + 1), generator=draw) for _ in range(2))
        self.inputs, self.targets = tokens[:, :-1], tokens[:, 1:]
        self.stand_ins = OtherText.read(self.model, self.inputs, other[:, :-1]).stand_ins(self.model, slice(None))
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
        removals = [Removal((head,), self.stand_ins[kind]) for head in self.heads[part::parts]]  # type: ignore[index]
        return losses_without(self.model, self.inputs, self.targets, removals).forward_passes

    def estimates(self) -> None:
        """Michel's and first-order, of all heads and kinds."""
        attribute(self.model, self.inputs, self.targets, self.stand_ins)


class Halved:
    """Every other head of a model: masked in it, and a model without them."""

    def __init__(self, bench: Bench) -> None:
        keep = [[head % 2 == 0 for head in range(n)] for n in bench.model.n_heads]
        self.bench, self.small = bench, pruned(bench.model, keep)
        self.gates = [torch.tensor(mask, dtype=torch.float32) for mask in keep]

    def masked(self) -> None:
        """A step without its optimizer, behind a mask."""
        logits = self.bench.model(self.bench.inputs, gates=self.gates)[0]
        mean_nll(logits, self.bench.targets).backward()
        self.bench.model.zero_grad()

    def pruned(self) -> None:
        """The same without the heads."""
        mean_nll(self.small(self.bench.inputs)[0], self.bench.targets).backward()
        self.small.zero_grad()


def seconds(do: Callable[[], object]) -> float:
    began = time.process_time()
    do()
    return time.process_time() - began


def memory(what: str, batch: int, context: int) -> int:
    """Peak bytes above what was held, in this process."""
    bench = Bench(batch, context)
    halved = Halved(bench) if what in ("masked", "pruned") else None
    meter = Meter(torch.device("cpu"))
    meter.begin_training()  # what building took, the other text's pass included, is forgotten
    if halved is not None:
        getattr(halved, what)()
    elif what == "forward":
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


def exact(bench: Bench, parts: int, rounds: int) -> None:
    """Effects, of one of so many parts of the heads in each round, estimates, and what a pass takes, by turns."""
    bench.forward(), bench.forward_and_backward()
    forward, both, effects, estimates, work = [], [], [], [], []
    for part in range(rounds):
        forward.append(seconds(bench.forward))
        effects.append(seconds(lambda part=part: work.append(bench.effects(part, parts))))
        forward.append(seconds(bench.forward))
        both.append(seconds(bench.forward_and_backward))
        estimates.append(seconds(bench.estimates))
    declared, n_ctx = bench.model.model, bench.inputs.shape[1]
    readout = 2 * n_ctx * VOCAB * declared.embedding_width / forward_flops(declared, VOCAB, n_ctx)
    print(f"forward pass: {spread(forward)}; forward and backward: {spread(both)}")
    in_passes = [s / (sum(forward[2 * i : 2 * i + 2]) / 2) * parts for i, s in enumerate(effects)]
    # Each round walks up once: a pass and the shared products, which all heads at once need once.
    whole = statistics.mean(in_passes) - (parts - 1)
    print(
        f"exact effects of one kind: {whole:.0f} forward passes (asked: 60), from {rounds} of {parts} parts of the "
        f"heads; by turns {spread([n - (parts - 1) for n in in_passes], 0)}; operations of "
        f"{statistics.mean(work) * parts - (parts - 1):.0f}, read-out {readout:.0%} of a pass"
    )
    ratios = [e / b for e, b in zip(estimates, both, strict=True)]
    print(f"estimates of all three kinds: {spread(ratios)} times forward and backward (asked: 3)")


def beside_a_mask(bench: Bench, rounds: int) -> None:
    """A step of the model pruned to half its heads, and of the one behind a mask, by turns."""
    halved = Halved(bench)
    halved.masked(), halved.pruned()
    times = [(seconds(halved.masked), seconds(halved.pruned)) for _ in range(rounds)]
    masked, small = ([pair[i] for pair in times] for i in (0, 1))
    print(f"half the heads, forward and backward: masked {spread(masked)}, pruned {spread(small)}", end="; ")
    print(f"pruned over masked {spread([after / before for before, after in times])}")


def transformer_lens(bench: Bench, heads: int) -> None:
    """Its loop: a pass with a hook on z for each head."""
    if importlib.util.find_spec("transformer_lens") is None:
        print("TransformerLens is not installed: its loop over heads is left out")
        return
    from transformer_lens import (
        HookedTransformer,
        HookedTransformerConfig,  # type: ignore[import-not-found]
    )

    model = HookedTransformer(
        HookedTransformerConfig(
            n_layers=4, d_model=768, n_ctx=bench.inputs.shape[1], d_head=16, n_heads=48, d_mlp=3072, d_vocab=VOCAB,
            act_fn="gelu_new", normalization_type="LN", device="cpu", seed=0,
        )
    ).eval()  # fmt: skip

    def without(layer: int, head: int) -> None:
        def hook(z: torch.Tensor, hook: object) -> torch.Tensor:
            del hook
            z[:, :, head] = z[:, :, head].mean((0, 1), keepdim=True)
            return z

        model.run_with_hooks(bench.inputs, return_type="loss", fwd_hooks=[(f"blocks.{layer}.attn.hook_z", hook)])

    with torch.no_grad():
        model(bench.inputs, return_type="loss")
        one = [seconds(lambda: model(bench.inputs, return_type="loss")) for _ in range(5)]
        some = [bench.heads[i * len(bench.heads) // heads] for i in range(heads)]
        each = [seconds(lambda at=at: without(*at)) / statistics.median(one) for at in some]
    print(
        f"TransformerLens, a pass of its own: {spread(one)}; all heads: {len(bench.heads) * sum(each) / heads:.0f} of"
    )
    print(f"these, {len(bench.heads) * sum(each) / heads * statistics.median(one):.1f} s")


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
    bench = Bench(batch, context)
    print(f"{len(bench.heads)} heads, {batch} x {context} tokens; seconds of the processor: median (range)")
    # Others' work on the machine shows here: above this benchmark's own process, times say less.
    print(f"processes that ran or waited: {os.getloadavg()[1]:.1f}, on {os.cpu_count()} cores", flush=True)
    exact(bench, parts=6, rounds=6)
    beside_a_mask(bench, rounds=5)
    transformer_lens(bench, heads=12)
    used = {what: in_process(what, batch, context) for what in ("forward", "effects", "masked", "pruned")}
    print(", ".join(f"{what} {n / 1e6:.0f} MB" for what, n in used.items()), end="; ")
    print(f"effects over forward {used['effects'] / used['forward']:.2f} (asked: 2)", end=", ")
    print(f"pruned over masked {used['pruned'] / used['masked']:.2f}")


if __name__ == "__main__":
    main()
