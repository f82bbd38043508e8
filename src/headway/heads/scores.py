"""Heads: what a metric says of every head of a model whose layers may differ in their number of heads, or of all pairs.

Numpy alone, so that reports are drawn without torch.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from headway.declare.head_causes import HEAD_CAUSES
from headway.declare.head_metrics import HEAD_METRICS, HeadMetric

DECLARED: Mapping[str, HeadMetric] = ChainMap(HEAD_CAUSES, HEAD_METRICS)
"""Every metric that there are scores of."""

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class HeadScores:
    """A metric of every attention of a model.

    Attributes:
        metric: its name in `declare.head_metrics.HEAD_METRICS` or `declare.head_causes.HEAD_CAUSES`.
        values: by name of the attention, in the order of the model: (head,), (head, head) for a metric of pairs, whose
            diagonal is a head with itself, or () for one of layers. NaN where the metric says nothing.
        null: what it would be if nothing were going on, by name of the attention, broadcasting to the values; an
            attention without a known null is left out.
        n_rows: positions that were counted; raw metrics grow with it.
        draws: what untrained heads on the same stream show, by name of the attention: (draw, ...) beside the values;
            empty where no heads were drawn anew.
        formula: the mean of that over all draws where a formula gives it, by name of the attention.
    """

    metric: str
    values: Mapping[str, np.ndarray]
    null: Mapping[str, np.ndarray] = field(default_factory=dict)
    n_rows: int
    draws: Mapping[str, np.ndarray] = field(default_factory=dict)
    formula: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def declared(self) -> HeadMetric:
        """Its sentence, unit and null."""
        return DECLARED[self.metric]

    @property
    def untrained(self) -> dict[str, np.ndarray]:
        """The mean over the draws, else the formula, by name of the attention; it broadcasts to the values."""
        found = {name: np.asarray(value) for name, value in self.formula.items()}
        return found | {name: np.asarray(drawn.mean(0)) for name, drawn in self.draws.items()}

    @property
    def spread(self) -> dict[str, np.ndarray]:
        """The standard deviation over the draws, by name of the attention; NaN of a single one."""
        return {name: _deviation(drawn) for name, drawn in self.draws.items()}

    def per_head(self) -> dict[str, np.ndarray]:
        """(head,) for every attention that has heads: of a metric of pairs the mean over the other heads.

        NaN for a single head, which has no other.
        """
        if self.declared.of == "layer":
            return {}
        return {name: _over_others(value) if value.ndim == 2 else value for name, value in self.values.items()}

    def per_layer(self) -> dict[str, float]:
        """The mean over the heads of each attention, or over its pairs of different heads."""
        return {name: float(of_pairs(value).mean()) if value.size else np.nan for name, value in self.values.items()}


@dataclass(frozen=True, kw_only=True)
class Composition:
    """How much of what a head writes a later layer's head reads, for all pairs of heads of a model.

    Attributes:
        heads: (attention, head) of each row and column.
        q: (head, head), ||OV_1 QK_2|| / (||OV_1|| ||QK_2||), Frobenius norms: into the later head's queries; 0 to 1.
            Rows are earlier heads, columns later ones; NaN where the row's layer is not before the column's, or where
            a circuit is 0.
        k: the same into its keys, OV_1 QK_2^T.
        v: the same into its values, OV_1 OV_2.
        null: the root mean square of all three when the circuits of two heads are turned at random to one another,
            whatever their spectra: 1 / sqrt(the entries of the stream, less one for a LayerNorm's mean).
        chances: for each of q, k and v, (head, head): how likely so much is for circuits turned at random; empty where
            that was not computed.

    Paper: Elhage et al. 2021, A Mathematical Framework for Transformer Circuits.
    """

    heads: tuple[tuple[str, int], ...]
    q: Float[np.ndarray, "earlier later"]
    k: Float[np.ndarray, "earlier later"]
    v: Float[np.ndarray, "earlier later"]
    null: float
    chances: Mapping[str, Float[np.ndarray, "earlier later"]] = field(default_factory=dict)


def of_pairs(value: np.ndarray) -> np.ndarray:
    """The entries of a metric that means are over: each pair of different heads once; all of a metric of heads.

    NaN alone where there is no pair.

    Examples:
        >>> of_pairs(np.array([[1.0, 0.5], [0.5, 1.0]]))
        array([0.5])
    """
    if value.ndim != 2:
        return np.atleast_1d(value)
    pairs = value[np.triu_indices(len(value), k=1)]
    return pairs if len(pairs) else np.array([np.nan])


def _deviation(drawn: np.ndarray) -> np.ndarray:
    return np.asarray(drawn.std(0, ddof=1)) if len(drawn) > 1 else np.full(drawn.shape[1:], np.nan)


def _over_others(pairs: np.ndarray) -> np.ndarray:
    n_heads = len(pairs)
    if n_heads == 1:
        return np.full(1, np.nan)
    return (pairs.sum(1) - np.diagonal(pairs)) / (n_heads - 1)


def to_arrays(scores: Iterable[HeadScores]) -> Arrays:
    """Scores as the arrays of one file: `METRIC/ATTENTION`, `METRIC/ATTENTION/null`, `METRIC/n_rows`; float32.

    Where heads were drawn anew, `METRIC/ATTENTION/untrained` holds every draw.
    """
    arrays: Arrays = {}
    for score in scores:
        arrays[f"{score.metric}/n_rows"] = np.array(score.n_rows, np.int64)
        for name, value in score.values.items():
            arrays[f"{score.metric}/{name}"] = np.asarray(value, np.float32)
            if name in score.null:
                arrays[f"{score.metric}/{name}/null"] = np.asarray(score.null[name], np.float32)
            if name in score.draws:
                arrays[f"{score.metric}/{name}/untrained"] = np.asarray(score.draws[name], np.float32)
    return arrays


def from_arrays(arrays: Mapping[str, np.ndarray], attentions: Iterable[str]) -> dict[str, HeadScores]:
    """The scores of a file by metric; `attentions` in the order of the model."""
    ordered = tuple(attentions)
    metrics = [metric for metric in DECLARED if f"{metric}/n_rows" in arrays]
    return {
        metric: HeadScores(
            metric=metric,
            values={name: arrays[f"{metric}/{name}"] for name in ordered if f"{metric}/{name}" in arrays},
            null={name: arrays[f"{metric}/{name}/null"] for name in ordered if f"{metric}/{name}/null" in arrays},
            n_rows=int(arrays[f"{metric}/n_rows"]),
            draws={name: arrays[of] for name in ordered if (of := f"{metric}/{name}/untrained") in arrays},
        )
        for metric in metrics
    }
