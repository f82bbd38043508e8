"""The goal of a call: seeds until questions are settled, the best of many arms, or neither.

`Best` searches for the best of many arms: sequential halving picks it, and fresh seeds tell how good it is. A round is
stored when it is over, so a killed search resumes where it was, and several processes can share a search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headway.adaptive import wording
from headway.adaptive.until import (
    AT_MOST,
    Allowance,
    Plan,
    SearchContext,
    Until,
    Wanted,
    allowance_of,
    at_most_of,
    check_first,
    check_metric,
    check_verdicts,
    follow_plan,
    margin_of,
    try_again,
)
from headway.base.text import brief, counted, listed
from headway.config.metrics import METRICS
from headway.errors import UserError
from headway.stats.best_arm import (
    MOST_FINALISTS,
    chances,
    finalists,
    fresh_estimate,
    fresh_sentence,
    new_seeds,
    picked_sentence,
    ranked,
    sizes,
    titles_of,
)
from headway.stats.blocks import LEVEL
from headway.stats.cells import runs_of_arms
from headway.stats.questions import seed_table
from headway.stats.sequential import looks_until
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

    def begin(self, hands: SearchContext) -> Plan:
        """Look whether it can be done; nothing is written yet.

        Raises:
            UserError: when it cannot, with the reason.
        """
        check_metric(hands.experiment)
        check_verdicts(hands.experiment)
        search = self._search(hands)
        first = [(arm, seed) for arm in search.arms for seed in range(search.new_seeds[0])]
        check_first(first, hands, f"the first round, of {counted(len(search.arms), 'arm')},")

        def go_on() -> Sequence[str]:
            return _searched(keep(hands.path, "search", search), hands)

        seeds = list(range(search.new_seeds[0]))
        return Plan(experiment=hands.experiment.select(arms=search.arms, seeds=seeds), go_on=go_on)

    def _search(self, hands: SearchContext) -> StoredSearch:
        arms = tuple(arm.full_name for arm in hands.experiment.selected)
        if former := stored(hands.path, "search", StoredSearch):
            if set(former.arms) != set(arms):
                raise UserError(
                    f"{hands.path} holds a search among {counted(len(former.arms), 'arm')}, and {len(arms)} were "
                    "chosen; choose all of its arms and no other, or another directory"
                )
            return former
        if stored_plan(hands.path):
            raise UserError(
                f"{hands.path} has a plan of looks, and what was looked at cannot be searched; choose another directory"
            )
        if len(arms) < 2:
            raise UserError(f"the best of {listed(arms)}: it is the only arm that was chosen; choose two or more")
        return StoredSearch(
            arms=arms,
            new_seeds=self._new_seeds(arms, hands),
            metric=hands.experiment.primary,
            margin=self.margin or hands.experiment.margin,
            at_most=self.at_most,
        )

    def _new_seeds(self, arms: Sequence[str], hands: SearchContext) -> tuple[int, ...]:
        """Return the new seeds per round, from the allowed runs, or from the time beside the finalists' analysis."""
        runs, said = self.allowance.runs, f"budget {counted(self.allowance.runs or 0, 'run')}"
        if self.allowance.seconds is not None:
            there = hands.store().runs() if (hands.path / "experiment.yaml").exists() else ()
            each = [(arm, 0) for arm in arms] * hands.spending.n_places
            if hands.spending.expected_s(each, there) is None:
                hands.spending.guessed = hands.guess()
            expected = hands.spending.expected_s(each, there)
            if not expected:
                raise UserError(
                    f"budget {brief(self.allowance.seconds)}: how long a run takes is not known yet; give a "
                    "number of runs"
                )
            runs = int(self.allowance.seconds / expected * len(each)) - MOST_FINALISTS * looks_until(self.at_most)[0]
            said = f"budget {brief(self.allowance.seconds)} (about {counted(max(0, runs), 'run')}, and finalists)"
        try:
            return new_seeds(len(arms), runs or 0)
        except ValueError:
            least, rounds = sum(sizes(len(arms))), counted(len(sizes(len(arms))), "round")
            raise UserError(
                f"{said}: searching among {len(arms)} arms takes {rounds} and {least} runs at least; give more, or "
                "choose fewer arms"
            ) from None


