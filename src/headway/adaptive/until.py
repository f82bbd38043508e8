"""Seeds until every question is settled: a clear difference, none beyond the margin, or open at the end of the plan.

The state of a directory is read from its runs, and its plan from `DIR/looks`. So any number of processes may follow the
plan at once or one after the other, and may be killed at any moment. They share the runs by their leases.

`margin_of` and `allowance_of` read a margin and a budget as a user writes them. `check_metric` and `check_verdicts`
tell whether a plan can settle the experiment's questions. `Spending` learns how long runs take on this machine, and
whether they fit into the budget.
"""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median

from headway.adaptive import wording
from headway.base.text import brief, counted, listed
from headway.config.arms import Arm
from headway.config.document import MOST_SEEDS
from headway.config.experiment import Experiment
from headway.config.metrics import METRICS, YES_OR_NO, metric_name
from headway.errors import UserError, shortened
from headway.stats.blocks import LEVEL
from headway.stats.questions import SeedTable, asked_of, extended, seed_table
from headway.stats.sequential import FEWEST, Followed, follow, followed, look_plan, looks_until, needed_arms
from headway.store.directory import Store
from headway.store.look_plans import LookMade, StoredPlan, damages, keep, keep_plan, stored_plan
from headway.store.run import Run

AT_MOST = 12
"""The default number of seeds at which a plan ends."""

_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|min|m|h|d)")
_LONGEST_S = 10 * 365 * 86400.0
_MOST_RUNS = 10_000_000
_WITHOUT_SHARE = ("fraction", YES_OR_NO, "1")
"""Units of metrics that may be 0: a yes or a no, or a share of them, has no ratio to another."""


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The budget: seconds, or runs; None: not given."""

    seconds: float | None = None
    runs: int | None = None


def margin_of(text: object) -> float:
    """A margin in per cent.

    Raises:
        UserError: when it is none.

    Examples:
        >>> margin_of("0.5%"), margin_of("2 %")
        (0.5, 2.0)
    """
    said = f"until {shortened(str(text))}"
    found = re.fullmatch(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*%\s*", str(text))
    if not found:
        raise UserError(f"{said}: give the difference that matters in per cent, such as 0.5%")
    margin = float(found[1])
    if not margin > 0:
        raise UserError(f"{said}: no number of seeds shows that arms are equal; give what matters, such as 0.5%")
    if not margin < 100:
        raise UserError(f"{said}: everything is the same within 100 %; give the difference that matters, such as 0.5%")
    return margin


def at_most_of(given: object) -> int:
    """The seeds at which a plan ends.

    Raises:
        UserError: when it cannot end there.
    """
    if isinstance(given, bool) or not isinstance(given, int) or given < FEWEST:
        raise UserError(f"at most {given} seeds: nothing is settled with less than {FEWEST}; give {FEWEST} or more")
    if given > MOST_SEEDS:
        raise UserError(f"at most {given:,} seeds: there are {MOST_SEEDS:,}; give fewer")
    return given


def allowance_of(given: object) -> Allowance:
    """A budget: a time, or a number of runs.

    Raises:
        UserError: when it is neither, or nothing.

    Examples:
        >>> allowance_of("1h 30min").seconds, allowance_of("160").runs
        (5400.0, 160)
    """
    text = str(given).strip()
    if isinstance(given, bool) or not (re.fullmatch(r"\d{1,9}", text) or re.fullmatch(rf"({_TIME.pattern}\s*)+", text)):
        raise UserError(f"budget {shortened(text)}: give a time such as 90min or 2h, or a number of runs such as 160")
    if text.isdigit():
        if not 0 < int(text) <= _MOST_RUNS:
            raise UserError(f"budget {text}: give 1 to {_MOST_RUNS:,} runs")
        return Allowance(runs=int(text))
    seconds = math.fsum(float(number) * _SECONDS[unit] for number, unit in _TIME.findall(text))
    if not 0 < seconds <= _LONGEST_S:
        raise UserError(f"budget {shortened(text)}: give more than nothing, and less than ten years")
    return Allowance(seconds=seconds)


def check_metric(experiment: Experiment) -> None:
    """Raise UserError if the primary metric allows no differences in per cent.

    Raises:
        UserError: when the metric is a yes or a no, or a share of them; or has no better direction.
    """
    metric = METRICS[experiment.primary]
    if metric.unit in _WITHOUT_SHARE or metric.better is None:
        what = "a yes or a no" if metric.unit == YES_OR_NO else f"a share ({metric.unit})"
        raise UserError(
            f"arms of {experiment.name} are judged by {metric_name(metric.name)}, which is {what} and may be 0: no "
            "difference in per cent can be settled; say how many seeds"
        )


def check_verdicts(experiment: Experiment) -> None:
    """Raise UserError if the document does not leave it to the family's verdicts when a question is settled.

    Raises:
        UserError: with paired verdicts, which know no looks.
    """
    if experiment.verdicts == "paired":
        raise UserError(
            "verdicts: paired judges each comparison once, at the full level, and cannot be looked at again and again; "
            "leave that key out, or say how many seeds"
        )
    if experiment.crossed:
        raise UserError(
            f"control {', '.join(experiment.crossed)}: questions are settled for arms without a control; leave "
            "controls out, and add their runs afterwards with a number of seeds"
        )


Wanted = Sequence[tuple[str, int]]
"""Runs, by arm and seed."""


@dataclass(kw_only=True)
class Spending:
    """The seconds since a user's call began, and the durations of runs.

    Attributes:
        seconds: that may be spent; None: as many as it takes.
        n_places: runs that are worked on at once.
        guessed: seconds of a run of an arm, before one was measured.
    """

    seconds: float | None
    n_places: int
    guessed: Mapping[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _slower: float = 1.0
    """Runs take longer than their own clocks say, since processes begin and end."""

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return float("inf") if self.seconds is None else self.seconds - (time.monotonic() - self._began)

    def expected_s(self, wanted: Wanted, runs: Sequence[Run]) -> float | None:
        """About how long runs take together, by those that are done; None where nothing is known.

        Args:
            wanted: arms and seeds.
            runs: of the directory.
        """
        known = self._seconds(runs)
        if not wanted or not known:
            return None if wanted else 0.0
        each = [known.get(name, fmean(known.values())) for name, _ in wanted]
        return self._slower * max(max(each), sum(each) / min(self.n_places, len(each)))

    def learn(self, wanted: Wanted, runs: Sequence[Run], took_s: float) -> None:
        """Compare the measured durations of runs with their own clocks."""
        self._slower = 1.0
        if expected := self.expected_s(wanted, runs):
            self._slower = min(max(1.0, took_s / expected), 100.0)

    def _seconds(self, runs: Sequence[Run]) -> Mapping[str, float]:
        measured: dict[str, list[float]] = {}
        for run in runs:
            if run.status == "done" and run.metrics.get("wall_s"):
                measured.setdefault(run.name, []).append(float(run.metrics["wall_s"]))
        return {**self.guessed} | {name: median(found) for name, found in measured.items()}


@dataclass(frozen=True, kw_only=True)
class SearchContext:
    """The experiment, its directory and the callbacks that a search or a plan works with.

    Attributes:
        experiment: all of it.
        path: the results directory.
        run: works on runs to their end.
        tell: is given what is found.
        guess: says about how many seconds a run of an arm takes, before one is done; nothing where that is not known.
        spending: what it takes.
    """

    experiment: Experiment
    path: Path
    run: Callable[[Sequence[tuple[Arm, int]]], object]
    tell: Callable[[str], object]
    guess: Callable[[], Mapping[str, float]]
    spending: Spending

    def train(self, wanted: Wanted) -> None:
        """Work on runs, and learn their durations."""
        began = time.monotonic()
        fresh = {(run.name, run.seed) for run in self.store().runs() if run.status != "done"} | set(wanted)
        self.run([(self.experiment.arm(name), seed) for name, seed in wanted])
        took_s = time.monotonic() - began
        self.spending.learn([one for one in wanted if one in fresh], self.store().runs(), took_s)

    def store(self) -> Store:
        """The directory as it is now."""
        return Store.open(self.path)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A goal that can be reached: the first runs, and the callback that does the rest.

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

    def begin(self, hands: SearchContext) -> Plan:
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
            for said in wording.planned(stored):
                hands.tell(said)
            return follow_plan(stored, hands)

        return Plan(
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
            tell(wording.goes_on(former, longer))
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
                f"until {wording.per_cent(self.margin)}: this directory was planned until "
                f"{wording.per_cent(former.margin)}, and a margin is not chosen after an answer was seen; take "
                "that, or another directory"
            )
        if self.at_most is not None and self.at_most < former.at_most:
            raise UserError(
                f"at most {self.at_most} seeds: this directory was planned to {former.at_most}, and the level of each "
                "look depends on it; take that (a budget stops it sooner), or another directory"
            )
        return former


def _asks_nothing(experiment: Experiment, names: Sequence[str]) -> str:
    """Return why there is nothing to settle between some arms, and what to do."""
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


def check_first(wanted: Wanted, hands: SearchContext, what: str) -> None:
    """Raise UserError if the first runs take longer than the budget, as far as their time is known.

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


