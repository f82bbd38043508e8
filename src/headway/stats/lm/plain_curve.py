"""Models with a data lane or low ranks, compared with plain models of as many parameters.

The plain models, without a lane and with full matrices, give a curve of loss against the logarithm of trained
parameters. Between neighbours the logarithm of the loss is straight. Chords of the loss itself lie above a convex
falling curve, by 0.04 to 0.25 %, so models on the curve would seem to lie below it. Each other model is compared with
the curve at its own size, seed by seed. All these comparisons are one family: their intervals hold together. With one
seed or two, a comparison has no interval and no finding.

Paper: the residual-stream data lane (blog, December 2023), which looks for a point below that curve.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headway.config.lm.model import TransformerModel
from headway.stats.blocks import block_test
from headway.stats.evidence import Difference, paired, untested_difference
from headway.stats.lm.verdicts import size_sentence
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
        interval: the 95 % interval of `relative`, for all models of the family at once; None below three seeds, or if
            they show no spread.
        p: the p of the family; None likewise.
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
    ranks = model.ranks
    if model.embedding_width != model.d_model:
        return False
    return all(rank is None for rank in (ranks.q, ranks.k, ranks.v, ranks.o, ranks.up, ranks.down))


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
    smallest, largest = plain[0].n_parameters, plain[-1].n_parameters
    others = [m for m in models if m.losses and not m.plain]
    between = [m for m in others if smallest <= m.n_parameters <= largest]
    return _judged(between, plain) if between else []


def on_curve(at: float, sizes: Sequence[float], losses: Sequence[float]) -> float:
    """The loss that the plain models' curve has at a size.

    Examples:
        >>> round(on_curve(2000, [1000, 4000], [4.0, 1.0]), 9)
        2.0
    """
    return math.exp(np.interp(math.log(at), np.log(sizes), np.log(losses)))


def _judged(between: Sequence[Sized], plain: Sequence[Sized]) -> list[SizeComparison]:
    """Judge the differences to the curve as one family: each is a model less a weighted mean of plain ones, in ln."""
    sizes = [m.n_parameters for m in plain]
    positive = [{seed for seed, loss in m.losses.items() if loss > 0} for m in plain]
    seeds = sorted(set.intersection(*positive))
    losses = np.array([[m.losses.get(seed, np.nan) for seed in seeds] for m in (*plain, *between)])
    units = np.eye(len(plain))
    shares = [[np.interp(math.log(m.n_parameters), np.log(sizes), unit) for unit in units] for m in between]
    y = 100 * np.log(np.where(losses > 0, losses, np.nan))
    test = block_test(y, np.hstack([-np.array(shares), np.eye(len(between))]))
    entries = []
    for model, judged in zip(between, test.contrasts, strict=True):
        curve = dict[int, float | None]()
        for seed in seeds:
            curve[seed] = on_curve(model.n_parameters, sizes, [m.losses[seed] for m in plain])
        entries.append(_entry(model, judged, curve, len(between)))
    return entries


def _entry(model: Sized, judged: Difference, curve: Mapping[int, float | None], n_models: int) -> SizeComparison:
    own = {seed: loss for seed, loss in model.losses.items() if loss > 0}
    difference = untested_difference(paired(own, curve))
    relative = None if judged.estimate is None else math.expm1(judged.estimate / 100)
    difference = replace(difference, relative=relative)
    interval = None
    if judged.interval is not None and judged.n_pairs >= FEWEST:
        low, high = judged.interval
        interval = math.expm1(low / 100), math.expm1(high / 100)
    return SizeComparison(
        arm=model.name,
        n_parameters=model.n_parameters,
        n_pairs=difference.n_pairs,
        relative=relative,
        interval=interval,
        p=None if interval is None else judged.p_family,
        sentence=size_sentence(model.title, difference, interval, n_models),
    )
