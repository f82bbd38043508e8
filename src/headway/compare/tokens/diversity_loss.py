"""Compare: how much of the loss the diversity of a layer's heads explains while a model trains.

As published, a regression of the loss on the mean and the variance over pairs of heads, at the first 40 probed batches
and over the whole training. Here also of what each seed does by itself, against seeds that are swapped, since a loss
that falls and a diversity that rises explain each other by that alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from headway.compare.tokens.association import Association, associate
from headway.compare.tokens.head_progress import HeadProgress
from headway.runs.folder import Run

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
        found = {record["step"]: record.get(name) for record in self.run.records()}
        return np.array([found.get(step) for step in self.progress.steps.tolist()], dtype=float)


Window = Literal["early", "whole"]
"""The first `EARLY` probed batches, or the whole training."""


@dataclass(frozen=True, kw_only=True)
class LayerAssociation(Association):
    """How much of a loss the diversity of one layer explains, in one arm.

    Attributes:
        arm: its full name.
        control: what it is under.
        metric: of diversity.
        loss: which of the losses.
        window: of the training.
        steps: the first and the last of it.
        layer: from 0.
        seeds: in the order of the values per series.
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
            probed = [one for one in runs if metric in one.progress.mean]
            shared = sorted(set.intersection(*(set(one.progress.layers) for one in probed))) if probed else []
            losses = [one.losses(loss) for one in probed]
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
    wanted, explaining = [], []
    for one, values in zip(probed, losses, strict=True):
        at = one.progress.layers.index(layer)
        x = np.stack([one.progress.mean[metric][:, at], one.progress.variance[metric][:, at]], axis=1)
        known = np.flatnonzero(np.isfinite(values) & np.isfinite(x).all(1))
        wanted.append(dict(zip(one.progress.steps[known].tolist(), values[known], strict=True)))
        explaining.append(dict(zip(one.progress.steps[known].tolist(), x[known], strict=True)))
    # Seeds are swapped, so only what all of them have at one step counts.
    steps = sorted(set.intersection(*map(set, wanted)))[: EARLY if window == "early" else None]
    ys = [np.array([of_seed[step] for step in steps]) for of_seed in wanted]
    xs = [np.array([of_seed[step] for step in steps]) for of_seed in explaining]
    found = associate(ys, xs) if steps else None
    if found is not None:
        yield LayerAssociation(
            arm=arm,
            control=probed[0].run.control,
            metric=metric,
            loss=loss,
            window=window,
            steps=(steps[0], steps[-1]),
            layer=layer,
            seeds=tuple(one.run.seed for one in probed),
            **asdict(found),
        )
