"""Training tokens per second: Headway's trainer beside Hugging Face's GPT-Neo with AdamW, in one run.

    python benchmarks/lm_train.py            # five rounds of about two minutes in all; --quick: one short round

Both train a GPT-Neo of d_model 128, 4 layers, 8 heads, vocabulary 4,096 and windows of 256 on batches of 16 sequences
of 256 random tokens, on two cores. Hugging Face's runs as it comes: eager, fp32, its own eager attention, AdamW; and
once more in a process that keeps freed memory, as Headway's workers do. Headway's loss is compiled, in fp32 and in
bf16; clipping and the step size's decay are part of its step. Each has a process of its own, and they take turns, since
machines vary while they are measured; compiling and the first steps do not count.
"""

import argparse
import os
import sys

from headway.execute.worker import set_up_process

AS_IT_COMES, AS_A_WORKER = "Hugging Face, eager fp32", "the same, a worker's memory"
if AS_IT_COMES in sys.argv:
    os.environ["OMP_NUM_THREADS"] = "2"  # before torch reads it
else:
    set_up_process(threads=2)

import itertools
import statistics
import subprocess
import time
from collections.abc import Callable

import numpy as np
import torch

from headway.config.kinds import parse_run
from headway.config.lm.run import TokensRun
from headway.data.batch import Batch
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights
from headway.train.lm.loss import TokensLoss
from headway.train.lm.study import tokens_trainer

VOCAB, CONTEXT, BATCH, D_MODEL, LAYERS, HEADS = 4096, 256, 16, 128, 4, 8
RATE = 5e-4


def batches() -> list[Batch]:
    draw = np.random.default_rng(0).integers(VOCAB, size=(8, BATCH, CONTEXT + 1))
    return [Batch(inputs=tokens[:, :-1].copy(), targets=tokens[:, 1:].copy()) for tokens in draw]


def headway(precision: str) -> Callable[[int], None]:
    run = parse_run(
        {
            "task": {"kind": "text", "corpus": "stories", "tokenizer": f"bpe-{VOCAB}", "n_ctx": CONTEXT},
            "model": {"family": "gpt-neo", "d_model": D_MODEL, "n_layers": LAYERS, "n_heads": HEADS},
            "training": {
                "optimizer": "adamw",
                "learning_rate": RATE,
                "batch_size": BATCH,
                "steps": 1_000_000,
                "precision": precision,
            },
            "seed": 0,
        }
    )
    assert isinstance(run, TokensRun)
    module = Transformer(run.model, VOCAB, initial_weights(run.model, VOCAB, 0))
    loss, data = TokensLoss(run, module, compile=True), batches()
    trainer = tokens_trainer(loss, 1_000_000, lambda step: loss.split(data[step % len(data)]))

    def advance(n: int) -> None:
        trainer.advance(n)

    return advance


def hugging_face() -> Callable[[int], None]:
    from transformers import GPTNeoConfig, GPTNeoForCausalLM

    torch.manual_seed(0)
    config = GPTNeoConfig(
        vocab_size=VOCAB,
        hidden_size=D_MODEL,
        num_layers=LAYERS,
        num_heads=HEADS,
        attention_types=[[["global", "local"], LAYERS // 2]],
        window_size=256,
        max_position_embeddings=2048,
        attn_implementation="eager",
    )
    model = GPTNeoForCausalLM(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    data = itertools.cycle(torch.from_numpy(batch.inputs) for batch in batches())

    def advance(n: int) -> None:
        for _ in range(n):
            tokens = next(data)
            optimizer.zero_grad()
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()

    return advance


TRAINED: dict[str, Callable[[], Callable[[int], None]]] = {
    AS_IT_COMES: hugging_face,
    AS_A_WORKER: hugging_face,
    "Headway, fp32": lambda: headway("fp32"),
    "Headway, bf16": lambda: headway("bf16"),
}


def child(name: str) -> None:
    """Train for as many seconds as each line of the input says, and print the tokens per second."""
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    advance = TRAINED[name]()
    advance(3)
    print("ready", flush=True)
    for line in sys.stdin:
        began, steps = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < float(line):
            advance(1)
            steps += 1
        print(steps * BATCH * CONTEXT / elapsed, flush=True)


class Child:
    """A process that trains when it is asked to."""

    def __init__(self, name: str) -> None:
        command = [sys.executable, __file__, "--child", name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._hears() == "ready\n"

    def rate(self, seconds: float) -> float:
        """Tokens per second over about so many seconds."""
        assert self._process.stdin
        print(seconds, file=self._process.stdin, flush=True)
        return float(self._hears())

    def _hears(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline() or sys.exit("a process that trained has ended")

    def end(self) -> None:
        """Let it go."""
        self._process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short round, to see that it works")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.child)
        return
    children = {name: Child(name) for name in TRAINED}
    rounds = [
        {name: child.rate(2.0 if asked.quick else 8.0) for name, child in children.items()}
        for _ in range(1 if asked.quick else 5)
    ]
    for each in children.values():
        each.end()
    print(f"{'':28} {'tokens/s, median (range)':30} ratio, median (range)")
    for name in TRAINED:
        rates, ratios = [r[name] for r in rounds], [r[name] / r[AS_IT_COMES] for r in rounds]
        shown = f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"
        print(f"{name:28} {shown:30} {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
