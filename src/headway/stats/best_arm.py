"""The best of many arms by sequential halving: seeds go to arms that may still be the best.

Every round costs about as much as every other, and keeps the better half by the mean over all seeds so far. The seeds
that picked the winner flatter it, so the search makes no verdict: finalists get fresh seeds for verdicts.

Paper: Karnin, Koren and Somekh 2013; there a round judges by its own pulls alone, here by all so far.

`searched` reads the search of a directory. `fresh_estimate` tells how good the picked arm is on seeds that did not
choose it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from headway.config.experiment import Experiment
from headway.config.metrics import METRICS
from headway.stats.cells import Cells, RunsOfArm, title
from headway.stats.contrasts import Question, judged
from headway.stats.evidence import Comparison, Family
from headway.stats.paired import interval_of_mean
from headway.stats.sequential import FEWEST, Looking
from headway.stats.verdicts import fresh_sentence, picked_sentence, scope, unfinished_search, verdict
from headway.store.directory import Store
from headway.store.look_plans import Picked, StoredSearch, stored

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

MOST_FINALISTS = 4
LEAST_CHANCE = 0.05
"""Two finalists at least; a third and a fourth only where they may as well be the best."""

_DRAWS = 20_000

_SPREADS = 1e-4, 1e2
"""The least and the largest spread of arms, in spreads of a run, each factor between them as likely."""


def arms_by_round(n_arms: int) -> tuple[int, ...]:
    """Return the number of arms in each round.

    Examples:
        >>> arms_by_round(32), arms_by_round(5)
        ((32, 16, 8, 4, 2), (5, 3, 2))
    """
    arms = [n_arms]
    while arms[-1] > 2:
        arms.append(math.ceil(arms[-1] / 2))
    return tuple(arms)


def new_seeds(n_arms: int, budget: int) -> tuple[int, ...]:
    """Return the new seeds of every remaining arm in each round, for a total number of runs.

    A round gets an equal part of the runs that are left, but a seed at least.

    Raises:
        ValueError: when there is not a seed for each.

    Examples:
        >>> new_seeds(32, 160)
        (1, 2, 4, 8, 16)
    """
    arms, seeds = arms_by_round(n_arms), []
    if budget < sum(arms):
        raise ValueError(f"{budget} runs: a seed for each of {', '.join(map(str, arms))} arms takes {sum(arms)}")
    for place, n in enumerate(arms):
        equal = budget // (len(arms) - place) // n
        seeds.append(max(1, min(equal, (budget - sum(arms[place + 1 :])) // n)))
        budget -= seeds[-1] * n
    return tuple(seeds)


def ranked(y: Float[np.ndarray, "arm seed"]) -> tuple[int, ...]:
    """Arms from the least to the greatest mean over their seeds, by place; those without a value come last.

    Runs that failed are missing: what a seed does to all arms is taken out first.
    """
    some = np.isfinite(y).any(0)
    beside = y[:, some] - np.nanmean(y[:, some], 0)
    valued = np.isfinite(beside).any(1)
    means = np.full(len(y), np.inf)
    means[valued] = np.nanmean(beside[valued], 1)
    return tuple(np.argsort(means, kind="stable").tolist())


def chances(y: Float[np.ndarray, "arm seed"]) -> Float[np.ndarray, " arm"]:
    """Return each arm's probability of having the least true mean, given all seeds.

    Arms scatter normally about a common mean, with a spread that may be any that agrees with all values; runs about
    their arm and seed, with the pooled spread. Where arms form two groups, chances within the better group are too
    high: 0.4 where 0.25 is found, for 16 arms. Of five arms that scatter as runs do they are too low: 0.62 where 0.78
    is found, since arms that are alike are thought likely too. That arms of chance were dropped by the same seeds needs
    no correction then: given the data, the probability does not depend on who chose what was run.

    Args:
        y: in per cent, of all arms of the search and all its seeds; NaN where it was not run.
    """
    known = np.isfinite(y)
    if not known.any(1).sum() > 1:
        return known.any(1) / max(1, known.any(1).sum())
    counts, per_seed = known.astype(float), np.maximum(known.sum(0), 1)
    # Normal equations of arm + seed, with the seeds eliminated.
    precision = np.diag(counts.sum(1)) - (counts / per_seed) @ counts.T
    filled = np.where(known, y, 0.0)
    right = (filled - counts * (filled.sum(0) / per_seed)).sum(1)
    noise = _noise(filled, known, precision, right)
    # In the directions of the eigenvectors arms are independent, for whatever spread.
    values, vectors = np.linalg.eigh(precision)
    sure, found = np.maximum(values, 0.0) / noise, right @ vectors / noise
    between = noise * np.geomspace(*_SPREADS, 48) ** 2
    shrunk = 1 + between[:, None] * sure
    likelihood = ((found**2 * between[:, None] / shrunk - np.log(shrunk)) / 2).sum(1)
    weight = np.exp(likelihood - likelihood.max())
    rng = np.random.default_rng(0)
    places = rng.choice(len(between), _DRAWS, p=weight / weight.sum())
    variance = (between[:, None] / shrunk)[places]
    drawn = (variance * found + np.sqrt(variance) * rng.normal(size=variance.shape)) @ vectors.T
    drawn[:, ~known.any(1)] = np.inf
    return np.bincount(drawn.argmin(1), minlength=len(y)) / _DRAWS


def _noise(
    filled: Float[np.ndarray, "arm seed"],
    known: Bool[np.ndarray, "arm seed"],
    precision: Float[np.ndarray, "arm arm"],
    right: Float[np.ndarray, " arm"],
) -> float:
    """The variance of a run beside its arm and its seed."""
    arms = np.linalg.lstsq(precision, right, rcond=1e-10)[0]
    beside = np.where(known, filled - arms[:, None], 0.0)
    rest = np.where(known, beside - beside.sum(0) / np.maximum(known.sum(0), 1), 0.0)
    freedom = int(known.sum()) - int(known.any(1).sum()) - int(known.any(0).sum()) + 1
    return max(float((rest**2).sum()) / max(1, freedom), 1e-12)


def finalists(picked: int, chance: Float[np.ndarray, " arm"]) -> tuple[int, ...]:
    """The arm that was picked, and one to three others that may as well be the best, by place.

    Examples:
        >>> finalists(2, np.array([0.3, 0.1, 0.55, 0.03, 0.02]))
        (2, 0, 1)
    """
    others = [int(arm) for arm in np.argsort(-chance, kind="stable") if arm != picked]
    near = [arm for place, arm in enumerate(others) if place == 0 or chance[arm] >= LEAST_CHANCE]
    return (picked, *near[: MOST_FINALISTS - 1])


@dataclass(frozen=True, kw_only=True)
class FreshEstimate:
    """A metric of the arm that was picked, on seeds that did not pick it.

    Attributes:
        metric: the metric by which arms are compared.
        mean: the mean over the fresh seeds.
        interval: 95 % (t); None for fewer than three seeds, or if they show no spread.
        n_seeds: the number of fresh seeds.
    """

    metric: str
    mean: float
    interval: tuple[float, float] | None
    n_seeds: int

    def sentence(self, arm: str) -> str:
        """Return the estimate in words, with the name of the arm."""
        metric = METRICS[self.metric]
        return fresh_sentence(arm, metric, mean=self.mean, interval=self.interval, n_seeds=self.n_seeds)


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The best of many arms.

    Attributes:
        arms: the arms that were searched.
        n_runs: the runs of the search, without those of the finalists.
        sentences: the result in words.
        picked: the picked arm; None while the search continues.
        chances: the probability of each arm to be the best.
        finalists: the arms that got fresh seeds, `picked` first.
        fresh: the picked arm's metric on fresh seeds; None before a fresh seed is done.
        comparisons: the picked arm against the other finalists, on fresh seeds.
        first_fresh: the first of the fresh seeds, on which finalists are judged; earlier seeds chose them.
    """

    arms: tuple[str, ...]
    n_runs: int
    sentences: tuple[str, ...]
    picked: str | None = None
    chances: Mapping[str, float] = field(default_factory=dict)
    finalists: tuple[str, ...] = ()
    fresh: FreshEstimate | None = None
    comparisons: tuple[Comparison, ...] = ()
    first_fresh: int | None = None


