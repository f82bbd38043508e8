"""The goal of a call: seeds until questions are settled, the best of many arms, or neither.

`Best` searches for the best of many arms: sequential halving picks it, and fresh seeds tell how good it is. A round is
stored when it is over, so a killed search resumes where it was, and several processes can share a search.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headway.adaptive import messages
from headway.adaptive.until import (
    AT_MOST,
    Allowance,
    Plan,
    SearchContext,
    Until,
    Wanted,
    allowance_of,
    at_most_of,
    check_experiment,
    check_first,
    follow_plan,
    margin_of,
    try_again,
)
from headway.base.text import brief, counted, listed
from headway.config.metrics import METRICS
from headway.errors import UserError
from headway.stats import best_arm
from headway.stats.cells import runs_of_arms
from headway.stats.sequential import RULES, looks_until
from headway.stats.simultaneous import LEVEL
from headway.stats.verdicts import picked_sentence
from headway.store.look_plans import Picked, RoundMade, StoredPlan, StoredSearch, keep, keep_plan, stored, stored_plan
from headway.store.run import Run


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best of many arms.

    Attributes:
        allowance: for the search; a time is that of the finalists too.
        margin: of the verdicts on finalists, in per cent; None: the document's.
        at_most: fresh seeds of a finalist.
    """

    allowance: Allowance
    margin: float | None
    at_most: int

    @property
    def seconds(self) -> float | None:
        """The seconds that may be spent; None: no limit."""
        return self.allowance.seconds

    def begin(self, context: SearchContext) -> Plan:
        """Look whether it can be done; nothing is written yet.

        Raises:
            UserError: when it cannot, with the reason.
        """
        check_experiment(context.experiment)
        search = self._search(context)
        first = [(arm, seed) for arm in search.arms for seed in range(search.new_seeds[0])]
        check_first(first, context, f"the first round, of {counted(len(search.arms), 'arm')},")

        def resume() -> Sequence[str]:
            return _searched(keep(context.path, "search", search), context)

        seeds = list(range(search.new_seeds[0]))
        return Plan(experiment=context.experiment.select(arms=search.arms, seeds=seeds), resume=resume)

    def _search(self, context: SearchContext) -> StoredSearch:
        arms = tuple(arm.full_name for arm in context.experiment.selected)
        if former := stored(context.path, "search", StoredSearch):
            if set(former.arms) != set(arms):
                raise UserError(
                    f"{context.path} holds a search among {counted(len(former.arms), 'arm')}, and {len(arms)} were "
                    "chosen; choose all of its arms and no other, or another directory"
                )
            return former
        if stored_plan(context.path):
            raise UserError(
                f"{context.path} has a plan of looks, and what was looked at cannot be searched; choose another "
                "directory"
            )
        if len(arms) < 2:
            raise UserError(f"the best of {listed(arms)}: it is the only arm that was chosen; choose two or more")
        return StoredSearch(
            arms=arms,
            new_seeds=self._new_seeds(arms, context),
            metric=context.experiment.primary,
            margin=self.margin or context.experiment.margin,
            at_most=self.at_most,
        )

    def _new_seeds(self, arms: Sequence[str], context: SearchContext) -> tuple[int, ...]:
        """Return the new seeds per round, from the allowed runs, or from the time beside the finalists' analysis."""
        runs, said = self.allowance.runs, f"budget {counted(self.allowance.runs or 0, 'run')}"
        if self.allowance.seconds is not None:
            each = [(arm, 0) for arm in arms] * context.spending.n_places
            expected = context.expected_s(each, context.former_runs())
            if not expected:
                raise UserError(
                    f"budget {brief(self.allowance.seconds)}: how long a run takes is not known yet; give a "
                    "number of runs"
                )
            runs = (
                int(self.allowance.seconds / expected * len(each))
                - best_arm.MOST_FINALISTS * looks_until(self.at_most)[0]
            )
            said = f"budget {brief(self.allowance.seconds)} (about {counted(max(0, runs), 'run')}, and finalists)"
        try:
            return best_arm.new_seeds(len(arms), runs or 0)
        except ValueError:
            rounds = best_arm.arms_by_round(len(arms))
            raise UserError(
                f"{said}: searching among {len(arms)} arms takes {counted(len(rounds), 'round')} and {sum(rounds)} "
                "runs at least; give more, or choose fewer arms"
            ) from None


