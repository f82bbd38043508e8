"""The two-layer attention-only models that others trained to induct, and destroyed again."""

import numpy as np

from headway.config.lm.model import Gpt2
from headway.models.transformer import Transformer
from support.stored import data

VOCAB, CONTEXT = 26, 8
MODEL = Gpt2(
    family="gpt-2",
    d_model=64,
    n_layers=2,
    n_heads=1,
    n_positions=CONTEXT,
    norm="none",
    mlp="none",
    tied=False,
    biases=("qkv", "output"),
)


def read(file):
    """TransformerLens's names: W_Q, W_K, W_V (head, d_model, d_head), W_O (head, d_head, d_model)."""
    theirs = np.load(data(f"induction/{file}.npz"))
    weights = {
        "embedding.weight": theirs["embed.W_E"],
        "positions.weight": theirs["pos_embed.W_pos"],
        "readout.weight": theirs["unembed.W_U"].T,
    }
    assert not theirs["unembed.b_U"].any(), "ours has no such bias"
    for layer in range(2):
        for name in "QKVO":
            at, ours = f"blocks.{layer}.attn", f"layers.{layer}.attention.{name.lower()}"
            weights[f"{ours}.weight"] = theirs[f"{at}.W_{name}"][0].T
            weights[f"{ours}.bias"] = theirs[f"{at}.b_{name}"].reshape(-1)
    return Transformer(MODEL, VOCAB, weights).eval()


def on_its_task(period, sequences, seed=0):
    """Random letters of which the last came before, `period` places earlier."""
    random = np.random.default_rng(seed)
    repeated = random.integers(VOCAB, size=(sequences, 1))
    letters = (repeated + random.integers(1, VOCAB, size=(sequences, CONTEXT))) % VOCAB
    letters[:, [CONTEXT - 1 - period, CONTEXT - 1]] = repeated
    return letters
