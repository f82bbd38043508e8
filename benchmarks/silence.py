"""How often the x-ray of a model that learnt nothing has a finding, and how often planted heads are found.

    python benchmarks/silence.py     # some minutes; --models 20: fewer

Models are drawn: 1 to 6 layers of 1 to 16 heads, ragged, grouped, windowed, d_head 2 to 128, d_model up to 256, with
norms before, after or none, learned, rotary, sinusoidal or no positions, initial weights from 1 to 20 times .01. Their
texts are random tokens of which few are frequent. A page may have a finding in 5 of 100; a planted head is one that
does what its name says with the strength that is stated, among untrained heads.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections import Counter

import numpy as np
import torch

from headway.declare.tokens.transformer import Gpt2, GptNeo, Llama, TransformerModel
from headway.heads.comparison import examine_beside_untrained
from headway.heads.compositions import compositions
from headway.heads.examination import Repetition
from headway.heads.findings import Finding, findings
from headway.heads.names import row_labels
from headway.model import redraw
from headway.model.transformer import Transformer
from headway.model.weights import initial_weights

DRAWS = 16
WIDEST = 256
"""Of a layer's heads together: wider ones are slow, and no other."""


def drawn_model(seed: int) -> tuple[TransformerModel, int, int]:
    """A shape, its vocabulary and the length of its texts."""
    random = np.random.default_rng([seed, 12])
    n_layers, length = int(random.integers(1, 7)), int(random.choice([24, 48, 96]))
    family = [Gpt2, GptNeo, Llama][random.integers(3)]
    d_head = int(random.choice([2, 4, 8, 16, 32, 64, 128]))
    d_model = int(random.choice([16, 32, 64, 128, 256]))
    layers = []
    for _ in range(n_layers if random.random() < 0.5 else 1):
        n_heads = int(random.choice([n for n in (1, 2, 3, 4, 6, 8, 12, 16) if n * d_head <= WIDEST]))
        group = int(random.choice([n for n in (1, 1, 2, 3, 4) if n_heads % n == 0]))
        layers.append(f"{n_heads}:{n_heads // group}x{d_head}" if group > 1 else f"{n_heads}x{d_head}")
    layout = "-".join(layers if len(layers) == n_layers else layers * n_layers)
    windows = [(None,), (None, 4), (8,), (None, 16, 2)][random.integers(4)]
    given = {
        "family": {Gpt2: "gpt-2", GptNeo: "gpt-neo", Llama: "llama"}[family],
        "d_model": d_model,
        "n_layers": n_layers,
        "n_heads": layout,
        "windows": windows,
        "n_positions": length,
        "init_std": float(random.choice([0.01, 0.02, 0.05, 0.1, 0.2])),
        "norm_place": str(random.choice(["before", "before", "after"])),
    }
    if random.random() < 0.2:
        given["norm"] = "none"
        given["init_std"] = min(given["init_std"], 0.05)  # the stream must not overflow
    if family is not Llama and random.random() < 0.3:
        given["positions"] = str(random.choice(["sinusoidal", "none"]))
    return family(**given), int(random.choice([17, 64, 512])), length


def texts(seed: int, vocab_size: int, length: int, sequences: int) -> torch.Tensor:
    """Tokens of which few are frequent, as in a text."""
    random = np.random.default_rng([seed, 13])
    shares = 1 / np.arange(1, vocab_size + 1)
    return torch.from_numpy(random.choice(vocab_size, (sequences, length), p=shares / shares.sum()))


def page(model: Transformer, tokens: torch.Tensor, draws: int = DRAWS) -> list[Finding]:
    """What an x-ray finds."""
    longest = min(64, tokens.shape[1] // 2, model.vocab_size)
    repetition = Repetition.drawn(model.vocab_size, longest, sequences=8, at_once=8, seed=0, device=torch.device("cpu"))
    with torch.inference_mode():
        readings = [redraw.read(model, tokens)]
        attentions = readings[0].trace.attentions
        scores = examine_beside_untrained(
            readings, read=lambda given: redraw.read(model, given), repetition=repetition, weights=None, draws=draws
        )
        composition = compositions(model)
    labels = row_labels([attention.name for attention in attentions])
    kv_of = {attention.name: attention.kv_of for attention in attentions}
    return [finding for finding in findings(scores, labels, kv_of, composition) if finding.found]


def untrained(seed: int) -> tuple[TransformerModel, list[Finding]]:
    declared, vocab_size, length = drawn_model(seed)
    model = Transformer(declared, vocab_size, initial_weights(declared, vocab_size, seed)).eval()
    return declared, page(model, texts(seed, vocab_size, length, max(2, 256 // length)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    kinds: Counter[str] = Counter()
    pages, began = 0, time.perf_counter()
    for seed in range(asked.first, asked.first + asked.models):
        declared, found = untrained(seed)
        pages += bool(found)
        kinds.update(finding.about for finding in found)
        for finding in found:
            print(
                f"  {seed}: {declared.layout} d_model {declared.d_model} {declared.model_dump()['family']} "
                f"{declared.norm} {declared.norm_place} {declared.positions} init {declared.init_std} "
                f"windows {declared.windows}: {finding.sentence} p {finding.p:.3g}",
                flush=True,
            )
    print(f"{pages} of {asked.models} pages have a finding; {dict(kinds)}; {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
