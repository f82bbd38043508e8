"""Published statements on the diversity of heads: their numbers and their bounds.

Each number is a function of a run's evidence and the name of a metric; None if the run cannot tell. A `Claim` has a
number with its bound, and the metrics to read it by.

Paper: X-raying heads (article, May 2024). "Orthogonality" is there the sum of |Q_i^T Q_j|, which is high where heads
are not orthogonal. The statements are taken by the word's meaning, so that less orthogonal is a higher metric.

`every_layer` judges over all arms and layers at once whether a number rises in every layer. Suppose one picks the
layer that contradicts a statement most, and gives it an interval of its own. True statements are then contradicted in
13 to 24 of 100 experiments, where nothing rises or falls in six layers. So a layer contradicts only if its interval,
wide enough for all layers of all arms together, lies on the other side. Confirmation needs no such correction: each
layer has to confirm by its own interval.

Spreads are moderated as in `blocks`: pooled over arms and layers, and each one's own by as much as they are seen to
differ. Papers: Smyth 2004 (`limma`); Sidak, J. Am. Stat. Assoc. 62 (1967), 626-633, whose bound holds for every
dependence between layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import stdtrit

from headway.stats.blocks import OWN_SHARE, prior_freedom
from headway.stats.lm.diversity import HeadProgress, LayerAssociation, Window
from headway.stats.simultaneous import LEVEL

if TYPE_CHECKING:
    from jaxtyping import Float


END = 0.9
"""The end of training is from this share of its steps on."""

MIDDLE = (0.4, 0.6)
"""The middle of training, in shares of its steps."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The evidence of one run.

    Attributes:
        progress: the probes of the run.
        seed: the seed of the run.
        associations: the associations of its arm with the probe's loss.
    """

    progress: HeadProgress
    seed: int
    associations: Sequence[LayerAssociation] = ()

    def by_layer(
        self, metric: str, window: Window, number: Callable[[LayerAssociation], float | None]
    ) -> dict[int, float]:
        """Return a number of the associations by layer; a run with few probes has only its whole training."""
        by_window: dict[Window, dict[int, float]] = {"whole": {}}
        for entry in self.associations:
            if entry.metric == metric and (value := number(entry)) is not None:
                by_window.setdefault(entry.window, {})[entry.layer] = value
        return by_window.get(window) or by_window["whole"]

    def r2(self, metric: str, window: Window, *, beyond_chance: bool) -> dict[int, float]:
        """Return the R^2 of this run by layer, or the part of it that is not chance."""

        def of_seed(entry: LayerAssociation) -> float | None:
            of_seeds = entry.per_series_beyond if beyond_chance else entry.per_series
            return None if of_seeds is None else of_seeds[entry.seeds.index(self.seed)]

        return self.by_layer(metric, window, of_seed)

    def p(self, metric: str, window: Window) -> dict[int, float]:
        """Return the probability that swapped seeds give as high an R^2, by layer."""
        return self.by_layer(metric, window, lambda entry: entry.p)

    def at_end(self, values: np.ndarray) -> np.ndarray:
        """The mean over the last probes, (step, layer) -> (layer,)."""
        steps = self.progress.steps
        return values[steps >= END * steps[-1]].mean(0)

    def in_middle(self, values: np.ndarray) -> np.ndarray | None:
        """The mean over the probes in the middle, None without any."""
        steps = self.progress.steps
        chosen = (steps >= MIDDLE[0] * steps[-1]) & (steps <= MIDDLE[1] * steps[-1])
        return values[chosen].mean(0) if chosen.any() and len(steps) > 2 else None


def layer_0_over_others(evidence: Evidence, metric: str) -> float | None:
    """Layer 0's mean over that of the other layers, the geometric mean over the probes."""
    ratios = _ratios(evidence, metric)
    return None if ratios is None else float(np.exp(np.log(ratios).mean()))


def layer_0_over_others_at_first(evidence: Evidence, metric: str) -> float | None:
    """Return layer 0's value over the other layers' at the first probe, if that probe preceded all training."""
    ratios = _ratios(evidence, metric)
    return None if ratios is None or evidence.progress.steps[0] != 0 else float(ratios[0])


