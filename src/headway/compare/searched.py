"""Compare: what a search for the best of many arms found, and how good the arm is on seeds that did not choose it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headway.compare.cells import Cells, RunsOfArm, Weights
from headway.compare.evidence import Comparison
from headway.compare.families import Asked, judged
from headway.compare.look_plan import FEWEST
from headway.compare.looks import Looking
from headway.compare.matches import title
from headway.compare.statistics import interval_of_mean
from headway.compare.verdicts import scope, verdict
from headway.declare.experiment import Experiment
from headway.declare.metrics import METRICS
from headway.runs.planned_looks import Picked, StoredSearch, stored
from headway.runs.store import Store
from headway.words import Amount, counted, is_plural, listed, number


@dataclass(frozen=True, kw_only=True)
class FreshEstimate:
    """A metric of the arm that was picked, on seeds that did not pick it.

    Attributes:
        metric: by which arms are judged.
        mean: over those seeds.
        interval: 95 % (t); None for fewer than three seeds, and where they show no spread.
        n_seeds: how many.
    """

    metric: str
    mean: float
    interval: tuple[float, float] | None
    n_seeds: int


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The best of many arms.

    Attributes:
        arms: among which it was searched.
        n_runs: that the search took, without those of finalists.
        sentences: all of it in words.
        picked: the arm; None while the search goes on.
        chances: of each arm to be the best.
        finalists: that got fresh seeds, `picked` first.
        fresh: how good the picked arm is; None before a fresh seed is done.
        comparisons: of the picked arm with the other finalists, on fresh seeds.
        first_fresh: the seed from which on finalists are judged; those before chose them.
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
    """What was searched in a directory; None where nothing was.

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
    """What sentences call each arm."""
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
    """The picked arm against the others, judged together, and what holds for all of it."""
    metric, titles = METRICS[search.metric], titles_of(experiment)
    others = found.finalists[1:]
    weights: list[Weights] = [{found.arm: 1.0, other: -1.0} for other in others]
    cells = Cells.of(found.finalists, metric.name, runs)
    asked = Asked(of="comparisons", metric=metric.name, control=None, differences=weights, cells=cells, runs=runs)
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
    """How good the picked arm is.

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
    """What a search picked, and how probable it is that this, or another arm, is the best.

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
