"""The cost of each arm before it runs.

`costs` estimates the parameters, FLOPs, memory and time of an arm.
`preflight` and `remarks` tell what a user may not expect of the data and the arms.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import psutil

from headway.base.identity import canonical, without
from headway.base.text import size, together
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.kinds import part_of
from headway.config.run import Budget, RunSpec
from headway.store.batches import how_many, reasons_not_batchable
from headway.train.loop import training_part_of

SLOW_FLOPS_PER_S = 20e9
"""The rate of a slow core; a trial that would last too long even at this rate is left out."""
LONGEST_TRIAL_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one run of an arm; None for a value that cannot be known."""

    arm: Arm
    run: RunSpec
    rates: tuple[float, ...]
    """Steps per second of processor time, of each portion of a trial; empty where none was made."""
    untimed: str | None
    """The reason why no trial was made."""
    together: int
    """Runs that were tried as one program, as they would be trained."""

    @property
    def budget(self) -> Budget:
        """The parameters, FLOPs and memory of the run."""
        return self.run.budget

    @property
    def steps(self) -> int | None:
        """Optimizer steps of the run."""
        return self.budget.steps

    @property
    def batch_size(self) -> int:
        """Examples in a step."""
        return self.budget.batch_size

    @property
    def steps_per_s(self) -> float | None:
        """The median of `rates`."""
        return statistics.median(self.rates) if self.rates else None

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens trained on, on this machine."""
        tokens = self.batch_size * self.budget.tokens_per_example
        return None if self.steps_per_s is None else self.steps_per_s * tokens

    @property
    def seconds(self) -> float | None:
        """Training time of one run on this machine."""
        if self.steps == 0:
            return 0.0
        return None if self.steps is None or self.steps_per_s is None else self.steps / self.steps_per_s

    def seconds_at(self, quantile: float) -> float:
        """Return `seconds` at a quantile of the trial's rates; 0 where they are not known."""
        return (self.steps or 0) / float(np.quantile(self.rates, quantile)) if self.rates else 0.0

    @property
    def training_flops(self) -> float | None:
        """Forward and backward, which is about three forward passes, over all steps."""
        return None if self.steps is None else 3.0 * self.budget.flops_per_example * self.batch_size * self.steps

    @property
    def about_trial(self) -> str:
        """Return a sentence on how the trial differed from a run; empty if it did not, or was not made."""
        if self.steps_per_s is None:
            return ""
        if self.together > 1:
            return f"timed with {self.together} seeds trained together, as a worker does by default"
        return training_part_of(self.run).about_trial(self.run)


def costs(
    experiment: Experiment, *, trial: bool = True, follow: Callable[[Sequence[str]], Iterable[str]] = iter
) -> tuple[Cost, ...]:
    """Count every selected arm, and time a short trial of each shape on this machine.

    Arms that differ in seeds, steps and numbers such as the learning rate alone are of one shape: a step takes as long.

    Args:
        experiment: the experiment whose selected arms are counted.
        trial: True to time the arms, too.
        follow: the function that goes through the timed shapes, each named by its first arm, to show progress.
    """
    counted = [
        _cost(arm, [arm.expected_spec.at_seed(seed) for seed in experiment.seeds], trial) for arm in experiment.selected
    ]
    shapes = {_timed_as(cost): cost for cost in reversed(counted) if cost.untimed is None}
    first = {cost.arm.full_name: cost for cost in reversed(shapes.values())}
    speeds = {}
    for name in follow(list(first)):
        cost = first[name]
        runs = [cost.run.at_seed(seed) for seed in experiment.seeds[: cost.together]]
        speeds[_timed_as(cost)] = training_part_of(cost.run).trial_steps_per_s(*runs)
    return tuple(replace(cost, rates=speeds[_timed_as(cost)]) if cost.untimed is None else cost for cost in counted)


_NOT_TIMED = ("steps", "tokens", "epochs", "warmup_steps", "lr_schedule")
"""Keys of training that change how many steps there are, or their size, and not how long one takes."""


def _timed_as(cost: Cost) -> str:
    """Names what decides how long a step takes: the content of a run without seeds and numbers that are no sizes."""
    content = cost.run.content()
    training = without(content["training"], *_NOT_TIMED)
    return canonical(_sizes([content["task"], content["model"], training, cost.together]))


def _sizes(value: Any) -> Any:
    """A JSON value in which one number with a fraction is as any other."""
    if isinstance(value, dict):
        return {key: _sizes(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_sizes(inner) for inner in value]
    return "a number" if isinstance(value, float) else value


def too_large(found: Sequence[Cost]) -> tuple[str, ...]:
    """Return sentences on runs that do not fit into the memory of this machine."""
    there = psutil.virtual_memory().total
    arms_by_need: dict[str, list[str]] = defaultdict(list)
    for cost in found:
        if cost.budget.peak_bytes > there:
            fits = cost.budget.fitting_batch(there) if cost.budget.judging_bytes <= there else None
            todo = f"; training.batch_size {fits} would fit" if fits else ""
            arms_by_need[
                f"{size(cost.budget.peak_bytes)}, which do not fit into this machine's {size(there)}{todo}"
            ].append(cost.arm.full_name)
    return tuple(f"a run of {together(names, len(found))} needs about {needs}" for needs, names in arms_by_need.items())


def preflight(experiment: Experiment) -> tuple[str, ...]:
    """Return a sentence on each surprise in the data of the selected arms; nothing is fetched.

    Raises:
        UserError: if a run would raise it, as far as the check is cheap.
    """
    runs = [arm.spec(experiment.seeds[0]) for arm in experiment.selected]
    with_data = {(run.task, run.budget.batch_size): run for run in runs if run.task.corpora}
    return tuple(dict.fromkeys(said for run in with_data.values() for said in part_of(run, "preflight")(run)))


def remarks(experiment: Experiment) -> tuple[str, ...]:
    """Return a sentence on each surprise in the selected arms, naming the arms unless it concerns all."""
    found: dict[str, list[str]] = defaultdict(list)
    for arm in experiment.selected:
        run = arm.resolved_spec
        for remark in filter(None, (*run.warnings, reasons_not_batchable(run) if run.batching.is_cheap else "")):
            found[remark].append(arm.full_name)
    n = len(experiment.selected)
    return tuple(remark if len(arms) == n else f"{together(arms, n)}: {remark}" for remark, arms in found.items())


def _cost(arm: Arm, seeds: Sequence[RunSpec], trial: bool) -> Cost:
    run = seeds[0]
    together = len(seeds[: how_many(run, None)[0]])
    return Cost(arm=arm, run=run, rates=(), untimed=_reason_not_to_try(run, trial), together=together)


def _reason_not_to_try(run: RunSpec, trial: bool) -> str | None:
    if run.budget.steps == 0:
        return "it is not trained"
    if not trial:
        return "no trial was asked for"
    if run.command:
        return "a run is a command of your own"
    # A trial is three steps, of at least an example each.
    flops = 3 * 3.0 * run.budget.flops_per_example
    if flops > LONGEST_TRIAL_S * SLOW_FLOPS_PER_S:
        return f"three steps of one sequence are {flops:.0e} FLOPs, too many for a trial on a processor's core"
    free = psutil.virtual_memory().available
    if run.budget.training_bytes > free:
        return f"a run needs more memory ({size(run.budget.training_bytes)}) than is free ({size(free)})"
    return None