def _ratios(evidence: Evidence, metric: str) -> np.ndarray | None:
    split = _split(evidence, evidence.progress.mean[metric])
    if split is None:
        return None
    first, others = split
    ratios = first / others.mean(1)
    return ratios if np.isfinite(ratios).all() and (ratios > 0).all() else None


def late_rise_beyond_layer_0(evidence: Evidence, metric: str) -> np.ndarray | None:
    """In the second half, how much later layers rise less twice what layer 0 rises, and less twice what it falls.

    Both, for the size of a change has a mean above 0 where there is none.
    """
    rises = _late_rises(evidence, metric)
    return None if rises is None else np.array([rises[1] - 2 * rises[0], rises[1] + 2 * rises[0]])


def late_change_of_layer_0(evidence: Evidence, metric: str) -> float | None:
    """Return the change of layer 0 in the second half of training."""
    rises = _late_rises(evidence, metric)
    return None if rises is None else rises[0]


def _late_rises(evidence: Evidence, metric: str) -> tuple[float, float] | None:
    """Return the rise from the middle to the end of training, of layer 0 and of the mean of the later layers."""
    values = evidence.progress.mean[metric]
    split, middle = _split(evidence, values), evidence.in_middle(values)
    if split is None or middle is None:
        return None
    rise = (evidence.at_end(values) - middle)[np.isfinite(values[0])]
    return float(rise[0]), float(rise[1:].mean())


def rises(evidence: Evidence, metric: str) -> np.ndarray | None:
    """Return the rise of the mean over pairs in each layer, from the first probe to the end."""
    return _rises(evidence, evidence.progress.mean[metric])


def rises_of_variance(evidence: Evidence, metric: str) -> np.ndarray | None:
    """Return the rises of the variance over pairs, in layers with three heads or more (one pair has no variance)."""
    several = np.array(evidence.progress.n_heads) > 2
    return _rises(evidence, evidence.progress.variance[metric][:, several])


def _rises(evidence: Evidence, values: np.ndarray) -> np.ndarray | None:
    if len(evidence.progress.steps) < 2:
        return None
    return evidence.at_end(values) - values[0]


def first_layers_less_last(evidence: Evidence, metric: str) -> float | None:
    """Return the final mean of the first three layers (the first half, of fewer than six) less that of the others."""
    first, last = first_layers(evidence, metric), last_layers(evidence, metric)
    return None if first is None or last is None else first - last


def first_layers(evidence: Evidence, metric: str) -> float | None:
    """Return the mean of the first three layers (the first half, of fewer than six), at the end."""
    return _mean_of(evidence, metric, _are_first(evidence))


def last_layers(evidence: Evidence, metric: str) -> float | None:
    """Return the mean of the layers after the first three (or after the first half, of fewer than six), at the end."""
    return _mean_of(evidence, metric, ~_are_first(evidence))


def _are_first(evidence: Evidence) -> np.ndarray:
    n_layers = evidence.progress.layers[-1] + 1
    return np.array(evidence.progress.layers) < (3 if n_layers >= 6 else n_layers / 2)


def _mean_of(evidence: Evidence, metric: str, chosen: np.ndarray) -> float | None:
    values = evidence.at_end(evidence.progress.mean[metric])[chosen]
    values = values[np.isfinite(values)]
    return float(values.mean()) if len(values) else None


def r2_of_layer_0(window: Window, *, beyond_chance: bool = False) -> "Value":
    """Return the number R^2 in layer 0 over a window."""
    return lambda evidence, metric: evidence.r2(metric, window, beyond_chance=beyond_chance).get(0)


def p_of_swaps_in_layer_0(window: Window) -> "P":
    """Return the probability that swapped seeds give as high an R^2 in layer 0 over a window."""
    return lambda evidence, metric: evidence.p(metric, window).get(0)


def p_of_last_early_r2(evidence: Evidence, metric: str) -> float | None:
    """Return the probability that swapped seeds give as high an early R^2 in the last layer."""
    p = evidence.p(metric, "early")
    return p[max(p)] if p else None


