"""Show: what a model's part of the page holds: rows of heads, numbers, sequences, and what each head does with tokens.

Numbers stand in arrays beside it, as float32: of every metric, moment and head the value and its null, and for the
finished model what untrained heads show. The last moment is the finished model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from headway.heads.findings import Finding
from headway.heads.names import head_names
from headway.heads.packed import PackedPatterns
from headway.heads.scores import HeadScores
from headway.heads.scores_json import five_digits
from headway.heads.view import Circuits, Head, KeptStep, ModelView
from headway.heads.xray import XRay
from headway.show.look.composed import composed
from headway.show.look.links import linked
from headway.show.look.moments import HeadCourse
from headway.show.look.paged_arrays import PagedArrays
from headway.show.shared.atlas import of_heads
from headway.words import plainly

TWINS = {"output_dissimilarity": "outputs", "query_cka_centred": "queries", "context_cka_centred": "contexts"}
"""Metrics of pairs by which heads are twins, and what of them is alike."""
_PAIRS_WHILE_TRAINING = 1_500_000
"""Bytes of a page that pairs of heads may take over all moments; where they would take more, only the last is kept."""


@dataclass(frozen=True, kw_only=True)
class ShownModel:
    """A model on a page: what one sees of it, while it trained and in the end."""

    view: ModelView
    course: HeadCourse

    @cached_property
    def rows(self) -> list[tuple[str, str, int]]:
        """Each attention in the order of the page: its name, what it is called, and its heads."""
        n_heads = {attention.name: attention.n_heads for attention in self.view.found.attentions}
        return [(name, label, n_heads[name]) for name, label in self.view.found.labels.items()]

    @cached_property
    def heads(self) -> list[str]:
        """What every head is called, row after row."""
        return [called for _, label, n in self.rows for called in head_names(label, n)]

    @cached_property
    def moments(self) -> list[Mapping[str, HeadScores]]:
        """The scores at every step, and last those of the finished model."""
        return [*(moment.scores for moment in self.course.moments), self.view.found.scores]

    def of_heads(self, metric: str) -> np.ndarray:
        """(moment, 2, head): a metric of every head and its null."""
        return np.stack([self._scored(scores.get(metric)) for scores in self.moments])

    def untrained(self, metric: str) -> np.ndarray:
        """(2, head): what untrained heads show on the same stream, in the mean and with its spread."""
        score = self.view.found.scores.get(metric)
        found = [_drawn(score, name, n) for name, _, n in self.rows]
        return np.concatenate(found, axis=1)

    def _scored(self, score: HeadScores | None) -> np.ndarray:
        values = {} if score is None else score.per_head()
        nulls = {} if score is None else score.null
        return np.concatenate(
            [
                np.stack([values.get(name, np.full(n, np.nan)), of_heads(nulls.get(name), n)])
                for name, _, n in self.rows
            ],
            axis=1,
        )

    def pairs(self, metric: str, scores: Mapping[str, HeadScores]) -> np.ndarray:
        """A metric of pairs, (head, head) of each row after the other."""
        found = scores[metric].values if metric in scores else {}
        return np.concatenate(
            [np.asarray(found.get(name, np.full((n, n), np.nan))).ravel() for name, _, n in self.rows]
        )

    def untrained_pairs(self, metric: str) -> np.ndarray:
        """The same of untrained heads."""
        score = self.view.found.scores.get(metric)
        found = {} if score is None else score.untrained
        return np.concatenate(
            [np.broadcast_to(found.get(name, np.array(np.nan)), (n, n)).ravel() for name, _, n in self.rows]
        )


def model_data(shown: ShownModel, metrics: Sequence[str], at: int, arrays: PagedArrays) -> dict[str, Any]:
    """A model as plain values; its arrays are added to the page's.

    Args:
        shown: the model.
        metrics: all that are on the page, in their order.
        at: its number on the page.
        arrays: those of the page.
    """
    view, found = shown.view, shown.view.found
    places = {token: place for place, token in enumerate(view.words)}
    of_heads = np.stack([shown.of_heads(metric) for metric in metrics], axis=1)
    arrays.numbers(f"m{at}-values", of_heads)
    arrays.numbers(f"m{at}-untrained", np.stack([shown.untrained(metric) for metric in metrics]))
    twins = [metric for metric in TWINS if metric in metrics]
    moments = shown.moments if _pairs_fit(shown, len(twins)) else shown.moments[-1:]
    if twins:
        arrays.numbers(f"m{at}-pairs", np.stack([[shown.pairs(m, scores) for m in twins] for scores in moments]))
        arrays.numbers(f"m{at}-untrained-pairs", np.stack([shown.untrained_pairs(metric) for metric in twins]))
    return {
        "name": plainly(view.name),
        "facts": {str(key): plainly(str(value)) for key, value in found.model.items()},
        "read": plainly(found.read),
        "notes": [plainly(note) for note in dict.fromkeys((*view.notes, *found.notes, *_of_course(shown)))],
        "findings": [_finding(shown, finding) for finding in found.findings],
        "nothing": found.nothing if found.scores else "",
        "rows": _rows(shown),
        "steps": [moment.step for moment in shown.course.moments],
        "alike": {
            "metrics": [metrics.index(metric) for metric in twins],
            "of": [TWINS[metric] for metric in twins],
            "all": len(moments) > 1,
        },
        "words": [plainly(word) for word in view.words.values()],
        "decodes": view.decodes,
        **_sequences(shown, places, at, arrays),
        "pairs": [[_pair(pair, places) for pair in view.pairs.get(head, ())] for head in _every(shown)],
        "pairsFrom": view.pairs_from,
        "circuits": None if view.circuits is None else _circuits(view.circuits, _every(shown), places),
        "noCircuits": view.no_circuits,
        "composition": _composition(shown),
        "kept": [_kept(shown, kept, places, at, number, arrays) for number, kept in enumerate(view.kept)],
    }  # fmt: skip


def _kept(
    shown: ShownModel, kept: KeptStep, places: Mapping[int, int], at: int, number: int, arrays: PagedArrays
) -> dict[str, Any]:
    """What changes with the weights, at a step whose weights were kept; the rest is as in the end."""
    labels = shown.view.found.labels
    return {
        "step": kept.step,
        "circuits": None if kept.circuits is None else _circuits(kept.circuits, _every(shown), places)["of"],
        "composition": None if kept.composition is None else composed(kept.composition, labels)["of"],
        "patterns": _patterns(shown, kept.patterns, f"m{at}-s{number}", arrays),
    }


def _every(shown: ShownModel) -> list[Head]:
    return [(name, head) for name, _, n in shown.rows for head in range(n)]


def _rows(shown: ShownModel) -> list[dict[str, Any]]:
    of = {attention.name: attention for attention in shown.view.found.attentions}
    return [
        {"label": label, "n": n, "kind": of[name].kind, "width": of[name].d_head, "kv": list(of[name].kv_of)}
        for name, label, n in shown.rows
    ]


def _finding(shown: ShownModel, finding: Finding) -> dict[str, Any]:
    sentence = finding.sentence[0].upper() + finding.sentence[1:] + "."
    return {"about": finding.about, "parts": linked(sentence, shown.view.found.labels.values(), set(shown.heads))}


def _sequences(shown: ShownModel, places: Mapping[int, int], at: int, arrays: PagedArrays) -> dict[str, Any]:
    sequences = [
        {
            "kind": sequence.kind,
            "tokens": [places[token] for token in sequence.tokens],
            "begins": sequence.begins,
            "period": sequence.period,
        }
        for sequence in shown.view.sequences
    ]
    return {"sequences": sequences, "patterns": _patterns(shown, shown.view.patterns, f"m{at}", arrays)}


def _patterns(
    shown: ShownModel, patterns: Mapping[tuple[str, int], PackedPatterns], prefix: str, arrays: PagedArrays
) -> dict[str, Any]:
    """Patterns by row and sequence: whose they are; the weights are arrays named by a prefix and the same."""
    found = {}
    for row, (name, _, _) in enumerate(shown.rows):
        for number in range(len(shown.view.sequences)):
            if (packed := patterns.get((name, number))) is not None:
                key = f"{row}-{number}"
                arrays.packed(f"{prefix}-{key}", packed.data)
                found[key] = {
                    "heads": list(packed.heads), "q": packed.n_queries, "k": packed.n_keys, "lower": packed.lower,
                }  # fmt: skip
    return found


def _pair(pair: Any, places: Mapping[int, int]) -> list[Any]:
    return [places[pair.query], places[pair.key], five_digits(pair.weight), five_digits(pair.even), pair.n]


def _circuits(found: Circuits, heads: Sequence[Head], places: Mapping[int, int]) -> dict[str, Any]:
    def brief(entries: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
        return [[*(places[token] for token in tokens), round(value, 1)] for *tokens, value in entries]

    kinds = ("copies", "suppresses", "raises", "matches")
    return {
        "n": found.n_tokens,
        "all": found.all,
        "chance": round(found.by_chance, 1),
        "of": [{kind: brief(getattr(found.of[head], kind)) for kind in kinds} for head in heads],
    }


def _composition(shown: ShownModel) -> dict[str, Any] | None:
    found = shown.view.found
    if not isinstance(found, XRay) or found.composition is None:
        return None
    return composed(found.composition, found.labels)


def _drawn(score: HeadScores | None, name: str, n: int) -> np.ndarray:
    """Mean and spread over the draws of each head; of pairs the mean over a head's others in each draw."""
    if score is None:
        return np.full((2, n), np.nan)
    if name not in score.draws:
        return np.stack([of_heads(score.untrained.get(name), n), np.full(n, np.nan)])
    drawn = np.stack([of_heads(one, n) for one in np.asarray(score.draws[name], np.float64)])
    spread = drawn.std(0, ddof=1) if len(drawn) > 1 else np.full(n, np.nan)
    return np.stack([drawn.mean(0), spread])


def _pairs_fit(shown: ShownModel, n_metrics: int) -> bool:
    size = 16 / 3 * n_metrics * sum(n * n for _, _, n in shown.rows) * len(shown.moments)
    return size <= _PAIRS_WHILE_TRAINING


def _of_course(shown: ShownModel) -> list[str]:
    kept, probed = len(shown.course.moments), shown.course.n_probed
    said = [f"{kept} of {probed} probed steps are on the slider"] if kept < probed else []
    if kept and not _pairs_fit(shown, len(TWINS)):
        said.append("twins are those of the finished model at every step: there are many pairs")
    return said
