"""The findings of an interim analysis in words: one line per question, with its shrinking interval."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.base.text import Amount, brief, counted, listed
from headway.config.metrics import METRICS, metric_name
from headway.stats.best_arm import MOST_FINALISTS, planned_runs
from headway.stats.sequential import FEWEST, Followed, InterimDecision
from headway.stats.warnings import recounted
from headway.store.look_plans import RoundMade, StoredPlan, StoredSearch, stored, stored_plan

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
    """Yield sentences on a plan: its questions, its interim analyses, and the seeds known before."""
    what = "contrast" if plan.are_declared else "comparison"
    yield (
        f"{counted(len(plan.asked), what)} of {metric_name(plan.metric)} until each is told apart or the same within "
        f"{per_cent(plan.margin)}: looks at {listed(map(str, plan.looks))} seeds, all together at level "
        f"{plan.level:.3g}"
    )
    yield from recounted(plan.looks, plan.n_before)


def goes_on(former: StoredPlan, plan: StoredPlan) -> str:
    """Return a sentence that a plan is prolonged beyond its end, with the cost of that."""
    return (
        f"the plan of this directory ended at {former.at_most} seeds and goes on to {plan.at_most}: of all its looks "
        f"together, chance alone now tells apart {100 * plan.level:.2g} of 100, and {100 * former.level:.2g} before"
    )


def where_it_stands(directory: Path) -> Iterator[str]:
    """Yield sentences on the progress of a directory's plan or search.

    Raises:
        ResultsError: when what is stored cannot be read.
    """
    search, plan = stored(directory, "search", StoredSearch), stored_plan(directory)
    if search is not None:
        rounds = len(search.new_seeds)
        made = sum(stored(directory, f"round-{place + 1}", RoundMade) is not None for place in range(rounds))
        yield f"searching the best of {len(search.arms)} arms: {made} of {rounds} rounds are made"
    if plan is None:
        return
    what = "contrast" if plan.are_declared else "comparison"
    yield (
        f"{counted(len(plan.asked), what)} until each is told apart or the same within {per_cent(plan.margin)}: looks "
        f"at {listed(map(str, plan.looks))} seeds"
    )
    if not plan.history:
        yield "no look has been made yet"
        return
    last = plan.history[-1]
    unsettled = [name for name in plan.asked if last.outcomes.get(name) in _UNSETTLED]
    place, of = plan.looks.index(last.n_seeds) + 1, len(plan.looks)
    told = f"{len(plan.asked) - len(unsettled)} of {len(plan.asked)} settled"
    left = f"; open: {listed(unsettled)}" if unsettled else ""
    end = "; the plan has ended" if not unsettled or place == of else ""
    yield f"look {place} of {of}, {last.n_seeds} seeds: {told}{left}{end}"


_UNSETTLED = ("open", "few", "none")


def look(plan: StoredPlan, state: Followed, before: Sequence[str]) -> Iterator[str]:
    """Yield the findings of an interim analysis, a line for each question that was open.

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


def finding(one: InterimDecision, margin: float) -> str:
    """The difference, its interval, and how that reads.

    Examples:
        >>> from headway.stats.blocks import ContrastEstimate
        >>> told = ContrastEstimate(n_seeds=5, estimate=0.7, se=0.1, freedom=8.0, bound=3.0)
        >>> finding(InterimDecision(judged=told, outcome="apart", look=0), 0.5)
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
        after = f" after {counted(one.n_seeds, 'seed')}" if one.n_seeds else ""
        yield f"{name}: {finding(one, plan.margin)}{after}{cost}"


def _cost(plan: StoredPlan, state: Followed, at: int, seconds: float | None) -> str:
    needed = state.family.seeds_for(plan.margin, at)
    if state.contrasts[at].n_seeds < FEWEST or needed is None:
        return ""
    more, low, high = (max(1, n - state.contrasts[at].n_seeds) for n in needed)
    long = "" if seconds is None else f", about {brief(more * seconds)}"
    span = f" ({low:,} to {high:,})" if low < high else ""
    return f"; about {counted(more, 'more seed')}{span} would settle {per_cent(plan.margin)}{long}"


def searched(search: StoredSearch) -> str:
    """Yield sentences on how a search is going to be done, and on what comes after it."""
    left, parts = len(search.arms), []
    for n in search.new_seeds:
        parts.append(f"{counted(n, 'seed')} for {left}")
        left = (left + 1) // 2
    most = min(MOST_FINALISTS, len(search.arms))
    least = 2 * min(FEWEST, search.at_most)
    return (
        f"searching the best of {len(search.arms)} arms by {metric_name(search.metric)} in "
        f"{counted(planned_runs(search), 'run')}: {listed(parts)}; then two to four finalists get fresh seeds, at most "
        f"{search.at_most} each: {least} to {most * search.at_most} runs more, which a budget of runs does not count"
    )


def _ratio(points: float) -> float:
    """A difference of logarithms, in per cent of what is subtracted."""
    return 100 * math.expm1(points / 100)
