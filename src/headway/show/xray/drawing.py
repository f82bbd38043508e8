"""Show: what an x-ray of a finished model found, as sentences, tables, figures and JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.heads.findings import Finding, brief, findings
from headway.heads.names import head_names, metric_name, row_labels
from headway.heads.scores import HeadScores
from headway.show.report.tables import Row, Table
from headway.show.shared.atlas import LEFT_OUT, atlas
from headway.show.shared.figure import Figure
from headway.show.xray.composition_maps import composition_maps, strongest
from headway.show.xray.pair_maps import pair_maps
from headway.words import counted, number

if TYPE_CHECKING:
    from headway.heads.circuits import Composition

SCHEMA = 1
PAIRS_IN_JSON = 128
"""Metrics of pairs stand in the JSON for attentions of at most so many heads."""
MEANS = {
    "output_dissimilarity": "output dissimilarity",
    "query_cka_centred": "query CKA, centred",
    "attention_diversity": "attention diversity",
    "attention_entropy_nats": "entropy, nats",
}
"""Columns of the table of layers that are means over heads."""
TOPS = {"sink_score": "most on first", "previous_token_score": "most on previous", "induction_score": "most induction"}
"""Columns that name the layer's highest head."""


@dataclass(frozen=True, kw_only=True)
class Attention:
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
        shares: (head,) by attention: a head's share in the squared size of what its layer's heads add to the stream.
        composition: between heads; None where it is not known.
        notes: what was not measured and why, and what limits the rest.
    """

    name: str
    model: Mapping[str, Any]
    text: str
    n_tokens: int
    n_sequences: int
    length: int
    attentions: tuple[Attention, ...]
    scores: Mapping[str, HeadScores]
    shares: Mapping[str, np.ndarray] = field(default_factory=dict)
    composition: "Composition | None" = None
    notes: tuple[str, ...] = ()

    @cached_property
    def labels(self) -> dict[str, str]:
        """What each attention is called: L0, or encoder L0 where there are several kinds."""
        names = [attention.name for attention in self.attentions]
        return row_labels(names, {attention.name: attention.kind for attention in self.attentions})

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What stands out, in sentences."""
        composed = [] if self.composition is None else strongest(self.composition, self.labels)
        kv_of = {attention.name: attention.kv_of for attention in self.attentions}
        return (*findings(self.scores, self.labels, self.shares, kv_of), *composed)

    @property
    def read(self) -> str:
        """How much of which text was read, in words."""
        return (
            f"{counted(self.n_sequences, 'sequence')} of {self.length:,} tokens, {self.n_tokens:,} tokens in all, "
            f"of {self.text}"
        )

    def layers(self) -> Table:
        """A row per attention: means over its heads, and its highest heads."""
        means = {metric: said for metric, said in MEANS.items() if metric in self.scores}
        tops = {metric: said for metric, said in TOPS.items() if metric in self.scores}
        of = {attention.name: attention for attention in self.attentions}
        rows = []
        for name, label in self.labels.items():
            here = of[name]
            kv = f":{here.n_kv_heads}" if here.n_kv_heads != here.n_heads else ""
            cells = [self._mean(metric, name) for metric in means] + [self._top(metric, name) for metric in tops]
            rows.append(Row(cells=(label, f"{here.n_heads}{kv}x{here.d_head}", *cells)))
        caption = (
            "Heads: query heads, over so many KV heads where there are fewer, x their width. Then means over heads, or "
            "over pairs of heads, and the highest head of each layer."
        )
        return Table(columns=("", "heads", *means.values(), *tops.values()), rows=tuple(rows), caption=caption)

    def heads(self) -> Table:
        """A row per head, a column per metric; of a metric of pairs the mean over the head's others."""
        shown = {
            metric: score.per_head()
            for metric, score in self.scores.items()
            if score.declared.of != "layer" and not metric.endswith(LEFT_OUT)
        }
        rows = [
            Row(cells=(called, *(_cell(values, name, head) for values in (*shown.values(), self.shares))))
            for name, label in self.labels.items()
            for head, called in enumerate(head_names(label, self._n_heads(name)))
        ]
        hints = {metric_name(metric): self.scores[metric].declared.sentence for metric in shown}
        hints["output share"] = "share of the head in the squared size of what its layer's heads add to the stream"
        columns = ("", *map(metric_name, shown), "output share")
        return Table(columns=columns, rows=tuple(rows), hints=hints)

    def figures(self) -> tuple[Figure, ...]:
        """The atlas, maps of pairs, compositions, and the raw metrics."""
        raw = [metric for metric in self.scores if metric.endswith("raw")]
        further = [
            pair_maps(self.scores[metric], labels=self.labels, part="Pairs of heads")
            for metric in ("context_cka_centred", "query_cka", "context_cka", "context_dissimilarity")
            if metric in self.scores
        ]
        drawn = [
            atlas(self.scores, labels=self.labels, title="Every head under every metric"),
            *(
                pair_maps(self.scores[metric], labels=self.labels, part="Pairs of heads")
                for metric in ("output_dissimilarity", "query_cka_centred")
                if metric in self.scores
            ),
            *map(_folded, further),
            None if self.composition is None else composition_maps(self.composition, self.labels),
            _folded(
                atlas(
                    self.scores,
                    metrics=raw,
                    labels=self.labels,
                    name="atlas-raw",
                    title="Raw metrics, as published",
                    caption=f"They grow with the {self.n_tokens:,} positions counted, with widths and with scale.",
                )
            ),
        ]
        return tuple(figure for figure in drawn if figure is not None)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values, numbers to five digits; what is not finite is null."""
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
            "output_share": {name: _five(share) for name, share in self.shares.items()},
            "composition": self._composition(),
            "findings": [vars(finding) for finding in self.findings],
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

    def _n_heads(self, name: str) -> int:
        return next(attention.n_heads for attention in self.attentions if attention.name == name)

    def _mean(self, metric: str, name: str) -> str:
        score = self.scores[metric]
        if score.declared.of == "pair" and self._n_heads(name) == 1:
            return "needs two"
        value = score.per_layer().get(name, np.nan)
        if not np.isfinite(value):
            return "–"
        return f"{value:.3f}".replace("-", "−") if "to 1" in score.declared.unit else number(value, 3)

    def _top(self, metric: str, name: str) -> str:
        values = self.scores[metric].values.get(name)
        if values is None or not np.isfinite(values).any():
            return "–"
        head = int(np.nanargmax(values))
        return f"H{head} {brief(float(values[head]))}"


def _folded(figure: Figure | None) -> Figure | None:
    return None if figure is None else replace(figure, folded=True)


def _cell(values: Mapping[str, np.ndarray], name: str, head: int) -> str:
    return number(float(values[name][head]), 3) if name in values else "–"


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
