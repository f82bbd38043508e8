"""Compare: looks that nobody planned at first: seeds that were added after verdicts, plans made later, or prolonged."""

from collections.abc import Iterator, Sequence

from headway.compare.blocks import LEVEL
from headway.compare.evidence import JudgedFamily
from headway.compare.look_levels import error_of
from headway.compare.look_plan import FEWEST, LookPlan
from headway.compare.looks import Looking
from headway.runs.folder import Run
from headway.words import counted, listed

MOST = 12
"""Looks that are told one by one."""


def looked_at(looks: Looking, primary: str, families: Sequence[JudgedFamily]) -> int | None:
    """The seeds that the answer rests on where no plan says when to look; None before there are verdicts."""
    if looks.plan is not None:
        return None
    of_answer = [f for f in families if f.metric == primary and f.control is None and f.look is not None]
    n = max((family.plan.looks[-1] for family in of_answer), default=0)
    return n if n >= FEWEST else None


def unplanned(looks: Looking, now: int | None, before: Sequence[int], runs: Sequence[Run]) -> Iterator[str]:
    """A sentence where looks were not as planned at first: what they cost, or that seeds count for no verdict.

    Args:
        looks: how the directory is looked at.
        now: as `looked_at` has it.
        before: the numbers of seeds that verdicts were given on.
        runs: of the directory.
    """
    earlier = [n for n in before if now is not None and n < now]
    if now is not None and earlier:
        told = earlier if len(earlier) <= MOST else [earlier[0], earlier[-1]]
        chance = 100 * error_of((*earlier, now))
        yield (
            f"seeds were added after {'a look' if len(earlier) == 1 else counted(len(earlier), 'look')} at "
            f"{listed(map(str, told))}: looking again like this, chance alone tells apart {chance:.0f} of 100; "
            "`headway run` with --until plans its looks, and takes back what was said before"
        )
    if looks.plan is not None:
        yield from _went_on(looks.plan)
        yield from recounted(looks.plan.looks, looks.n_before)
    if looks.asked is not None and looks.seeds:
        planned = {arm for weights in looks.asked.values() for arm in weights}
        more = {run.seed for run in runs if run.name in planned and run.status == "done" and run.seed > looks.seeds[-1]}
        if more:
            one, last = len(more) == 1, len(looks.seeds)
            yield (
                f"{counted(len(more), 'seed')} {'stands' if one else 'stand'} beyond the plan of looks, which ends at "
                f"{last}, and {'counts' if one else 'count'} for no verdict; `headway run` with --until "
                f"{looks.margin:g}% --at-most {last + len(more)} goes on with the plan"
            )


def _went_on(plan: LookPlan) -> Iterator[str]:
    """That a plan was prolonged beyond its end, which its level tells."""
    if plan.level > LEVEL:
        end = plan.looks[-1]
        yield (
            f"the plan of looks was to end at {round(end * LEVEL / plan.level)} seeds and went on to {end}: of all its "
            f"looks together, chance alone tells apart {100 * plan.level:.2g} of 100"
        )


def recounted(looks: Sequence[int], n_before: int) -> Iterator[str]:
    """That seeds had been run before a plan was made, and what that may cost."""
    found = [look for look in looks if look <= n_before]
    if found:
        again = ""
        if n_before < looks[-1]:
            chance = 100 * error_of((n_before, looks[-1]))
            again = f": looking again like that, chance alone tells apart {chance:.0f} of 100"
        yield (
            f"{n_before} seeds had been run before; they are recounted as the looks at {listed(map(str, found))}, and "
            f"what was said of them at the full level is taken back{again}"
        )
