"""Heads: a finished model to be looked at head by head: patterns, token pairs, circuits, numbers. Numpy alone."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headway.errors import UserError
from headway.heads.model_on_text import ModelOnText
from headway.heads.names import head_names
from headway.heads.packed import PackedPatterns
from headway.heads.scores import Composition

Head = tuple[str, int]
"""An attention and the number of a head of it."""


@dataclass(frozen=True, kw_only=True)
class ShownSequence:
    """A sequence whose patterns are kept.

    Attributes:
        kind: of the text, or random tokens of which some are repeated.
        tokens: as the model reads them.
        begins: the first position that is repeated; None of a text.
        period: after how many tokens it stands there again; None of a text.
    """

    kind: Literal["text", "repeated"]
    tokens: tuple[int, ...]
    begins: int | None = None
    period: int | None = None


@dataclass(frozen=True, kw_only=True)
class AttendedPair:
    """A token that looks at another one more than an even head would, over all places where it could.

    Attributes:
        query: the token that looks.
        key: the token that it looks at.
        weight: the mean weight, over all pairs of positions.
        even: what even attention would give there.
        n: such pairs of positions.
    """

    query: int
    key: int
    weight: float
    even: float
    n: int


@dataclass(frozen=True, kw_only=True)
class TokenCircuits:
    """What the weights of a head say of tokens, in standard deviations of all entries of its circuit.

    Attributes:
        copies: tokens that become likelier where they are attended to, most first.
        suppresses: tokens that become less likely there.
        raises: the token attended to, and another one that becomes likelier.
        matches: the token that looks, and the one that it scores highest.
    """

    copies: tuple[tuple[int, float], ...]
    suppresses: tuple[tuple[int, float], ...]
    raises: tuple[tuple[int, int, float], ...]
    matches: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, kw_only=True)
class Circuits:
    """The circuits of all heads on the same tokens.

    Attributes:
        n_tokens: tokens that circuits were read on.
        all: whether these are the whole vocabulary, and not the text's most frequent.
        by_chance: about the largest entry of a circuit of as many independent numbers.
        of: by head.
    """

    n_tokens: int
    all: bool
    by_chance: float
    of: Mapping[Head, TokenCircuits]


@dataclass(frozen=True, kw_only=True)
class KeptStep:
    """What the heads did at a step of training whose weights were kept.

    Attributes:
        step: of training.
        circuits: of the same tokens as those of the finished model.
        composition: None where that of the finished model is not known either.
        patterns: as those of the finished model, of fewer sequences where not all fit.
    """

    step: int
    circuits: Circuits | None
    composition: Composition | None
    patterns: Mapping[tuple[str, int], PackedPatterns]


@dataclass(frozen=True, kw_only=True)
class ModelView:
    """All that is shown of a model when one looks at its heads.

    Attributes:
        name: of the model.
        found: its numbers on a text, with what untrained heads show where there was enough text to say.
        words: what is written for each token that occurs.
        sequences: whose patterns are kept, of the text and repeated in turn.
        patterns: by attention and number of the sequence; fewer where only some heads are kept.
        pairs: by head, the most attended first.
        pairs_from: how many sequences these are from.
        circuits: of tokens; None where they cannot be read.
        no_circuits: why they cannot, a sentence.
        run: the folder of the run that trained it, if one of Headway's did.
        kept: what its heads did at steps whose weights the run kept, ascending.
        decodes: whether it is a decoder over an encoder, which reads tokens one later.
        notes: what was cut or left out, and why.
    """

    name: str
    found: ModelOnText
    words: Mapping[int, str]
    sequences: tuple[ShownSequence, ...]
    patterns: Mapping[tuple[str, int], PackedPatterns]
    pairs: Mapping[Head, tuple[AttendedPair, ...]]
    pairs_from: int
    circuits: Circuits | None
    no_circuits: str = ""
    run: Path | None = None
    kept: tuple[KeptStep, ...] = ()
    decodes: bool = False
    notes: tuple[str, ...] = field(default=())


def chosen_heads(asked: str | None, labels: Mapping[str, str], n_heads: Mapping[str, int]) -> dict[str, list[int]]:
    """The heads that somebody asks for, by attention.

    Args:
        asked: heads and layers such as `L0H3,L2`; None: all.
        labels: what each attention is called.
        n_heads: the heads of each.

    Raises:
        UserError: naming what is no head of the model.

    Examples:
        >>> chosen_heads("L0H1, L1", {"a": "L0", "b": "L1"}, {"a": 2, "b": 2})
        {'a': [1], 'b': [0, 1]}
    """
    if asked is None:
        return {name: list(range(n_heads[name])) for name in labels}
    known = {label: [(name, head) for head in range(n_heads[name])] for name, label in labels.items()}
    for name, label in labels.items():
        known |= {called: [(name, head)] for head, called in enumerate(head_names(label, n_heads[name]))}
    wanted: set[Head] = set()
    words = [word for part in asked.split(",") if (word := part.strip())]
    if not words:
        such = f"{list(known)[-1]} or {next(iter(labels.values()))}"
        raise UserError(f"heads {asked!r}: no head and no layer is named; give such as {such}")
    for word in words:
        if word not in known:
            raise UserError(f"heads {word!r}: {_not_there(word, labels, n_heads, list(known))}")
        wanted.update(known[word])
    return {name: found for name in labels if (found := [h for h in range(n_heads[name]) if (name, h) in wanted])}


def _not_there(word: str, labels: Mapping[str, str], n_heads: Mapping[str, int], known: Sequence[str]) -> str:
    found = re.fullmatch(r"(.*L\d+)H\d+", word)
    of_layer = next((name for name, label in labels.items() if found and label == found[1]), None)
    if of_layer is not None:
        called = head_names(labels[of_layer], n_heads[of_layer])
        return f"layer {labels[of_layer]} has the heads {called[0]} to {called[-1]}"
    if found:
        return f"there is no such layer; the model has {', '.join(labels.values())}"
    return f"it is no head and no layer of the model; give such as {known[-1]} or {next(iter(labels.values()))}"