def searched(store: Store, runs: RunsOfArm, looks: Looking) -> SearchResult | None:
    """Return the search that a directory holds, or None if nothing was searched there.

    Raises:
        ResultsError: when what is stored cannot be read.
    """
    search, picked = stored(store.path, "search", StoredSearch), stored(store.path, "picked", Picked)
    if search is None:
        return None
    n_runs = planned_runs(search)
    if picked is None:
        return SearchResult(arms=search.arms, n_runs=n_runs, sentences=(unfinished_search(search),))
    titles = titles_of(store.experiment)
    result = SearchResult(
        arms=search.arms,
        n_runs=n_runs,
        picked=picked.arm,
        chances=picked.chances,
        finalists=picked.finalists,
        sentences=(picked_sentence(picked, search, titles),),
    )
    if not looks.seeds:
        return result
    fresh = fresh_estimate(picked.arm, search.metric, runs, looks.seeds)
    compared, family = _finalists(search, picked, titles, runs, looks)
    sentences = (
        *result.sentences,
        *([] if fresh is None else [fresh.sentence(titles[picked.arm])]),
        *(f"on fresh seeds, {comparison.verdict}" for comparison in compared),
        scope(family, compared),
    )
    return replace(result, fresh=fresh, comparisons=compared, sentences=sentences, first_fresh=looks.seeds[0])


def titles_of(experiment: Experiment) -> dict[str, str]:
    """Return the name of each arm in sentences."""
    return {arm.full_name: title(arm, experiment) for arm in experiment.arms}


def planned_runs(search: StoredSearch) -> int:
    """Return the runs of a search, without those of its finalists."""
    return sum(n * arms for n, arms in zip(search.new_seeds, arms_by_round(len(search.arms)), strict=False))


def _finalists(
    search: StoredSearch, picked: Picked, titles: Mapping[str, str], runs: RunsOfArm, looks: Looking
) -> tuple[tuple[Comparison, ...], Family]:
    """Compare the picked arm with the other finalists, judged together."""
    others = picked.finalists[1:]
    asked = [{picked.arm: 1.0, other: -1.0} for other in others]
    family, differences = judged(Question.from_runs(asked, runs, metric=search.metric), looks)
    metric = METRICS[search.metric]
    return tuple(
        Comparison(
            **vars(difference),
            arm=picked.arm,
            baseline=other,
            group=None,
            verdict=verdict(difference, family, metric=metric, sides=(titles[picked.arm], titles[other])),
        )
        for other, difference in zip(others, differences, strict=True)
    ), family


def fresh_estimate(arm: str, metric: str, runs: RunsOfArm, seeds: Sequence[int]) -> FreshEstimate | None:
    """Return the mean of an arm over seeds, or None if none of them is done."""
    values = Cells.from_runs([arm], metric, runs).at(seeds).values
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    mean, interval = interval_of_mean(values)
    n = len(values)
    return FreshEstimate(metric=metric, mean=mean, interval=interval if n >= FEWEST else None, n_seeds=n)
