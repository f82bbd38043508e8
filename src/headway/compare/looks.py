"""Compare: how a results directory is looked at: by a plan that is stored there, or once, at the seeds it has."""

from dataclasses import dataclass

from headway.compare.look_plan import LookPlan
from headway.runs.store import Store


@dataclass(frozen=True, kw_only=True)
class Looking:
    """When one looks.

    Attributes:
        margin: in per cent: what is certainly smaller is the same.
        plan: that is stored; None where there is none: one look, once all runs that have a folder have ended.
    """

    margin: float
    plan: LookPlan | None = None

    def plan_of(self, n_seeds: int) -> LookPlan:
        """The plan of a family whose arms have so many seeds between them."""
        return self.plan or LookPlan(looks=(max(1, n_seeds),), margin=self.margin)

    @property
    def awaits_what_has_no_folder(self) -> bool:
        """Whether a run without a folder is still to come; else nobody asked for it."""
        return self.plan is not None


def looks_of(store: Store) -> Looking:
    """How a directory is looked at: the one place that says so."""
    return Looking(margin=store.experiment.margin)
