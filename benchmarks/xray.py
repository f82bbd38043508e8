"""Time and memory of x-raying every head, beside the plain forward pass and beside stored eager patterns.

    python benchmarks/xray.py            # about four minutes; --quick: one small round, to see that it works

A GPT-Neo of d_model 768, 4 layers of 48 heads, all of them global, and 50,257 tokens reads 4 sequences of 512 random
tokens. `forward` gives the logits; `trace` what every head did, without the read-out; `streamed` is that trace and all
diversity metrics of all heads and pairs, as probes measure them; `stored` is the way of a cache of activations: a
forward pass with eager attention that keeps every pattern and every head's output, then the four metrics, raw and
normalised, by their definitions. Each measurement is a fresh process on two cores, the kinds by turns, so that all of
them see the same machine: a first pass gives the peak of memory above what the process held before, a second the time.
"""

import argparse
import os

os.environ["OMP_NUM_THREADS"] = "2"  # before torch reads it

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import torch
from torch import Tensor

from headway.config.head_metrics import HEAD_METRICS
from headway.config.lm.model import GptNeo
from headway.heads.measure import HeadStream
from headway.models import attention
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights
from headway.train.process_memory import peak_bytes

LAYERS, HEADS, D_MODEL, VOCAB = 4, 48, 768, 50_257
FOUR = ("query_cka", "context_cka", "output_dissimilarity", "attention_diversity")
"""A number of each of the four metrics, by which streamed and stored are compared."""
MEMORY_TARGET, TIME_TARGET = 150e6, 1.3
Means = dict[str, list[float]]


def forward(model: Transformer, tokens: Tensor) -> Means:
    model(tokens)
    return {}


def trace(model: Transformer, tokens: Tensor) -> Means:
    model.trace(tokens)
    return {}


def streamed(model: Transformer, tokens: Tensor) -> Means:
    """All diversity metrics; of those compared, their means over the heads or pairs of each layer."""
    stream = HeadStream([name for name, metric in HEAD_METRICS.items() if metric.family == "diversity"])
    stream.add(model.trace(tokens))
    scores = stream.scores()
    return {name: list(scores[name].per_layer().values()) for name in FOUR}


def stored(model: Transformer, tokens: Tensor) -> Means:
    """The four metrics from patterns and outputs of all heads of all layers, kept together."""
    patterns: list[Tensor] = []

    def eager(q: Tensor, k: Tensor, v: Tensor, *, scale: float, **rest: object) -> Tensor:
        del rest  # neither window nor dropout nor another direction here
        hidden = ~attention.sees(q.shape[2], k.shape[2], None, q.device)
        patterns.append((q @ k.mT * scale).masked_fill(hidden, -torch.inf).softmax(3))
        return patterns[-1] @ v

    for part in model.modules():
        if isinstance(part, attention.Attention):
            part.attend = eager
    _, recorded = model(tokens, record=True)
    cache = [(a.q, a.z, kept, a.contributions()) for a, kept in zip(recorded.attentions, patterns, strict=True)]
    found: Means = {name: [] for name in FOUR}
    for q, z, kept, outputs in cache:
        for name, x in (("query_cka", q), ("context_cka", z)):
            rows = x.transpose(0, 1).flatten(1, 2)
            cross = torch.einsum("inp,jnr->ijpr", rows, rows)
            cross.abs().sum((2, 3))  # the raw metric
            norms = cross.square().sum((2, 3))
            own = norms.diagonal().sqrt()
            found[name].append(over_pairs(norms / own[:, None] / own))
        unit = torch.nn.functional.normalize(outputs, dim=3).transpose(0, 1).flatten(1, 2)
        found["output_dissimilarity"].append(over_pairs(-torch.einsum("inm,jnm->ij", unit, unit) / unit.shape[1]))
        kept.var((2, 3), correction=0)  # the raw metric
        seen = torch.arange(1, kept.shape[2] + 1)
        normalised = (seen * kept.square().sum(3) - 1)[:, :, 1:] / (seen - 1)[1:]
        found["attention_diversity"].append(float(normalised.mean()))
    return found


def over_pairs(values: Tensor) -> float:
    n = len(values)
    return float((values.sum() - values.trace()) / (n * (n - 1)))


KINDS: dict[str, Callable[[Transformer, Tensor], Means]] = {
    "forward": forward,
    "trace": trace,
    "streamed": streamed,
    "stored": stored,
}


def measurement(kind: str, batch: int, context: int) -> dict[str, object]:
    """Seconds and memory of one pass in this process, and what it found."""
    torch.set_num_threads(2)
    declared = GptNeo(family="gpt-neo", d_model=D_MODEL, n_layers=LAYERS, n_heads=HEADS, windows=(None,))
    model = Transformer(declared, VOCAB, initial_weights(declared, VOCAB, 0)).eval()
    tokens = torch.randint(VOCAB, (batch, context), generator=torch.Generator().manual_seed(0))
    run = KINDS[kind]
    with torch.inference_mode():
        run(model, tokens[:1, :16])  # torch loads what it needs
        held = psutil.Process().memory_info().rss
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
        found = run(model, tokens)
        memory = peak_bytes() - held
        began = time.perf_counter()
        run(model, tokens)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "memory": memory, "found": found}


def in_process(kind: str, batch: int, context: int) -> dict[str, object]:
    command = [sys.executable, __file__, "--measure", kind, str(batch), str(context)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def spread(values: list[float], digits: int) -> str:
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one round of short texts")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each kind")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        kind, batch, context = asked.measure
        print(json.dumps(measurement(kind, int(batch), int(context))))
        return
    batch, context, rounds = (1, 128, 1) if asked.quick else (4, 512, asked.rounds)
    runs = [{kind: in_process(kind, batch, context) for kind in KINDS} for _ in range(rounds)]
    print(f"{batch} x {context} tokens, {LAYERS} x {HEADS} heads; median (range) of {rounds}")
    print(f"{'':9} {'seconds':>22} {'x forward':>22} {'MB':>8} {'above forward':>14}")
    memory = {kind: max(float(run[kind]["memory"]) for run in runs) for kind in KINDS}  # type: ignore[arg-type]
    for kind in KINDS:
        seconds = [float(run[kind]["seconds"]) for run in runs]  # type: ignore[arg-type]
        ratios = [s / float(run["forward"]["seconds"]) for s, run in zip(seconds, runs, strict=True)]  # type: ignore[arg-type]
        above = f"{(memory[kind] - memory['forward']) / 1e6:+,.0f}"
        print(f"{kind:9} {spread(seconds, 2):>22} {spread(ratios, 2):>22} {memory[kind] / 1e6:8,.0f} {above:>14}")
    print(f"targets for streamed: at most {TIME_TARGET} x forward and {MEMORY_TARGET / 1e6:.0f} MB above it")
    far = max(
        abs(a / b - 1)
        for name in FOUR
        for a, b in zip(runs[0]["streamed"]["found"][name], runs[0]["stored"]["found"][name], strict=True)  # type: ignore[index]
    )
    print(f"streamed and stored differ by {far:.1e} of the metrics' means at most")


if __name__ == "__main__":
    main()
