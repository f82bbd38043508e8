"""Compare: what makes verdicts worthless, said beside them.

Training that is not over, rates that matter more than arms, runs that diverged, seeds that are unlike the others, and
arms that spread far more than the rest.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from headway.compare.cells import Cells, RunsOfArm
from headway.compare.comparisons import done, values_of
from headway.compare.evidence import JudgedFamily
from headway.compare.matches import title
from headway.compare.rates import RatesOfArm
from headway.compare.strays import Stray, strays
from headway.declare.experiment import Arm, Experiment
from headway.declare.metrics import METRICS, metric_name
from headway.declare.tokens.run import PER_BYTE
from headway.words import Amount, counted, listed, number

LAST = 0.1
"""The last tenth of training."""

LEAST = 0.005
"""A metric that falls or moves by less than this share of itself is not worth a word."""


def doubts(
    experiment: Experiment, runs: RunsOfArm, rates: Sequence[RatesOfArm], families: Sequence[JudgedFamily]
) -> Iterator[str]:
    """A sentence for each reason to believe no verdict, or not all of them."""
    yield from _diverged(experiment, runs)
    yield from _stray(experiment, runs)
    yield from _wild(experiment, families)
    means = _means(experiment, runs)
    if len(means) > 1 and METRICS[experiment.primary].better == "lower":
        apart = max(means.values()) / min(means.values()) - 1 if min(means.values()) > 0 else np.inf
        yield from _still_falls(experiment, runs, means, float(apart))
        yield from _rates_matter(experiment, rates, float(apart))


def _diverged(experiment: Experiment, runs: RunsOfArm) -> Iterator[str]:
    """The share of each arm's runs that diverged: the mean of the others is not that of the arm."""
    shares = []
    for arm in experiment.arms:
        of_arm = runs.get(arm.full_name, {}).values()
        n = sum(run.status == "failed" and "diverged" in run.message for run in of_arm)
        if n:
            shares.append(f"{n} of {counted(len(of_arm), 'run')} of {title(arm, experiment)}")
    if shares:
        yield f"diverged: {listed(shares)}; what is compared are the runs that did not, which is another question"


def _stray(experiment: Experiment, runs: RunsOfArm) -> Iterator[str]:
    """Runs that ended unlike the others of their arm: stuck, or on another way."""
    titles = {arm.full_name: title(arm, experiment) for arm in experiment.arms}
    for control in dict.fromkeys(arm.control for arm in experiment.arms):
        names = [a.full_name for a in experiment.arms if a.control == control and a.full_name in runs]
        cells = Cells.of(names, experiment.primary, runs)
        found: list[Stray] = strays(cells) if cells.have_logarithms else []
        if found:
            said = listed(
                f"{titles[one.arm]}, seed {one.seed} ({number(one.value, 3)} where the others have "
                f"{number(one.others, 3)})"
                for one in found
            )
            runs_are = "run is" if len(found) == 1 else "runs are"
            yield f"{len(found)} {runs_are} unlike the others: {said}; a mean over them describes no run"


def _wild(experiment: Experiment, families: Sequence[JudgedFamily]) -> Iterator[str]:
    named = dict.fromkeys(arm for family in families if family.metric == experiment.primary for arm in family.wild)
    if named:
        which, one = listed(title(experiment.arm(arm), experiment) for arm in named), len(named) == 1
        yield (
            f"from seed to seed {which} {'varies' if one else 'vary'} more than ten times as much as the other arms, "
            "and what is compared with them is judged by its own spread alone"
        )


def _means(experiment: Experiment, runs: RunsOfArm) -> dict[str, float]:
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
    # In bits per byte another tokenizer is another way to do the same task.
    free = ("tokenizer",) if experiment.primary == PER_BYTE else ()
    tasks = [{k: v for k, v in arm.template.task.content().items() if k not in free} for arm in plain]
    return [arm for arm, task in zip(plain, tasks, strict=True) if task == tasks[0]]


def _still_falls(experiment: Experiment, runs: RunsOfArm, means: Mapping[str, float], apart: float) -> Iterator[str]:
    # In the course of training bits per byte are not recorded, and nats per token of one arm fall by the same share.
    recorded = "eval_loss_nats" if experiment.primary == PER_BYTE else experiment.primary
    falls: dict[str, float] = {}
    for arm in _plain(experiment):
        found = [fall for run in done(arm, runs) if (fall := _fall(run.records(), recorded)) is not None]
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