def _searched(search: StoredSearch, context: SearchContext) -> Sequence[str]:
    """Make every round, pick, and follow the plan of the finalists."""
    context.tell(messages.search_plan(search))
    titles = best_arm.titles_of(context.experiment)
    try_again(search.arms, range(sum(search.new_seeds)), context)
    alive, n = search.arms, 0
    for place, new in enumerate(search.new_seeds, start=1):
        n += new
        made = stored(context.path, f"round-{place}", RoundMade)
        if made is None:
            if not _round(alive, n, context):
                return (messages.unfinished_round(place, search, [titles[arm] for arm in alive]),)
            order = best_arm.ranked(_lower_is_better(search, context, alive, n))
            kept = tuple(alive[index] for index in order[: (len(alive) + 1) // 2])
            made = keep(context.path, f"round-{place}", RoundMade(kept=kept))
            context.tell(messages.round_made(place, search, len(alive), n, [titles[arm] for arm in made.kept]))
        alive = made.kept
    picked = _picked(search, alive[0], n, context)
    said = picked_sentence(picked, search, titles)
    context.tell(said)
    plan = _final_plan(search, picked, context)
    context.tell_all(messages.planned(plan))
    findings = follow_plan(plan, context)
    fresh = best_arm.fresh_estimate(picked.arm, plan.metric, runs_of_arms(context.store().runs()), plan.seeds)
    return (said, *findings, *([] if fresh is None else [fresh.sentence(titles[picked.arm])]))


def _round(alive: Sequence[str], n: int, context: SearchContext) -> bool:
    """Train the runs that a round waits for, while there is time; whether all of them have ended."""
    before: Wanted | None = None
    while wanted := _unended(alive, n, runs := context.store().runs()):
        if wanted == before:  # another process was stopped with one of its runs, or its machine is lost
            context.tell(messages.round_not_ended(len(wanted)))
            return False
        expected = context.spending.expected_s(wanted, runs)
        if expected is not None and expected > context.spending.left_s:
            context.tell(messages.round_too_long(len(wanted), expected, context.spending.left_s))
            return False
        context.train(wanted)
        before = wanted
    return True


def _unended(arms: Sequence[str], n: int, runs: Sequence[Run]) -> Wanted:
    """Return the runs of the first n seeds that are still to be trained to their end; a failed run has ended."""
    ended = {(run.name, run.seed) for run in runs if run.status in ("done", "failed", "damaged")}
    return [(arm, seed) for seed in range(n) for arm in arms if (arm, seed) not in ended]


def _lower_is_better(
    search: StoredSearch, context: SearchContext, arms: Sequence[str], n: int
) -> Float[np.ndarray, "arm seed"]:
    """Return the metric in per cent, negated if higher is better."""
    values = context.cells(search.metric, range(n), arms).values
    return values if METRICS[search.metric].better == "lower" else -values


def _picked(search: StoredSearch, arm: str, n: int, context: SearchContext) -> Picked:
    if former := stored(context.path, "picked", Picked):
        return former
    probabilities = best_arm.chances(_lower_is_better(search, context, search.arms, n))
    chosen = best_arm.finalists(search.arms.index(arm), probabilities)
    value = Picked(
        arm=arm,
        chances={name: float(chance) for name, chance in zip(search.arms, probabilities, strict=True)},
        finalists=tuple(search.arms[index] for index in chosen),
    )
    return keep(context.path, "picked", value)


def _final_plan(search: StoredSearch, picked: Picked, context: SearchContext) -> StoredPlan:
    """Return looks at seeds that nobody has seen: those that chose a winner flatter it."""
    if former := stored_plan(context.path):
        return former
    plan = StoredPlan(
        looks=looks_until(search.at_most),
        margin=search.margin,
        level=LEVEL,
        metric=search.metric,
        asked={f"{picked.arm} - {other}": {picked.arm: 1.0, other: -1.0} for other in picked.finalists[1:]},
        are_declared=False,
        first_seed=1 + max(run.seed for run in context.store().runs()),
        rules=RULES,
    )
    return keep_plan(context.path, plan)


Goal = Until | Best


_NEEDS = (
    "add until (--until 0.5%), which adds seeds until every comparison has an answer, or best (--best), which searches "
    "the best arm"
)
"""What to add to a limit that stands alone."""


def goal_of(
    *, until: str | None, at_most: int | None, budget: str | int | None, best: bool, seeds: object
) -> Goal | None:
    """Return the goal that the options ask for, with the budget that it may spend.

    Args:
        until: the difference that matters, such as `0.5%`.
        at_most: seeds at which it ends.
        budget: a time such as `2h`, or for the best of many arms also a number of runs.
        best: whether the best of many arms is wanted.
        seeds: those that were asked for; None for none.

    Raises:
        UserError: when it cannot be understood, or one contradicts another.
    """
    if until is None and not best:
        for name, value in (("at most", at_most), ("budget", budget)):
            if value is not None:
                raise UserError(f"{name} {value}: {_NEEDS}")
        return None
    if seeds is not None:
        what = "best" if until is None else f"until {until}"
        raise UserError(f"{what}, and {seeds} seeds: it finds itself how many seeds it takes; leave one of them out")
    margin = None if until is None else margin_of(until)
    most = None if at_most is None else at_most_of(at_most)
    allowance = Allowance() if budget is None else allowance_of(budget)
    if margin is None or best:
        if budget is None:
            raise UserError("best: say what may be spent on the search: a budget such as 160 (runs) or 2h")
        return Best(allowance=allowance, margin=margin, at_most=most or AT_MOST)
    if allowance.runs is not None:
        raise UserError(f"budget {budget}: until {until} is not limited by runs; give a time such as 90min or 2h")
    return Until(margin=margin, at_most=most, seconds=allowance.seconds)
