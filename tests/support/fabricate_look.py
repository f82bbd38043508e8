"""Models to be looked at that were never trained: planted patterns and numbers, for pages and what they show."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from headway.heads.results import (
    AttendedPair,
    AttentionHeads,
    Circuits,
    KeptStep,
    ModelView,
    PackedPatterns,
    ShownSequence,
    TokenCircuits,
    XRay,
)
from headway.heads.scores import Composition, HeadScores

WORDS = ("The", " cat", " sat", " on", " the", " mat", ".", "↵", "He", " pur", "red", " a", " lot", "!")
LENGTH = 24


def name_of(layer: int) -> str:
    return f"layers.{layer}.attention"


def pattern(kind: str, n: int = LENGTH) -> np.ndarray:
    """What a head does that does one thing: looks at the token before, at the first, or at all evenly."""
    lower = np.tri(n)
    if kind == "even":
        return lower / lower.sum(1, keepdims=True)
    looked = np.maximum(np.arange(n) - 1, 0) if kind == "previous" else np.zeros(n, int)
    return 0.75 * np.eye(n)[looked] + 0.25 * lower / lower.sum(1, keepdims=True)


def kind_of(layer: int, head: int) -> str:
    return ("previous", "first", "even")[(layer + head) % 3]


def xray_of(layout: tuple[int, ...], name: str = "planted") -> XRay:
    """An x-ray of it: a previous-token head is found, twins and compositions are there."""
    rng = np.random.default_rng(len(layout))
    names = [name_of(layer) for layer in range(len(layout))]
    of_heads = {
        name_of(layer): np.array([0.8 if kind_of(layer, head) == "previous" else 0.05 for head in range(n)])
        for layer, n in enumerate(layout)
    }
    pairs = {}
    for layer, n in enumerate(layout):
        drawn = rng.uniform(-0.5, 0.5, (n, n))
        pairs[name_of(layer)] = np.where(np.eye(n, dtype=bool), -1, (drawn + drawn.T) / 2)
    heads = tuple((name_of(layer), head) for layer, n in enumerate(layout) for head in range(n))
    layers = np.array([layer for layer, n in enumerate(layout) for _ in range(n)])
    table = np.where(layers[:, None] < layers[None], rng.uniform(0, 0.4, (len(heads), len(heads))), np.nan)
    return XRay(
        name=name,
        model={"architecture": "planted", "heads": "-".join(map(str, layout))},
        text="planted.txt",
        n_tokens=1000,
        n_sequences=4,
        length=LENGTH,
        attentions=tuple(
            AttentionHeads(name=each, kind="self", kv_of=tuple(range(n)), d_head=8)
            for each, n in zip(names, layout, strict=True)
        ),
        scores={
            "previous_token_score": HeadScores(
                metric="previous_token_score",
                values=of_heads,
                null={each: np.array(0.1) for each in names},
                n_rows=1000,
                draws={each: rng.uniform(0.08, 0.12, (16, n)) for each, n in zip(names, layout, strict=True)},
            ),
            "output_dissimilarity": HeadScores(
                metric="output_dissimilarity",
                values=pairs,
                null={each: np.array(0.0) for each in names},
                n_rows=1000,
                draws={each: rng.normal(0, 0.01, (16, n, n)) for each, n in zip(names, layout, strict=True)},
            ),
        },
        composition=Composition(
            heads=heads, q=table, k=table / 2, v=table / 3, null=0.1, chances={"q": np.where(table > 0.35, 1e-9, 0.5)}
        ),
        notes=("a planted note",),
    )


def view_of(
    layout: tuple[int, ...] = (4, 2, 1),
    *,
    name: str = "planted",
    words: tuple[str, ...] = WORDS,
    n_sequences: int = 4,
    length: int = LENGTH,
    run: Path | None = None,
) -> ModelView:
    """A model to be looked at; every second sequence is of repeated tokens."""
    tokens = [tuple((at + number) % len(words) for at in range(length)) for number in range(n_sequences)]
    sequences = tuple(
        ShownSequence(kind="text", tokens=row)
        if number % 2 == 0
        else ShownSequence(kind="repeated", tokens=row, begins=4, period=(length - 4) // 2)
        for number, row in enumerate(tokens)
    )
    heads = [(name_of(layer), head) for layer, n in enumerate(layout) for head in range(n)]
    some = [(token, 3.0 - token / 10) for token in range(min(4, len(words)))]
    circuits = TokenCircuits(
        copies=tuple(some),
        suppresses=((1, -2.5),),
        raises=((0, 1, 4.5),),
        matches=((1, 0, 5.5),),
    )
    return ModelView(
        name=name,
        found=xray_of(layout, name),
        words=dict(enumerate(words)),
        sequences=sequences,
        patterns={
            (name_of(layer), number): PackedPatterns.of(
                np.stack([pattern(kind_of(layer, head), length) for head in range(n)]), range(n)
            )
            for layer, n in enumerate(layout)
            for number in range(n_sequences)
        },
        pairs={head: (AttendedPair(query=1, key=0, weight=0.7, even=0.2, n=12),) for head in heads},
        pairs_from=n_sequences,
        circuits=Circuits(n_tokens=len(words), all=True, by_chance=3.2, of=dict.fromkeys(heads, circuits)),
        run=run,
    )


def with_kept(view: ModelView, steps: tuple[int, ...], *, sequences: int = 1) -> ModelView:
    """The same of a run that kept weights, with patterns of so many sequences.

    At the n-th of these steps all heads copy the n-th word and look at the first token alone, and nothing composes.
    """
    n_heads = {each.name: each.n_heads for each in view.found.attentions}
    assert view.circuits is not None
    heads, composition = list(view.circuits.of), view.found.composition
    assert composition is not None
    nothing = {kind: np.where(np.isfinite(getattr(composition, kind)), 0.0, np.nan) for kind in "qkv"}
    kept = tuple(
        KeptStep(
            step=step,
            circuits=replace(
                view.circuits,
                of=dict.fromkeys(
                    heads, TokenCircuits(copies=((at, 7.5),), suppresses=(), raises=(), matches=((at, at, 6.5),))
                ),
            ),
            composition=replace(composition, **nothing, chances={}),
            patterns={
                (name, number): PackedPatterns.of(
                    np.stack([pattern("first", len(view.sequences[number].tokens))] * n), range(n)
                )
                for name, n in n_heads.items()
                for number in range(sequences)
            },
        )
        for at, step in enumerate(steps)
    )
    return replace(view, kept=kept)


def encoder_decoder(length: int = LENGTH) -> ModelView:
    """A decoder over an encoder: an attention of each kind, with a head that looks at the first token."""
    view = view_of((1, 1, 1), length=length)
    kinds = ("encoder", "self", "cross")
    attentions = tuple(
        AttentionHeads(name=each.name, kind=kind, kv_of=each.kv_of, d_head=each.d_head)
        for each, kind in zip(view.found.attentions, kinds, strict=True)
    )
    everywhere = np.full((1, length, length), 0.5 / length)
    everywhere[0, :, 2] += 0.5
    patterns = {
        (name_of(layer), number): view.patterns[name_of(layer), number]
        if kind == "self"
        else PackedPatterns.of(everywhere, [0])
        for layer, kind in enumerate(kinds)
        for number in range(len(view.sequences))
    }
    return replace(view, found=replace(view.found, attentions=attentions), patterns=patterns, decodes=True)


def without_patterns(view: ModelView, *, but: str) -> ModelView:
    """The same with the patterns of one attention only."""
    return replace(view, patterns={key: packed for key, packed in view.patterns.items() if key[0] == but})
