"""Scores of a metric for every head, or for all pairs, in models whose layers differ in their number of heads.

As plain values scores have five digits, and a non-finite number is null. Labels name attentions and heads in figures,
tables and sentences. Numpy alone, so that reports are drawn without torch.
"""

import re
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from headway.base.rng import generator
from headway.config.head_metrics import HEAD_CAUSES, HEAD_METRICS, HeadMetric
from headway.config.metrics import metric_name as metric_name

DECLARED: Mapping[str, HeadMetric] = ChainMap(HEAD_CAUSES, HEAD_METRICS)
"""The declarations of every metric that has scores."""

Arrays = dict[str, np.ndarray]
ByAttention = Mapping[str, np.ndarray]
"""Arrays by the name of the attention, in the order of the model."""


@dataclass(frozen=True, kw_only=True)
class HeadScores:
    """The values of a metric for every attention of a model.

    Attributes:
        metric: the name of the metric in `headway.config.head_metrics`.
        values: the values by name of the attention, in the order of the model. The shape is (head,), (head, head) for a
            metric of pairs, whose diagonal is a head with itself, or () for a metric of layers. NaN: no value.
        null: the expected value under the null model, by name of the attention, broadcasting to the values; an
            attention without a known null is left out.
        n_rows: the number of positions that were counted; raw metrics grow with it.
        draws: the values of untrained heads on the same stream, by name of the attention: (draw, ...) beside the
            values; empty if no heads were re-initialised.
        interval: (low and high, head) by name of the attention: 95 % intervals over texts, of all heads of the model
            together; empty where there are too few texts.
        by_place: the values of the heads' attention beside the tokens of other texts, by name of the attention: the
            effect of positions alone.
    """

    metric: str
    values: ByAttention
    null: ByAttention = field(default_factory=dict)
    n_rows: int
    draws: ByAttention = field(default_factory=dict)
    interval: ByAttention = field(default_factory=dict)
    by_place: ByAttention = field(default_factory=dict)

    @property
    def declared(self) -> HeadMetric:
        """The declaration of the metric: its sentence, unit and null."""
        return DECLARED[self.metric]

    @property
    def untrained(self) -> Arrays:
        """The mean over the draws, by name of the attention; it broadcasts to the values."""
        return {name: np.asarray(drawn.mean(0)) for name, drawn in self.draws.items()}

    @property
    def spread(self) -> Arrays:
        """The standard deviation over the draws, by name of the attention; NaN of a single one."""
        return {
            name: np.asarray(drawn.std(0, ddof=1)) if len(drawn) > 1 else np.full(drawn.shape[1:], np.nan)
            for name, drawn in self.draws.items()
        }

    def per_head(self) -> Arrays:
        """Return (head,) for every attention that has heads; a metric of pairs gives the mean over the other heads.

        The value is NaN for a single head, which has no other.
        """
        if self.declared.of == "layer":
            return {}
        return {name: over_others(value) if value.ndim == 2 else value for name, value in self.values.items()}

    def per_layer(self) -> dict[str, float]:
        """Return the mean over the heads of each attention, or over its pairs of different heads."""
        return {name: float(of_pairs(value).mean()) if value.size else np.nan for name, value in self.values.items()}


Table = Float[np.ndarray, "earlier later"]
"""A number of each pair of an earlier and a later head."""


Scores = dict[str, HeadScores]
"""Scores by metric."""


@dataclass(frozen=True, kw_only=True)
class Composition:
    """Composition: how much of what a head writes a later layer's head reads, for all pairs of heads.

    Attributes:
        heads: (attention, head) of each row and column.
        q: (head, head), ||OV_1 QK_2|| / (||OV_1|| ||QK_2||), Frobenius norms: into the later head's queries; 0 to 1.
            Rows are earlier heads, columns later ones; NaN where the row's layer is not before the column's, or where
            a circuit is 0.
        k: the same into its keys, OV_1 QK_2^T.
        v: the same into its values, OV_1 OV_2.
        null: the root mean square of all three for circuits turned at random to one another, whatever their spectra. It
            is 1 / sqrt(the entries of the stream, less one for a LayerNorm's mean).
        chances: the p values for each of q, k and v, (head, head), against circuits turned at random; empty if they
            were not computed.
        shares: the share of the earlier head for each of q, k and v, (head, head), on a text; empty if it was not
            measured. For q and k, it is a share of the amount by which the attended keys outscore the mean key. For v,
            it is a share of the variance of the later head's output.
        nats: the earlier head's part of the attention score, in nats, for q and k.
        drawn_nats: the same sizes for re-initialised later heads that read the model's own stream: (draw, head, head);
            empty without draws.

    Paper: Elhage et al. 2021, A Mathematical Framework for Transformer Circuits.
    """

    heads: tuple[tuple[str, int], ...]
    q: Table
    k: Table
    v: Table
    null: float
    chances: Mapping[str, Table] = field(default_factory=dict)
    shares: Mapping[str, Table] = field(default_factory=dict)
    nats: Mapping[str, Table] = field(default_factory=dict)
    drawn_nats: Mapping[str, Float[np.ndarray, "draw earlier later"]] = field(default_factory=dict)


