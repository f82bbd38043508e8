"""Door: what an experiment would cost, before it is run."""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from rich.table import Table

from headway.declare.budget import Budget, budget
from headway.declare.experiment import Arm, Experiment
from headway.declare.model import Stack
from headway.declare.run import RegressionRun, RunSpec
from headway.lab.execution import cores
from headway.show.words import duration
from headway.train.rate import trial_steps_per_s


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one run of an arm costs."""

    arm: Arm
    budget: Budget
    run: RegressionRun
    steps_per_s: float

    @property
    def seconds(self) -> float:
        """Training time of one run on this machine."""
        return self.run.training.steps / self.steps_per_s

    @property
    def training_flops(self) -> float:
        """Forward and backward, which is about three forward passes, over all steps."""
        return 3.0 * self.budget.flops_per_example * self.run.training.batch_size * self.run.training.steps


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The costs of every arm."""

    experiment: Experiment
    costs: tuple[Cost, ...]

    def tables(self) -> tuple[Table, Table]:
        """Parameters by part, and what a run costs; a row per arm."""
        parts = list(dict.fromkeys(part for cost in self.costs for part in cost.budget.parameters))
        counts, costs = _table(*parts, "parameters"), _table("FLOPs/example", "FLOPs", "memory", "steps/s", "time")
        for cost in self.costs:
            numbers = [cost.budget.parameters.get(part, 0) for part in parts]
            counts.add_row(cost.arm.full_name, *(f"{n:,}" for n in (*numbers, cost.budget.n_parameters)))
            costs.add_row(
                cost.arm.full_name,
                f"{cost.budget.flops_per_example:,}",
                f"{cost.training_flops:.2e}",
                f"{cost.budget.training_bytes / 1e6:.1f} MB",
                f"{cost.steps_per_s:,.0f}",
                duration(cost.seconds),
            )
        return counts, costs

    def sentences(self) -> Iterable[str]:
        """What the columns mean, which arms are matched, and how long all of it takes."""
        yield "FLOPs of an example are those of a forward pass; of a run, about three times that for every example"
        yield _matched("parameters", {c.arm.full_name: c.budget.n_parameters for c in self.costs})
        yield _matched("FLOPs", {c.arm.full_name: c.training_flops for c in self.costs})
        if any(isinstance(c.run.model, Stack) for c in self.costs):
            yield "stacks were timed uncompiled; compiled, as long runs are, they take a half to a fifth of the time"
        seconds = sum(c.seconds for c in self.costs) * len(self.experiment.seeds)
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
    return Cost(arm=arm, budget=budget(run), run=run, steps_per_s=trial_steps_per_s(run))


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("arm", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _matched(what: str, values: dict[str, Hashable]) -> str:
    alike = defaultdict(list)
    for name, value in values.items():
        alike[value].append(name)
    groups = [" = ".join(names) for names in alike.values() if len(names) > 1]
    return f"matched in {what}: {'; '.join(groups) or 'no two arms'}"
