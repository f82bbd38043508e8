"""Messages of a plan while it runs: its questions, its findings, and its next step."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headway.base.text import counted, listed
from headway.base.words import OUTCOMES, amount_of, is_too_wide, say
from headway.config.metrics import METRICS, Metric, metric_name
from headway.stats.blocks import PlanState
from headway.stats.evidence import SETTLED, Difference
from headway.stats.verdicts import verdict_of
from headway.stats.warnings import judged_anew, recounted
from headway.store.look_plans import StoredPlan, stored_plan


def per_cent(margin: float) -> str:
    """A margin as it was given.

    Examples:
        >>> per_cent(0.5), per_cent(2.0)
        ('0.5 %', '2 %')
    """
    return f"{margin:g} %"


def planned(plan: StoredPlan) -> Iterator[str]:
    """Yield sentences on a plan: its questions, its interim analyses, and the seeds known before."""
    yield f"{_questions(plan, f' of {metric_name(plan.metric)}')}; family-wise error rate {100 * plan.level:.3g} %"
    for warning in (*recounted(plan.looks, plan.n_before), *judged_anew(plan.rules)):
        yield warning.sentence


def _questions(plan: StoredPlan, of: str = "") -> str:
    what = counted(len(plan.asked), "contrast" if plan.are_declared else "comparison")
    looks = listed(map(str, plan.looks))
    until = f"add seeds until each has an answer within {per_cent(plan.margin)}"
    return f"plan for {what}{of}: {until}; interim analyses at {looks} seeds"


def goes_on(former: StoredPlan, plan: StoredPlan) -> str:
    """Return a sentence that a plan is prolonged beyond its end, with the cost of that."""
    return (
        f"the plan of this directory ended at {former.at_most} seeds and now ends at {plan.at_most}; this raises its "
        f"rate of false positives from {100 * former.level:.2g} to {100 * plan.level:.2g} %"
    )


def where_it_stands(directory: Path) -> Iterator[str]:
    """Yield sentences on the progress of a directory's plan.

    Raises:
        ResultsError: when what is stored cannot be read.
    """
    plan = stored_plan(directory)
    if plan is None:
        return
    yield _questions(plan)
    if not plan.history:
        yield "no interim analysis has been made yet"
        return
    last = plan.history[-1]
    unsettled = [name for name in plan.asked if name in last.outcomes and last.outcomes[name] not in SETTLED]
    place, of = plan.looks.index(last.n_seeds) + 1, len(plan.looks)
    told = f"{len(plan.asked) - len(unsettled)} of {len(plan.asked)} settled"
    left = f"; open: {listed(unsettled)}" if unsettled else ""
    end = "; the plan has ended" if not unsettled or place == of else ""
    yield f"interim analysis {place} of {of}, {last.n_seeds} seeds: {told}{left}{end}"


def look(plan: StoredPlan, state: PlanState, before: Sequence[str]) -> Iterator[str]:
    """Yield the findings of an interim analysis, a line for each question that was open.

    Args:
        plan: the plan that is followed.
        state: the state after the interim analysis.
        before: the questions that had been settled before.
    """
    number = state.look or 1
    yield f"interim analysis {number} of {len(plan.looks)}, {plan.looks[number - 1]} seeds:"
    width = max(map(len, plan.asked))
    for name, contrast in zip(plan.asked, state.contrasts, strict=True):
        if name not in before:
            yield f"  {name:<{width}}  {difference_sentence(contrast, METRICS[plan.metric], plan.margin)}"
    if before:
        yield f"  {len(before)} of {len(plan.asked)} had been settled before"


def difference_sentence(contrast: Difference, metric: Metric, margin: float) -> str:
    """Return the difference, its interval, and how that reads.

    Examples:
        >>> contrast = Difference.partly_known(n_pairs=5, estimate=0.7, interval=(0.4, 1.0), outcome="apart")
        >>> difference_sentence(contrast, METRICS["eval_loss_nats"], 0.5)
        '0.7 % (0.4 to 1.0 %): clear difference'
    """
    told = verdict_of(contrast, None, metric=metric, sides=("",), in_per_cent=contrast.is_logarithmic)
    if told.change is None:
        return say("no_seeds", quantity=told.quantity)
    write = amount_of(replace(told, margin=margin))
    interval = ""
    if told.interval is not None:
        interval = f" ({say('too_wide') if is_too_wide(told.unit, told.interval) else write(*told.interval)})"
    outcome = OUTCOMES[contrast.outcome].format(margin=per_cent(margin))
    return f"{write(told.change)}{interval}: {outcome}"


def ending(plan: StoredPlan, state: PlanState) -> Iterator[str]:
    """Yield a sentence for each question of a plan that has ended."""
    metric = METRICS[plan.metric]
    yield f"differences of {metric_name(plan.metric)}; {metric.better} is better"
    for name, contrast in zip(plan.asked, state.contrasts, strict=True):
        after = f" after {counted(contrast.n_pairs, 'seed')}" if contrast.n_pairs else ""
        yield f"{name}: {difference_sentence(contrast, metric, plan.margin)}{after}"