def follow_plan(plan: StoredPlan, hands: SearchContext) -> Sequence[str]:
    """Add seeds where a question is open, analyse as planned, and return the findings."""
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
    return tuple(wording.ending(plan, state, [hands.spending.expected_s(wanted, runs) for wanted in per_seed]))


def try_again(arms: Sequence[str], seeds: Sequence[int], hands: SearchContext) -> None:
    """Train the runs that a former call left failed or interrupted, if there is time; a look does not wait for them."""
    runs = hands.store().runs()
    asked = (run for run in runs if run.name in arms and run.seed in seeds)
    left = [(run.name, run.seed) for run in asked if run.status in ("failed", "interrupted")]
    if left and (hands.spending.expected_s(left, runs) or 0.0) <= hands.spending.left_s:
        hands.train(left)


def _looked(plan: StoredPlan, table: SeedTable, hands: SearchContext) -> Followed:
    """Make the interim analyses that are due, store their findings, and report what is new."""
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
            for said in wording.look(plan, state, settled):
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


def _affordable(plan: StoredPlan, wanted: Wanted, state: Followed, runs: Sequence[Run], hands: SearchContext) -> Wanted:
    """Return the runs of an interim analysis if the budget allows all of them, else none; at first one seed."""
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
    """Return how many seeds, from 0 on, are done in all arms of a directory."""
    if not (path / "experiment.yaml").exists():
        return 0
    done = {(run.name, run.seed) for run in Store.open(path).runs() if run.status == "done"}
    n = 0
    while all((arm, n) in done for arm in arms):
        n += 1
    return n
