"""Compare: what makes verdicts worthless, said beside them.

Training that is not over, rates that matter more than what was answered, runs that diverged, seeds that are unlike the
others, and arms that spread far more than the rest.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headway.compare.cells import Cells, RunsOfArm
from headway.compare.comparisons import done, values_of
from headway.compare.doubted import Answer, untrained
from headway.compare.evidence import Doubt, JudgedFamily
from headway.compare.matches import title
from headway.compare.rates import RatesOfArm
from headway.compare.strays import Stray, strays
from headway.declare.experiment import Arm, Experiment
from headway.declare.metrics import METRICS, metric_name
from headway.declare.tokens.run import PER_BYTE
from headway.words import Amount, counted, listed, number

LAST = 0.1
"""The last tenth of training."""

_NAMED = 4
"""Runs that are unlike the others and are named one by one; of more, the arms are counted that have the most."""

_ARMS = 3

LEAST = 0.005
"""Where nothing was answered, a metric that falls or moves by less than this share of itself is not worth a word."""


def unlike(experiment: Experiment, runs: RunsOfArm, families: Sequence[JudgedFamily]) -> Iterator[str]:
    """A sentence for each way in which runs are unlike the others: diverged, stuck, or spread far more."""
    yield from _diverged(experiment, runs)
    yield from _stray(experiment, runs)
    yield from _wild(experiment, families)


@dataclass(frozen=True, kw_only=True)
class Worthless:
    """What makes answers worth nothing: a sentence for each reason, and which answers those are."""

    sentences: tuple[str, ...]
    answers: Mapping[Doubt, Sequence[Answer]]


def worthless(
    experiment: Experiment,
    runs: RunsOfArm,
    rates: Sequence[RatesOfArm],
    answered: Sequence[Answer],
    below: Collection[str],
) -> Worthless:
    """Training that is not over, and rates that matter more than arms.

    Each answer is held against its own difference; where there is none, all arms against how far they are apart.

    Args:
        experiment: the whole document.
        runs: of every arm.
        rates: what learning rates do.
        answered: the differences that were told, or told to be none that matters.
        below: arms that are no better than what needs no training.
    """
    found: dict[Doubt, Sequence[Answer]] = {"untrained": [a for a in answered if untrained(a, below)]}
    said = list[str]()
    means = _means(experiment, runs)
    if len(means) > 1 and METRICS[experiment.primary].better == "lower":
        apart = max(means.values()) / min(means.values()) - 1 if min(means.values()) > 0 else np.inf
        falls, gains = _falls(experiment, runs, means), _gains(rates)
        falling, moved = (_beyond(shares, answered, float(apart)) for shares in (falls, gains))
        found |= {"falling": falling.answers, "rates": moved.answers}
        said += [*_still_falls(experiment, falls, falling), *_rates_matter(experiment, gains, rates, moved)]
    return Worthless(sentences=tuple(said), answers=found)


@dataclass(frozen=True, kw_only=True)
class _Beyond:
    """Arms of which something changes more than it should, those answers, and how far what they are about is apart."""

    arms: tuple[str, ...]
    answers: tuple[Answer, ...]
    most: str
    apart: str

    @classmethod
    def of(cls, arms: Mapping[str, float], answers: Sequence[Answer], apart: str, among: Collection[str]) -> "_Beyond":
        """The one that is told is that of the largest share `among` some."""
        most = max((arm for arm in arms if arm in among), key=lambda arm: arms[arm], default="")
        return cls(arms=tuple(arms), answers=tuple(answers), most=most, apart=apart)


def _beyond(shares: Mapping[str, float], answered: Sequence[Answer], apart: float) -> _Beyond:
    """Where shares of arms are beyond what answers are about; without an answer, beyond what arms are apart."""
    if not answered:
        arms = {arm: share for arm, share in shares.items() if share > max(apart, LEAST)}
        return _Beyond.of(arms, (), f"the arms are {_share(apart)} apart", arms)
    found = [one for one in answered if one.is_exceeded(shares)]
    if not found:
        return _Beyond.of({}, (), "", ())
    arms = {a: s for a, s in shares.items() if any(a in one.weights and np.log1p(s) > one.effect for one in found)}
    further = f", and so of {counted(len(found) - 1, 'other answer')}" if len(found) > 1 else ""
    return _Beyond.of(arms, found, f"{found[0].sentence}{further}", found[0].weights)


def _diverged(experiment: Experiment, runs: RunsOfArm) -> Iterator[str]:
    """The share of each arm's runs that diverged: the mean of the others is not that of the arm."""
    shares, left, none = list[str](), False, list[str]()
    for arm in experiment.arms:
        of_arm = runs.get(arm.full_name, {}).values()
        n = sum(run.status == "failed" and "diverged" in run.message for run in of_arm)
        if n:
            shares.append(f"{n} of {counted(len(of_arm), 'run')} of {title(arm, experiment)}")
            some = any(run.status == "done" for run in of_arm)
            left, none = left or some, none + ([] if some else [title(arm, experiment)])
    clauses = ["what is compared are the runs that did not, which is another question"] if left else []
    clauses += [f"of {listed(none)} nothing is left to be compared"] if none else []
    if shares:
        yield f"diverged: {listed(shares)}; {'; '.join(clauses)}"


