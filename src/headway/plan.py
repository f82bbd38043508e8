"""Door: what an experiment would cost, before it is run."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import psutil
from rich.table import Table

from headway.declare.budget import Budget, budget
from headway.declare.experiment import Arm, Experiment
from headway.declare.layout import HeadLayout
from headway.declare.model import Stack
from headway.declare.run import RegressionRun, RunSpec, TextRun
from headway.lab.execution import cores
from headway.show.parameters import Parts, compact
from headway.show.words import duration, together
from headway.train.schedule import declared_steps

SLOW_FLOPS_PER_S = 20e9
"""What a slow core does; a trial that would last too long even at this rate is left out."""
LONGEST_TRIAL_S = 10.0
TOKENS_PER_TINY_STORY = 206
"""Of GPT-2's tokenizer, on average."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one run of an arm costs; what cannot be known is None."""

    arm: Arm
    budget: Budget
    run: RunSpec
    steps: int | None
    steps_per_s: float | None
    untimed: str | None
    """Why no trial was made."""

    @property
    def batch_size(self) -> int:
        """Examples in a step."""
        assert isinstance(self.run, RegressionRun | TextRun)
        return self.run.training.batch_size

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens trained on, on this machine."""
        tokens = self.batch_size * self.budget.tokens_per_example
        return None if self.steps_per_s is None else self.steps_per_s * tokens

    @property
    def seconds(self) -> float | None:
        """Training time of one run on this machine."""
        return None if self.steps is None or self.steps_per_s is None else self.steps / self.steps_per_s

    @property
    def training_flops(self) -> float | None:
        """Forward and backward, which is about three forward passes, over all steps."""
        return None if self.steps is None else 3.0 * self.budget.flops_per_example * self.batch_size * self.steps


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The costs of every arm."""

    experiment: Experiment
    costs: tuple[Cost, ...]

    @property
    def picture(self) -> Parts:
        """Parameters by part as bars; arms with the same counts share one."""
        alike: dict[tuple[tuple[str, int], ...], list[Cost]] = defaultdict(list)
        for cost in self.costs:
            alike[tuple(cost.budget.parameters.items())].append(cost)
        names = [together([cost.arm.full_name for cost in group], len(self.costs)) for group in alike.values()]
        return Parts(counts={name: dict(counts) for name, counts in zip(names, alike, strict=True)})

    @property
    def text(self) -> bool:
        """Whether it is about language models."""
        return isinstance(self.costs[0].run, TextRun)

    def tables(self) -> tuple[Table, Table]:
        """Parameters by part, and what a run costs; a row per arm."""
        parts = self.picture.names
        example, rate = ("token", "tokens/s") if self.text else ("prompt", "steps/s")
        counts, costs = (
            _table("arm", *parts, "total"),
            _table("arm", *(["heads"] if self.text else []), f"FLOPs/{example}", "FLOPs", "memory", rate, "time"),
        )
        for cost in self.costs:
            numbers = [cost.budget.parameters.get(part, 0) for part in parts]
            counts.add_row(cost.arm.full_name, *map(_count, numbers), f"{cost.budget.n_parameters:,}")
            per_example = cost.budget.flops_per_token if self.text else cost.budget.flops_per_example
            flops, speed = cost.training_flops, cost.tokens_per_s if self.text else cost.steps_per_s
            costs.add_row(
                cost.arm.full_name,
                *([_heads(cost.run.model.layout)] if isinstance(cost.run, TextRun) else []),
                f"{per_example:,.0f}",
                "–" if flops is None else f"{flops:.2e}",
                f"{cost.budget.training_bytes / 1e6:,.1f} MB",
                "–" if speed is None else f"{speed:,.0f}",
                "–" if cost.seconds is None else duration(cost.seconds),
            )
        return counts, costs

    def sentences(self) -> Iterable[str]:
        """What the columns mean, which arms are matched, and how long all of it takes."""
        what = "token" if self.text else "prompt"
        yield f"FLOPs of a {what} are those of a forward pass; of a run, about three times that for every {what}"
        yield _matched("parameters", {c.arm.full_name: c.budget.n_parameters for c in self.costs})
        per_run = {c.arm.full_name: c.training_flops for c in self.costs}
        if None in per_run.values():
            per_run = {c.arm.full_name: c.budget.flops_per_token for c in self.costs}
        yield _matched("FLOPs", per_run)
        if any(isinstance(c.run, TextRun) and c.run.training.epochs and c.steps for c in self.costs):
            yield f"epochs are counted at about {TOKENS_PER_TINY_STORY} tokens a story"
        if any(c.steps is None for c in self.costs):
            yield "how long an epoch is shows when the corpus is read: FLOPs and time of a run are left out"
        if any(isinstance(c.run, RegressionRun) and isinstance(c.run.model, Stack) for c in self.costs):
            yield "stacks were timed uncompiled; compiled, as long runs are, they take a half to a fifth of the time"
        if self.text and any(c.steps_per_s for c in self.costs):
            yield "timed uncompiled, on one core; long runs are compiled, and take less"
        for reason in dict.fromkeys(c.untimed for c in self.costs if c.untimed):
            names = [c.arm.full_name for c in self.costs if c.untimed == reason]
            yield f"not timed: {'every arm' if len(names) == len(self.costs) else ', '.join(names)}; {reason}"
        yield from self._total()

    def _total(self) -> Iterable[str]:
        times = [c.seconds for c in self.costs if c.seconds is not None]
        if len(times) < len(self.costs):
            return
        count, seeds = len(self.experiment.runs), len(self.experiment.seeds)
        yield (
            f"{count} runs ({seeds} seeds) on {cores()} cores: "
            f"about {duration(sum(times) * seeds / min(count, cores()))}, evaluation not counted"
        )


