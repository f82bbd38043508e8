"""Compare: what the probes of a run say of each layer while it trains: means over heads or pairs, and their spread.

Every probed step is read once; what is kept is a number per metric, step and layer. The maps of pairs stay in their
files until they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from headway.declare.tokens.run import TokensRun
from headway.runs.folder import Run

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from headway.heads.scores import HeadScores


@dataclass(frozen=True, kw_only=True)
class HeadProgress:
    """The probes of one run, per step and layer; NaN where a metric says nothing, as of pairs in a layer of one head.

    Attributes:
        steps: the probed steps, ascending.
        layers: the layers that have heads.
        n_heads: the heads of each of them.
        mean: by metric, over the heads of a layer, or over its pairs of different heads.
        variance: by metric, the population variance over the same.
        null: by metric, the mean of what it would be if nothing were going on; metrics without one are left out.
        n_rows: by metric, the positions that were counted.
    """

    steps: Int[np.ndarray, " step"]
    layers: tuple[int, ...]
    n_heads: tuple[int, ...]
    mean: Mapping[str, Float[np.ndarray, "step layer"]]
    variance: Mapping[str, Float[np.ndarray, "step layer"]]
    null: Mapping[str, Float[np.ndarray, "step layer"]]
    n_rows: Mapping[str, int]


def attentions(run: Run) -> dict[int, str]:
    """The attention of each layer of a language model that has heads, by layer."""
    spec = run.trained
    assert isinstance(spec, TokensRun)
    return {layer: f"layers.{layer}.attention" for layer, heads in enumerate(spec.model.layout.n_heads) if heads}


def scores_at(run: Run, step: int) -> dict[str, HeadScores]:
    """What the probe at a step measured, by metric.

    Raises:
        ResultsError: when nothing was kept at that step, or it is damaged.
    """
    from headway.heads.scores import from_arrays

    return from_arrays(run.head_arrays(step), attentions(run).values())


def head_progress(run: Run) -> HeadProgress | None:
    """The probes of a run; None where nothing was probed.

    Raises:
        ResultsError: when a file is damaged.
    """
    spec = run.trained
    assert isinstance(spec, TokensRun)
    steps, names = run.head_steps(), attentions(run)
    if not steps or not names:
        return None
    probes = [_summary(scores_at(run, step), list(names.values())) for step in steps]
    metrics = list(dict.fromkeys(metric for probe in probes for metric in probe))
    if not metrics:
        return None
    layout = spec.model.layout
    empty = np.full((3, len(names)), np.nan)
    stacked = {m: np.stack([probe[m][0] if m in probe else empty for probe in probes], axis=1) for m in metrics}
    return HeadProgress(
        steps=np.array(steps),
        layers=tuple(names),
        n_heads=tuple(layout.n_heads[layer] for layer in names),
        mean={metric: found[0] for metric, found in stacked.items()},
        variance={metric: found[1] for metric, found in stacked.items()},
        null={metric: found[2] for metric, found in stacked.items() if np.isfinite(found[2]).any()},
        n_rows={metric: next(probe[metric][1] for probe in probes if metric in probe) for metric in metrics},
    )


def _summary(scores: Mapping[str, HeadScores], names: Sequence[str]) -> dict[str, tuple[np.ndarray, int]]:
    """By metric: mean, variance and null (3, layer), and the rows."""
    found = {}
    for metric, score in scores.items():
        numbers = np.full((3, len(names)), np.nan)
        for at, name in enumerate(names):
            if name in score.values:
                value = np.asarray(score.values[name], np.float64)
                pairs = _entries(value)
                numbers[:2, at] = pairs.mean(), pairs.var()
                if name in score.null:
                    numbers[2, at] = _entries(np.broadcast_to(score.null[name], value.shape)).mean()
        found[metric] = (numbers, score.n_rows)
    return found


def _entries(value: np.ndarray) -> np.ndarray:
    """`of_pairs`, with the positions of the pairs remembered."""
    if value.ndim != 2 or len(value) < 2:
        from headway.heads.scores import of_pairs

        return of_pairs(value)
    return value[_upper(len(value))]


@lru_cache(maxsize=64)
def _upper(n_heads: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(n_heads, k=1)
