"""Results of an x-ray or an ablation of a finished model, and of `headway look`: scores, patterns, circuits and JSON.

`XRay` holds the scores and asks `findings` which heads stand out.

Attention patterns are packed to 8 bits, so that a page holds thousands of them. Numpy alone.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float, UInt8

from headway.base.words import say, statement
from headway.errors import UserError
from headway.heads.findings import Finding, findings
from headway.heads.scores import PAIRS_IN_JSON, Composition, HeadScores, five_digits, head_names, row_labels, score_json


@dataclass(frozen=True, kw_only=True)
class AttentionHeads:
    """An attention of the model: its name, kind (self, encoder, cross), the KV head of each head, and their width."""

    name: str
    kind: str
    kv_of: tuple[int, ...]
    d_head: int

    @property
    def n_heads(self) -> int:
        """The number of query heads."""
        return len(self.kv_of)

    @property
    def n_kv_heads(self) -> int:
        """The number of heads of keys and values."""
        return len(set(self.kv_of))


def labels_of(attentions: Sequence[AttentionHeads]) -> dict[str, str]:
    """Return the label of each attention by its name: L0, or encoder L0 if there are several kinds."""
    kinds = {attention.name: attention.kind for attention in attentions}
    return row_labels(kinds, kinds)


@dataclass(frozen=True, kw_only=True)
class ModelOnText:
    """A finished model and the text that it read.

    Attributes:
        name: the name of the model's folder.
        model: the facts of the model: its kind, its number of parameters, and so on.
        text: the text that the model read.
        n_tokens: the number of tokens that it read, in `n_sequences` of `length`.
        attentions: the attentions, in the order of the model.
        scores: the scores by metric.
        notes: the sentences that say what was not measured and why, and what limits the other values.
        n_target_tokens: the tokens that a decoder over an encoder read of its own text, of `n_tokens`; 0 without one.
    """

    held: ClassVar[str] = ""
    """The comparison that a finding has to pass, in sentences."""

    name: str
    model: Mapping[str, Any]
    text: str
    n_tokens: int
    n_sequences: int
    length: int
    attentions: tuple[AttentionHeads, ...]
    scores: Mapping[str, HeadScores]
    notes: tuple[str, ...] = ()
    n_target_tokens: int = 0

    @property
    def nothing(self) -> str:
        """The sentence of a page without findings."""
        return statement("nothing").sentence

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of each attention: L0, or encoder L0 if there are several kinds."""
        return labels_of(self.attentions)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the heads, in sentences."""
        return ()

    @property
    def not_found(self) -> tuple[Finding, ...]:
        """Searches without a finding."""
        return ()

    @property
    def read(self) -> str:
        """A phrase that says how much of which text was read."""
        n, targets = self.n_sequences, self.n_target_tokens
        if targets:
            values = {"n": n, "sources": self.n_tokens - targets, "targets": targets}
            return say("read_pairs", **values, text=self.text)
        return say("read", n=n, length=self.length, tokens=self.n_tokens, text=self.text)

    def to_json(self) -> dict[str, Any]:
        """Return model, text and attentions as plain values."""
        return {
            "name": self.name,
            "model": dict(self.model),
            "text": {
                "from": self.text,
                "n_tokens": self.n_tokens,
                "n_target_tokens": self.n_target_tokens,
                "n_sequences": self.n_sequences,
                "length": self.length,
            },
            "attentions": [
                {
                    **vars(attention),
                    "n_heads": attention.n_heads,
                    "n_kv_heads": attention.n_kv_heads,
                    "label": self.labels[attention.name],
                }
                for attention in self.attentions
            ],
        }


def attentions_by_label(found: ModelOnText) -> dict[str, AttentionHeads]:
    """Return each attention by its label, in the order of figures."""
    of = {attention.name: attention for attention in found.attentions}
    return {label: of[name] for name, label in found.labels.items()}


SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class XRay(ModelOnText):
    """Metrics of every head of a finished model on a text.

    Attributes:
        composition: the composition between heads; None if it is not known.
        loss_nats: the mean loss of the model over the tokens that were read, less the first of each sequence. None if
            it is not known, and then a note gives the reason.
        unit: the unit that the loss is a mean over: tokens, or the answers that a task asks for.
    """

    held: ClassVar[str] = say("random_heads")

    composition: Composition | None = None
    loss_nats: float | None = None
    unit: str = "token"

    @property
    def read(self) -> str:
        """A phrase that says how much of which text was read, and how well the model predicts it."""
        if self.loss_nats is None:
            return super().read
        return say("read_loss", read=super().read, loss=self.loss_nats, unit=self.unit)

    @property
    def nothing(self) -> str:
        """The sentence of a page without findings; without enough re-initialised heads nothing was searched."""
        draws = max((len(drawn) for score in self.scores.values() for drawn in score.draws.values()), default=0)
        if draws >= 4:
            return statement("nothing_differs", draws=draws).sentence
        return statement("not_compared").sentence

    @cached_property
    def looked_for(self) -> tuple[Finding, ...]:
        """The result of every search for heads that stand out, in sentences."""
        return tuple(findings(self.scores, self.labels, self.composition))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the heads, in sentences; none on 95 % of models that learnt nothing."""
        return tuple(finding for finding in self.looked_for if finding.found)

    @property
    def not_found(self) -> tuple[Finding, ...]:
        """Searches without a finding."""
        return tuple(finding for finding in self.looked_for if not finding.found)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values, numbers to five digits; non-finite numbers are null."""
        shares = self.scores["output_share"].values if "output_share" in self.scores else {}
        return {
            "schema": SCHEMA,
            **super().to_json(),
            "metrics": {metric: score_json(score) for metric, score in self.scores.items()},
            # Written here too, where older readers of these files look for it.
            "output_share": five_digits(shares),
            "composition": self._composition(),
            "loss_nats": self.loss_nats,
            "findings": list(map(Finding.to_json, self.findings)),
            "not_found": list(map(Finding.to_json, self.not_found)),
            "notes": [*self.notes, *self._left_out()],
        }

    def _composition(self) -> dict[str, Any] | None:
        composition = self.composition
        if composition is None or len(composition.heads) > 4 * PAIRS_IN_JSON:
            return None
        heads = [f"{self.labels[attention]}H{head}" for attention, head in composition.heads]
        return {
            "heads": heads,
            "null": composition.null,
            **{kind: five_digits(getattr(composition, kind)) for kind in "qkv"},
            # What the paths carry on the text, by kind; {} where that was not measured.
            "shares": five_digits(composition.shares),
            "nats": five_digits(composition.nats),
        }

    def _left_out(self) -> list[str]:
        """Return sentences about results that are too large for JSON."""
        wide = [attention.name for attention in self.attentions if attention.n_heads > PAIRS_IN_JSON]
        sentences = [say("wide_layer", layer=name) for name in wide]
        if self.composition is not None and self._composition() is None:
            sentences.append(say("wide_composition", n=len(self.composition.heads)))
        return sentences


STEPS = 255
"""The number of steps to which a weight of 1 is rounded, so that a weight is at most 0.002 off."""
_STRATEGIES = (zlib.Z_RLE, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY)
"""Strategies of deflating the same bytes. Weights hardly repeat in longer rows: their own codes pay more."""


@dataclass(frozen=True, kw_only=True)
class PackedPatterns:
    """Attention patterns of some heads of an attention in one sequence.

    Attributes:
        heads: the numbers of the heads.
        n_queries: rows of a pattern.
        n_keys: columns of a pattern.
        lower: True if only the diagonal and the part below it are kept, row by row, since the rest is 0.
        data: head after head, deflated without a header.
    """

    heads: tuple[int, ...]
    n_queries: int
    n_keys: int
    lower: bool
    data: bytes

    @classmethod
    def of(cls, weights: Float[np.ndarray, "some query key"], heads: Sequence[int]) -> "PackedPatterns":
        """Pack the patterns of these heads; the triangle above the diagonal is left out if it is empty."""
        steps = np.rint(np.nan_to_num(weights) * STEPS).astype(np.uint8)
        n_queries, n_keys = steps.shape[1:]
        lower = n_queries == n_keys and not steps[:, ~_lower(n_keys)].any()
        kept = steps[:, _lower(n_keys)] if lower else steps
        return cls(heads=tuple(heads), n_queries=n_queries, n_keys=n_keys, lower=lower, data=_deflated(kept.tobytes()))

    def steps(self) -> UInt8[np.ndarray, "some query key"]:
        """Return the weights in steps of 1/255."""
        flat = np.frombuffer(zlib.decompress(self.data, -zlib.MAX_WBITS), np.uint8)
        if not self.lower:
            return flat.reshape(len(self.heads), self.n_queries, self.n_keys)
        whole = np.zeros((len(self.heads), self.n_queries, self.n_keys), np.uint8)
        whole[:, _lower(self.n_keys)] = flat.reshape(len(self.heads), -1)
        return whole


def _lower(n: int) -> np.ndarray:
    return np.tri(n, dtype=bool)


def _deflated(data: bytes) -> bytes:
    packers = [zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, 9, strategy) for strategy in _STRATEGIES]
    return min((packer.compress(data) + packer.flush() for packer in packers), key=len)


Head = tuple[str, int]
"""An attention's name and the number of a head in it."""


