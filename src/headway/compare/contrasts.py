"""Compare: what paired seeds say of a contrast: a difference between arms, or means of arms, that the document asks.

A seed counts where every arm of the contrast has a value for it; its value is one number, the weighted sum over the
arms, and the mean over seeds is judged by the t test, as any other comparison.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headway.compare.statistics import LEVEL, compare, holm, paired
from headway.declare.contrasts import Contrast
from headway.declare.metrics import Metric
from headway.words import counted

Values = Mapping[str, Mapping[int, float | None]]
"""The metric of every seed, by the full name of an arm."""


@dataclass(frozen=True, kw_only=True)
class JudgedContrast:
    """A contrast in one metric, as it stands in `results.json`.

    Law: the contrast of the negated weights has the negated `estimate` and `interval`; `p` and `detectable` stay.
    """

    name: str
    label: str
    metric: str
    control: str | None
    n_seeds: int
    values: Mapping[int, float]
    """By seed: the weighted sum over the arms."""
    estimate: float | None
    """Its mean over the seeds, in the metric's unit."""
    relative: float | None
    """`estimate` over the size of the mean of the arms that are subtracted; None when that is 0."""
    interval: tuple[float, float] | None
    """95 % interval of `estimate` (t over seeds); like `p`, None when the seeds show no spread."""
    p: float | None
    p_holm: float | None
    """`p` corrected for the number of contrasts in this metric."""
    detectable: float | None
    """The true estimate that this many seeds find with 80 % power, if their spread is the true one."""
    sentence: str


def contrast_values(contrast: Contrast, values: Values, control: str | None = None) -> dict[int, float]:
    """The weighted sum over the arms, by seed; of the seeds for which every one of the arms has a finite value.

    Args:
        contrast: which arms, with which weights.
        values: of a metric, by full name of an arm.
        control: under which the arms are taken; None: as they are.

    Examples:
        >>> from headway.declare.contrasts import contrasts_of
        >>> (one,) = contrasts_of({"gain": "new - old"}, ["new", "old"])
        >>> contrast_values(one, {"new": {0: 2.5, 1: 3.0, 2: None}, "old": {0: 2.0, 1: 3.5, 2: 1.0, 3: 1.0}})
        {0: 0.5, 1: -0.5}
    """
    first, second = _sides(contrast, values, control)
    return {seed: first[seed] - second[seed] for seed in first}


def judged(contrast: Contrast, values: Values, metric: Metric, control: str | None = None) -> JudgedContrast:
    """What the seeds say of a contrast; `p_holm` is for `all_judged`.

    Args:
        contrast: which arms, with which weights.
        values: of the metric, by full name of an arm.
        metric: says which direction is better.
        control: under which the arms are taken; None: as they are.
    """
    first, second = _sides(contrast, values, control)
    found = compare(paired(first, second), metric=metric.name, arm="first", baseline="second")
    scale = math.fsum(contrast.second.values())  # relative to a mean of arms, whatever their weights add up to
    one = JudgedContrast(
        name=contrast.name,
        label=contrast.label,
        metric=metric.name,
        control=control,
        n_seeds=found.n_pairs,
        values={seed: first[seed] - second[seed] for seed in first},
        estimate=found.difference,
        relative=None if found.relative is None else found.relative * scale,
        interval=found.interval,
        p=found.p,
        p_holm=None,
        detectable=found.detectable,
        sentence="",
    )
    return replace(one, sentence=_sentence(one, contrast, metric))


def all_judged(
    contrasts: Iterable[Contrast], values: Values, metric: Metric, control: str | None = None
) -> tuple[JudgedContrast, ...]:
    """Every contrast in a metric, with p corrected for their number."""
    found = [judged(contrast, values, metric, control) for contrast in contrasts]
    corrected = holm([one.p for one in found])
    return tuple(replace(one, p_holm=p) for one, p in zip(found, corrected, strict=True))


def _sides(contrast: Contrast, values: Values, control: str | None) -> tuple[dict[int, float], dict[int, float]]:
    """The weighted sums of what is added and of what is subtracted, by seed."""
    by_arm = {arm: values.get(f"{arm}+{control}" if control else arm, {}) for arm in contrast.weights}
    seeds = sorted(set.intersection(*(set(found) for found in by_arm.values())))
    finite = [seed for seed in seeds if all(_is_finite(found[seed]) for found in by_arm.values())]

    def total(weights: Mapping[str, float], seed: int) -> float:
        return math.fsum(weight * (by_arm[arm][seed] or 0.0) for arm, weight in weights.items())

    first, second = ({seed: total(side, seed) for seed in finite} for side in (contrast.first, contrast.second))
    return first, second


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _sentence(one: JudgedContrast, contrast: Contrast, metric: Metric) -> str:
    if one.estimate is None:
        arms = counted(len(contrast.weights), "arm")
        return f"{contrast.label} cannot be judged: no seed gave a result for all of its {arms}"
    seeds = counted(one.n_seeds, "seed")
    sides = contrast.sides
    # What is better is told as a gain; without a better direction, or sides, the sign stays.
    sign = -1.0 if sides and metric.better == "lower" else 1.0
    factor, unit = sign, "" if metric.unit in ("1", "ratio") else f" {metric.unit}"
    if one.relative and one.estimate:
        factor, unit = sign * 100 * one.relative / one.estimate, " %"
    interval = None if one.interval is None else sorted(factor * end for end in one.interval)
    write = _writer(interval, factor * one.estimate)
    if interval is None:
        doubt = "one seed, no interval" if one.n_seeds == 1 else f"the same for all {seeds}, so no interval"
    else:
        doubt = f"interval {write(interval[0])} to {write(interval[1])}{unit}, {seeds}"
    size = f"{write(abs(factor * one.estimate))}{unit}"
    open_end = "" if one.p is None or one.p < LEVEL else "; it may as well be none"
    if sides is None:
        of = " of the mean of what is subtracted" if unit == " %" else ""
        return f"{contrast.label} is {write(factor * one.estimate)}{unit}{of} ({doubt}){open_end}"
    words = ("better", "worse") if metric.better else ("higher", "lower")
    if one.estimate == 0:
        return f"{sides[0]} and {sides[1]} do not differ ({doubt})"
    return f"{sides[0]} is {size} {words[factor * one.estimate < 0]} than {sides[1]} ({doubt}){open_end}"


def _writer(interval: Sequence[float] | None, estimate: float) -> Callable[[float], str]:
    """Numbers to the first digit that the interval leaves uncertain, and at least one decimal."""
    size = abs(interval[1] - interval[0]) / 2 if interval else abs(estimate)
    decimals = max(1, -math.floor(math.log10(size))) if size > 0 else 1

    def write(value: float) -> str:
        if decimals > 6 or abs(value) >= 1e6:
            return f"{value:.3g}"
        return f"{round(value, decimals) + 0.0:,.{decimals}f}"  # + 0.0 makes -0.0 plain

    return write
