"""The page of `headway look`: one file for one model or several, that holds all it needs.

* `ShownModel` and `model_data`: a model's part of the page: rows of heads, numbers, sequences, patterns and circuits.
  Numbers stand in arrays beside it, as float32: the value and the null of every metric, moment and head. The finished
  model is the last moment, and also has the values of untrained heads.
* `trajectory`: the measurements of a run's probes, at steps that a slider visits;
* `composed`: the composition of each head, with the earlier heads that it reads and the later heads that read it;
* `PagedArrays`: arrays packed into the page, each an element that is read when it is needed.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headway.base.text import escape_controls
from headway.config.metrics import metric_name
from headway.config.spec import thinned
from headway.heads.findings import COMPOSITIONS, FAMILY_WISE, Finding
from headway.heads.results import (
    AttendedPair,
    AttentionHeads,
    Circuits,
    Head,
    ModelView,
    PackedPatterns,
    attentions_by_label,
)
from headway.heads.scores import DECLARED, Composition, HeadScores, five_digits
from headway.report.charts.atlas import LEFT_OUT, of_heads
from headway.report.charts.figure import HEAD_COLOURS
from headway.report.charts.maps import DIVERGING, SEQUENTIAL, colour_range
from headway.report.charts.page import policy, script_data, templates, unbroken, write_whole
from headway.stats.lm.diversity import scores_at
from headway.store.run import Run

if TYPE_CHECKING:
    from markupsafe import Markup


Json = dict[str, Any]
"""A part of the page's data."""

TOP = 3


def composed(found: Composition, labels: Mapping[str, str]) -> Json:
    """Return, by head and kind, `reads` and `read_by`: head, composition, and whether that is beyond chance."""
    names = [f"{labels[attention]}H{head}" for attention, head in found.heads]
    of: dict[str, Json] = {name: {} for name in names}
    for kind in COMPOSITIONS:
        table = np.asarray(getattr(found, kind), np.float64)
        beyond = _beyond(found, kind, table)
        for at, name in enumerate(names):
            of[name][kind] = {
                "reads": _most(table[:, at], beyond[:, at], names),
                "read_by": _most(table[at], beyond[at], names),
            }
    return {"null": found.null, "kinds": COMPOSITIONS, "of": of}


def _beyond(found: Composition, kind: str, table: np.ndarray) -> np.ndarray:
    """Beyond chance among all pairs of the model."""
    if kind not in found.chances:
        return np.zeros(table.shape, bool)
    chances = np.asarray(found.chances[kind], np.float64)
    return np.nan_to_num(chances, nan=1.0) * np.isfinite(chances).sum() <= FAMILY_WISE


def _most(values: np.ndarray, beyond: np.ndarray, names: list[str]) -> list[tuple[str, float, bool]]:
    finite = np.flatnonzero(np.isfinite(values))
    best = finite[np.argsort(-values[finite], kind="stable")][:TOP]
    return [(names[at], round(float(values[at]), 4), bool(beyond[at])) for at in best]


MOST = 60
"""Steps of a slider."""


Moments = Mapping[int, Mapping[str, HeadScores]]
"""The scores of heads by the step of training."""


def trajectory(folder: Path | None, most: int = MOST) -> tuple[Moments, int]:
    """The probes of a run, at most so many, evenly on a log scale, and how many there are.

    A model that no run trained has none.

    Raises:
        ResultsError: when a file is damaged.
    """
    if folder is None:
        return {}, 0
    run = Run.open(folder)
    steps = run.head_steps()
    return {steps[at]: scores_at(run, steps[at]) for at in thinned(steps, most)}, len(steps)


@dataclass(frozen=True, kw_only=True)
class PagedArrays:
    """Arrays by the id of their element, as base64: text that nothing in a page can mistake for anything else."""

    texts: dict[str, str] = field(default_factory=dict)

    def numbers(self, name: str, values: np.ndarray) -> None:
        """Add numbers as float32, row by row; what is not known is NaN."""
        self.packed(name, np.ascontiguousarray(values, "<f4").tobytes())

    def packed(self, name: str, data: bytes) -> None:
        """Add bytes as they are."""
        self.texts[name] = base64.b64encode(data).decode()


TWINS = {"output_dissimilarity": "outputs", "query_cka_centred": "queries", "context_cka_centred": "contexts"}
"""Metrics of pairs by which heads are twins, and what of them is alike."""
_PAIRS_WHILE_TRAINING = 1_500_000
"""Bytes of a page that pairs of heads may take over all moments; where they would take more, only the last is kept."""


