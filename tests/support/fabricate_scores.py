"""Scores of heads that nobody measured, in their real ranges."""

from collections.abc import Sequence

import numpy as np

from headway.config.head_metrics import HEAD_METRICS
from headway.heads.scores import Composition, HeadScores


def names(heads: Sequence[int]) -> list[str]:
    return [f"layers.{layer}.attention" for layer in range(len(heads))]


def score(metric: str, heads: Sequence[int], *, null: float | None = None, seed: int = 0) -> HeadScores:
    random = np.random.default_rng([seed, *metric.encode()])
    values = {name: _drawn(metric, n, random) for name, n in zip(names(heads), heads, strict=True)}
    nulls = {} if null is None else {name: np.array(null) for name in values}
    return HeadScores(metric=metric, values=values, null=nulls, n_rows=4096)


def scores(heads: Sequence[int], metrics: Sequence[str] | None = None) -> dict[str, HeadScores]:
    """Every metric, with a null where one is declared."""
    chosen = HEAD_METRICS if metrics is None else metrics
    return {
        metric: score(metric, heads, null=None if "not known" in HEAD_METRICS[metric].null.sentence else 0.1)
        for metric in chosen
    }


def composition(n_heads: Sequence[int] = (2, 3), strong: tuple[int, int] = (1, 2)) -> Composition:
    """Two layers, all pairs at random but one into keys."""
    heads = tuple((f"layers.{layer}.attention", head) for layer, n in enumerate(n_heads) for head in range(n))
    table = np.full((len(heads),) * 2, np.nan)
    table[: n_heads[0], n_heads[0] :] = 0.1
    keys = table.copy()
    keys[strong] = 0.6
    chances = {kind: np.where(np.isfinite(table), 0.5, np.nan) for kind in "qkv"}
    chances["k"][strong] = 1e-6
    return Composition(
        heads=heads, q=table, k=keys, v=table, null=0.1, chances=chances, shares={"k": keys}, nats={"k": 5 * keys}
    )


def _drawn(metric: str, n: int, random: np.random.Generator) -> np.ndarray:
    declared = HEAD_METRICS[metric]
    drawn = np.asarray(random.beta(0.6, 3, size={"head": (n,), "pair": (n, n), "layer": ()}[declared.of]))
    if declared.of == "pair":
        drawn = (drawn + drawn.T) / 2 if n > 1 else np.full((1, 1), np.nan)
        np.fill_diagonal(drawn, 1 if n > 1 else np.nan)
    if declared.unit == "-1 to 1":
        drawn = np.asarray(-drawn if declared.of == "pair" else 2 * drawn - 0.7)
    return np.asarray(np.exp(9 * drawn) if metric.endswith("raw") else drawn)
