"""Seeds until every question is settled: a clear difference, none beyond the margin, or open at the end of the plan.

The state of a directory is read from its runs, and its plan from `DIR/looks`. So any number of processes may follow the
plan at once or one after the other, and may be killed at any moment. They share the runs by their leases.

`goal_of` reads what a user asks for. `check_experiment` tells whether a plan can settle the experiment's questions,
which `asked_of` lists.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.adaptive import messages
from headway.base.text import listed
from headway.base.words import say
from headway.config.arms import Arm
from headway.config.document import MOST_SEEDS
from headway.config.experiment import Experiment
from headway.config.metrics import METRICS, YES_OR_NO, metric_name
from headway.errors import UserError, shortened
from headway.stats.blocks import PlanState, needed_arms
from headway.stats.cells import Cells, matches_of, runs_of_arms
from headway.stats.contrasts import follow, is_compared
from headway.stats.sequential import FEWEST, LOOKS, RULES, look_plan, looks_until
from headway.stats.simultaneous import LEVEL
from headway.store.directory import Store
from headway.store.look_plans import Asked, LookMade, StoredPlan, damages, keep, keep_plan, stored_plan

AT_MOST = 12
"""The default number of seeds at which a plan ends."""

_WITHOUT_RATIO = ("fraction", YES_OR_NO)
"""Units of metrics that may be 0: a yes or a no, or a share of them, has no ratio to another."""


def margin_of(text: object, option: str = "until") -> float:
    """A margin in per cent; errors name the option that gave it.

    Raises:
        UserError: when it is none.

    Examples:
        >>> margin_of("0.5%"), margin_of("2 %")
        (0.5, 2.0)
    """
    said = f"{option} {shortened(str(text))}"
    written = re.fullmatch(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(%?)\s*", str(text))
    if not written or not written[2]:
        hint = f"; did you mean {written[1]}%?" if written else ""
        raise UserError(f"{said}: give the difference that matters in per cent, such as 0.5%{hint}")
    margin = float(written[1])
    if not margin > 0:
        raise UserError(f"{said}: no number of seeds shows that arms are equal; give a margin, such as 0.5%")
    if not margin < 100:
        raise UserError(f"{said}: within 100 %, all arms count as equally good; give a smaller margin, such as 0.5%")
    return margin


def at_most_of(given: object) -> int:
    """The seeds at which a plan ends.

    Raises:
        UserError: when it cannot end there.
    """
    if isinstance(given, bool) or not isinstance(given, int) or given < FEWEST:
        raise UserError(f"at most {given} seeds: a verdict needs {FEWEST}; give {FEWEST} or more")
    if given > MOST_SEEDS:
        raise UserError(f"at most {given:,} seeds: Headway allows {MOST_SEEDS:,}; give fewer")
    return given


def check_experiment(experiment: Experiment) -> None:
    """Raise UserError if no plan can settle the experiment's questions.

    Raises:
        UserError: when the metric is a yes or a no, or a share of them; or has no better direction; or with controls.
    """
    metric = METRICS[experiment.primary]
    if metric.unit in _WITHOUT_RATIO or metric.better is None:
        what = "a yes or a no" if metric.unit == YES_OR_NO else f"a share ({metric.unit})"
        raise UserError(
            f"arms of {experiment.name} are compared by {metric_name(metric.name)}, which is {what} and may be 0, so "
            "differences cannot be given in per cent; give a number of seeds"
        )
    if experiment.crossed:
        raise UserError(
            f"control {', '.join(experiment.crossed)}: a plan covers only arms without a control; leave "
            "controls out, and add their runs afterwards with a number of seeds"
        )


_MOST_ERROR = 0.2
"""A plan is not prolonged if chance alone would settle more than this share."""


def asked_of(experiment: Experiment, arms: Sequence[str]) -> tuple[Asked, bool]:
    """The questions of arms without a control: the contrasts of the document, or else comparisons with baselines.

    Args:
        experiment: the experiment that asks the questions.
        arms: the names of the arms that may be run; a question that needs another arm is left out.

    Returns:
        The weights of each question, and whether they are contrasts of the document.
    """
    declared = {contrast.name: dict(contrast.weights) for contrast in experiment.contrasts}
    compared = {
        f"{match.arm.full_name} - {match.baseline.full_name}": match.weights
        for match in matches_of(experiment)
        if match.control is None and is_compared(match, METRICS[experiment.primary])
    }
    asked = {name: weights for name, weights in (declared or compared).items() if weights.keys() <= set(arms)}
    return asked, bool(declared)


def extended(plan: StoredPlan, at_most: int) -> StoredPlan:
    """Return a plan prolonged beyond its end; its earlier verdicts stay.

    Error is spent on at the same rate, so that the looks that were made keep their levels, and all looks together err
    more often: `level` says how often.

    Raises:
        UserError: when chance alone would settle too much.

    Examples:
        >>> short = StoredPlan(looks=(3, 6), margin=1.0, level=0.05, metric="", asked={}, are_declared=True)
        >>> long = extended(short, 12)
        >>> long.looks, long.level
        ((3, 6, 8, 12), 0.1)
    """
    level = round(plan.level * at_most / plan.at_most, 12)
    if level > _MOST_ERROR:
        raise UserError(
            f"at most {at_most} seeds: the plan of this directory ends at {plan.at_most}, and more seeds would raise "
            f"the rate of false positives to {100 * level:.0f} %; choose another directory"
        )
    further = (look for look in (*LOOKS, at_most) if plan.at_most < look <= at_most)
    return replace(plan, looks=(*plan.looks, *dict.fromkeys(sorted(further))), level=level)


Wanted = Sequence[tuple[str, int]]
"""Runs, by arm and seed."""


@dataclass(frozen=True, kw_only=True)
class PlanContext:
    """The experiment, its directory and the callbacks that a plan works with.

    Attributes:
        experiment: the whole experiment.
        path: the results directory.
        run: the function that works on runs to their end.
        tell: the function that is given the findings.
    """

    experiment: Experiment
    path: Path
    run: Callable[[Sequence[tuple[Arm, int]]], object]
    tell: Callable[[str], object]

    def train(self, wanted: Wanted) -> None:
        """Work on runs to their end."""
        self.run([(self.experiment.arm(name), seed) for name, seed in wanted])

    def cells(self, metric: str, seeds: Sequence[int], arms: Sequence[str]) -> Cells:
        """Return the values that arms have so far at some seeds, in the order of these."""
        return Cells.from_runs(arms, metric, runs_of_arms(Store.open(self.path).runs())).at(seeds)

    def tell_all(self, sentences: Iterable[str]) -> None:
        """Tell sentences one by one."""
        for sentence in sentences:
            self.tell(sentence)


@dataclass(frozen=True, kw_only=True)
class Until:
    """Seeds until questions are settled.

    Attributes:
        margin: the margin of equivalence, in per cent.
        at_most: the largest number of seeds; None: as in the directory's plan, or twelve.
    """

    margin: float
    at_most: int | None = None

    def begin(self, context: PlanContext) -> tuple[StoredPlan, Experiment]:
        """Look whether it can be done; nothing is written yet.

        Returns:
            The plan, and the experiment with the arms and seeds that are run first.

        Raises:
            UserError: when it cannot, with the reason.
        """
        check_experiment(context.experiment)
        plan = self._plan(context.experiment, context.path, context.tell)
        if left := [arm.full_name for arm in context.experiment.selected if arm.full_name not in plan.arms]:
            context.tell(say("not_asked", arms=listed(left)))
        return plan, context.experiment.select(arms=plan.arms, seeds=list(plan.seeds[: plan.looks[0]]))

    def resume(self, plan: StoredPlan, context: PlanContext) -> Sequence[str]:
        """Store a plan, do what is left of it, and return the findings in sentences."""
        stored = self._agreed(keep_plan(context.path, plan))
        context.tell_all(messages.planned(stored))
        return follow_plan(stored, context)

    def _plan(self, experiment: Experiment, path: Path, tell: Callable[[str], object]) -> StoredPlan:
        names = [arm.full_name for arm in experiment.selected]
        asked, are_declared = asked_of(experiment, names)
        if former := stored_plan(path):
            self._agreed(former)
            for damage in damages(path):  # of what was found at looks, which is found again
                tell(damage)
            if missing := sorted(set(former.arms) - set(names)):
                raise UserError(f"the plan of {path} includes {listed(missing)} too; choose all of its arms")
            if late := sorted(set(asked) - set(former.asked)) if are_declared else []:
                tell(say("late_questions", names=listed(late)))
            if self.at_most is None or self.at_most == former.at_most:
                return former
            longer = extended(former, self.at_most)
            tell(messages.goes_on(former, longer))
            return longer
        if not asked:
            raise UserError(_asks_nothing(experiment, names))
        plan = StoredPlan(
            looks=looks_until(AT_MOST if self.at_most is None else self.at_most),
            margin=self.margin,
            level=LEVEL,
            metric=experiment.primary,
            asked=asked,
            are_declared=are_declared,
            rules=RULES,
        )
        n_before = _n_done(path, plan.arms)
        if n_before > plan.at_most:
            raise UserError(
                f"at most {plan.at_most} seeds: {path} has {n_before} already; give {n_before} or more, or another "
                "directory"
            )
        return replace(plan, n_before=n_before)

    def _agreed(self, former: StoredPlan) -> StoredPlan:
        """A stored plan, when this one does not contradict it."""
        if former.first_seed:
            raise UserError("this directory has the plan of a former search; choose another directory")
        if self.margin != former.margin:
            raise UserError(
                f"until {self.margin:g} %: the plan of this directory has the margin {former.margin:g} %, "
                "which cannot change after an answer; use that margin, or another directory"
            )
        if self.at_most is not None and self.at_most < former.at_most:
            raise UserError(
                f"at most {self.at_most} seeds: the plan of this directory has {former.at_most}, and the level of each "
                "interim analysis depends on it; use that number, or another directory"
            )
        return former


def _asks_nothing(experiment: Experiment, names: Sequence[str]) -> str:
    """Return why there is nothing to settle between some arms, and what to do."""
    others = [name for name in experiment.document.arms if name not in names]
    advice = f"; choose another arm too, such as {others[0]}" if others else "; add an arm to compare it with"
    return f"{experiment.name} has no comparison of {listed(names)} alone{advice}"


def follow_plan(plan: StoredPlan, context: PlanContext) -> Sequence[str]:
    """Add seeds where a question is open, analyse as planned, and return the findings."""
    _try_again(plan, context)
    before: Wanted | None = None
    while True:
        cells = context.cells(plan.metric, plan.seeds, [arm for weights in plan.asked.values() for arm in weights])
        state = _analyse(plan, cells, context)
        wanted = _wanted(plan, cells, state)
        if not wanted or wanted == before:
            break
        n_seeds = plan.looks[state.look or 0]
        context.tell(say("next_look", seeds=n_seeds, n=len(wanted)))
        context.train(wanted)
        before = wanted
    return tuple(messages.ending(plan, state))


def _try_again(plan: StoredPlan, context: PlanContext) -> None:
    """Train the runs that a former call left failed or interrupted; a look does not wait for them."""
    runs = Store.open(context.path).runs()
    asked = (run for run in runs if run.name in plan.arms and run.seed in plan.seeds)
    left = [(run.name, run.seed) for run in asked if run.status in ("failed", "interrupted")]
    if left:
        context.train(left)


def _analyse(plan: StoredPlan, cells: Cells, context: PlanContext) -> PlanState:
    """Make the interim analyses that are due, store their findings, and report what is new."""
    former = stored_plan(context.path)
    made = {interim.n_seeds: interim for interim in (former.history if former else ())}
    settled: list[str] = []
    rows = cells.rows(plan.asked.values())
    state, *states = follow(look_plan(plan), cells, rows, cells.ended, METRICS[plan.metric])
    for state in states:
        n, contrasts = plan.looks[(state.look or 1) - 1], dict(zip(plan.asked, state.contrasts, strict=True))
        outcomes = {name: contrast.outcome for name, contrast in contrasts.items()}
        if n not in made:
            intervals = {name: contrast.interval for name, contrast in contrasts.items()}
            keep(context.path, f"after-{n}", LookMade(n_seeds=n, outcomes=outcomes, intervals=intervals, made=""))
            context.tell_all(messages.look(plan, state, settled))
        elif dict(made[n].outcomes) != outcomes:
            context.tell(say("look_changed", seeds=n))
        settled = [name for name, contrast in contrasts.items() if contrast.is_settled]
    return state


def _wanted(plan: StoredPlan, cells: Cells, state: PlanState) -> Wanted:
    """Return the runs that the next look waits for, seed by seed; none at the end."""
    if state.look == len(plan.looks) or not state.open:
        return []
    arms = needed_arms(cells.rows(plan.asked.values()), state.open)
    return [
        (cells.arms[arm], seed)
        for column, seed in enumerate(plan.seeds[: plan.looks[state.look or 0]])
        for arm in arms
        if not cells.ended[arm, column]
    ]


def _n_done(path: Path, arms: Sequence[str]) -> int:
    """Return how many seeds, from 0 on, are done in all arms of a directory."""
    if not (path / "experiment.yaml").exists():
        return 0
    done = {(run.name, run.seed) for run in Store.open(path).runs() if run.status == "done"}
    n = 0
    while all((arm, n) in done for arm in arms):
        n += 1
    return n


def goal_of(*, until: str | None, at_most: int | None, seeds: object) -> Until | None:
    """Return the goal that the options ask for, or None if a number of seeds is asked for.

    Args:
        until: the difference that matters, such as `0.5%`.
        at_most: the number of seeds at which the plan ends.
        seeds: the seeds that were asked for; None for none.

    Raises:
        UserError: when an option cannot be understood, or one contradicts another.
    """
    if until is None:
        if at_most is not None:
            raise UserError(f"at most {at_most}: this number needs --until, such as --until 0.5%")
        return None
    if seeds is not None:
        raise UserError(
            f"until {until}, and {seeds} seeds: a plan finds the number of seeds itself; leave one of them out"
        )
    return Until(margin=margin_of(until), at_most=None if at_most is None else at_most_of(at_most))
