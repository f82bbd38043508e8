"""Settle: seeds until every question is told apart, the same within a margin, or open at the end of the plan.

Where a directory has got to is read off its runs, and its plan off `DIR/looks`. So any number of processes may do this
at once or one after the other, and be killed at any moment: they follow one plan, and share the runs by their leases.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.compare.blocks import LEVEL
from headway.compare.look_levels import looks_until
from headway.compare.look_plan import Followed, follow, followed, needed_arms
from headway.compare.looks import look_plan
from headway.compare.questions import SeedTable, asked_of, extended, seed_table
from headway.declare.experiment import Experiment
from headway.errors import UserError
from headway.runs.folder import Run
from headway.runs.planned_looks import LookMade, StoredPlan, damages, keep, keep_plan, stored_plan
from headway.runs.store import Store
from headway.settle import telling
from headway.settle.asking import AT_MOST, check_metric, check_verdicts
from headway.settle.spending import Hands, Wanted
from headway.words import brief, counted, listed


@dataclass(frozen=True, kw_only=True)
class Begun:
    """What was asked for, when nothing speaks against it.

    Attributes:
        experiment: with the arms and seeds that are run first.
        go_on: does the rest; what was found, in sentences.
    """

    experiment: Experiment
    go_on: Callable[[], Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Until:
    """Seeds until questions are settled.

    Attributes:
        margin: in per cent.
        at_most: seeds; None: as the directory's plan says, or twelve.
        seconds: that may be spent; None: as many as it takes.
    """

    margin: float
    at_most: int | None = None
    seconds: float | None = None

    def begin(self, hands: Hands) -> Begun:
        """Look whether it can be done; nothing is written yet.

        Raises:
            UserError: when it cannot, with the reason.
        """
        check_metric(hands.experiment)
        check_verdicts(hands.experiment)
        plan = self._plan(hands.experiment, hands.path, hands.tell)
        if left := [arm.full_name for arm in hands.experiment.selected if arm.full_name not in plan.arms]:
            hands.tell(f"no question is asked of {listed(left)}, so no seeds are added there")
        first = [(arm, seed) for arm in plan.arms for seed in plan.seeds[: plan.looks[0]]]
        check_first(first, hands, f"the first look, at {plan.looks[0]} seeds of {counted(len(plan.arms), 'arm')},")

        def go_on() -> Sequence[str]:
            stored = self._agreed(keep_plan(hands.path, plan))
            for said in telling.planned(stored):
                hands.tell(said)
            return follow_plan(stored, hands)

        return Begun(
            experiment=hands.experiment.select(arms=plan.arms, seeds=list(plan.seeds[: plan.looks[0]])), go_on=go_on
        )

    def _plan(self, experiment: Experiment, path: Path, tell: Callable[[str], object]) -> StoredPlan:
        names = [arm.full_name for arm in experiment.selected]
        asked, are_declared = asked_of(experiment, names)
        if former := stored_plan(path):
            self._agreed(former)
            for damage in damages(path):  # of what was found at looks, which is found again
                tell(damage)
            if missing := sorted(set(former.arms) - set(names)):
                raise UserError(f"the plan of {path} asks about {listed(missing)} too; choose all of its arms")
            if late := sorted(set(asked) - set(former.asked)) if are_declared else []:
                tell(f"{listed(late)}: asked after an answer was seen, so not part of the plan")
            if self.at_most is None or self.at_most == former.at_most:
                return former
            longer = extended(former, self.at_most)
            tell(telling.goes_on(former, longer))
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
            raise UserError("this directory has the plan of a search; go on with that, or choose another one")
        if self.margin != former.margin:
            raise UserError(
                f"until {telling.per_cent(self.margin)}: this directory was planned until "
                f"{telling.per_cent(former.margin)}, and a margin is not chosen after an answer was seen; take "
                "that, or another directory"
            )
        if self.at_most is not None and self.at_most < former.at_most:
            raise UserError(
                f"at most {self.at_most} seeds: this directory was planned to {former.at_most}, and the level of each "
                "look depends on it; take that (a budget stops it sooner), or another directory"
            )
        return former


def _asks_nothing(experiment: Experiment, names: Sequence[str]) -> str:
    """Why there is nothing to be settled between some arms, and what to do."""
    said = f"{experiment.name} asks nothing of {listed(names)}"
    if not experiment.contrasts:
        return (
            f"{said}: there are neither contrasts nor comparisons to be settled; choose two arms of a contrast, or an "
            "arm and its baseline"
        )
    lacking = [(one.name, [arm for arm in one.weights if arm not in names]) for one in experiment.contrasts]
    name, arms = min(lacking, key=lambda one: len(one[1]))
    return (
        f"{said} alone: what is settled are its contrasts ({listed(one for one, _ in lacking)}), and each needs other "
        f"arms too; {name} also needs {listed(arms)}"
    )


def check_first(wanted: Wanted, hands: Hands, what: str) -> None:
    """Nothing, when there is time enough for what has to be run at first, as far as is known.

    Raises:
        UserError: when there is not, with the numbers.
    """
    runs = hands.store().runs() if (hands.path / "experiment.yaml").exists() else ()
    ended = {(run.name, run.seed) for run in runs if run.status == "done"}
    missing = [one for one in wanted if one not in ended]
    if hands.spending.seconds is not None and hands.spending.expected_s(missing, runs) is None:
        hands.spending.guessed = hands.guess()
    expected = hands.spending.expected_s(missing, runs)
    if expected is not None and expected > hands.spending.left_s:
        budget_s, left_s = hands.spending.seconds or 0.0, hands.spending.left_s
        # What was tried to know it has taken time, too.
        left = f", and {brief(left_s)} of it are left" if expected <= budget_s else ""
        raise UserError(
            f"budget {brief(budget_s)}: {what} takes {counted(len(missing), 'run')}, about {brief(expected)} on "
            f"{counted(hands.spending.n_places, 'worker')}{left}; give more, or choose fewer arms"
        )


def follow_plan(plan: StoredPlan, hands: Hands) -> Sequence[str]:
    """Add seeds where something is open, look as planned, and say what was found."""
    try_again(plan.arms, plan.seeds, hands)
    before: Wanted | None = None
    while True:
        store = hands.store()
        table = seed_table(store, metric=plan.metric, seeds=plan.seeds, asked=plan.asked)
        state = _looked(plan, table, hands)
        wanted = _wanted(plan, table, state)
        if not wanted or wanted == before:
            break
        wanted = _affordable(plan, wanted, state, store.runs(), hands)
        if not wanted:
            break
        hands.train(wanted)
        before = wanted
    per_seed = [[(arm, 0) for arm in weights] for weights in plan.asked.values()]
    runs = hands.store().runs()
    return tuple(telling.ending(plan, state, [hands.spending.expected_s(wanted, runs) for wanted in per_seed]))


def try_again(arms: Sequence[str], seeds: Sequence[int], hands: Hands) -> None:
    """Work once more on runs that failed in a former call, if there is time; a look does not wait for them."""
    runs = hands.store().runs()
    failed = [(run.name, run.seed) for run in runs if run.status == "failed" and run.name in arms and run.seed in seeds]
    if failed and (hands.spending.expected_s(failed, runs) or 0.0) <= hands.spending.left_s:
        hands.train(failed)


def _looked(plan: StoredPlan, table: SeedTable, hands: Hands) -> Followed:
    """Make the looks that are due, keep what they found, and tell what is new."""
    former = stored_plan(hands.path)
    made = {look.n_seeds: look for look in (former.history if former else ())}
    settled: list[str] = []
    state = follow(look_plan(plan), table.y, table.weights, table.ended)
    for state in followed(look_plan(plan), table.y, table.weights, table.ended):
        n = plan.looks[state.look or 0]
        outcomes = {name: one.outcome for name, one in zip(plan.asked, state.contrasts, strict=True)}
        if n not in made:
            intervals = {name: one.judged.interval for name, one in zip(plan.asked, state.contrasts, strict=True)}
            keep(hands.path, f"after-{n}", LookMade(n_seeds=n, outcomes=outcomes, intervals=intervals, made=""))
            for said in telling.look(plan, state, settled):
                hands.tell(said)
        elif dict(made[n].outcomes) != outcomes:
            hands.tell(f"what {n} seeds say has changed since they were looked at: runs were repeated or dropped")
        settled = [name for name, outcome in outcomes.items() if outcome in ("apart", "small", "same")]
    return state


def _wanted(plan: StoredPlan, table: SeedTable, state: Followed) -> Wanted:
    """The runs that the next look waits for, seed by seed; nothing at the end."""
    place = 0 if state.look is None else state.look + 1
    if place == len(plan.looks) or not state.open:
        return []
    arms = needed_arms(table.weights, state.open)
    return [
        (table.arms[arm], seed)
        for at, seed in enumerate(plan.seeds[: plan.looks[place]])
        for arm in arms
        if not table.ended[arm, at]
    ]


def _affordable(plan: StoredPlan, wanted: Wanted, state: Followed, runs: Sequence[Run], hands: Hands) -> Wanted:
    """The runs of a look when there is time for all of them, else none; at first, to see how long they take, a seed."""
    expected, budget_s = hands.spending.expected_s(wanted, runs), hands.spending.seconds
    if expected is None:
        return wanted if budget_s is None else [one for one in wanted if one[1] == wanted[0][1]]
    n = plan.looks[0 if state.look is None else state.look + 1]
    work = f"{n} seeds, {counted(len(wanted), 'more run')}, about {brief(expected)}"
    if expected <= hands.spending.left_s:
        arms = dict.fromkeys(name for name, _ in wanted)
        all_s = hands.spending.expected_s([*wanted, *[(arm, 0) for arm in arms] * (plan.at_most - n)], runs)
        most = f" (at most {brief(all_s)} to the end of the plan)" if all_s and n < plan.at_most else ""
        hands.tell(f"next look: {work}{most}")
        return wanted
    hands.tell(
        f"stopped: the next look takes {work}, and {brief(hands.spending.left_s)} of "
        f"{brief(budget_s or 0)} are left; the same command goes on from here"
    )
    return []


def _n_done(path: Path, arms: Sequence[str]) -> int:
    """How many seeds, from 0 on, are done in all arms of a directory."""
    if not (path / "experiment.yaml").exists():
        return 0
    done = {(run.name, run.seed) for run in Store.open(path).runs() if run.status == "done"}
    n = 0
    while all((arm, n) in done for arm in arms):
        n += 1
    return n