def _stray(experiment: Experiment, runs: RunsOfArm) -> Iterator[str]:
    """Runs that ended unlike the others of their arm: stuck, or on another way."""
    titles = {arm.full_name: title(arm, experiment) for arm in experiment.arms}
    for control in dict.fromkeys(arm.control for arm in experiment.arms):
        names = [a.full_name for a in experiment.arms if a.control == control and a.full_name in runs]
        cells = Cells.of(names, experiment.primary, runs)
        found: list[Stray] = strays(cells) if cells.have_logarithms else []
        if found:
            said = listed(_named(found, titles) if len(found) <= _NAMED else _by_arm(found, titles, cells))
            runs_are = "run is" if len(found) == 1 else "runs are"
            yield f"{len(found)} {runs_are} unlike the others: {said}; a mean over them describes no run"


def _named(found: Sequence[Stray], titles: Mapping[str, str]) -> Iterator[str]:
    for one in found:
        value, others = number(one.value, 3), number(one.others, 3)
        yield f"{titles[one.arm]}, seed {one.seed} ({value} where the others have {others})"


def _by_arm(found: Sequence[Stray], titles: Mapping[str, str], cells: Cells) -> Iterator[str]:
    """How many of the arms that have the most of them, and how many further ones there are."""
    counts = Counter(one.arm for one in found).most_common()
    for arm, n in counts[:_ARMS]:
        of_arm = [one for one in found if one.arm == arm]
        low, high = (number(end, 3) for end in (min(o.value for o in of_arm), max(o.value for o in of_arm)))
        others = number(float(np.median([one.others for one in of_arm])), 3)
        values = low if low == high else f"{low} to {high}"
        seeds = counted(int(np.isfinite(cells.values[cells.arms.index(arm)]).sum()), "seed")
        yield f"{n} of {seeds} of {titles[arm]} ({values} where the others have {others})"
    if rest := counts[_ARMS:]:
        yield f"{counted(sum(n for _, n in rest), 'run')} of {counted(len(rest), 'further arm')}"


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


def _falls(experiment: Experiment, runs: RunsOfArm, means: Mapping[str, float]) -> dict[str, float]:
    """By which share what arms without a control are judged by fell in the last tenth of training."""
    # In the course of training bits per byte are not recorded, and nats per token of one arm fall by the same share.
    recorded = "eval_loss_nats" if experiment.primary == PER_BYTE else experiment.primary
    falls: dict[str, float] = {}
    for arm in _plain(experiment):
        found = [fall for run in done(arm, runs) if (fall := _fall(run.records(), recorded)) is not None]
        if found and arm.full_name in means:
            falls[arm.full_name] = float(np.mean(found))
    return falls


def _still_falls(experiment: Experiment, falls: Mapping[str, float], found: _Beyond) -> Iterator[str]:
    if found.arms:
        most = title(experiment.arm(found.most), experiment)
        yield (
            f"not trained enough to say: over the last tenth of training the {metric_name(experiment.primary)} of "
            f"{_some(experiment, found.arms, len(falls))} still falls by more than the arms differ "
            f"({most}: by {_share(falls[found.most])}; {found.apart}); "
            "train longer, or let the learning rate decay"
        )


def _fall(records: Sequence[Mapping[str, object]], metric: str) -> float | None:
    """By which share of its last value a metric fell since the last tenth began; None where that was not recorded.

    Between two values it falls as an exponential does: on a straight line most of a long fall would come at its end.
    """
    series = [
        (step, value)
        for record in records
        if isinstance(step := record.get("step"), int) and isinstance(value := record.get(metric), int | float)
    ]
    if len(series) < 2:
        return None
    start = (1 - LAST) * series[-1][0]
    steps, values = (np.array(column, dtype=float) for column in zip(*series, strict=True))
    return float(np.exp(np.interp(start, steps, np.log(values))) / values[-1] - 1) if values.min() > 0 else None


def _gains(rates: Sequence[RatesOfArm]) -> dict[str, float]:
    """By which share of the best each arm is worse at the rate of the document."""
    gains = {}
    for entry in rates:
        means = {rate.factor: rate.mean for rate in entry.rates}
        if 1.0 in means and means[entry.best] > 0:
            gains[entry.arm] = means[1.0] / means[entry.best] - 1
    return gains


def _rates_matter(
    experiment: Experiment, gains: Mapping[str, float], rates: Sequence[RatesOfArm], found: _Beyond
) -> Iterator[str]:
    if found.arms:
        best = next(entry.best for entry in rates if entry.arm == found.most)
        yield (
            f"the learning rate moves {_some(experiment, found.arms, len(rates))} by more than the arms differ "
            f"({title(experiment.arm(found.most), experiment)}: by {_share(gains[found.most])} at x{best:g}; "
            f"{found.apart}); believe the verdicts at the best rates, not these"
        )


def _some(experiment: Experiment, named: Sequence[str], n: int) -> str:
    return title(experiment.arm(named[0]), experiment) if len(named) == 1 else f"{len(named)} of {counted(n, 'arm')}"


def _share(value: float) -> str:
    return Amount.of_share(value, None)(value)