def _searched(search: StoredSearch, hands: SearchContext) -> Sequence[str]:
    """Make every round, pick, and follow the plan of the finalists."""
    hands.tell(wording.searched(search))
    titles = titles_of(hands.experiment)
    try_again(search.arms, range(sum(search.new_seeds)), hands)
    alive, n = search.arms, 0
    for place, new in enumerate(search.new_seeds):
        n += new
        made = stored(hands.path, f"round-{place + 1}", RoundMade)
        if made is None:
            if not _round(alive, n, hands):
                return (
                    f"the search is in round {place + 1} of {len(search.new_seeds)}: {_named(alive, titles)} are left",
                )
            order = ranked(_signed(search, hands, alive, n))
            kept = tuple(alive[at] for at in order[: (len(alive) + 1) // 2])
            made = keep(hands.path, f"round-{place + 1}", RoundMade(kept=kept))
            hands.tell(
                f"round {place + 1} of {len(search.new_seeds)}: {len(made.kept)} of {len(alive)} arms are left after "
                f"{counted(n, 'seed')}: {_named(made.kept, titles)}"
            )
        alive = made.kept
    found = _picked(search, alive[0], n, hands)
    said = picked_sentence(found, search, titles)
    hands.tell(said)
    plan = _final_plan(search, found, hands)
    for sentence in wording.planned(plan):
        hands.tell(sentence)
    return (said, *follow_plan(plan, hands), *_fresh(found, plan, hands))


def _named(arms: Sequence[str], titles: Mapping[str, str]) -> str:
    return listed(titles[arm] for arm in arms)


def _round(alive: Sequence[str], n: int, hands: SearchContext) -> bool:
    """Train the runs that a round waits for, while there is time; whether all of them have ended."""
    before: Wanted | None = None
    while wanted := _unended(alive, n, runs := hands.store().runs()):
        if wanted == before:  # another process was stopped with one of its runs, or its machine is lost
            hands.tell(f"stopped: {counted(len(wanted), 'run')} of the round did not end; the same command goes on")
            return False
        expected = hands.spending.expected_s(wanted, runs)
        if expected is not None and expected > hands.spending.left_s:
            hands.tell(
                f"stopped: the round takes {counted(len(wanted), 'more run')}, about {brief(expected)}, and "
                f"{brief(hands.spending.left_s)} are left; the same command goes on from here"
            )
            return False
        hands.train(wanted)
        before = wanted
    return True


def _unended(arms: Sequence[str], n: int, runs: Sequence[Run]) -> Wanted:
    """Runs of the first n seeds that are still to be trained to their end; a failed run has ended."""
    ended = {(run.name, run.seed) for run in runs if run.status in ("done", "failed", "damaged")}
    return [(arm, seed) for seed in range(n) for arm in arms if (arm, seed) not in ended]


def _signed(search: StoredSearch, hands: SearchContext, arms: Sequence[str], n: int) -> Float[np.ndarray, "arm seed"]:
    """The metric in per cent, less is better."""
    table = seed_table(hands.store(), metric=search.metric, seeds=range(n), asked={}, arms=arms)
    return table.y if METRICS[search.metric].better == "lower" else -table.y


def _picked(search: StoredSearch, arm: str, n: int, hands: SearchContext) -> Picked:
    if found := stored(hands.path, "picked", Picked):
        return found
    chance = chances(_signed(search, hands, search.arms, n), search.new_seeds[0])
    chosen = finalists(search.arms.index(arm), chance)
    value = Picked(
        arm=arm,
        chances={name: float(one) for name, one in zip(search.arms, chance, strict=True)},
        finalists=tuple(search.arms[at] for at in chosen),
    )
    return keep(hands.path, "picked", value)


def _final_plan(search: StoredSearch, found: Picked, hands: SearchContext) -> StoredPlan:
    """Looks at seeds that nobody has seen: those that chose a winner flatter it."""
    if former := stored_plan(hands.path):
        return former
    fresh = 1 + max(run.seed for run in hands.store().runs())
    plan = StoredPlan(
        looks=looks_until(search.at_most),
        margin=search.margin,
        level=LEVEL,
        metric=search.metric,
        asked={f"{found.arm} - {other}": {found.arm: 1.0, other: -1.0} for other in found.finalists[1:]},
        are_declared=False,
        first_seed=fresh,
    )
    return keep_plan(hands.path, plan)


def _fresh(found: Picked, plan: StoredPlan, hands: SearchContext) -> Sequence[str]:
    """Return the picked arm's result on seeds that did not pick it, as sentences."""
    fresh = fresh_estimate(found.arm, plan.metric, runs_of_arms(hands.store().runs()), plan.seeds)
    return () if fresh is None else (fresh_sentence(fresh, titles_of(hands.experiment)[found.arm]),)


Goal = Until | Best


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
        for name, given in (("at most", at_most), ("budget", budget)):
            if given is not None:
                raise UserError(f"{name} {given}: of what? say until which difference, or ask for the best")
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