TEXTS = 8
"""The fewest texts whose scores give an interval; of fewer, intervals miss too often."""
_RESAMPLES = 999
_LEAST_ERROR = 0.2
"""The least standard error of a resample, as a share of the scores' own: a few texts may agree by accident."""


def text_intervals(
    totals: Float[np.ndarray, "variant text head"], numbers: Float[np.ndarray, "text head"]
) -> Float[np.ndarray, "2 head"] | None:
    """Return simultaneous 95 % intervals of means over queries, by a studentised bootstrap over texts.

    The largest deviation of any head in standard errors is resampled. In a simulation of 8 or 48 heads, all intervals
    hold in 94 to 99 of 100 cases from 8 texts on, where few texts are unlike all others.

    Args:
        totals: sums over the queries of each text; the variant with the largest mean is taken.
        numbers: the number of queries of each text.

    Returns:
        Low and high ends, NaN for a head that counts in fewer than 8 texts; None with fewer texts.
    """
    n_texts = len(numbers)
    if n_texts < TEXTS:
        return None
    known = (numbers > 0).sum(0) >= TEXTS
    chosen = np.take_along_axis(totals, totals.sum(1).argmax(0)[None, None], 0)[0]

    def estimated(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        number = np.where(known, times @ numbers, np.nan)
        mean = times @ chosen / number
        squares = times @ chosen**2 - 2 * mean * (times @ (chosen * numbers)) + mean**2 * (times @ numbers**2)
        return mean, np.sqrt(np.clip(squares, 0, None) * n_texts / (n_texts - 1)) / number

    random = generator(0, "intervals over texts", n_texts)
    drawn = random.multinomial(n_texts, np.full(n_texts, 1 / n_texts), size=_RESAMPLES).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        (mean, error), (means, errors) = estimated(np.ones(n_texts)), estimated(drawn)
        deviations = np.abs(means - mean) / np.maximum(errors, _LEAST_ERROR * error)
    deviations = np.where(error > 1e-6 * np.abs(mean), np.nan_to_num(deviations), 0)
    half = np.quantile(deviations.max(1), 0.95) * error
    return np.stack((mean - half, mean + half))


_upper = lru_cache(maxsize=64)(np.triu_indices)
"""The positions above the diagonal, which metrics of many probes ask for again and again."""


def of_pairs(value: np.ndarray) -> np.ndarray:
    """Return the entries that means are over: each pair of different heads once, or all heads.

    The result is NaN alone if there is no pair.

    Examples:
        >>> of_pairs(np.array([[1.0, 0.5], [0.5, 1.0]]))
        array([0.5])
    """
    if value.ndim != 2:
        return np.atleast_1d(value)
    pairs = value[_upper(len(value), 1)]
    return pairs if len(pairs) else np.array([np.nan])


def over_others(pairs: np.ndarray) -> np.ndarray:
    """Return the mean over each head's pairs with the others; NaN of a single head."""
    n_heads = len(pairs)
    if n_heads == 1:
        return np.full(1, np.nan)
    return (pairs.sum(1) - np.diagonal(pairs)) / (n_heads - 1)


def to_arrays(scores: Iterable[HeadScores]) -> Arrays:
    """Return scores as arrays of one file: `METRIC/ATTENTION`, `METRIC/ATTENTION/null`, `METRIC/n_rows`; float32.

    If heads were re-initialised, `METRIC/ATTENTION/untrained` holds every draw; `/interval` has low and high ends.
    """
    arrays: Arrays = {}
    for score in scores:
        arrays[f"{score.metric}/n_rows"] = np.array(score.n_rows, np.int64)
        for name in score.values:
            for part, ending in _ENDINGS.items():
                table = getattr(score, part)
                if name in table:
                    arrays[f"{score.metric}/{name}{ending}"] = np.asarray(table[name], np.float32)
    return arrays


_ENDINGS = {"values": "", "null": "/null", "draws": "/untrained", "interval": "/interval"}
"""The endings of arrays' names in files, by the field of `HeadScores` that they hold."""


def from_arrays(arrays: Mapping[str, np.ndarray], attentions: Iterable[str]) -> Scores:
    """Return the scores of a file by metric; `attentions` in the order of the model."""
    ordered, scores = tuple(attentions), {}
    for metric in DECLARED:
        if (n_rows := f"{metric}/n_rows") in arrays:
            tables = {
                part: {name: arrays[of] for name in ordered if (of := f"{metric}/{name}{ending}") in arrays}
                for part, ending in _ENDINGS.items()
            }
            scores[metric] = HeadScores(metric=metric, n_rows=int(arrays[n_rows]), **tables)
    return scores


PAIRS_IN_JSON = 128
"""The most heads of an attention whose metrics of pairs stand in the JSON."""


def score_json(score: HeadScores) -> dict[str, Any]:
    """Return a metric's values and nulls by attention; null for pairs of an attention with very many heads."""
    declared = score.declared
    wide = [name for name, value in score.values.items() if value.ndim == 2 and len(value) > PAIRS_IN_JSON]
    content: dict[str, Any] = {name: getattr(declared, name) for name in ("of", "unit", "sentence")}
    content["n_rows"] = score.n_rows
    tables = {"values": score.values, "null": score.null, "untrained": score.untrained}
    for key, values in (*tables.items(), ("untrained_spread", score.spread)):
        content[key] = {name: None if name in wide else five_digits(value) for name, value in values.items()}
    for key in ("interval", "by_place"):
        if values := getattr(score, key):
            content[key] = five_digits(values)
    if declared.of == "pair":
        content["per_head"] = five_digits(score.per_head())
    return content


def five_digits(value: Any) -> Any:
    """Return an array, or those of a mapping, as lists of numbers of five significant digits; null for non-finite ones.

    Examples:
        >>> five_digits([1.2345678, float("nan")])
        [1.2346, None]
    """
    if isinstance(value, Mapping):
        return {key: five_digits(inner) for key, inner in value.items()}
    array = np.asarray(value, np.float64)
    if array.ndim:
        return list(map(five_digits, array))
    return float(f"{array:.5g}") if np.isfinite(array) else None


KINDS = {"encoder": "encoder", "self": "decoder", "cross": "cross"}
"""The kinds of attention in the order of figures, with their names."""


def row_labels(names: Iterable[str], kinds: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the label of each attention, in the order of figures: by kind, then as given.

    Args:
        names: the names of the attentions, in the order of the model.
        kinds: the kind of each: self, encoder or cross; None: all of one kind.

    Examples:
        >>> row_labels(["layers.0.attention", "layers.1.attention"])
        {'layers.0.attention': 'L0', 'layers.1.attention': 'L1'}
        >>> row_labels(["e.0", "d.0.a", "d.0.b"], {"e.0": "encoder", "d.0.a": "self", "d.0.b": "cross"})
        {'e.0': 'encoder L0', 'd.0.a': 'decoder L0', 'd.0.b': 'cross L0'}
    """
    kind_of = {name: (kinds or {}).get(name, "self") for name in names}
    several = len(set(kind_of.values())) > 1
    labels: dict[str, str] = {}
    for kind, word in KINDS.items():
        alike = [name for name in kind_of if kind_of[name] == kind]
        layers = list(map(_layer, alike))
        # Names without a layer number, or with one number twice, are numbered by their places.
        known = None not in layers and len(set(layers)) == len(layers)
        for place, name in enumerate(alike):
            labels[name] = f"{word} " * several + f"L{layers[place] if known else place}"
    return labels


def head_names(label: str, n_heads: int) -> list[str]:
    """Return the names of an attention's heads.

    Examples:
        >>> head_names("L0", 2)
        ['L0H0', 'L0H1']
    """
    return [f"{label}H{head}" for head in range(n_heads)]


def _layer(name: str) -> int | None:
    """Return the layer of a module: the first number in its path."""
    number = re.search(r"(?:^|\.)(\d+)(?:\.|$)", name)
    return int(number[1]) if number else None
