"""Heads: a finished model on a text: what an x-ray and an ablation of it both say. Numpy alone, as `scores`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from headway.heads.findings import Finding
from headway.heads.names import row_labels
from headway.heads.scores import HeadScores
from headway.words import counted


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


def labels_of(attentions: Sequence[AttentionHeads]) -> dict[str, str]:
    """What each attention is called, by its name: L0, or encoder L0 where there are several kinds."""
    kinds = {attention.name: attention.kind for attention in attentions}
    return row_labels(kinds, kinds)


@dataclass(frozen=True, kw_only=True)
class ModelOnText:
    """What a finished model is, and which text it read.

    Attributes:
        name: of the model's folder.
        model: what the model is, by fact: its kind, parameters, ...
        text: what it read.
        n_tokens: how much of that, in `n_sequences` of `length`.
        attentions: in the order of the model.
        scores: by metric.
        notes: what was not measured and why, and what limits the rest.
    """

    nothing: ClassVar[str] = "nothing stands out"
    """What is said where there is no finding."""
    held: ClassVar[str] = ""
    """Against what a finding has to stand out, in sentences."""

    name: str
    model: Mapping[str, Any]
    text: str
    n_tokens: int
    n_sequences: int
    length: int
    attentions: tuple[AttentionHeads, ...]
    scores: Mapping[str, HeadScores]
    notes: tuple[str, ...] = ()

    @cached_property
    def labels(self) -> dict[str, str]:
        """What each attention is called: L0, or encoder L0 where there are several kinds."""
        return labels_of(self.attentions)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What stands out, in sentences."""
        return ()

    @property
    def not_found(self) -> tuple[Finding, ...]:
        """What was looked for and does not."""
        return ()

    @property
    def read(self) -> str:
        """How much of which text was read, in words."""
        return (
            f"{counted(self.n_sequences, 'sequence')} of {self.length:,} tokens, {self.n_tokens:,} tokens in all, "
            f"of {self.text}"
        )

    def to_json(self) -> dict[str, Any]:
        """Model, text and attentions as plain values."""
        return {
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
        }
