"""Settle: what a look found, in words: a line for each question, with the interval that shrinks from look to look."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.compare.look_plan import FEWEST, Followed, Settled
from headway.compare.unplanned import recounted
from headway.declare.metrics import METRICS, metric_name
from headway.runs.planned_looks import LookMade, Picked, StoredPlan, StoredSearch, stored, stored_plan
from headway.words import Amount, counted, duration, listed

_OUTCOMES = {
    "apart": "told apart",
    "small": "told apart, by less than {margin}",
    "same": "the same within {margin}",
    "open": "open",
    "few": "too few seeds to say",
    "none": "cannot be judged: no seed has a result of all its arms",
}


def per_cent(margin: float) -> str:
    """A margin as it was given.

    Examples:
        >>> per_cent(0.5), per_cent(2.0)
        ('0.5 %', '2 %')
    """
    return f"{margin:g} %"


def planned(plan: StoredPlan) -> Iterator[str]:
    """What is going to be looked at, when, and what was known before."""
    what = "contrast" if plan.are_declared else "comparison"
    yield (
        f"{counted(len(plan.asked), what)} of {metric_name(plan.metric)} until each is told apart or the same within "
        f"{per_cent(plan.margin)}: looks at {listed(map(str, plan.looks))} seeds, all together at level "
        f"{plan.level:.3g}"
    )
    yield from recounted(plan.looks, plan.n_before)


def goes_on(former: StoredPlan, plan: StoredPlan) -> str:
    """That a plan goes on beyond its end, and what that costs."""
    return (
        f"the plan of this directory ended at {former.at_most} seeds and goes on to {plan.at_most}: of all its looks "
        f"together, chance alone now tells apart {100 * plan.level:.2g} of 100, and {100 * former.level:.2g} before"
    )


def look(plan: StoredPlan, state: Followed, before: Sequence[str]) -> Iterator[str]:
    """What a look found of each question that was open.

    Args:
        plan: that is followed.
        state: after the look.
        before: questions that had been settled before.
    """
    place = state.look or 0
    yield f"look {place + 1} of {len(plan.looks)}, {plan.looks[place]} seeds:"
    width = max(map(len, plan.asked))
    for name, one in zip(plan.asked, state.contrasts, strict=True):
        if name not in before:
            yield f"  {name:<{width}}  {finding(one, plan.margin)}"
    if before:
        yield f"  {len(before)} of {len(plan.asked)} had been settled before"


def finding(one: Settled, margin: float) -> str:
    """The difference, its interval, and how that reads.

    Examples:
        >>> from headway.compare.blocks import Judged
        >>> told = Judged(n_seeds=5, estimate=0.7, se=0.1, freedom=8.0, bound=3.0)
        >>> finding(Settled(judged=told, outcome="apart", look=0), 0.5)
        '0.7 % (0.4 to 1.0 %): told apart'
    """
    outcome = _OUTCOMES[one.outcome].format(margin=per_cent(margin))
    if one.judged.interval is None:
        return outcome if not math.isfinite(one.judged.estimate) else f"{_ratio(one.judged.estimate):.2g} %: {outcome}"
    low, high = (_ratio(end) / 100 for end in one.judged.interval)
    amount = Amount.of_share(0.0, (low, high))
    return f"{amount(_ratio(one.judged.estimate) / 100)} ({amount(low, high)}): {outcome}"


def ending(plan: StoredPlan, state: Followed, seconds_of: Sequence[float | None]) -> Iterator[str]:
    """A sentence for each question: settled, or open, and then what settling it would cost.

    Args:
        plan: that was followed.
        state: at its end.
        seconds_of: about how long another seed of each question's arms takes; None where that is not known.
    """
    better = METRICS[plan.metric].better
    yield f"differences of {metric_name(plan.metric)} in per cent; {better} is better"
    for at, (name, one) in enumerate(zip(plan.asked, state.contrasts, strict=True)):
        cost = _cost(plan, state, at, seconds_of[at]) if one.is_open else ""
        yield f"{name}: {finding(one, plan.margin)} after {counted(one.n_seeds, 'seed')}{cost}"


def _cost(plan: StoredPlan, state: Followed, at: int, seconds: float | None) -> str:
    needed = state.family.seeds_for(plan.margin, at)
    if state.contrasts[at].n_seeds < FEWEST or needed is None:
        return ""
    more, low, high = (max(1, n - state.contrasts[at].n_seeds) for n in needed)
    long = "" if seconds is None else f", about {duration(more * seconds)}"
    span = f" ({low:,} to {high:,})" if low < high else ""
    return f"; about {counted(more, 'more seed')}{span} would settle {per_cent(plan.margin)}{long}"


def searched(search: StoredSearch) -> str:
    """How a search is going to be done."""
    left, parts, total = len(search.arms), [], 0
    for n in search.new_seeds:
        parts.append(f"{counted(n, 'seed')} for {left}")
        total, left = total + n * left, (left + 1) // 2
    return (
        f"searching the best of {len(search.arms)} arms by {metric_name(search.metric)} in {counted(total, 'run')}: "
        f"{listed(parts)}; then two to four finalists get fresh seeds, at most {search.at_most} each"
    )


def picked(found: Picked, search: StoredSearch) -> str:
    """What a search picked, and how probable it is that this, or another arm, is the best.

    Examples:
        >>> search = StoredSearch(arms=("a", "b", "c"), new_seeds=(1, 2), metric="", margin=1.0, at_most=12)
        >>> picked(Picked(arm="b", chances={"a": 0.2, "b": 0.79, "c": 0.01}, finalists=("b", "a")), search)
        'picked b of 3 arms; the chance to be the best is 79 % for b, 20 % for a and 1 % for the others together'
    """
    shares = [f"{_chance(found.chances[arm])} for {arm}" for arm in found.finalists]
    others = max(0.0, 1 - sum(found.chances[arm] for arm in found.finalists))
    rest = [f"{_chance(others)} for the others together"] if len(search.arms) > len(found.finalists) else []
    return f"picked {found.arm} of {len(search.arms)} arms; the chance to be the best is {listed([*shares, *rest])}"


def kept(directory: Path) -> Iterator[str]:
    """What a search picked in a directory, if there was one; verdicts on it rest on fresh seeds.

    Raises:
        ResultsError: when what is stored cannot be read.
    """
    search, found = stored(directory, "search", StoredSearch), stored(directory, "picked", Picked)
    if search is None or found is None:
        return
    yield picked(found, search)
    plan = stored_plan(directory)
    if plan and plan.history:
        yield from (f"{name}, on fresh seeds: {_said(plan, plan.history[-1], name)}" for name in plan.asked)


def _said(plan: StoredPlan, made: LookMade, name: str) -> str:
    """What a look that was stored says of a question."""
    ends, outcome = made.intervals[name], _OUTCOMES[made.outcomes[name]].format(margin=per_cent(plan.margin))
    if ends is None:
        return outcome
    low, high = (_ratio(end) / 100 for end in ends)
    return f"{Amount.of_share(0.0, (low, high))(low, high)}: {outcome}"


def _chance(chance: float) -> str:
    if not 0.005 <= chance < 0.995:
        return "under 1 %" if chance < 0.5 else "over 99 %"
    return f"{100 * chance:.0f} %"


def _ratio(points: float) -> float:
    """A difference of logarithms, in per cent of what is subtracted."""
    return 100 * math.expm1(points / 100)
