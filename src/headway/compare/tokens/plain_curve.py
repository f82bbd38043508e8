"""Compare: models with a data lane or low ranks against plain models of the same number of parameters.

The plain models, those without a lane and with full matrices, give a curve of loss against the logarithm of trained
parameters, straight between neighbours. Each other model is compared with that curve at its own size, seed by seed.

Paper: the residual-stream data lane (blog, December 2023), which looks for a point below that curve.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.compare.statistics import compare, paired
from headway.declare.tokens.transformer import TransformerModel

METRIC = "eval_loss_nats"


@dataclass(frozen=True, kw_only=True)
class Sized:
    """The runs of one arm: the name, title, number of trained parameters, and the loss of each seed."""

    name: str
    title: str
    plain: bool
    n_parameters: int
    losses: Mapping[int, float]


def is_plain(model: TransformerModel) -> bool:
    """Whether a model has no data lane and no matrix of low rank."""
    ranks = (model.ranks.q, model.ranks.k, model.ranks.v, model.ranks.o, model.ranks.up, model.ranks.down)
    return model.embedding_width == model.d_model and all(rank is None for rank in ranks)


def against_plain(models: Sequence[Sized]) -> list[dict[str, Any]]:
    """An entry per model that is not plain and lies between two plain ones in size.

    Returns:
        `arm`, `n_parameters`, `n_pairs`, `relative` (to the curve; below 0 is better), `interval` (95 %, of
        `relative`, None without a spread over seeds), `p` and `sentence`. Empty with fewer than two plain sizes.

    Examples:
        >>> plain = [Sized(name=str(n), title=str(n), plain=True, n_parameters=n, losses={0: 3.0 - n / 1000})
        ...     for n in (1000, 2000)]
        >>> lane = Sized(name="lane", title="lane", plain=False, n_parameters=1414, losses={0: 1.4})
        >>> [(entry["arm"], round(entry["relative"], 3)) for entry in against_plain([*plain, lane])]
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


def _entry(model: Sized, plain: Sequence[Sized]) -> dict[str, Any]:
    seeds = set.intersection(*(set(m.losses) for m in plain))
    sizes = [math.log(m.n_parameters) for m in plain]
    curve: dict[int, float | None] = {
        seed: float(np.interp(math.log(model.n_parameters), sizes, [m.losses[seed] for m in plain])) for seed in seeds
    }
    found = compare(paired(dict(model.losses), curve), metric=METRIC, arm=model.name, baseline="plain")
    relative = found.relative
    factor = 0.0 if not found.difference else (relative or 0.0) / found.difference
    interval = None if found.interval is None else sorted(factor * end for end in found.interval)
    return {
        "arm": model.name,
        "n_parameters": model.n_parameters,
        "n_pairs": found.n_pairs,
        "relative": relative,
        "interval": interval,
        "p": found.p,
        "sentence": _sentence(model.title, relative, interval),
    }


def _sentence(title: str, relative: float | None, interval: Sequence[float] | None) -> str:
    if relative is None:
        return f"{title} cannot be compared with plain models of its size: no seed gave a result for all of them"
    side = "below" if relative < 0 else "above"
    said = f"{title} lies {100 * abs(relative):.1f} % {side} the curve of plain models of its size"
    if interval is None:
        return f"{said} (no interval)"
    ends = sorted((1 if relative >= 0 else -1) * 100 * end for end in interval)
    sure = "" if interval[0] > 0 or interval[1] < 0 else ", which may be chance"
    low, high = (f"{end:.1f}".replace("-", "−") for end in ends)
    return f"{said}, 95 % interval {low} to {high} %{sure}"