def slope_of_early_r2(*, beyond_chance: bool = False) -> "Value":
    """Return the number slope of a straight line through the early R^2 of the layers."""

    def slope(evidence: Evidence, metric: str) -> float | None:
        r2 = evidence.r2(metric, "early", beyond_chance=beyond_chance)
        return float(np.polyfit(list(r2), list(r2.values()), 1)[0]) if len(r2) > 1 else None

    return slope


def _split(evidence: Evidence, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return layer 0 (step,) and the other layers (step, layer) that have a value of the metric."""
    known = np.isfinite(values).all(0)
    if evidence.progress.layers[0] != 0 or not known[0] or known.sum() < 2:
        return None
    return values[:, 0], values[:, known][:, 1:]


Value = Callable[[Evidence, str], float | np.ndarray | None]
P = Callable[[Evidence, str], float | None]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A published statement as a number: it holds where `value` is above `bound`, or below it.

    If a statement has `several` numbers, such as one per layer, all have to lie above the bound. The sentence gives
    the smallest number and the largest of `also`, each that of a layer over all seeds.

    Attributes:
        name: the name of the statement in `base.words.STATEMENTS`.
        metrics: Headway's metric, then the metrics by which the article measured it.
        value: the number.
        bound: the bound of the number.
        below: True if the statement holds below the bound.
        also: a further number for the sentence.
        several: True if `value` gives several numbers.
        chance_above: the p of an association; a number above the bound has to be more than chance.
        chance_below: the p of an association; a number below the bound has to be more than chance.
    """

    name: str
    metrics: tuple[str, ...]
    value: Value
    bound: float = 0.0
    below: bool = False
    also: Value | None = None
    several: bool = False
    chance_above: P | None = None
    chance_below: P | None = None


_ORTHOGONALITY = ("query_cka", "query_orthogonality_raw")
_DISAGREEMENT = ("output_dissimilarity", "output_dissimilarity_published")
_DIVERSITY = ("attention_diversity", "attention_variance_raw", "attention_variance_published")

CLAIMS = (
    Claim(
        name="layer-0-less-orthogonal",
        metrics=_ORTHOGONALITY,
        value=layer_0_over_others,
        also=layer_0_over_others_at_first,
        bound=1.5,
    ),
    Claim(name="orthogonality-falls", metrics=_ORTHOGONALITY, value=rises, also=rises, several=True),
    Claim(
        name="layer-0-settles",
        metrics=_DIVERSITY,
        value=late_rise_beyond_layer_0,
        also=late_change_of_layer_0,
        several=True,
    ),
    Claim(
        name="layer-0-predicts-badly",
        metrics=("attention_diversity",),
        value=r2_of_layer_0("whole", beyond_chance=True),
        also=r2_of_layer_0("whole"),
        chance_above=p_of_swaps_in_layer_0("whole"),
        bound=0.5,
        below=True,
    ),
    Claim(name="disagreement-rises", metrics=_DISAGREEMENT, value=rises, also=rises, several=True),
    Claim(
        name="disagreement-variance-rises",
        metrics=_DISAGREEMENT,
        value=rises_of_variance,
        also=rises_of_variance,
        several=True,
    ),
    Claim(name="early-layers-differ", metrics=_DISAGREEMENT, value=first_layers_less_last, also=last_layers),
    Claim(
        name="r2-high-early",
        metrics=_DISAGREEMENT,
        value=r2_of_layer_0("early", beyond_chance=True),
        also=r2_of_layer_0("early"),
        chance_above=p_of_swaps_in_layer_0("early"),
        bound=0.5,
    ),
    Claim(
        name="r2-falls-with-depth",
        metrics=_DISAGREEMENT,
        value=slope_of_early_r2(beyond_chance=True),
        also=slope_of_early_r2(),
        chance_above=p_of_last_early_r2,
        chance_below=p_of_swaps_in_layer_0("early"),
        below=True,
    ),
)


Verdict = Literal["holds", "does not hold", "cannot be told"]


@dataclass(frozen=True, kw_only=True)
class JudgedArm:
    """The verdict of one arm on a statement.

    Attributes:
        arm: the full name of the arm.
        seeds: the number of seeds with evidence.
        value: the mean of the statement's number; for a number per layer, that of the layer where it is least. None
            if it takes more seeds.
        interval: 95 %; None with one seed or two, or if seeds show no spread. For a number per layer, it is that of the
            least of all layers, whichever that is, and holds for all arms at once.
        also: the mean of a further number, if there is one.
        verdict: the verdict on the statement in this arm.
    """

    arm: str
    seeds: int
    value: float | None
    interval: tuple[float, float] | None
    also: float | None
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class JudgedStatement:
    """The verdict on a published statement, without a control or under one, by one metric.

    Attributes:
        name: the name of the statement.
        says: the published statement.
        short: a short name for a row of statements.
        control: the control of the arms.
        metric: the metric of the statement's number.
        as_published: True for the metric as it was published.
        bound: the bound on one side of which the number has to lie.
        verdict: the verdict of all arms together.
        sentence: the verdict in words.
        arms: the verdict of each arm.
    """

    name: str
    says: str
    short: str
    control: str | None
    metric: str
    as_published: bool
    bound: float
    verdict: Verdict
    sentence: str
    arms: tuple[JudgedArm, ...]


@dataclass(frozen=True, kw_only=True)
class LayersOfArm:
    """The layers of one arm, or other numbers that must all lie on one side: the ends of two intervals.

    Attributes:
        together: the simultaneous 95 % intervals of all layers of all arms, (layer, end).
        alone: 95 % intervals of each layer by itself (layer, end).
    """

    together: Float[np.ndarray, "layer 2"]
    alone: Float[np.ndarray, "layer 2"]

    @property
    def least(self) -> tuple[float, float]:
        """The interval of the least of all layers, whichever that is: the least of the lower and of the upper ends."""
        low, high = self.together.min(0)
        return float(low), float(high)

    def confirm(self, bound: float) -> bool:
        """Return whether every layer lies above a bound."""
        return bool((self.alone[:, 0] > bound).all())

    def deny(self, bound: float) -> bool:
        """Return whether some layer lies below a bound."""
        return bool((self.together[:, 1] < bound).any())


def every_layer(arms: Sequence[Float[np.ndarray, "seed layer"]]) -> list[LayersOfArm]:
    """Judge the layers of all arms together.

    Args:
        arms: the values of each arm per seed and layer, for two seeds or more.

    Examples:
        >>> rises = [[0.02, -0.03, 0.05, 0.01], [0.03, -0.01, 0.04, -0.02], [0.01, -0.02, 0.06, 0.0]]
        >>> (one,) = every_layer([np.array(rises)])
        >>> one.together.round(6)[1].tolist(), one.deny(0), one.confirm(0)
        ([-0.040749, 0.000749], False, False)
    """
    if not arms:
        return []
    own = np.concatenate([numbers.var(0, ddof=1) for numbers in arms])
    freedom = np.concatenate([np.full(numbers.shape[1], len(numbers) - 1.0) for numbers in arms])
    pooled = float(own @ freedom / freedom.sum())
    known = own > 0
    prior = prior_freedom(own[known], freedom[known]) if known.sum() > 2 else math.inf
    priors = np.minimum(prior, OWN_SHARE * freedom)
    share = priors / (priors + freedom)
    # Where nothing varies at all, nothing is known.
    se = np.sqrt((share * pooled + (1 - share) * own) / (freedom + 1)) if known.any() else np.full(len(own), np.inf)
    of_each = np.minimum(priors + freedom, freedom.sum())
    at_once = stdtrit(of_each, (1 + (1 - LEVEL) ** (1 / len(own))) / 2)
    by_itself = stdtrit(of_each, 1 - LEVEL / 2)
    judged, start = [], 0
    for numbers in arms:
        here = slice(start, start + numbers.shape[1])
        mean, start = numbers.mean(0), start + numbers.shape[1]
        together, alone = (
            mean[:, None] + np.array([-1, 1]) * (bound[here] * se[here])[:, None] for bound in (at_once, by_itself)
        )
        judged.append(LayersOfArm(together=together, alone=alone))
    return judged
