"""A TinyStories model that others trained, as one of ours: llama2.c's weight names, and its tokenizer."""

import struct
from itertools import pairwise
from pathlib import Path

import numpy as np

from headway.config.lm.model import Llama
from headway.models.weights import Weights

MODEL = Llama(
    family="llama",
    d_model=64,
    n_layers=5,
    n_heads=8,
    n_kv_heads=4,
    d_mlp=172,
    n_positions=512,
    tied=True,
    norm_eps=1e-5,
)
VOCAB_SIZE = 512
BOS = 1


def load(file: Path) -> Weights:
    """The weights under our names. Its rotary pairs are neighbours, ours are halves: rows of Q and K are reordered."""
    theirs = np.load(file)
    weights = {"embedding.weight": theirs["tok_embeddings.weight"], "norm.weight": theirs["norm.weight"]}
    names = {"attention_norm": "attention_norm", "ffn_norm": "mlp_norm", "w1": "mlp.gate", "w3": "mlp.up"}
    names |= {"w2": "mlp.down", "wq": "attention.q", "wk": "attention.k", "wv": "attention.v", "wo": "attention.o"}
    for layer in range(MODEL.n_layers):
        for name, ours in names.items():
            array = theirs[f"{name}.weight"][layer]
            if name in ("wq", "wk"):
                array = array.reshape(-1, 4, 2, 64).swapaxes(1, 2).reshape(array.shape)
            weights[f"layers.{layer}.{ours}.weight"] = array
    return weights


class Tokenizer:
    """llama2.c's: characters, bytes where a character is unknown, then the best-scored merges first."""

    def __init__(self, file: Path) -> None:
        content, at = file.read_bytes(), 4
        self.pieces, self.scores = [], []
        while at < len(content):
            score, length = struct.unpack_from("<fi", content, at)
            self.pieces.append(content[at + 8 : at + 8 + length])
            self.scores.append(score)
            at += 8 + length
        self.ids = {piece: token for token, piece in reversed(list(enumerate(self.pieces)))}

    def encode(self, text: str) -> list[int]:
        tokens: list[int] = []
        for character in " " + text:
            piece = character.encode()
            tokens += [self.ids[piece]] if piece in self.ids else [byte + 3 for byte in piece]
        while True:
            merged = [self.ids.get(self.pieces[a] + self.pieces[b]) for a, b in pairwise(tokens)]
            possible = [(self.scores[token], -at) for at, token in enumerate(merged) if token is not None]
            if not possible:
                return tokens
            at = -max(possible)[1]
            tokens[at : at + 2] = [merged[at]]

    def decode(self, tokens: list[int]) -> str:
        return b"".join(self.pieces[token] for token in tokens).decode(errors="replace")
