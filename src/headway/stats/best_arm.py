"""The best of many arms by sequential halving: seeds go to arms that may still be the best.

Every round costs about as much as every other, and keeps the better half by the mean over all seeds so far. The seeds
that picked the winner flatter it, so the search makes no verdict: finalists get fresh seeds for verdicts.

Paper: Karnin, Koren and Somekh 2013; there a round judges by its own pulls alone, here by all so far.

`searched` reads the search of a directory. `fresh_estimate` tells how good the picked arm is on seeds that did not
choose it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

from headway.base.text import Amount, counted, is_plural, listed, number
from headway.config.experiment import Experiment
from headway.config.metrics import METRICS
from headway.stats.cells import Cells, RunsOfArm, Weights, title
from headway.stats.contrasts import ContrastFamily, judged
from headway.stats.evidence import Comparison
from headway.stats.paired import interval_of_mean
from headway.stats.sequential import FEWEST, Looking
from headway.stats.verdicts import scope, verdict
from headway.store.directory import Store
from headway.store.look_plans import Picked, StoredSearch, stored

MOST_FINALISTS = 4
LEAST_CHANCE = 0.05
"""Two finalists at least; a third and a fourth only where they may as well be the best."""

_DRAWS = 20_000


def sizes(n_arms: int) -> tuple[int, ...]:
    """Return the number of arms in each round.

    Examples:
        >>> sizes(32), sizes(5)
        ((32, 16, 8, 4, 2), (5, 3, 2))
    """
    found = [n_arms]
    while found[-1] > 2:
        found.append(math.ceil(found[-1] / 2))
    return tuple(found)


def new_seeds(n_arms: int, budget: int) -> tuple[int, ...]:
    """Return the new seeds of every remaining arm in each round, for a total number of runs.

    A round gets an equal part of the runs that are left, but a seed at least.

    Raises:
        ValueError: when there is not a seed for each.

    Examples:
        >>> new_seeds(32, 160)
        (1, 2, 4, 8, 16)
    """
    left, found = sizes(n_arms), []
    if budget < sum(left):
        raise ValueError(f"{budget} runs: a seed for each of {', '.join(map(str, left))} arms takes {sum(left)}")
    for place, n in enumerate(left):
        equal = budget // (len(left) - place) // n
        found.append(max(1, min(equal, (budget - sum(left[place + 1 :])) // n)))
        budget -= found[-1] * n
    return tuple(found)


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


def chances(y: Float[np.ndarray, "arm seed"], first: int) -> Float[np.ndarray, " arm"]:
    """Return each arm's probability of having the least true mean, given all seeds.

    Arms scatter normally about a common mean, with a spread that is read off the first round; runs about their arm and
    seed, with the pooled spread. That arms of chance were dropped by the same seeds needs no correction then: given the
    data, the probability does not depend on who chose what was run.

    Args:
        y: in per cent, of all arms of the search and all its seeds; NaN where it was not run.
        first: seeds of the first round, which all arms have.
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
    early = np.where(known[:, :first], y[:, :first], np.nan)
    means = np.array([np.nanmean(row) for row in early[np.isfinite(early).any(1)]])
    between = max(float(means.var(ddof=1)) - noise / first, 1e-3 * noise) if len(means) > 1 else noise
    posterior = np.linalg.inv(precision / noise + np.eye(len(y)) / between)
    drawn = np.random.default_rng(0).multivariate_normal(
        posterior @ right / noise, posterior, _DRAWS, method="cholesky"
    )
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
    others = [int(at) for at in np.argsort(-chance, kind="stable") if at != picked]
    near = [at for place, at in enumerate(others) if place == 0 or chance[at] >= LEAST_CHANCE]
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
    search, found = stored(store.path, "search", StoredSearch), stored(store.path, "picked", Picked)
    if search is None:
        return None
    experiment, n_runs = store.experiment, planned_runs(search)
    if found is None:
        said = f"the search among {len(search.arms)} arms is not over; `headway run` with --best goes on with it"
        return SearchResult(arms=search.arms, n_runs=n_runs, sentences=(said,))
    fresh = fresh_estimate(found.arm, search.metric, runs, looks.seeds) if looks.seeds else None
    compared, above = _finalists(experiment, search, found, runs, looks) if looks.seeds else ((), "")
    told = [picked_sentence(found, search, titles_of(experiment))]
    told += [] if fresh is None else [fresh_sentence(fresh, titles_of(experiment)[found.arm])]
    told += [f"on fresh seeds, {one.verdict}" for one in compared]
    return SearchResult(
        arms=search.arms,
        n_runs=n_runs,
        picked=found.arm,
        chances=found.chances,
        finalists=found.finalists,
        fresh=fresh,
        comparisons=compared,
        sentences=(*told, *([above] if above else [])),
        first_fresh=looks.seeds[0] if looks.seeds else None,
    )


