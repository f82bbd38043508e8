"""Compare: the published statements on the diversity of heads, each as a number and a bound.

A statement may be read off the metric as Headway defines it and off the metric as it was published.

Paper: X-raying heads (article, May 2024). "Orthogonality" is there the sum of |Q_i^T Q_j|, which is high where heads
are not orthogonal; the statements are taken by what the word means, so that less orthogonal is a higher metric.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.compare.tokens import statement_evidence as evidence

Value = Callable[[evidence.Evidence, str], float | np.ndarray | None]
P = Callable[[evidence.Evidence, str], float | None]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A statement as a number: it holds where `value` is above `bound`, or below it.

    Of `several` numbers, such as one per layer, all have to lie above it; the smallest is told, and of `also` the
    largest: of the layer, not of each seed for itself. `said` is that in words: {value} is its place, {metric} that of
    the metric's name and {also} that of a further number. `published` marks a metric as the article measured it.

    That a number on R^2 lies above its bound, or below it, may take an association that is more than chance, of which
    `chance_above` and `chance_below` give the p. `said_untested` is what is said where seeds are too few for one.
    """

    metric: str
    value: Value
    said: str
    bound: float
    below: bool = False
    also: Value | None = None
    several: bool = False
    chance_above: P | None = None
    chance_below: P | None = None
    said_untested: str = ""
    published: bool = False


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A published statement; `short` is what it is called in a row of others."""

    name: str
    says: str
    short: str
    readings: tuple[Reading, ...]


def _read_off(normalised: str, *published: str, **shared: Any) -> tuple[Reading, ...]:
    as_published = (Reading(metric=name, published=True, **shared) for name in published)
    return (Reading(metric=normalised, **shared), *as_published)


_ORTHOGONALITY = ("query_cka", "query_orthogonality_raw")
_DISAGREEMENT = ("output_dissimilarity", "output_dissimilarity_published")
_DIVERSITY = ("attention_diversity", "attention_variance_raw", "attention_variance_published")

CLAIMS = (
    Claim(
        name="layer-0-less-orthogonal",
        says="Layer 0 is far less orthogonal than the others",
        short="layer 0 is far less orthogonal",
        readings=_read_off(
            *_ORTHOGONALITY,
            value=evidence.layer_0_over_others,
            also=evidence.layer_0_over_others_at_first,
            said="layer 0's {metric} is {value} times that of the others (before any training {also} times); far is "
            "1.5 times",
            bound=1.5,
        ),
    ),
    Claim(
        name="orthogonality-falls",
        says="Orthogonality falls in all layers",
        short="orthogonality falls in all layers",
        readings=_read_off(
            *_ORTHOGONALITY,
            value=evidence.rises,
            also=evidence.rises,
            several=True,
            said="{metric}, high where heads are alike, changes during training by {value} in the layer where it rises "
            "least and by {also} where it rises most",
            bound=0.0,
        ),
    ),
    Claim(
        name="layer-0-settles",
        says="The attention diversity of layer 0 settles while that of later layers keeps rising",
        short="layer 0's attention diversity settles first",
        readings=_read_off(
            *_DIVERSITY,
            value=evidence.late_rise_beyond_layer_0,
            also=evidence.late_change_of_layer_0,
            several=True,
            said="in the second half layer 0's {metric} changes by {also}; the rise of the later layers less twice "
            "that change is {value}, and has to be above 0",
            bound=0.0,
        ),
    ),
    Claim(
        name="layer-0-predicts-badly",
        says="The attention diversity of layer 0 predicts performance badly",
        short="layer 0's attention diversity predicts the loss badly",
        readings=_read_off(
            "attention_diversity",
            value=evidence.whole_r2_beyond_chance,
            also=evidence.whole_r2_of_layer_0,
            chance_above=evidence.p_of_whole_r2,
            said="R² of the loss on mean and variance of its {metric} is {also} over the whole training, and {value} "
            "of what a run does by itself, beyond what other seeds explain; badly is below .5 of that",
            said_untested="R² of the loss on mean and variance of its {metric} is {also} over the whole training, as "
            "of any two curves that move with time",
            bound=0.5,
            below=True,
        ),
    ),
    Claim(
        name="disagreement-rises",
        says="Output disagreement rises in all layers",
        short="output disagreement rises in all layers",
        readings=_read_off(
            *_DISAGREEMENT,
            value=evidence.rises,
            also=evidence.rises,
            several=True,
            said="{metric} changes during training by {value} in the layer where it rises least and by {also} where it "
            "rises most",
            bound=0.0,
        ),
    ),
    Claim(
        name="disagreement-variance-rises",
        says="The variance of output disagreement rises in all layers",
        short="the variance of output disagreement rises in all layers",
        readings=_read_off(
            *_DISAGREEMENT,
            value=evidence.rises_of_variance,
            also=evidence.rises_of_variance,
            several=True,
            said="the variance of {metric} over pairs changes during training by {value} in the layer where it rises "
            "least and by {also} where it rises most",
            bound=0.0,
        ),
    ),
    Claim(
        name="early-layers-differ",
        says="The first three layers give different outputs, the last ones alike",
        short="first layers differ, last ones are alike",
        readings=_read_off(
            *_DISAGREEMENT,
            value=evidence.first_layers_less_last,
            also=evidence.last_layers,
            said="at the end the mean {metric} of the first three layers (half of fewer than six) less that of the "
            "last ones, which is {also}, is {value}, and has to be above 0",
            bound=0.0,
        ),
    ),
    Claim(
        name="r2-high-early",
        says="R² of the loss on output disagreement is high early in layer 0",
        short="R² is high early in layer 0",
        readings=_read_off(
            *_DISAGREEMENT,
            value=evidence.early_r2_beyond_chance,
            also=evidence.early_r2_of_layer_0,
            chance_above=evidence.p_of_early_r2,
            said="R² of the probe's loss on mean and variance of {metric} is {also} there, and {value} of what a run "
            "does by itself, beyond what other seeds explain; high is above .5 of that",
            said_untested="R² of the probe's loss on mean and variance of {metric} is {also} there, as of any two "
            "curves that move with time",
            bound=0.5,
        ),
    ),
    Claim(
        name="r2-falls-with-depth",
        says="R² of the loss on output disagreement falls with depth",
        short="R² falls with depth",
        readings=_read_off(
            *_DISAGREEMENT,
            value=evidence.slope_of_early_r2_beyond_chance,
            also=evidence.slope_of_early_r2,
            chance_above=evidence.p_of_last_early_r2,
            chance_below=evidence.p_of_early_r2,
            said="from layer to layer early R² on {metric} changes by {also}, and that of what a run does by itself, "
            "beyond what other seeds explain, by {value}",
            said_untested="from layer to layer early R² on {metric} changes by {also}",
            bound=0.0,
            below=True,
        ),
    ),
)