@dataclass(frozen=True, kw_only=True)
class ShownSequence:
    """A sequence whose patterns are kept.

    Attributes:
        kind: the kind of sequence: a piece of the text, or random tokens of which some are repeated.
        tokens: the tokens, as the model reads them.
        begins: the first position that is repeated; None of a text.
        period: the distance in tokens to the repetition; None for a text.
    """

    kind: Literal["text", "repeated"]
    tokens: tuple[int, ...]
    begins: int | None = None
    period: int | None = None


@dataclass(frozen=True, kw_only=True)
class AttendedPair:
    """Two tokens of which the first attends to the second more than an even head would, over the whole text.

    Attributes:
        query: the token that looks.
        key: the token that it looks at.
        weight: the mean weight, over all pairs of positions.
        even: the weight that even attention would give.
        n: the number of such pairs of positions.
    """

    query: int
    key: int
    weight: float
    even: float
    n: int


@dataclass(frozen=True, kw_only=True)
class TokenCircuits:
    """The relations between tokens in a head's circuits, in standard deviations of all entries of a circuit.

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
    """The circuits of all heads on one set of tokens.

    Attributes:
        n_tokens: tokens that circuits were read on.
        all: True if these tokens are the whole vocabulary, False if they are the text's most frequent tokens.
        by_chance: the approximate largest entry of a circuit of as many independent numbers.
        of: the circuits of each head.
    """

    n_tokens: int
    all: bool
    by_chance: float
    of: Mapping[Head, TokenCircuits]


@dataclass(frozen=True, kw_only=True)
class KeptStep:
    """The heads at a step of training whose weights were kept.

    Attributes:
        step: the step of training.
        circuits: the circuits on the same tokens as those of the finished model.
        composition: the composition of the heads; None if that of the finished model is not known either.
        patterns: the patterns on the sequences of the finished model, or on fewer if not all fit.
    """

    step: int
    circuits: Circuits | None
    composition: Composition | None
    patterns: Mapping[tuple[str, int], PackedPatterns]


@dataclass(frozen=True, kw_only=True)
class ModelView:
    """The complete content of a page about a model's heads.

    Attributes:
        name: the name of the model.
        found: the model's metrics on a text, next to those of untrained heads if the text is long enough.
        words: the text of each token that occurs.
        sequences: the sequences whose patterns are kept, of the text and of repeated tokens in turn.
        patterns: the patterns by attention and number of the sequence; fewer if only some heads are kept.
        pairs: the most attended pairs of tokens of each head, in descending order.
        pairs_from: the number of sequences that the pairs come from.
        circuits: the circuits of tokens; None if they cannot be read.
        no_circuits: the reason why circuits cannot be read, as a sentence.
        run: the folder of the run that trained it, if one of Headway's did.
        kept: the heads at the steps whose weights the run kept, ascending.
        decodes: True for a decoder over an encoder, which reads tokens one later.
        notes: the sentences that say what was cut or left out, and why.
    """

    name: str
    found: XRay
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
    notes: tuple[str, ...] = ()


def chosen_heads(asked: str | None, labels: Mapping[str, str], n_heads: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the heads that a user asks for, by attention.

    Args:
        asked: heads and layers such as `L0H3,L2`; None: all.
        labels: the label of each attention.
        n_heads: the number of heads of each attention.

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
        raise UserError(f"heads {asked!r}: no head and no layer is named; give, for example, {such}")
    for word in words:
        if word not in known:
            raise UserError(f"heads {word!r}: {_not_there(word, labels, n_heads, list(known))}")
        wanted.update(known[word])
    return {name: found for name in labels if (found := [h for h in range(n_heads[name]) if (name, h) in wanted])}


def _not_there(word: str, labels: Mapping[str, str], n_heads: Mapping[str, int], known: Sequence[str]) -> str:
    named = re.fullmatch(r"(.*L\d+)H\d+", word)
    of_layer = next((name for name, label in labels.items() if named and label == named[1]), None)
    if of_layer is not None:
        called = head_names(labels[of_layer], n_heads[of_layer])
        return f"layer {labels[of_layer]} has the heads {called[0]} to {called[-1]}"
    if named:
        return f"there is no such layer; the model has {', '.join(labels.values())}"
    return f"it is no head and no layer of the model; give, for example, {known[-1]} or {next(iter(labels.values()))}"