def plan(experiment: Experiment, *, trial: bool = True) -> Plan:
    """Count every selected arm, and time a short trial of it on this machine.

    Args:
        experiment: whose selected arms are counted.
        trial: whether they are timed too.
    """
    costs = [_cost(arm, arm.spec(experiment.seeds[0]), trial) for arm in experiment.selected]
    return Plan(experiment=experiment, costs=tuple(costs))


def _cost(arm: Arm, run: RunSpec, trial: bool) -> Cost:
    counted = budget(run)
    untimed = _reason_not_to_try(run, counted) if trial else "no trial was asked for"
    steps_per_s = None
    if untimed is None:
        from headway.train.rate import trial_steps_per_s

        steps_per_s = trial_steps_per_s(run)
    return Cost(arm=arm, budget=counted, run=run, steps=_steps(run), steps_per_s=steps_per_s, untimed=untimed)


def _reason_not_to_try(run: RunSpec, counted: Budget) -> str | None:
    if not isinstance(run, TextRun):
        return None
    # A trial is three steps, of at least a sequence each.
    flops = 3 * 3.0 * counted.flops_per_example
    if flops > LONGEST_TRIAL_S * SLOW_FLOPS_PER_S:
        return f"three steps of one sequence are {flops:.0e} FLOPs, too many for a trial on a processor's core"
    free = psutil.virtual_memory().available
    if counted.training_bytes > free:
        return f"a run needs more memory ({counted.training_bytes / 1e9:.1f} GB) than is free ({free / 1e9:.1f} GB)"
    return None


def _steps(run: RunSpec) -> int | None:
    """Optimizer steps; an epoch's are known only of TinyStories, and about."""
    if isinstance(run, RegressionRun):
        return run.training.steps
    assert isinstance(run, TextRun)
    task, training = run.task, run.training
    if training.epochs is None:
        return declared_steps(task, training)
    if task.corpus != "tinystories" or task.tokenizer != "gpt2" or task.stories is None:
        return None
    stories = task.stories * (1 if task.validation else 1 - task.held_out)
    sequences = stories if task.padding == "published" else stories * TOKENS_PER_TINY_STORY / task.n_ctx
    return max(1, int(training.epochs * sequences / training.batch_size))


def _table(first: str, *headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _heads(layout: HeadLayout) -> str:
    """Heads layer by layer, in few words where all layers are alike."""
    layers = str(layout).split("-")
    alike = len(set(layers)) == 1 and len(layers) > 4
    return f"{layers[0]} × {len(layers)} layers" if alike else str(layout)


def _count(number: int) -> str:
    return f"{number:,}" if number < 1_000_000 else compact(number)


def _matched(what: str, values: Mapping[str, Hashable]) -> str:
    alike = defaultdict(list)
    for name, value in values.items():
        alike[value].append(name)
    if len(alike) == 1 and len(values) > 2:
        return f"matched in {what}: all {len(values)} arms"
    groups = [" = ".join(names) for names in alike.values() if len(names) > 1]
    return f"matched in {what}: {'; '.join(groups) or 'no two arms'}"
