"""The relation of a layer's head diversity and the loss during training, tested against chance.

`associate` measures how much of one series others explain: R^2 of ordinary least squares with an intercept. Two
series that both move with time explain each other. In null experiments with a trend or a random walk, shifts of one
series against the other find an association in 30 to 100 of 100, changes from point to point in 14 to 75. So seeds are
swapped instead. Each series loses its mean over seeds: the common effect of training cancels, and what each run does
by itself stays. If the loss goes with the heads, it does so within a seed, and not between the loss of one seed and the
heads of another. The p is the share of all permutations of the seeds whose R^2 is as large. It is exact for every
autocorrelation of the series; p below 0.05 takes four seeds. The R^2 of swapped seeds is also the R^2 of chance, so R^2
beyond it is 0 for unrelated series.

The published R^2 has no interval: moving blocks cover it in 63 to 90 of 100 cases at 15 to 40 points. The seeds' own
values stand in its place.

Paper: a permutation test of exchangeable pairs, after Pitman, Supplement to the J. of the Royal Statistical Society 4
(1937), 225-232, with whole series in place of numbers.

`head_progress` reads the probes of a run: means over heads or pairs of each layer, and their spread. Every probed step
is read once and kept as a number per metric, step and layer. The maps of pairs stay in their files until needed.

`associations` regresses the loss on the mean and the variance over pairs of heads. As published, the windows are the
first 40 probed batches and the whole training. The regression is repeated on what each seed does by itself, against
swapped seeds: a falling loss and a rising diversity explain each other by time alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from headway.config.lm.run import TokensRun
from headway.config.run import RunSpec
from headway.stats.evidence import interval_of_mean
from headway.store.run import Run

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from headway.heads.scores import HeadScores


FEWEST = 12
"""The fewest points for an association."""

FEWEST_SEEDS = 4
"""The fewest seeds for a p: three seeds have 6 permutations, so no p is below 0.05."""

_ALL = 7
"""Seeds up to which every permutation is made."""

_DRAWN = 5_000
"""Permutations that are drawn of more, beside the identity."""


@dataclass(frozen=True, kw_only=True)
class Association:
    """R^2 of a regression, the mean over one or more pairs of series (seeds).

    Attributes:
        r2: the share of the variance that is explained, of the series as they are: high wherever both move with time.
        r2_own: the R^2 of each seed's deviation from the mean over seeds; None below three seeds, and where it is
            undefined.
        r2_swapped: the same where one seed's series is explained by another seed's: what chance gives.
        beyond: the explained share of the variance that chance leaves, (r2_own - r2_swapped) / (1 - r2_swapped) of each
            seed; from four seeds on.
        beyond_interval: 95 % (t over seeds), of `beyond`.
        p: the share of permutations of seeds whose R^2 is as large as r2_own; None below four seeds.
        n: points that all series have.
        per_series: r2 of each.
        per_series_beyond: `beyond` of each.
    """

    r2: float
    r2_own: float | None = None
    r2_swapped: float | None = None
    beyond: float | None = None
    beyond_interval: tuple[float, float] | None = None
    p: float | None = None
    n: int
    per_series: tuple[float, ...]
    per_series_beyond: tuple[float, ...] | None = None


def associate(
    ys: Sequence[Float[np.ndarray, " point"]], xs: Sequence[Float[np.ndarray, "point _"]]
) -> Association | None:
    """Return R^2 of each y on its regressors, and how much of R^2 exceeds chance.

    Args:
        ys: a series (point,) for each seed, all at the same points.
        xs: the regressors (point, regressor) of each series.

    Returns:
        None where a series is shorter than `FEWEST` or does not vary, or is not finite.

    Examples:
        >>> time, rng = np.linspace(0, 20, 60), np.random.default_rng(0)
        >>> wobbles = 0.1 * rng.normal(size=(5, 60))
        >>> together = associate([time + one for one in wobbles], [(time - one)[:, None] for one in wobbles])
        >>> apart = associate([time + one for one in wobbles], [(time - one)[:, None] for one in wobbles[::-1]])
        >>> [round(one.r2, 2) for one in (together, apart)], [round(one.p, 2) for one in (together, apart)]
        ([1.0, 1.0], [0.01, 0.27])
    """
    per_series = tuple(r_squared(y, x) for y, x in zip(ys, xs, strict=True))
    if not per_series or min(map(len, ys)) < FEWEST or not np.isfinite(per_series).all():
        return None
    published = Association(r2=float(np.mean(per_series)), n=min(map(len, ys)), per_series=per_series)
    shares = swapped_shares(np.array(ys), np.array(xs))
    if shares is None:
        return published
    # The mean R^2 of each seed's y on its own regressors, and on those of the other seeds.
    own, others = np.diag(shares), (shares.sum(1) - np.diag(shares)) / (len(shares) - 1)
    compared = replace(published, r2_own=float(own.mean()), r2_swapped=float(others.mean()))
    if len(shares) < FEWEST_SEEDS:
        return compared
    beyond = (own - others) / np.maximum(1 - others, 1e-12)
    mean, interval = interval_of_mean(beyond)
    series = tuple(beyond.tolist())
    return replace(compared, beyond=mean, beyond_interval=interval, p=p_of_swaps(shares), per_series_beyond=series)


def r_squared(y: Float[np.ndarray, " point"], x: Float[np.ndarray, "point regressor"]) -> float:
    """R^2 of least squares of y on x and an intercept, in 0..1; NaN where y does not vary or points are too few.

    Examples:
        >>> round(r_squared(np.array([0.0, 1.0, 2.0, 3.0]), np.array([[0.0], [1.0], [2.0], [3.0]])), 9)
        1.0
    """
    if len(y) < x.shape[1] + 2 or not (np.isfinite(y).all() and np.isfinite(x).all()):
        return math.nan
    return float(_explained(y[None], x)[0])


def swapped_shares(
    ys: Float[np.ndarray, "seed point"], xs: Float[np.ndarray, "seed point regressor"]
) -> Float[np.ndarray, "seed seed"] | None:
    """R^2 of what seed i's y does by itself on what seed j's regressors do.

    None below three seeds, and where y does nothing by itself.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> np.diag(swapped_shares(y := rng.normal(size=(3, 20)), y[:, :, None])).round(6).tolist()
        [1.0, 1.0, 1.0]
    """
    if len(ys) < FEWEST_SEEDS - 1:
        return None  # of two seeds each deviates as the other does, turned round
    by_itself, of_heads = _deviations(ys), _deviations(xs)
    shares = np.stack([_explained(by_itself, x) for x in of_heads], axis=1)
    return shares if np.isfinite(shares).all() else None


def p_of_swaps(shares: Float[np.ndarray, "seed seed"]) -> float:
    """The share of permutations of seeds whose mean R^2 is as large as that of seeds with themselves.

    It is exact for the trace of any such table: p is below 0.05 in at most 5 of 100 experiments with unrelated series.

    Examples:
        >>> round(p_of_swaps(np.eye(4)), 4), round(p_of_swaps(np.eye(5)[::-1]), 4)
        (0.0417, 0.6333)
    """
    means = shares[np.arange(len(shares)), _permutations(len(shares))].mean(1)
    return float((means >= means[0] - 1e-12).mean())


@lru_cache(maxsize=16)
def _permutations(n: int) -> Int[np.ndarray, "permutation seed"]:
    """Return all permutations of few seeds, the identity first; of many seeds a fixed random sample."""
    if n <= _ALL:
        return np.array(list(itertools.permutations(range(n))))
    rng = np.random.default_rng(n)
    return np.stack([np.arange(n), *(rng.permutation(n) for _ in range(_DRAWN))])


def _deviations(values: np.ndarray) -> np.ndarray:
    """Return each seed's deviation from the mean over seeds; 0 where it is only rounding."""
    rest = values - values.mean(0)
    shown = np.ptp(rest, axis=1, keepdims=True) > 1e-9 * np.abs(values).max(axis=(0, 1), keepdims=True)
    return np.where(shown, rest, 0.0)


