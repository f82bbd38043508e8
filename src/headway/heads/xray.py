"""Heads: what an x-ray of a finished model found: scores, sentences and JSON. Numpy alone, as `scores`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from headway.heads.findings import Finding, findings
from headway.heads.names import row_labels
from headway.heads.scores import Composition, HeadScores
from headway.words import counted

SCHEMA = 1
PAIRS_IN_JSON = 128
"""Metrics of pairs stand in the JSON for attentions of at most so many heads."""


@dataclass(frozen=True, kw_only=True)
class AttentionHeads:
    """An attention of the model: its name, kind (self, encoder, cross), the KV head of each head, and their width."""

    name: str
    kind: str
    kv_of: tuple[int, ...]
    d_head: int

    @property
    def n_heads(self) -> int:
        """Query heads."""
        return len(self.kv_of)

    @property
    def n_kv_heads(self) -> int:
        """Heads of keys and values."""
        return len(set(self.kv_of))


@dataclass(frozen=True, kw_only=True)
class XRay:
    """What every head of a finished model does on a text.

    Attributes:
        name: of the model's folder.
        model: what the model is, by fact: its kind, parameters, ...
        text: what it read.
        n_tokens: how much of that, in `n_sequences` of `length`.
        attentions: in the order of the model.
        scores: by metric.
        composition: between heads; None where it is not known.
        notes: what was not measured and why, and what limits the rest.
    """

    name: str
    model: Mapping[str, Any]
    text: str
    n_tokens: int
    n_sequences: int
    length: int
    attentions: tuple[AttentionHeads, ...]
    scores: Mapping[str, HeadScores]
    composition: Composition | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def labels(self) -> dict[str, str]:
        """What each attention is called: L0, or encoder L0 where there are several kinds."""
        names = [attention.name for attention in self.attentions]
        return row_labels(names, {attention.name: attention.kind for attention in self.attentions})

    @cached_property
    def looked_for(self) -> tuple[Finding, ...]:
        """What stands out, and of what was looked for that it does not, in sentences."""
        kv_of = {attention.name: attention.kv_of for attention in self.attentions}
        return tuple(findings(self.scores, self.labels, kv_of, self.composition))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What stands out, in sentences; none in 95 of 100 models that learnt nothing."""
        return tuple(finding for finding in self.looked_for if finding.found)

    @property
    def not_found(self) -> tuple[Finding, ...]:
        """What does not."""
        return tuple(finding for finding in self.looked_for if not finding.found)

    @property
    def read(self) -> str:
        """How much of which text was read, in words."""
        return (
            f"{counted(self.n_sequences, 'sequence')} of {self.length:,} tokens, {self.n_tokens:,} tokens in all, "
            f"of {self.text}"
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values, numbers to five digits; what is not finite is null."""
        shares = self.scores["output_share"].values if "output_share" in self.scores else {}
        return {
            "schema": SCHEMA,
            "name": self.name,
            "model": dict(self.model),
            "text": {
                "from": self.text,
                "n_tokens": self.n_tokens,
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
            "metrics": {metric: _score(score) for metric, score in self.scores.items()},
            # Also where it stood before it was a metric: who reads these files finds it there.
            "output_share": {name: _five(share) for name, share in shares.items()},
            "composition": self._composition(),
            "findings": [vars(finding) for finding in self.findings],
            "not_found": [vars(finding) for finding in self.not_found],
            "notes": [*self.notes, *self._left_out()],
        }

    def _composition(self) -> dict[str, Any] | None:
        found = self.composition
        if found is None or len(found.heads) > 4 * PAIRS_IN_JSON:
            return None
        heads = [f"{self.labels[attention]}H{head}" for attention, head in found.heads]
        return {"heads": heads, "null": found.null, **{kind: _five(getattr(found, kind)) for kind in "qkv"}}

    def _left_out(self) -> list[str]:
        """What is too large for JSON, in sentences."""
        wide = [attention.name for attention in self.attentions if attention.n_heads > PAIRS_IN_JSON]
        said = [f"metrics of pairs of {name} stand in heads.safetensors alone: it has many heads" for name in wide]
        if self.composition is not None and self._composition() is None:
            said.append(f"composition of {len(self.composition.heads):,} heads is not in the JSON: that is many pairs")
        return said


def _score(score: HeadScores) -> dict[str, Any]:
    declared = score.declared
    wide = [name for name, value in score.values.items() if value.ndim == 2 and len(value) > PAIRS_IN_JSON]
    found = {
        "of": declared.of,
        "unit": declared.unit,
        "sentence": declared.sentence,
        "n_rows": score.n_rows,
        "values": {name: None if name in wide else _five(value) for name, value in score.values.items()},
        "null": {name: None if name in wide else _five(value) for name, value in score.null.items()},
        "untrained": {name: None if name in wide else _five(value) for name, value in score.untrained.items()},
        "untrained_spread": {name: None if name in wide else _five(value) for name, value in score.spread.items()},
    }
    if declared.of == "pair":
        found["per_head"] = {name: _five(value) for name, value in score.per_head().items()}
    return found


def _five(value: Any) -> Any:
    """An array as lists of numbers of five significant digits; null for what is not finite."""
    array = np.asarray(value, np.float64)
    if array.ndim:
        return [_five(inner) for inner in array]
    return float(f"{array:.5g}") if np.isfinite(array) else None