def titles_of(experiment: Experiment) -> dict[str, str]:
    """Return the name of each arm in sentences."""
    return {arm.full_name: title(arm, experiment) for arm in experiment.arms}


def planned_runs(search: StoredSearch) -> int:
    """The runs of a search, without those of its finalists."""
    left, total = len(search.arms), 0
    for n in search.new_seeds:
        total, left = total + n * left, (left + 1) // 2
    return total


def _finalists(
    experiment: Experiment, search: StoredSearch, found: Picked, runs: RunsOfArm, looks: Looking
) -> tuple[tuple[Comparison, ...], str]:
    """Compare the picked arm with the others, judged together, and return a sentence for the family."""
    metric, titles = METRICS[search.metric], titles_of(experiment)
    others = found.finalists[1:]
    weights: list[Weights] = [{found.arm: 1.0, other: -1.0} for other in others]
    cells = Cells.of(found.finalists, metric.name, runs)
    asked = ContrastFamily(
        of="comparisons", metric=metric.name, control=None, differences=weights, cells=cells, runs=runs
    )
    family, evidence = judged(asked, "blocks", looks)
    told = tuple(
        Comparison(
            **vars(one),
            arm=found.arm,
            baseline=other,
            group=None,
            verdict=verdict(one, family, metric=metric, sides=(titles[found.arm], titles[other])),
        )
        for other, one in zip(others, evidence, strict=True)
    )
    return told, scope(family, told)


def fresh_estimate(arm: str, metric: str, runs: RunsOfArm, seeds: Sequence[int]) -> FreshEstimate | None:
    """The mean of an arm over seeds; None where none of them is done."""
    values = Cells.of([arm], metric, runs).at(seeds).values
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    mean, interval = interval_of_mean(values)
    n = len(values)
    return FreshEstimate(metric=metric, mean=mean, interval=interval if n >= FEWEST else None, n_seeds=n)


def fresh_sentence(found: FreshEstimate, arm: str) -> str:
    """Return a sentence on the picked arm's result on fresh seeds.

    Examples:
        >>> found = FreshEstimate(metric="eval_mse", mean=0.98, interval=(0.97, 0.99), n_seeds=3)
        >>> fresh_sentence(found, "2 heads")
        'on 3 fresh seeds, 2 heads have 0.980 y squared (95 % interval 0.970 to 0.990)'
    """
    unit = METRICS[found.metric].unit
    has = "have" if is_plural(arm) else "has"
    on, unit = f"on {counted(found.n_seeds, 'fresh seed')}, {arm} {has}", "" if unit in ("1", "ratio") else f" {unit}"
    if found.interval is None:
        return f"{on} {number(found.mean, 4)}{unit}"
    write = Amount.within(*found.interval)
    write = Amount(decimals=write.decimals + 1)
    return f"{on} {write(found.mean)}{unit} (95 % interval {write(*found.interval)})"


def picked_sentence(found: Picked, search: StoredSearch, titles: Mapping[str, str]) -> str:
    """Return a sentence on the arm that a search picked, with each finalist's probability of being the best.

    Examples:
        >>> search = StoredSearch(arms=("a", "b", "c"), new_seeds=(1, 2), metric="", margin=1.0, at_most=12)
        >>> found = Picked(arm="b", chances={"a": 0.2, "b": 0.79, "c": 0.01}, finalists=("b", "a"))
        >>> picked_sentence(found, search, {"a": "1 head", "b": "2 heads"})
        'picked 2 heads of 3 arms; the chance to be the best is 79 % for 2 heads, 20 % for 1 head and 1 % for the others together'
    """  # noqa: E501 - a doctest's output stands on one line
    shares = [f"{_chance(found.chances[arm])} for {titles[arm]}" for arm in found.finalists]
    others = max(0.0, 1 - sum(found.chances[arm] for arm in found.finalists))
    rest = [f"{_chance(others)} for the others together"] if len(search.arms) > len(found.finalists) else []
    said = f"picked {titles[found.arm]} of {len(search.arms)} arms"
    return f"{said}; the chance to be the best is {listed([*shares, *rest])}"


def _chance(chance: float) -> str:
    if not 0.005 <= chance < 0.995:
        return "under 1 %" if chance < 0.5 else "over 99 %"
    return f"{100 * chance:.0f} %"