def _explained(
    ys: Float[np.ndarray, "series point"], x: Float[np.ndarray, "point regressor"]
) -> Float[np.ndarray, " series"]:
    """Return R^2 of several series on common regressors and an intercept; NaN where a series does not vary."""
    centred, spread = x - x.mean(0), x.std(0)
    shown = spread > 1e-12 * np.abs(x).max(0)
    left, sizes, _ = np.linalg.svd(centred[:, shown] / spread[shown], full_matrices=False)
    # What does not vary is left out, and what says the same twice is said once.
    basis = left[:, sizes > 1e-9 * sizes.max(initial=0.0)]
    of_y = ys - ys.mean(1, keepdims=True)
    total = (of_y**2).sum(1)
    varies = total > 1e-24 * (ys**2).sum(1)
    share = np.divide(((of_y @ basis) ** 2).sum(1), total, out=np.full(len(ys), np.nan), where=varies)
    return np.clip(share, 0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class HeadProgress:
    """The probes of one run, per step and layer; NaN where a metric has no value, as of pairs in a layer of one head.

    Attributes:
        steps: the probed steps, ascending.
        layers: the layers that have heads.
        n_heads: the heads of each of them.
        mean: the mean over a layer's heads, or over its pairs of different heads, by metric.
        variance: the population variance over the same heads or pairs, by metric.
        null: the expected value of the mean under the null model, by metric; metrics without a null model are left out.
        n_rows: the number of positions that were counted, by metric.
    """

    steps: Int[np.ndarray, " step"]
    layers: tuple[int, ...]
    n_heads: tuple[int, ...]
    mean: Mapping[str, Float[np.ndarray, "step layer"]]
    variance: Mapping[str, Float[np.ndarray, "step layer"]]
    null: Mapping[str, Float[np.ndarray, "step layer"]]
    n_rows: Mapping[str, int]


def heads_by_layer(spec: RunSpec) -> tuple[int, ...]:
    """Return the number of heads of each layer of a language model."""
    assert isinstance(spec, TokensRun)
    return spec.model.layout.n_heads


def attentions(run: Run) -> dict[int, str]:
    """The attention of each layer of a language model that has heads, by layer."""
    return {layer: f"layers.{layer}.attention" for layer, n in enumerate(heads_by_layer(run.trained)) if n}


def scores_at(run: Run, step: int) -> dict[str, HeadScores]:
    """Return the scores that the probe at a step measured, by metric.

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
    steps, names = run.head_steps(), attentions(run)
    if not steps or not names:
        return None
    probes = [_summary(scores_at(run, step), list(names.values())) for step in steps]
    metrics = list(dict.fromkeys(metric for probe in probes for metric in probe))
    if not metrics:
        return None
    n_heads = heads_by_layer(run.trained)
    empty = np.full((3, len(names)), np.nan)
    stacked = {m: np.stack([probe[m][0] if m in probe else empty for probe in probes], axis=1) for m in metrics}
    return HeadProgress(
        steps=np.array(steps),
        layers=tuple(names),
        n_heads=tuple(n_heads[layer] for layer in names),
        mean={metric: numbers[0] for metric, numbers in stacked.items()},
        variance={metric: numbers[1] for metric, numbers in stacked.items()},
        null={metric: numbers[2] for metric, numbers in stacked.items() if np.isfinite(numbers[2]).any()},
        n_rows={metric: next(probe[metric][1] for probe in probes if metric in probe) for metric in metrics},
    )


def _summary(scores: Mapping[str, HeadScores], names: Sequence[str]) -> dict[str, tuple[np.ndarray, int]]:
    """Return the mean, variance and null of each metric (3, layer), and its number of rows."""
    from headway.heads.scores import of_pairs

    summaries = {}
    for metric, score in scores.items():
        numbers = np.full((3, len(names)), np.nan)
        for column, name in enumerate(names):
            if name in score.values:
                value = np.asarray(score.values[name], np.float64)
                pairs = of_pairs(value)
                numbers[:2, column] = pairs.mean(), pairs.var()
                if name in score.null:
                    numbers[2, column] = of_pairs(np.broadcast_to(score.null[name], value.shape)).mean()
        summaries[metric] = (numbers, score.n_rows)
    return summaries


EARLY = 40
"""Probed batches that count as early."""

REGRESSIONS = (
    ("output_dissimilarity", "probe_loss_nats"),
    ("output_dissimilarity", "train_loss_nats"),
    ("output_dissimilarity_published", "probe_loss_nats"),
    ("attention_diversity", "probe_loss_nats"),
)
"""A metric whose mean and variance explain, and the loss that is explained: on the probe's fixed batch, or of the
batches since the last record."""


@dataclass(frozen=True, kw_only=True)
class ProbedRun:
    """A finished run whose heads were probed."""

    run: Run
    progress: HeadProgress

    def losses(self, name: str) -> np.ndarray:
        """A loss at each probed step, NaN where it was not recorded."""
        by_step = {record["step"]: record.get(name) for record in self.run.records()}
        return np.array([by_step.get(step) for step in self.progress.steps.tolist()], dtype=float)


Window = Literal["early", "whole"]
"""The first `EARLY` probed batches, or the whole training."""


@dataclass(frozen=True, kw_only=True)
class LayerAssociation(Association):
    """The share of a loss that the diversity of one layer explains, in one arm.

    Attributes:
        arm: the full name of the arm.
        control: the control of the arm.
        metric: the metric of diversity.
        loss: the metric of the loss.
        window: the part of the training.
        steps: the first and the last step of the window.
        layer: the layer, from 0.
        seeds: the seeds, in the order of the values per series.
    """

    arm: str
    control: str | None
    metric: str
    loss: str
    window: Window
    steps: tuple[int, int]
    layer: int
    seeds: tuple[int, ...]


def associations(arms: Mapping[str, Sequence[ProbedRun]]) -> Iterator[LayerAssociation]:
    """An entry per arm, regression, window and layer.

    Args:
        arms: the probed runs of each arm, by its full name.
    """
    for arm, runs in arms.items():
        for metric, loss in REGRESSIONS:
            probed = [run for run in runs if metric in run.progress.mean]
            shared = sorted(set.intersection(*(set(run.progress.layers) for run in probed))) if probed else []
            losses = [run.losses(loss) for run in probed]
            for window in _windows(losses):
                for layer in shared:
                    yield from _entry(arm, probed, losses, metric, loss, window, layer)


def _windows(losses: Sequence[np.ndarray]) -> tuple[Window, ...]:
    """Both, or the whole alone where it is no longer than what counts as early."""
    fewest = min((int(np.isfinite(loss).sum()) for loss in losses), default=0)
    return () if fewest == 0 else ("early", "whole") if fewest > EARLY else ("whole",)


def _entry(
    arm: str,
    probed: Sequence[ProbedRun],
    losses: Sequence[np.ndarray],
    metric: str,
    loss: str,
    window: Window,
    layer: int,
) -> Iterator[LayerAssociation]:
    by_step = []
    for run, values in zip(probed, losses, strict=True):
        column = run.progress.layers.index(layer)
        x = np.stack([run.progress.mean[metric][:, column], run.progress.variance[metric][:, column]], axis=1)
        known = np.flatnonzero(np.isfinite(values) & np.isfinite(x).all(1))
        by_step.append(
            dict(zip(run.progress.steps[known].tolist(), zip(values[known], x[known], strict=True), strict=True))
        )
    # Seeds are swapped, so only what all of them have at one step counts.
    steps = sorted(set.intersection(*map(set, by_step)))[: EARLY if window == "early" else None]
    ys, xs = ([np.array([of_seed[step][side] for step in steps]) for of_seed in by_step] for side in (0, 1))
    association = associate(ys, xs) if steps else None
    if association is not None:
        yield LayerAssociation(
            arm=arm,
            control=probed[0].run.control,
            metric=metric,
            loss=loss,
            window=window,
            steps=(steps[0], steps[-1]),
            layer=layer,
            seeds=tuple(run.run.seed for run in probed),
            **asdict(association),
        )
