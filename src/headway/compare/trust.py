"""Compare: what makes verdicts worthless, said beside them: training that is not over, and rates that matter more."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from headway.compare.comparisons import done, values_of
from headway.compare.matches import title
from headway.compare.rates import RatesOfArm
from headway.declare.experiment import Arm, Experiment
from headway.declare.metrics import METRICS, metric_name
from headway.runs.folder import Run
from headway.words import Amount, counted

LAST = 0.1
"""The last tenth of training."""

LEAST = 0.005
"""A metric that falls or moves by less than this share of itself is not worth a word."""


def doubts(experiment: Experiment, runs: Sequence[Run], rates: Sequence[RatesOfArm]) -> Iterator[str]:
    """A sentence where the loss still falls, and one where the learning rate moves an arm, by more than arms differ."""
    means = _means(experiment, runs)
    if len(means) > 1 and METRICS[experiment.primary].better == "lower":
        apart = max(means.values()) / min(means.values()) - 1 if min(means.values()) > 0 else np.inf
        yield from _still_falls(experiment, runs, means, float(apart))
        yield from _rates_matter(experiment, rates, float(apart))


def _means(experiment: Experiment, runs: Sequence[Run]) -> dict[str, float]:
    """The primary metric of each arm without a control, the mean over its seeds."""
    means = {}
    for arm in _plain(experiment):
        values = [v for v in values_of(arm, experiment.primary, runs).values() if v is not None and np.isfinite(v)]
        if values:
            means[arm.full_name] = float(np.mean(values))
    return means


def _plain(experiment: Experiment) -> list[Arm]:
    """The arms without a control that are judged on the task of the first: those differ in merit alone."""
    plain = [arm for arm in experiment.arms if arm.control is None]
    return [arm for arm in plain if arm.template.task == plain[0].template.task]


def _still_falls(
    experiment: Experiment, runs: Sequence[Run], means: Mapping[str, float], apart: float
) -> Iterator[str]:
    falls: dict[str, float] = {}
    for arm in _plain(experiment):
        found = [fall for run in done(arm, runs) if (fall := _fall(run.records(), experiment.primary)) is not None]
        if found and arm.full_name in means:
            falls[title(arm, experiment)] = float(np.mean(found))
    falling = {name: fall for name, fall in falls.items() if fall > max(apart, LEAST)}
    if falling:
        most = max(falling, key=lambda name: falling[name])
        yield (
            f"not trained enough to say: over the last tenth of training the {metric_name(experiment.primary)} of "
            f"{_some(falling, len(falls))} still falls by more than the arms differ "
            f"({most}: by {_share(falling[most])}; the arms are {_share(apart)} apart); "
            "train longer, or let the learning rate decay"
        )


def _fall(records: Sequence[Mapping[str, object]], metric: str) -> float | None:
    """By which share of its last value a metric fell since the last tenth began; None where that was not recorded."""
    series = [
        (step, value)
        for record in records
        if isinstance(step := record.get("step"), int) and isinstance(value := record.get(metric), int | float)
    ]
    if len(series) < 2:
        return None
    start = (1 - LAST) * series[-1][0]
    steps, values = (np.array(column, dtype=float) for column in zip(*series, strict=True))
    end = values[-1]
    return float(np.interp(start, steps, values) / end - 1) if end > 0 else None


def _rates_matter(experiment: Experiment, rates: Sequence[RatesOfArm], apart: float) -> Iterator[str]:
    moved: dict[str, tuple[float, float]] = {}
    for entry in rates:
        means = {rate.factor: rate.mean for rate in entry.rates}
        best = means[entry.best]
        if 1.0 in means and best > 0 and (gain := means[1.0] / best - 1) > max(apart, LEAST):
            moved[title(experiment.arm(entry.arm), experiment)] = (gain, entry.best)
    if moved:
        most = max(moved, key=lambda name: moved[name][0])
        gain, best = moved[most]
        yield (
            f"the learning rate moves {_some(moved, len(rates))} by more than the arms differ "
            f"({most}: by {_share(gain)} at x{best:g}; the arms are {_share(apart)} apart); "
            "believe the verdicts at the best rates, not these"
        )


def _some(named: Mapping[str, object], n: int) -> str:
    return next(iter(named)) if len(named) == 1 else f"{len(named)} of {counted(n, 'arm')}"


def _share(value: float) -> str:
    return Amount.of_share(value, None)(value)