@dataclass(frozen=True, kw_only=True)
class ShownModel:
    """A model on a page: what one sees of it, while it trained and in the end."""

    view: ModelView
    training: Moments
    n_probed: int

    @cached_property
    def rows(self) -> list[AttentionHeads]:
        """The attentions in the order of the page."""
        return list(attentions_by_label(self.view.found).values())

    @cached_property
    def moments(self) -> list[Mapping[str, HeadScores]]:
        """The scores at every step, and last those of the finished model."""
        return [*self.training.values(), self.view.found.scores]

    def of_heads(self, metric: str) -> np.ndarray:
        """(moment, 2, head): a metric of every head and its null."""
        return np.stack([self._scored(scores.get(metric)) for scores in self.moments])

    def untrained(self, metric: str) -> np.ndarray:
        """Return the mean and spread of untrained heads on the same stream (2, head)."""
        score = self.view.found.scores.get(metric)
        return np.concatenate([_drawn(score, row.name, row.n_heads) for row in self.rows], axis=1)

    def _scored(self, score: HeadScores | None) -> np.ndarray:
        values, nulls = ({}, {}) if score is None else (score.per_head(), score.null)
        of_rows = [[of_heads(found.get(row.name), row.n_heads) for found in (values, nulls)] for row in self.rows]
        return np.concatenate(of_rows, axis=1)

    def pairs(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """A metric of pairs, (head, head) of each row after the other."""
        every = [np.broadcast_to(values.get(row.name, np.array(np.nan)), (row.n_heads,) * 2) for row in self.rows]
        return np.concatenate([pairs.ravel() for pairs in every])


def model_data(shown: ShownModel, metrics: Sequence[str], at: int, arrays: PagedArrays) -> Json:
    """A model as plain values; its arrays are added to the page's.

    Args:
        shown: the model.
        metrics: the metrics of the page, in their order.
        at: the number of the model on the page.
        arrays: the arrays of the page.
    """
    view, found = shown.view, shown.view.found
    places = {token: place for place, token in enumerate(view.words)}
    heads = _every(shown)
    arrays.numbers(f"m{at}-values", np.stack([shown.of_heads(metric) for metric in metrics], axis=1))
    arrays.numbers(f"m{at}-untrained", np.stack([shown.untrained(metric) for metric in metrics]))
    notes = dict.fromkeys((*view.notes, *found.notes, *_left_out(shown)))
    return {
        "name": escape_controls(view.name),
        "facts": {str(key): escape_controls(str(value)) for key, value in found.model.items()},
        "read": escape_controls(found.read),
        "notes": list(map(escape_controls, notes)),
        "findings": [_finding(finding) for finding in found.findings],
        "nothing": found.nothing if found.scores else "",
        "rows": _rows(shown),
        "steps": list(shown.training),
        "alike": _twins(shown, metrics, at, arrays),
        "words": list(map(escape_controls, view.words.values())),
        "decodes": view.decodes,
        **_sequences(shown, places, at, arrays),
        "pairs": [_attended(view.pairs.get(head, ()), places) for head in heads],
        "pairsFrom": view.pairs_from,
        "circuits": None if view.circuits is None else _circuits(view.circuits, heads, places),
        "noCircuits": view.no_circuits,
        "composition": None if found.composition is None else composed(found.composition, found.labels),
        "kept": list(_kept(shown, places, at, arrays)),
    }


def _twins(shown: ShownModel, metrics: Sequence[str], at: int, arrays: PagedArrays) -> Json:
    """Return by which metrics heads are twins, and whether at all moments; their values are arrays of the page."""
    twins = [metric for metric in TWINS if metric in metrics]
    moments = shown.moments if _pairs_fit(shown, len(twins)) else shown.moments[-1:]
    if twins:
        found = shown.view.found.scores
        values = [[shown.pairs(scores[name].values if name in scores else {}) for name in twins] for scores in moments]
        untrained = [shown.pairs(found[name].untrained if name in found else {}) for name in twins]
        arrays.numbers(f"m{at}-pairs", np.array(values))
        arrays.numbers(f"m{at}-untrained-pairs", np.array(untrained))
    return {
        "metrics": [metrics.index(metric) for metric in twins],
        "of": [TWINS[metric] for metric in twins],
        "all": len(moments) > 1,
    }


def _finding(finding: Finding) -> Json:
    return {"about": finding.about, "parts": [(unbroken(text), head) for text, head in finding.parts]}


def _attended(pairs: Sequence[AttendedPair], places: Mapping[int, int]) -> list[list[Any]]:
    return [
        [places[pair.query], places[pair.key], five_digits(pair.weight), five_digits(pair.even), pair.n]
        for pair in pairs
    ]


def _kept(shown: ShownModel, places: Mapping[int, int], at: int, arrays: PagedArrays) -> Iterator[Json]:
    """Yield what changes with the weights, for each step whose weights were kept; the finished model has the rest."""
    for number, kept in enumerate(shown.view.kept):
        circuits, composition = kept.circuits, kept.composition
        yield {
            "step": kept.step,
            "circuits": None if circuits is None else _circuits(circuits, _every(shown), places)["of"],
            "composition": None if composition is None else composed(composition, shown.view.found.labels)["of"],
            "patterns": _patterns(shown, kept.patterns, f"m{at}-s{number}", arrays),
        }


def _every(shown: ShownModel) -> list[Head]:
    return [(row.name, head) for row in shown.rows for head in range(row.n_heads)]


def _rows(shown: ShownModel) -> list[Json]:
    return [
        {"label": label, "n": row.n_heads, "kind": row.kind, "width": row.d_head, "kv": list(row.kv_of)}
        for label, row in attentions_by_label(shown.view.found).items()
    ]


def _sequences(shown: ShownModel, places: Mapping[int, int], at: int, arrays: PagedArrays) -> Json:
    sequences = [
        {**vars(sequence), "tokens": [places[token] for token in sequence.tokens]} for sequence in shown.view.sequences
    ]
    return {"sequences": sequences, "patterns": _patterns(shown, shown.view.patterns, f"m{at}", arrays)}


def _patterns(
    shown: ShownModel, patterns: Mapping[tuple[str, int], PackedPatterns], prefix: str, arrays: PagedArrays
) -> Json:
    """Return patterns by row and sequence, with their heads; the weights are arrays whose names begin with a prefix."""
    entries = {}
    for at, row in enumerate(shown.rows):
        for number in range(len(shown.view.sequences)):
            if (packed := patterns.get((row.name, number))) is not None:
                key = f"{at}-{number}"
                arrays.packed(f"{prefix}-{key}", packed.data)
                entries[key] = {
                    "heads": list(packed.heads), "q": packed.n_queries, "k": packed.n_keys, "lower": packed.lower,
                }  # fmt: skip
    return entries


def _circuits(found: Circuits, heads: Sequence[Head], places: Mapping[int, int]) -> Json:
    def brief(entries: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
        return [[*(places[token] for token in tokens), round(value, 1)] for *tokens, value in entries]

    kinds = ("copies", "suppresses", "raises", "matches")
    return {
        "n": found.n_tokens,
        "all": found.all,
        "chance": round(found.by_chance, 1),
        "of": [{kind: brief(getattr(found.of[head], kind)) for kind in kinds} for head in heads],
    }


def _drawn(score: HeadScores | None, name: str, n: int) -> np.ndarray:
    """Mean and spread over the draws of each head; of pairs the mean over a head's others in each draw."""
    unknown = np.full((2, n), np.nan)
    if score is None or name not in score.draws:
        return unknown
    drawn = np.stack([of_heads(one, n) for one in score.draws[name]])
    return np.stack([drawn.mean(0), drawn.std(0, ddof=1) if len(drawn) > 1 else unknown[0]])


def _pairs_fit(shown: ShownModel, n_metrics: int) -> bool:
    size = 16 / 3 * n_metrics * sum(row.n_heads**2 for row in shown.rows) * len(shown.moments)
    return size <= _PAIRS_WHILE_TRAINING


def _left_out(shown: ShownModel) -> list[str]:
    kept, probed = len(shown.training), shown.n_probed
    notes = [f"{kept} of {probed} probed steps are on the slider"] if kept < probed else []
    if kept and not _pairs_fit(shown, len(TWINS)):
        notes.append("similar heads (twins) are shown for the finished model only, since there are too many pairs")
    return notes


_SHARE_OF_TRAINING = 0.2
"""The largest share of a page for the metrics of heads during training."""


@dataclass(frozen=True, kw_only=True)
class LookPage:
    """A page, and what was left out of it so that it is not too large.

    Attributes:
        html: the whole file.
        cuts: the sentences that say what was left out; they stand on the page too.
    """

    html: str
    cuts: tuple[str, ...]

    def write(self, path: Path) -> Path:
        """Write the page.

        Raises:
            ResultsError: when it cannot be written.
        """
        return write_whole(path, self.html.encode())


def look_page(
    views: Sequence[ModelView], command: str, *, title: str | None = None, largest: int = 10_000_000
) -> LookPage:
    """Draw the page.

    Args:
        views: the view of each model; the page of several shows two side by side.
        command: the command that makes the page again.
        title: the title of the page; None: the name of the model, or of the first two.
        largest: bytes that it may have; sequences that do not fit are left out.
    """
    shown = [_with_trajectory(view, largest // len(views)) for view in views]
    about = {"title": title or " and ".join(view.name for view in views[:2]), "command": command}
    html = _html(shown, **about)
    while len(html.encode()) > largest and any(
        len(model.view.sequences) > 1 or any(step.patterns for step in model.view.kept) for model in shown
    ):
        shown = [_shorter(model, largest) for model in shown]
        html = _html(shown, **about)
    cuts = (
        f"{escape_controls(model.view.name)}: {note}"
        for model in shown
        for note in (*model.view.notes, *_left_out(model))
    )
    return LookPage(html=html, cuts=tuple(dict.fromkeys(cuts)))


def _html(shown: Sequence[ShownModel], **about: str) -> str:
    from markupsafe import Markup

    data, arrays = _content(shown)
    environment = templates()
    script = environment.get_template("look.js.j2").render()
    return environment.get_template("look.html.j2").render(
        n_models=len(shown),
        data=data,
        arrays=arrays.texts,
        script=Markup(script),
        policy=Markup(policy([script])),
        **about,
    )


def _with_trajectory(view: ModelView, room: int) -> ShownModel:
    """A model with as many moments of its training as may take their share of the page."""
    of_a_moment = 11 * sum(attention.n_heads for attention in view.found.attentions) * max(1, len(view.found.scores))
    most = max(2, min(MOST, int(_SHARE_OF_TRAINING * room / of_a_moment)))
    training, n_probed = trajectory(view.run, most)
    return ShownModel(view=view, training=training, n_probed=n_probed)


def _shorter(model: ShownModel, largest: int) -> ShownModel:
    """Return the model without patterns during training, or else without its last sequence, and with a note on it."""
    view, n = model.view, len(model.view.sequences)
    changes: Json = {}
    if any(step.patterns for step in view.kept):
        what = "patterns during training"
        changes["kept"] = tuple(replace(step, patterns={}) for step in view.kept)
    elif n > 1:
        what = "sequences"
        changes["sequences"] = view.sequences[:-1]
        changes["patterns"] = {key: packed for key, packed in view.patterns.items() if key[1] < n - 1}
    else:
        return model
    note = (
        f"{what} were left out, so that the page stays below {largest / 1e6:.3g} MB; to keep more, give fewer "
        "heads (--heads) or a larger --largest"
    )
    return replace(model, view=replace(view, **changes, notes=tuple(dict.fromkeys((*view.notes, note)))))


def _content(shown: Sequence[ShownModel]) -> tuple["Markup", PagedArrays]:
    arrays = PagedArrays()
    of_heads = [name for name, declared in DECLARED.items() if declared.of != "layer"]
    measured = [name for name in of_heads if any(np.isfinite(model.of_heads(name)[:, 0]).any() for model in shown)]
    # What grows with rows and widths, or stands for another code, comes last.
    metrics = sorted(measured, key=lambda name: name.endswith(LEFT_OUT))
    data = {
        "metrics": [_metric(shown, name) for name in metrics],
        "models": [model_data(model, metrics, at, arrays) for at, model in enumerate(shown)],
        "colours": {"sequential": SEQUENTIAL, "diverging": DIVERGING, "heads": HEAD_COLOURS},
    }
    return script_data(data), arrays


def _metric(shown: Sequence[ShownModel], name: str) -> Json:
    declared = DECLARED[name]
    values = [drawn for model in shown for drawn in (model.of_heads(name), model.untrained(name)[:1])]
    colours = colour_range(declared.unit, values)
    return {
        "name": name,
        "title": metric_name(name),
        "sentence": declared.sentence,
        "unit": declared.unit,
        "high": declared.high,
        "null": declared.null.sentence,
        "scale": [colours.kind, colours.low, colours.high],
    }
