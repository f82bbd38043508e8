"""Messages of a plan while it runs: its questions, its findings, and its next step."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from headway.base.text import counted, listed
from headway.base.words import say, verdict_sentence
from headway.config.metrics import METRICS, metric_name
from headway.stats.blocks import PlanState
from headway.stats.evidence import SETTLED, Difference
from headway.stats.verdicts import verdict_of
from headway.stats.warnings import judged_anew, recounted
from headway.store.look_plans import StoredPlan, stored_plan


def planned(plan: StoredPlan) -> Iterator[str]:
    """Yield sentences on a plan: its questions, its interim analyses, and the seeds known before."""
    yield say("plan_level", plan=_questions(plan), level=100 * plan.level)
    for warning in (*recounted(plan.looks, plan.n_before), *judged_anew(plan.rules)):
        yield warning.sentence


def _questions(plan: StoredPlan) -> str:
    questions = counted(len(plan.asked), "contrast" if plan.are_declared else "comparison")
    looks = listed(map(str, plan.looks))
    return say("plan", questions=questions, quantity=metric_name(plan.metric), margin=plan.margin, looks=looks)


def goes_on(former: StoredPlan, plan: StoredPlan) -> str:
    """Return a sentence that a plan is prolonged beyond its end, with the cost of that."""
    levels = {"level": 100 * former.level, "raised": 100 * plan.level}
    return say("plan_goes_on", former=former.at_most, now=plan.at_most, **levels)


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
        yield say("no_look")
        return
    last = plan.history[-1]
    unsettled = [name for name in plan.asked if name in last.outcomes and last.outcomes[name] not in SETTLED]
    told = say(
        "look_settled",
        look=plan.looks.index(last.n_seeds) + 1,
        looks=len(plan.looks),
        seeds=last.n_seeds,
        n=len(plan.asked) - len(unsettled),
        all=len(plan.asked),
    )
    if unsettled:
        told = say("look_open", look=told, names=listed(unsettled))
    if not unsettled or last.n_seeds == plan.at_most:
        told = say("plan_ended", look=told)
    yield told


def look(plan: StoredPlan, state: PlanState, before: Sequence[str]) -> Iterator[str]:
    """Yield the findings of an interim analysis, a line for each question that was open.

    Args:
        plan: the plan that is followed.
        state: the state after the interim analysis.
        before: the questions that had been settled before.
    """
    number = state.look or 1
    yield say("look", look=number, looks=len(plan.looks), seeds=plan.looks[number - 1])
    for name, contrast in zip(plan.asked, state.contrasts, strict=True):
        if name not in before:
            yield f"  {_verdict(plan, name, contrast)}"
    if before:
        yield f"  {say('settled_before', n=len(before), all=len(plan.asked))}"


def _verdict(plan: StoredPlan, name: str, contrast: Difference) -> str:
    weights = plan.asked[name]
    sides: tuple[str, ...] = (name,)
    if sorted(weights.values()) == [-1.0, 1.0]:
        sides = tuple(sorted(weights, key=weights.__getitem__, reverse=True))
    verdict = verdict_of(
        contrast,
        None,
        metric=METRICS[plan.metric],
        sides=sides,
        in_per_cent=contrast.is_logarithmic,
    )
    interval_name = f"{100 * (1 - plan.level):.3g} % CI"
    if len(plan.asked) > 1:
        interval_name = f"simultaneous {interval_name}"
    return verdict_sentence(replace(verdict, margin=plan.margin, interval_name=interval_name))


def ending(plan: StoredPlan, state: PlanState) -> Iterator[str]:
    """Yield a sentence for each question of a plan that has ended."""
    for name, contrast in zip(plan.asked, state.contrasts, strict=True):
        yield _verdict(plan, name, contrast)
