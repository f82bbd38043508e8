"""Time and memory of a training step against the number of heads, with fused and with eager attention.

    python benchmarks/heads.py            # about eight minutes; --quick: a minute, to see that it works

A GPT-Neo of d_model 768 and 4 layers, all layers global, with 12 to 768 heads in all: its parameters are the same
whatever the heads. Fused attention is the model's own, torch's scaled_dot_product_attention; eager attention is its
definition, holding heads x queries x keys. Batches are 2 sequences of 512 random tokens, the vocabulary 512, so that
attention is a visible part. Each point is a fresh process on two cores, fused and eager by turns; memory is the peak
above what the process held before the model was built. A point that memory does not hold is left out, and said so.
"""

import argparse

from headway.execute.worker import set_up_process

set_up_process(threads=2)  # before torch reads it

import json
import statistics
import subprocess
import sys
import time

import numpy as np
import psutil

TOTALS = (12, 48, 96, 192, 384, 768)
LAYERS, D_MODEL, VOCAB = 4, 768, 512


def point(total: int, kind: str, batch: int, context: int, steps: int) -> dict[str, object]:
    """Seconds of each of some steps, and the memory, in this process."""
    import torch

    from headway.config.kinds import parse_run
    from headway.config.lm.run import TokensRun
    from headway.data.batch import Batch
    from headway.models import attention
    from headway.models.transformer import Transformer
    from headway.models.weights import initial_weights
    from headway.train.device import Meter
    from headway.train.lm.loss import TokensLoss
    from headway.train.lm.study import tokens_trainer

    def eager(q, k, v, *, scale, **_):  # type: ignore[no-untyped-def]
        hidden = ~attention.sees(q.shape[2], k.shape[2], None, q.device)
        return (q @ k.mT * scale).masked_fill(hidden, -torch.inf).softmax(3) @ v

    torch.set_num_threads(2)
    if kind == "eager":
        attention.attend = eager  # type: ignore[assignment]
    heads = total // LAYERS
    model = {"family": "gpt-neo", "d_model": D_MODEL, "n_layers": LAYERS, "n_heads": heads, "windows": [None]}
    training = {"optimizer": "adamw", "learning_rate": 1e-4, "batch_size": batch, "steps": 1_000}
    task = {"kind": "text", "corpus": "stories", "tokenizer": f"bpe-{VOCAB}", "n_ctx": context}
    run = parse_run({"task": task, "model": model, "training": training, "seed": 0})
    assert isinstance(run, TokensRun)
    meter = Meter(torch.device("cpu"))
    loss = TokensLoss(run, Transformer(run.model, VOCAB, initial_weights(run.model, VOCAB, 0)), compile=False)
    tokens = np.random.default_rng(0).integers(VOCAB, size=(2, batch, context))
    trainer = tokens_trainer(loss, 1_000, lambda _: loss.split(Batch(inputs=tokens[0], targets=tokens[1])))
    trainer.advance(1)
    meter.begin_training()
    seconds = []
    for _ in range(steps):
        began = time.perf_counter()
        trainer.advance(1)
        seconds.append(time.perf_counter() - began)
    return {"seconds": seconds, "memory_bytes": meter.metrics()["memory_bytes"]}


def in_process(total: int, kind: str, batch: int, context: int, steps: int) -> dict[str, list[float]] | None:
    """The same in a fresh process; None where memory does not hold it."""
    # Eager attention keeps about four arrays of scores a layer for the backward pass.
    scores = 4 * 4 * batch * total * context * context
    if kind == "eager" and scores > 0.8 * psutil.virtual_memory().available:
        return None
    command = [sys.executable, __file__, "--point", *map(str, (total, kind, batch, context, steps))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    return {"seconds": found["seconds"], "memory": [found["memory_bytes"]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short steps at a few points")
    parser.add_argument("--rounds", type=int, default=2, help="processes for each point")
    parser.add_argument("--point", nargs=5, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.point:
        total, kind, *sizes = asked.point
        print(json.dumps(point(int(total), kind, *map(int, sizes))))
        return
    batch, context, steps = (1, 128, 2) if asked.quick else (2, 512, 4)
    totals, rounds = ((12, 192, 768), 1) if asked.quick else (TOTALS, asked.rounds)
    found: dict[tuple[int, str], list[dict[str, list[float]] | None]] = {}
    for _ in range(rounds):
        for total in totals:
            for kind in ("fused", "eager"):
                found.setdefault((total, kind), []).append(in_process(total, kind, batch, context, steps))
    print(f"{batch} x {context} tokens; seconds a step: median (range)")
    print(f"{'heads':>5}  {'d_head':>6}  {'fused, s':>20}  {'fused, MB':>9}  {'eager, s':>20}  {'eager, MB':>9}")
    memory = []
    for total in totals:
        cells = []
        for kind in ("fused", "eager"):
            results = [result for result in found[total, kind] if result]
            if not results:
                cells += [f"{'does not fit':>20}", f"{'':>9}"]
                continue
            seconds = [s for result in results for s in result["seconds"]]
            most = max(m for result in results for m in result["memory"])
            memory += [most] if kind == "fused" else []
            cells += [f"{statistics.median(seconds):6.2f} ({min(seconds):.2f} to {max(seconds):.2f})".rjust(20)]
            cells += [f"{most / 1e6:9,.0f}"]
        print(f"{total:5d}  {D_MODEL * LAYERS // total:6d}  {'  '.join(cells)}")
    print(f"fused: the memory at {totals[-1]} heads is {memory[-1] / memory[0] - 1:+.1%} of that at {totals[0]}")


if __name__ == "__main__":
    main()
