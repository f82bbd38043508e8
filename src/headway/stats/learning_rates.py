"""Comparisons of arms that each take their best learning rate.

An arm and its variants under controls that change only the learning rate count as one arm at several rates. The best
rate has the least mean loss. The verdict against the baseline is then made again, each arm at its best rate.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from headway.base.identity import without
from headway.base.words import say
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.metrics import METRICS
from headway.stats.cells import Match, RunsOfArm, title, values_of
from headway.stats.contrasts import Question, judged
from headway.stats.evidence import Comparison, Difference, Family
from headway.stats.sequential import Looking
from headway.stats.verdicts import sentence_of

_RATES = ("learning_rate", "adamw_learning_rate")


@dataclass(frozen=True, kw_only=True)
class RateMean:
    """A factor of an arm's own learning rate, and the mean of the metric over so many seeds.

    `gain` is the share by which the arm is at least worse at its own rate, over the seeds that both have: an end of
    intervals that hold for all rates and arms at once. It is 0 without a certain gain.
    """

    factor: float
    mean: float
    n_seeds: int
    gain: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ComparedAtBest(Difference):
    """An arm at its best learning rate against a baseline at its own.

    `changed` tells whether the verdict differs from that at the document's rates. It is False if one of the two
    verdicts is missing, with one seed or two.
    """

    baseline: str
    group: str | None
    verdict: str
    changed: bool


@dataclass(frozen=True, kw_only=True)
class RatesOfArm:
    """An arm at several learning rates.

    Attributes:
        arm: the name of the arm.
        rates: the learning rates of the arm, from the lowest to the highest.
        best: the factor of the rate with the least mean.
        at_edge: True if the best rate is the lowest or the highest.
        comparisons: the arm at its best rate against each baseline at its best rate.
        sentence: the best rate in words.
    """

    arm: str
    rates: tuple[RateMean, ...]
    best: float
    at_edge: bool
    comparisons: tuple[ComparedAtBest, ...]
    sentence: str


def rate_controls(experiment: Experiment) -> tuple[str, ...]:
    """The controls that change nothing but the learning rate of every arm."""
    plain = {arm.name: _but_rate(arm) for arm in experiment.arms if arm.control is None}
    controls = dict.fromkeys(arm.control for arm in experiment.arms if arm.control is not None)
    others = {arm.control for arm in experiment.arms if _but_rate(arm) != plain[arm.name]}
    return tuple(control for control in controls if control not in others)


def at_best_rates(
    experiment: Experiment, matches: Sequence[Match], runs: RunsOfArm, compared: Iterable[Comparison], looks: Looking
) -> tuple[RatesOfArm, ...]:
    """An entry per arm of which several rates were run: its rates, the best, and the verdict at the best ones.

    Args:
        experiment: the whole document.
        matches: the pairs of an arm and its baseline.
        runs: the runs of every arm.
        compared: the comparisons at the rates of the document.
        looks: the plan of interim analyses.
    """
    metric = experiment.primary
    rates = _with_gains(_several_rates(experiment, runs), runs, metric, looks)
    best = {name: min(of_arm, key=lambda variant: of_arm[variant].mean) for name, of_arm in rates.items()}
    again = [m for m in matches if m.control is None and {m.arm.name, m.baseline.name} <= best.keys()]
    entries = {name: _entry(name, of_arm, best[name], experiment) for name, of_arm in rates.items()}
    at_best: dict[str, list[ComparedAtBest]] = {name: [] for name in rates}
    if again:
        former = {(c.arm, c.baseline, c.group): c for c in compared if c.metric == metric and c.control is None}
        asked = [{best[m.arm.name]: 1.0, best[m.baseline.name]: -1.0} for m in again]
        family, differences = judged(Question.from_runs(asked, runs, metric=metric), looks)
        for match, difference in zip(again, differences, strict=True):
            tried = entries[match.arm.name], entries[match.baseline.name]
            known = former.get((match.arm.full_name, match.baseline.full_name, match.group))
            again_at_best = _compared_again(match, known, difference, family, tried, experiment)
            at_best[match.arm.name].append(again_at_best)
    return tuple(replace(entry, comparisons=tuple(at_best[name])) for name, entry in entries.items())


def _compared_again(
    match: Match,
    former: Difference | None,
    difference: Difference,
    family: Family,
    tried: tuple[RatesOfArm, RatesOfArm],
    experiment: Experiment,
) -> ComparedAtBest:
    """Return an arm at its best rate against its baseline at its own, of the rates that both tried."""
    arms = zip((match.arm, match.baseline), tried, strict=True)
    sides = tuple(f"{title(arm, experiment)} at x{rates.best:g}" for arm, rates in arms)
    chosen = _chosen(sides, (len(tried[0].rates), len(tried[1].rates)), difference, family)
    metric = METRICS[experiment.primary]
    return ComparedAtBest(
        **vars(difference),
        baseline=match.baseline.full_name,
        group=match.group,
        verdict=sentence_of(difference, family, metric=metric, sides=sides, notes=[chosen]),
        changed=_differs(former, difference),
    )


def _chosen(sides: Sequence[str], n_rates: tuple[int, int], difference: Difference, family: Family) -> str:
    """Return a clause that the seeds which judge two arms chose their rates, and how much that favours one of them.

    An arm whose rates are all equally good gains most: the least of several equal means lies below each of them. It
    gains that in full against an arm that has one good rate among as many.
    """
    if not difference.is_logarithmic or family.residual_sd is None or not difference.n_pairs:
        return say("chosen_rates")
    n = max(n_rates)
    bias = expected_largest(n) * family.residual_sd / math.sqrt(difference.n_pairs)
    favoured = "either arm" if n_rates[0] == n_rates[1] else sides[n_rates.index(n)]
    return say("favoured", arm=favoured, n=n, bias=bias)


def expected_largest(n: int) -> float:
    """Return about the expected value of the largest of n independent standard normal values.

    Paper: Blom, Statistical estimates and transformed beta-variables (1958).

    Examples:
        >>> [round(expected_largest(n), 2) for n in (1, 3, 5)]
        [0.0, 0.87, 1.18]
    """
    return float(ndtri((n - 0.375) / (n + 0.25)))


def _entry(name: str, rates: Mapping[str, RateMean], best: str, experiment: Experiment) -> RatesOfArm:
    means = [(rate.factor, rate.mean) for rate in rates.values()]
    factor, n_seeds = rates[best].factor, rates[best].n_seeds
    return RatesOfArm(
        arm=name,
        rates=tuple(rates.values()),
        best=factor,
        at_edge=factor in (means[0][0], means[-1][0]),
        comparisons=(),
        sentence=rates_sentence(title(experiment.arm(name), experiment), means, factor, n_seeds),
    )


def _several_rates(experiment: Experiment, runs: RunsOfArm) -> dict[str, dict[str, RateMean]]:
    own = [arm for arm in experiment.arms if arm.control is None]
    trained = [arm for arm in own if hasattr(arm.resolved_spec.training, "learning_rate")]
    of_arms = ((arm.name, _rates(arm, experiment, runs)) for arm in trained)
    return {name: of_arm for name, of_arm in of_arms if len(of_arm) > 1}


def _rates(arm: Arm, experiment: Experiment, runs: RunsOfArm) -> dict[str, RateMean]:
    """Return the arm and its variants that differ in the learning rate only and have a result, by rising factor."""
    rates = {}
    for variant in experiment.arms:
        if variant.name != arm.name or _but_rate(variant) != _but_rate(arm):
            continue
        values = values_of(variant, experiment.primary, runs).values()
        finite = [value for value in values if value is not None and np.isfinite(value)]
        if finite:
            factor = float(f"{_rate(variant) / _rate(arm):.3g}")
            rates[variant.full_name] = RateMean(factor=factor, mean=float(np.mean(finite)), n_seeds=len(finite))
    return dict(sorted(rates.items(), key=lambda entry: entry[1].factor))


def _with_gains(
    rates: Mapping[str, Mapping[str, RateMean]], runs: RunsOfArm, metric: str, looks: Looking
) -> dict[str, dict[str, RateMean]]:
    """Return the rates of arms with their certain gains: all rates of all arms are judged together."""
    others = [(arm, other) for arm, of_arm in rates.items() for other in of_arm if arm in of_arm and other != arm]
    asked = [{arm: 1.0, other: -1.0} for arm, other in others if METRICS[metric].better == "lower"]
    found = judged(Question.from_runs(asked, runs, metric=metric), looks)[1] if asked else ()
    gains = {
        other: max(0.0, difference.share_interval[0])
        for (_, other), difference in zip(others, found, strict=False)
        if difference.share_interval is not None and difference.is_told
    }
    return {
        name: {variant: replace(rate, gain=gains.get(variant, 0.0)) for variant, rate in of_arm.items()}
        for name, of_arm in rates.items()
    }


def _rate(arm: Arm) -> float:
    return float(arm.spec(0).model_dump()["training"]["learning_rate"])


def _but_rate(arm: Arm) -> dict[str, Any]:
    content = arm.spec(0).content()
    content["training"] = without(content.get("training", {}), *_RATES)
    return content


def _differs(former: Difference | None, now: Difference) -> bool:
    """Return whether two verdicts name another better side; False if one of them has no interval."""
    if former is None or former.interval is None or now.interval is None:
        return False
    return former.is_told != now.is_told or (now.is_told and former.interval[0] * now.interval[0] < 0)


def rates_sentence(arm: str, means: Sequence[tuple[float, float]], best: float, n_seeds: int) -> str:
    """Return a sentence on an arm's best learning rate.

    Args:
        arm: the name of the arm.
        means: factors of the arm's own rate, ascending, each with the mean of the metric.
        best: the best factor.
        n_seeds: the seeds of its mean.

    Examples:
        >>> rates_sentence("2 heads", [(0.5, 1.1), (1.0, 1.0), (2.0, 0.9)], 2.0, n_seeds=3)
        '2 heads is best at 2 times its learning rate, the highest that was tried (means: x0.5 1.1, x1 1, x2 0.9)'
    """
    edges = {means[0][0]: say("lowest_rate"), means[-1][0]: say("highest_rate")}
    rates = ", ".join(f"x{factor:g} {mean:.4g}" for factor, mean in means)
    chance = say("one_seed_rate") if n_seeds == 1 else ""
    return say("best_rate", arm=arm, best=best, edge=edges.get(best, ""), rates=rates, chance=chance)
