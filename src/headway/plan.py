"""Door: what an experiment would cost, before it is run."""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from rich.table import Table

from headway.declare.budget import Budget, budget
from headway.declare.experiment import Arm, Experiment
from headway.declare.run import RegressionRun, RunSpec
from headway.lab.execution import cores
from headway.show.words import duration
from headway.train.rate import trial_steps_per_s


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one run of an arm costs."""

    arm: Arm
    budget: Budget
    steps: int
    batch_size: int
    steps_per_s: float

    @property
    def training_flops(self) -> float:
        """Forward and backward, which is about three forward passes, over all steps."""
        return 3.0 * self.budget.flops_per_example * self.batch_size * self.steps


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The costs of every arm."""

    experiment: Experiment
    costs: tuple[Cost, ...]

    def table(self) -> Table:
        """A row per arm: parameters by part, arithmetic, memory and time of one run."""
        parts = list(dict.fromkeys(part for cost in self.costs for part in cost.budget.parameters))
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("arm")
        for heading in (*parts, "parameters", "forward FLOPs/example", "training FLOPs", "memory", "steps/s", "time"):
            table.add_column(heading, justify="right")
        for cost in self.costs:
            counts = [f"{cost.budget.parameters.get(part, 0):,}" for part in parts]
            table.add_row(
                cost.arm.full_name,
                *counts,
                f"{cost.budget.n_parameters:,}",
                f"{cost.budget.flops_per_example:,}",
                f"{cost.training_flops:.2e}",
                f"{cost.budget.training_bytes / 1e6:.1f} MB",
                f"{cost.steps_per_s:,.0f}",
                duration(cost.steps / cost.steps_per_s),
            )
        return table

    def sentences(self) -> Iterable[str]:
        """Which arms are matched, and how long all of it takes."""
        yield _matched("parameters", {c.arm.full_name: c.budget.n_parameters for c in self.costs})
        yield _matched("FLOPs", {c.arm.full_name: c.training_flops for c in self.costs})
        seconds = sum(c.steps / c.steps_per_s for c in self.costs) * len(self.experiment.seeds)
        count = len(self.experiment.runs)
        yield (
            f"{count} runs ({len(self.experiment.seeds)} seeds) on {cores()} cores: "
            f"about {duration(seconds / min(count, cores()))}, evaluation not counted"
        )


def plan(experiment: Experiment) -> Plan:
    """Count every selected arm, and time a short trial of it on this machine."""
    return Plan(
        experiment=experiment, costs=tuple(_cost(arm, arm.spec(experiment.seeds[0])) for arm in experiment.selected)
    )


def _cost(arm: Arm, run: RunSpec) -> Cost:
    assert isinstance(run, RegressionRun)
    return Cost(
        arm=arm,
        budget=budget(run),
        steps=run.training.steps,
        batch_size=run.training.batch_size,
        steps_per_s=trial_steps_per_s(run),
    )


def _matched(what: str, values: dict[str, Hashable]) -> str:
    alike = defaultdict(list)
    for name, value in values.items():
        alike[value].append(name)
    groups = [" = ".join(names) for names in alike.values() if len(names) > 1]
    return f"matched in {what}: {'; '.join(groups) or 'no two arms'}"
