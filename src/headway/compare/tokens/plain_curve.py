"""Compare: models with a data lane or low ranks against plain models of the same number of parameters.

The plain models, those without a lane and with full matrices, give a curve of loss against the logarithm of trained
parameters, straight between neighbours. Each other model is compared with that curve at its own size, seed by seed.

Paper: the residual-stream data lane (blog, December 2023), which looks for a point below that curve.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.compare.statistics import compare, paired
from headway.declare.tokens.transformer import TransformerModel
from headway.words import Amount

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
        arm: its full name.
        n_parameters: its size.
        n_pairs: seeds that it and all plain models have.
        relative: to the curve; below 0 is better. None without a pair.
        interval: 95 %, of `relative`; None without a spread over seeds.
        p: of the paired t test, likewise.
        sentence: that in words.
        control: what all of them are under.
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
    """Whether a model has no data lane and no matrix of low rank."""
    ranks = (model.ranks.q, model.ranks.k, model.ranks.v, model.ranks.o, model.ranks.up, model.ranks.down)
    return model.embedding_width == model.d_model and all(rank is None for rank in ranks)


def against_plain(models: Sequence[Sized]) -> list[SizeComparison]:
    """An entry per model that is not plain and lies between two plain ones in size; none with fewer than two of those.

    Examples:
        >>> plain = [Sized(name=str(n), title=str(n), plain=True, n_parameters=n, losses={0: 3.0 - n / 1000})
        ...     for n in (1000, 2000)]
        >>> lane = Sized(name="lane", title="lane", plain=False, n_parameters=1414, losses={0: 1.4})
        >>> [(entry.arm, round(entry.relative, 3)) for entry in against_plain([*plain, lane])]
        [('lane', -0.067)]
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


def _entry(model: Sized, plain: Sequence[Sized]) -> SizeComparison:
    seeds = set.intersection(*(set(m.losses) for m in plain))
    sizes = [math.log(m.n_parameters) for m in plain]
    curve: dict[int, float | None] = {
        seed: float(np.interp(math.log(model.n_parameters), sizes, [m.losses[seed] for m in plain])) for seed in seeds
    }
    found = compare(paired(dict(model.losses), curve), metric=METRIC, arm=model.name, baseline="plain")
    relative = found.relative
    factor = 0.0 if not found.difference else (relative or 0.0) / found.difference
    interval = None
    if found.interval is not None:
        low, high = sorted(factor * end for end in found.interval)
        interval = (low, high)
    return SizeComparison(
        arm=model.name,
        n_parameters=model.n_parameters,
        n_pairs=found.n_pairs,
        relative=relative,
        interval=interval,
        p=found.p,
        sentence=_sentence(model.title, relative, interval),
    )


def _sentence(title: str, relative: float | None, interval: tuple[float, float] | None) -> str:
    if relative is None:
        return f"{title} cannot be compared with plain models of its size: no seed gave a result for all of them"
    side, amount = "below" if relative < 0 else "above", Amount.of_share(relative, interval)
    said = f"{title} lies {amount(abs(relative))} {side} the curve of plain models of its size"
    if interval is None:
        return f"{said} (no interval)"
    sure = "" if interval[0] > 0 or interval[1] < 0 else ", which may be chance"
    return f"{said}, 95 % interval {amount(*sorted((1 if relative >= 0 else -1) * end for end in interval))}{sure}"
