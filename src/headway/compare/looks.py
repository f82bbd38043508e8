"""Compare: how a results directory is looked at: by a plan that is stored there, or once, at the seeds it has."""

from dataclasses import dataclass

from headway.compare.look_plan import LookPlan
from headway.runs.planned_looks import Asked, StoredPlan, stored_plan
from headway.runs.store import Store


@dataclass(frozen=True, kw_only=True)
class Looking:
    """When one looks, and at which seeds.

    Attributes:
        margin: in per cent: what is certainly smaller is the same.
        plan: that is stored; None where there is none: one look, once all runs that have a folder have ended.
        seeds: that verdicts rest on, in the order in which they are run; empty: all. After a search they are the fresh
            seeds of the finalists, for those that chose a winner flatter it.
        asked: the questions that were planned; None without a plan.
        n_before: seeds that had been run before the plan was made.
    """

    margin: float
    plan: LookPlan | None = None
    seeds: tuple[int, ...] = ()
    asked: Asked | None = None
    n_before: int = 0

    def plan_of(self, n_seeds: int) -> LookPlan:
        """The plan of a family whose arms have so many seeds between them."""
        return self.plan or LookPlan(looks=(max(1, n_seeds),), margin=self.margin)

    @property
    def awaits_what_has_no_folder(self) -> bool:
        """Whether a run without a folder is still to come; else nobody asked for it."""
        return self.plan is not None


def looks_of(store: Store) -> Looking:
    """How a directory is looked at: the one place that says so.

    Raises:
        ResultsError: when the stored plan cannot be read.
    """
    found = stored_plan(store.path)
    if found is None:
        return Looking(margin=store.experiment.margin)
    return Looking(
        margin=found.margin,
        plan=look_plan(found),
        seeds=tuple(found.seeds),
        asked=found.asked,
        n_before=found.n_before,
    )


def look_plan(plan: StoredPlan) -> LookPlan:
    """A stored plan as it is followed."""
    return LookPlan(looks=plan.looks, margin=plan.margin, level=plan.level)
