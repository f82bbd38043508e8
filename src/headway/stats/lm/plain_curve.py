"""Models with a data lane or low ranks, compared with plain models of as many parameters.

The plain models, without a lane and with full matrices, give a curve of loss against the logarithm of trained
parameters. Between neighbours the logarithm of the loss is straight. Chords of the loss itself lie above a convex
falling curve, by .04 to .25 %, so models on the curve would seem to lie below it. Each other model is compared with the
curve at its own size, seed by seed. With one seed or two, the comparison has no interval and no finding.

Paper: the residual-stream data lane (blog, December 2023), which looks for a point below that curve.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.config.lm.model import TransformerModel
from headway.stats.lm.verdicts import size_sentence
from headway.stats.paired import compare, paired
from headway.stats.sequential import FEWEST

METRIC = "eval_loss_nats"


@dataclass(frozen=True, kw_only=True)
class Sized:
    """The runs of one arm: the name, title, number of trained parameters, and the loss of each seed."""

    name: str
    title: str
    plain: bool
    n_parameters: int
    losses: Mapping[int, float]


@dataclass(frozen=True, kw_only=True)
class SizeComparison:
    """A model against the curve of plain models at its own size.

    Attributes:
        arm: the full name of the arm.
        n_parameters: the number of trained parameters.
        n_pairs: the number of seeds that it and all plain models have.
        relative: the relative difference to the curve; below 0 is better. None without a pair.
        interval: the 95 % interval of `relative`; None below three seeds, or if they show no spread.
        p: the p of the paired t test; None likewise.
        sentence: the difference in words.
        control: the control of the arms.
    """

    arm: str
    n_parameters: int
    n_pairs: int
    relative: float | None
    interval: tuple[float, float] | None
    p: float | None
    sentence: str
    control: str | None = None


def is_plain(model: TransformerModel) -> bool:
    """Return whether a model has no data lane and no matrix of low rank."""
    ranks = (model.ranks.q, model.ranks.k, model.ranks.v, model.ranks.o, model.ranks.up, model.ranks.down)
    return model.embedding_width == model.d_model and all(rank is None for rank in ranks)


def against_plain(models: Sequence[Sized]) -> list[SizeComparison]:
    """An entry per model that is not plain and lies between two plain ones in size; none with fewer than two of those.

    Examples:
        >>> plain = [Sized(name=str(n), title=str(n), plain=True, n_parameters=n, losses={0: 3.0 - n / 1000})
        ...     for n in (1000, 2000)]
        >>> lane = Sized(name="lane", title="lane", plain=False, n_parameters=1414, losses={0: 1.4})
        >>> [(entry.arm, round(entry.relative, 3)) for entry in against_plain([*plain, lane])]
        [('lane', -0.01)]
    """
    plain = sorted((m for m in models if m.plain and m.losses), key=lambda m: m.n_parameters)
    if len({m.n_parameters for m in plain}) < 2:
        return []
    between = [
        m
        for m in models
        if not m.plain and m.losses and plain[0].n_parameters <= m.n_parameters <= plain[-1].n_parameters
    ]
    return [_entry(model, plain) for model in between]


def on_curve(at: float, sizes: Sequence[float], losses: Sequence[float]) -> float:
    """The loss that the plain models' curve has at a size.

    Examples:
        >>> round(on_curve(2000, [1000, 4000], [4.0, 1.0]), 9)
        2.0
    """
    return math.exp(np.interp(math.log(at), np.log(sizes), np.log(losses)))


def _entry(model: Sized, plain: Sequence[Sized]) -> SizeComparison:
    seeds = set.intersection(*(set(m.losses) for m in plain))
    sizes = [m.n_parameters for m in plain]
    curve: dict[int, float | None] = {
        seed: on_curve(model.n_parameters, sizes, [m.losses[seed] for m in plain])
        for seed in seeds
        if all(m.losses[seed] > 0 for m in plain)
    }
    difference = compare(paired(dict(model.losses), curve))
    relative = difference.relative
    factor = 0.0 if not difference.difference else (relative or 0.0) / difference.difference
    interval = None
    if difference.interval is not None and difference.n_pairs >= FEWEST:
        low, high = sorted(factor * end for end in difference.interval)
        interval = (low, high)
    return SizeComparison(
        arm=model.name,
        n_parameters=model.n_parameters,
        n_pairs=difference.n_pairs,
        relative=relative,
        interval=interval,
        p=None if interval is None else difference.p,
        sentence=size_sentence(model.title, difference, interval),
    )
