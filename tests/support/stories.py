"""Stories: a TinyStories model that others trained, with its tokenizer, and a slow reading of the grammar.

The model is read with llama2.c's weight names. `tokenizer` is its tokenizer as one of the library `tokenizers`, so that
it fits into a folder of Hugging Face. `derivations` tries all options everywhere.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, processors

from headway.config.lm.model import Llama
from headway.data import tokenizer as headway_tokenizer
from headway.data.grammar import Choice, Grammar, Option, Said, Shown
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


SPECIAL = ("<unk>", "<s>", "</s>")


def tokenizer(file: Path) -> headway_tokenizer.Tokenizer:
    """llama2.c merges the pair with the best-scored whole first: merges in the order of the scores of their wholes."""
    published = Tokenizer(file)
    pieces = [piece.decode(errors="replace").replace(" ", "▁") for piece in published.pieces]
    for token in range(len(SPECIAL)):
        pieces[token] = SPECIAL[token]
    for token in range(3, 259):
        pieces[token] = f"<0x{token - 3:02X}>"
    ids = {piece: token for token, piece in reversed(list(enumerate(pieces)))}
    merges = sorted(
        (-published.scores[token], piece[:at], piece[at:])
        for piece, token in ids.items()
        if token >= 259
        for at in range(1, len(piece))
        if piece[:at] in ids and piece[at:] in ids
    )
    inner = tokenizers.Tokenizer(
        models.BPE(vocab=ids, merges=[(a, b) for _, a, b in merges], unk_token="<unk>", byte_fallback=True)
    )
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    inner.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return headway_tokenizer.Tokenizer.of(inner, str(file))


_State = tuple[int, dict[str, Said], float]


def derivations(grammar: Grammar, text: str) -> list[float]:
    """Minus the log probability of each derivation of a text."""
    return [nats for end, _, nats in _rule(grammar, grammar.start, text, 0, {}) if end == len(text)]


def _rule(grammar: Grammar, rule: str, text: str, start: int, said: dict[str, Said]) -> Iterator[_State]:
    for _, (end, after, nats) in _options(grammar, rule, text, start, said):
        yield end, after, nats


def _options(
    grammar: Grammar, rule: str, text: str, start: int, said: dict[str, Said]
) -> Iterator[tuple[Option, _State]]:
    for option in grammar.rules[rule]:
        for end, after, nats in _parts(grammar, option.parts, text, start, said):
            yield option, (end, after, nats + option.nats)


def _parts(grammar: Grammar, parts: tuple, text: str, start: int, said: dict[str, Said]) -> Iterator[_State]:
    if not parts:
        yield start, said, 0.0
        return
    first, *rest = parts
    if isinstance(first, Choice):
        heads = _choice(grammar, first, text, start, said)
    else:
        piece = said[first.name].form(first.form) if isinstance(first, Shown) else first
        heads = iter([(start + len(piece), said, 0.0)] if text.startswith(piece, start) else [])
    for middle, between, nats in heads:
        for end, after, more in _parts(grammar, tuple(rest), text, middle, between):
            yield end, after, nats + more


def _choice(grammar: Grammar, choice: Choice, text: str, start: int, said: dict[str, Said]) -> Iterator[_State]:
    rule = choice.rule_for(said[choice.of].kind if choice.of else None)
    if choice.silent:
        for option in grammar.rules[rule]:  # each is one piece of text, which is written later
            (piece,) = option.parts
            what = Said(text=piece, kind=option.kind, gender=option.gender)
            yield start, {**said, choice.name: what}, option.nats
        return
    begins = [start + 1] if choice.maybe and text.startswith(" ", start) else [] if choice.maybe else [start]
    if choice.maybe:
        yield from ((start, said, option.nats) for option in grammar.rules[rule] if not option.parts)
    for begin in begins:
        for option, (end, after, nats) in _options(grammar, rule, text, begin, said):
            if choice.maybe and end == begin:
                continue
            if choice.name:
                what = Said(text=text[begin:end], kind=option.kind, gender=option.gender)
                after = {**after, choice.name: what}
            yield end, after, nats
