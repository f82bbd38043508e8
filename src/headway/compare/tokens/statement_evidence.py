"""Compare: the numbers of one run by which published statements on the diversity of heads are judged.

Each is a function of the run's evidence and the name of a metric; None where the run cannot say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from headway.compare.tokens.head_progress import HeadProgress

END = 0.9
"""The end of training is from this share of its steps on."""

MIDDLE = (0.4, 0.6)
"""The middle of training, in shares of its steps."""


ByLayer = Mapping[int, float]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one run says.

    `r2` is R^2 of the probe's loss by metric, window (early, whole, or early_beyond chance) and layer; `p` that of its
    arm, by metric, window and layer.
    """

    progress: HeadProgress
    r2: Mapping[tuple[str, str], ByLayer] = field(default_factory=dict)
    p: Mapping[tuple[str, str], ByLayer] = field(default_factory=dict)

    def at_end(self, values: np.ndarray) -> np.ndarray:
        """The mean over the last probes, (step, layer) -> (layer,)."""
        steps = self.progress.steps
        return values[steps >= END * steps[-1]].mean(0)

    def in_middle(self, values: np.ndarray) -> np.ndarray | None:
        """The mean over the probes in the middle, None without any."""
        steps = self.progress.steps
        chosen = (steps >= MIDDLE[0] * steps[-1]) & (steps <= MIDDLE[1] * steps[-1])
        return values[chosen].mean(0) if chosen.any() and len(steps) > 2 else None


def layer_0_over_others(one: Evidence, metric: str) -> float | None:
    """Layer 0's mean over that of the other layers, the geometric mean over the probes."""
    ratios = _ratios(one, metric)
    return None if ratios is None else float(np.exp(np.log(ratios).mean()))


def layer_0_over_others_at_first(one: Evidence, metric: str) -> float | None:
    """The same at the first probe, where that was before any training."""
    ratios = _ratios(one, metric)
    return None if ratios is None or one.progress.steps[0] != 0 else float(ratios[0])


def _ratios(one: Evidence, metric: str) -> np.ndarray | None:
    split = _split(one, one.progress.mean[metric])
    if split is None:
        return None
    first, others = split
    ratios = first / others.mean(1)
    return ratios if np.isfinite(ratios).all() and (ratios > 0).all() else None


def late_rise_beyond_layer_0(one: Evidence, metric: str) -> np.ndarray | None:
    """In the second half, how much later layers rise less twice what layer 0 rises, and less twice what it falls.

    Both, for the size of a change has a mean above 0 where there is none.
    """
    rises = _late_rises(one, metric)
    return None if rises is None else np.array([rises[1] - 2 * rises[0], rises[1] + 2 * rises[0]])


def late_change_of_layer_0(one: Evidence, metric: str) -> float | None:
    """How much layer 0 changes in the second half."""
    rises = _late_rises(one, metric)
    return None if rises is None else rises[0]


def _late_rises(one: Evidence, metric: str) -> tuple[float, float] | None:
    """Of layer 0 and the mean of the later ones, from the middle to the end."""
    values = one.progress.mean[metric]
    split, middle = _split(one, values), one.in_middle(values)
    if split is None or middle is None:
        return None
    rise = (one.at_end(values) - middle)[np.isfinite(values[0])]
    return float(rise[0]), float(rise[1:].mean())


def rises(one: Evidence, metric: str) -> np.ndarray | None:
    """From the first probe to the end, how much the mean over pairs rises in each layer."""
    return _rises(one, one.progress.mean[metric])


def rises_of_variance(one: Evidence, metric: str) -> np.ndarray | None:
    """The same of the variance over pairs, of layers with three heads or more: of one pair there is none."""
    several = np.array(one.progress.n_heads) > 2
    return _rises(one, one.progress.variance[metric][:, several])


def _rises(one: Evidence, values: np.ndarray) -> np.ndarray | None:
    if len(one.progress.steps) < 2:
        return None
    return one.at_end(values) - values[0]


def first_layers_less_last(one: Evidence, metric: str) -> float | None:
    """At the end, the mean of the first three layers (the first half, of fewer than six) less that of the others."""
    first, last = first_layers(one, metric), last_layers(one, metric)
    return None if first is None or last is None else first - last


def first_layers(one: Evidence, metric: str) -> float | None:
    """At the end, the mean of those first layers."""
    return _mean_of(one, metric, _are_first(one))


def last_layers(one: Evidence, metric: str) -> float | None:
    """At the end, the mean of the other layers."""
    return _mean_of(one, metric, ~_are_first(one))


def _are_first(one: Evidence) -> np.ndarray:
    n_layers = one.progress.layers[-1] + 1
    return np.array(one.progress.layers) < (3 if n_layers >= 6 else n_layers / 2)


def _mean_of(one: Evidence, metric: str, chosen: np.ndarray) -> float | None:
    values = one.at_end(one.progress.mean[metric])[chosen]
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else None


def whole_r2_of_layer_0(one: Evidence, metric: str) -> float | None:
    """R^2 in layer 0 over the whole training."""
    return one.r2.get((metric, "whole"), {}).get(0)


def whole_r2_beyond_chance(one: Evidence, metric: str) -> float | None:
    """How much of it, of what a seed does by itself, is more than swapped seeds give."""
    return one.r2.get((metric, "whole_beyond"), {}).get(0)


def p_of_whole_r2(one: Evidence, metric: str) -> float | None:
    """That swapped seeds give as much."""
    return one.p.get((metric, "whole"), {}).get(0)


def early_r2_of_layer_0(one: Evidence, metric: str) -> float | None:
    """R^2 in layer 0 over the first probes."""
    return _early(one.r2, metric).get(0)


def early_r2_beyond_chance(one: Evidence, metric: str) -> float | None:
    """How much of it, of what a seed does by itself, is more than swapped seeds give."""
    return _early(one.r2, metric, "_beyond").get(0)


def p_of_early_r2(one: Evidence, metric: str) -> float | None:
    """That swapped seeds give as much."""
    return _early(one.p, metric).get(0)


def slope_of_early_r2(one: Evidence, metric: str) -> float | None:
    """How much early R^2 changes from layer to layer: the slope of a straight line through them."""
    return _slope(_early(one.r2, metric))


def slope_of_early_r2_beyond_chance(one: Evidence, metric: str) -> float | None:
    """The same of what is more than swapped seeds give."""
    return _slope(_early(one.r2, metric, "_beyond"))


def p_of_last_early_r2(one: Evidence, metric: str) -> float | None:
    """That swapped seeds give as much early R^2 as there is in the last layer."""
    found = _early(one.p, metric)
    return found[max(found)] if found else None


def _slope(found: ByLayer) -> float | None:
    return float(np.polyfit(list(found), list(found.values()), 1)[0]) if len(found) > 1 else None


def _early(found: Mapping[tuple[str, str], ByLayer], metric: str, end: str = "") -> ByLayer:
    """By layer over the first probes; of a training that has no more of them, over the whole."""
    return found.get((metric, f"early{end}")) or found.get((metric, f"whole{end}"), {})


def _split(one: Evidence, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Layer 0 (step,) and the other layers (step, layer) of which the metric says something."""
    known = np.isfinite(values).all(0)
    if one.progress.layers[0] != 0 or not known[0] or known.sum() < 2:
        return None
    return values[:, 0], values[:, known][:, 1:]
