"""Warnings about the comparisons of a directory, from worthless answers to unplanned interim analyses.

* `with_doubts` and `worthless`: answers that are worth nothing. Training was not over, learning rates matter more than
  the answer, runs diverged, or seeds are unlike the others. Each answer is measured against its own difference, or
  against the margin if it says "the same". A large difference elsewhere in the experiment excuses nothing.
* `strays` and `unlike`: runs that ended unlike the others of their arm, such as stuck seeds, and arms that spread far
  more than the rest. A mean describes no run of them.
* `cautions`: runs without a result, and pairs that were not run alike.
* `unplanned`: seeds that were added after verdicts, and plans that were made later or prolonged.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from headway.base.text import Amount, counted, listed, number
from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.metrics import METRICS, metric_name
from headway.config.run import PER_BYTE
from headway.stats.blocks import LEVEL
from headway.stats.cells import Cells, Match, RunsOfArm, Weights, title
from headway.stats.contrasts import JudgedContrast, done, sides_of, values_of
from headway.stats.evidence import Comparison, Doubt, JudgedFamily
from headway.stats.learning_rates import RatesOfArm
from headway.stats.notes import execution_warning
from headway.stats.sequential import FEWEST, Looking, LookPlan, error_of
from headway.store.run import Run

_DOUBTED_LEAST = 1e-9
"""The least difference, as a share of the other side, so that no difference counts as 0."""

Judged = TypeVar("Judged", Comparison, JudgedContrast)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A difference that was answered, of arms without a control.

    Attributes:
        one: as it was judged.
        weights: of its arms, by full name.
        effect: what it is about, as the logarithm of a factor: that between its sides, or the margin within which they
            are the same. As shares 99 % less would be nearer than a fall to a third, which is 200 % of what is left.
        sentence: how far its sides are apart.
    """

    one: Comparison | JudgedContrast
    weights: Weights
    effect: float
    sentence: str

    def is_exceeded(self, shares: Mapping[str, float]) -> bool:
        """Return whether the larger of two weighted mean changes, one per side, exceeds the answer's difference."""
        return max(self._side(shares, 1), self._side(shares, -1)) > self.effect

    def _side(self, shares: Mapping[str, float], sign: int) -> float:
        side = {arm: abs(weight) for arm, weight in self.weights.items() if sign * weight > 0}
        moved = sum(weight * math.log1p(shares.get(arm, 0.0)) for arm, weight in side.items())
        return moved / sum(side.values())


def answers(
    experiment: Experiment,
    contrasts: Sequence[JudgedContrast],
    comparisons: Sequence[Comparison],
    families: Sequence[JudgedFamily],
) -> list[Answer]:
    """Return the answers in the primary metric without a control; contrasts first."""
    margins = {(f.of, f.metric, f.control): f.plan.margin for f in families}
    weights = {one.name: one.weights for one in experiment.contrasts}
    found = []
    every: list[Comparison | JudgedContrast] = [*contrasts, *comparisons]
    for one in every:
        if one.control is not None or one.metric != experiment.primary or one.rule == "shares":
            continue
        share, margin = one.share, margins.get((one.of, one.metric, one.control), experiment.margin)
        if share is None or not (one.is_told or one.outcome == "same"):
            continue
        same = one.outcome == "same"
        effect = abs(math.log1p(margin / 100 if same else max(share, _DOUBTED_LEAST - 1)))
        of_arms = {one.arm: 1.0, one.baseline: -1.0} if isinstance(one, Comparison) else weights[one.name]
        apart = f"the same within {margin:g} %" if same else f"{_per_cent(abs(share))} apart"
        named = _named_doubted(experiment, one)
        said = f"{named} are {apart}" if " and " in named else f"{named} is {apart.removesuffix(' apart')}"
        found.append(Answer(one=one, weights=of_arms, effect=effect, sentence=said))
    return found


def _named_doubted(experiment: Experiment, one: Comparison | JudgedContrast) -> str:
    if isinstance(one, Comparison):
        return " and ".join(title(experiment.arm(arm), experiment) for arm in (one.arm, one.baseline))
    contrast = next(asked for asked in experiment.contrasts if asked.name == one.name)
    sides = sides_of(contrast, experiment)
    return one.label if sides is None else " and ".join(sides)


def untrained(answer: Answer, arms: Collection[str]) -> bool:
    """Return whether no arm of an answer is better than predictors without training."""
    return answer.weights.keys() <= set(arms)


def with_doubts(found: Sequence[Judged], doubts: Mapping[Doubt, Sequence[Answer]]) -> tuple[Judged, ...]:
    """Differences with what speaks against them, in their sentences too."""
    return tuple(_with_doubts(one, [kind for kind, of in doubts.items() if _is_of(one, of)]) for one in found)


def _is_of(one: object, of: Sequence[Answer]) -> bool:
    return any(answer.one is one for answer in of)


def _with_doubts(one: Judged, kinds: Sequence[Doubt]) -> Judged:
    if not kinds:
        return one
    what = metric_name(one.metric)
    clauses: dict[Doubt, str] = {
        "untrained": "not trained enough to say: no arm of it is better than the bigram model",
        "falling": f"not trained enough to say: the {what} still falls by more",
        "rates": "the learning rate moves it by more",
    }
    # Of what is no better than counting pairs it goes without saying that it still learns.
    said = "; ".join(clauses[kind] for kind in kinds if not (kind == "falling" and "untrained" in kinds))
    told = {"verdict": one.verdict} if isinstance(one, Comparison) else {"sentence": one.sentence}
    changed: dict[str, Any] = {key: f"{former}; {said}" for key, former in told.items()}
    return replace(one, doubts=tuple(kinds), **changed)


def _per_cent(share: float) -> str:
    return Amount.of_share(share, None)(share)


_FEWEST = 3
"""Seeds of which one can be unlike the others."""

_FAR = 5.0
"""Standard deviations, as half of the residuals tell them."""

_TO_DEVIATION = 1.4826
"""The factor from a median of absolute residuals to a standard deviation."""

_STRAYS_LEAST = 0.5
"""The least residual of a stray run, in per cent."""


@dataclass(frozen=True, kw_only=True)
class Stray:
    """A run, its value, and the median of its arm's other runs."""

    arm: str
    seed: int
    value: float
    others: float


def strays(cells: Cells) -> list[Stray]:
    """The runs whose residual is beyond five standard deviations of the family's.

    Residuals are from medians, over the arm's seeds and then over arms, so that one odd run moves no other; and
    the middle runs, whose residual is 0 whatever the spread, do not count in what is usual. A run is as far from the
    others of its arm too: where a seed is odd in most arms, it is not the one that is usual.
    """
    y = cells.as_logarithms().values
    known = np.isfinite(y)
    chosen = known.sum(1) >= _FEWEST
    if not chosen.any():
        return []
    y = y[chosen]
    in_arm = y - np.nanmedian(y, 1, keepdims=True)
    rest = in_arm.copy()
    some = np.isfinite(rest).any(0)
    if len(rest) >= _FEWEST:
        rest[:, some] -= np.nanmedian(rest[:, some], 0)
    sizes = np.abs(rest[np.isfinite(rest)])
    sizes = sizes[sizes > 0]
    if not len(sizes):
        return []
    limit = max(_FAR * _TO_DEVIATION * float(np.median(sizes)), _STRAYS_LEAST)
    rows = np.flatnonzero(chosen)
    found = []
    far = np.minimum(np.abs(np.nan_to_num(rest)), np.abs(np.nan_to_num(in_arm))) > limit
    for row, column in zip(*np.nonzero(far), strict=True):
        values = cells.values[rows[row]]
        others = np.delete(values, column)
        found.append(
            Stray(
                arm=cells.arms[rows[row]],
                seed=cells.seeds[column],
                value=float(values[column]),
                others=float(np.nanmedian(others)),
            )
        )
    return found


LAST = 0.1
"""The last tenth of training."""

_NAMED = 4
"""Runs that are unlike the others and are named one by one; of more, the arms are counted that have the most."""

_ARMS = 3

LEAST = 0.005
"""Without an answer, a smaller relative change of a metric gives no warning."""


def unlike(experiment: Experiment, runs: RunsOfArm, families: Sequence[JudgedFamily]) -> Iterator[str]:
    """A sentence for each way in which runs are unlike the others: diverged, stuck, or spread far more."""
    yield from _diverged(experiment, runs)
    yield from _stray(experiment, runs)
    yield from _wild(experiment, families)


@dataclass(frozen=True, kw_only=True)
class InvalidatingConditions:
    """The reasons why answers are worth nothing, one sentence each, and the answers concerned."""

    sentences: tuple[str, ...]
    answers: Mapping[Doubt, Sequence[Answer]]


def worthless(
    experiment: Experiment,
    runs: RunsOfArm,
    rates: Sequence[RatesOfArm],
    answered: Sequence[Answer],
    below: Collection[str],
) -> InvalidatingConditions:
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
    return InvalidatingConditions(sentences=tuple(said), answers=found)


@dataclass(frozen=True, kw_only=True)
class _Beyond:
    """Arms whose change is too large, the answers that it affects, and the difference that these answers are about."""

    arms: tuple[str, ...]
    answers: tuple[Answer, ...]
    most: str
    apart: str

    @classmethod
    def of(cls, arms: Mapping[str, float], answers: Sequence[Answer], apart: str, among: Collection[str]) -> "_Beyond":
        """Collect the arms beyond a limit; the arm that is named has the largest share `among` some."""
        most = max((arm for arm in arms if arm in among), key=lambda arm: arms[arm], default="")
        return cls(arms=tuple(arms), answers=tuple(answers), most=most, apart=apart)


def _beyond(shares: Mapping[str, float], answered: Sequence[Answer], apart: float) -> _Beyond:
    """Return the arms whose changes exceed the answers' differences; without an answer, the distance of the arms."""
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
            said = listed(_named_trust(found, titles) if len(found) <= _NAMED else _by_arm(found, titles, cells))
            runs_are = "run is" if len(found) == 1 else "runs are"
            yield f"{len(found)} {runs_are} unlike the others: {said}; a mean over them describes no run"


def _named_trust(found: Sequence[Stray], titles: Mapping[str, str]) -> Iterator[str]:
    for one in found:
        value, others = number(one.value, 3), number(one.others, 3)
        yield f"{titles[one.arm]}, seed {one.seed} ({value} where the others have {others})"


def _by_arm(found: Sequence[Stray], titles: Mapping[str, str], cells: Cells) -> Iterator[str]:
    """Yield the arms with the most strays and their numbers, and how many further arms have some."""
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
    """Return the arms without a control that do the first arm's task, and so differ in merit alone."""
    plain = [arm for arm in experiment.arms if arm.control is None]
    # In bits per byte another tokenizer is another way to do the same task.
    free = ("tokenizer",) if experiment.primary == PER_BYTE else ()
    tasks = [{k: v for k, v in arm.resolved_spec.task.content().items() if k not in free} for arm in plain]
    return [arm for arm, task in zip(plain, tasks, strict=True) if task == tasks[0]]


def _falls(experiment: Experiment, runs: RunsOfArm, means: Mapping[str, float]) -> dict[str, float]:
    """Return the share by which each arm's primary metric fell in the last tenth of training, without controls."""
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
    """Return the share by which a metric fell in the last tenth of training; None if that was not recorded.

    The metric falls exponentially between two values: on a straight line, most of a long fall would come at its end.
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
    """Return the share by which each arm is worse at the document's learning rate than at its best one."""
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


def cautions(experiment: Experiment, matches: Sequence[Match], runs: RunsOfArm) -> Iterator[str]:
    """A sentence for each."""
    yield from _about_runs(experiment, runs)
    yield from _about_matches(matches, runs, experiment)


def _about_runs(experiment: Experiment, runs: RunsOfArm) -> Iterator[str]:
    labels = {arm.full_name: title(arm, experiment) for arm in experiment.arms}
    every = [run for of_arm in runs.values() for run in of_arm.values()]
    for run in every:
        if run.status == "failed":
            yield f"{labels.get(run.name, run.name)}, seed {run.seed} failed: {run.message or 'no reason recorded'}"
        if run.status == "damaged":
            yield f"{labels.get(run.name, run.name)}: a damaged run is left out: {run.message}"
    unfinished = sum(run.status not in ("done", "failed", "damaged") for run in every)
    if unfinished:
        yield f"{unfinished} of {len(every)} runs are not finished; `headway run` on this directory finishes them"


def _about_matches(matches: Sequence[Match], runs: RunsOfArm, experiment: Experiment) -> Iterator[str]:
    absent = {m.baseline.full_name: m.baseline.label for m in matches if m.baseline.full_name not in runs}
    if absent:
        named, one = listed(f"{label} ({name})" for name, label in absent.items()), len(absent) == 1
        yield (
            f"{named} {'has' if one else 'have'} no runs here, so nothing is compared with {'it' if one else 'them'}; "
            f"run {'that arm' if one else 'those arms'} too"
        )
    # Two groups may hold the same two arms; they are warned about once.
    for match in {(m.arm.full_name, m.baseline.full_name): m for m in matches}.values():
        mine, theirs = ({run.seed: run.execution for run in done(a, runs)} for a in (match.arm, match.baseline))
        common = [(mine[seed], theirs[seed]) for seed in sorted(mine.keys() & theirs.keys())]
        warning = execution_warning(title(match.arm, experiment), title(match.baseline, experiment), common)
        if warning:
            yield warning


MOST = 12
"""At most this many interim analyses are named one by one."""


def looked_at(looks: Looking, primary: str, families: Sequence[JudgedFamily]) -> int | None:
    """Return the seeds that the answer rests on without a plan; None before there are verdicts."""
    if looks.plan is not None:
        return None
    of_answer = [f for f in families if f.metric == primary and f.control is None and f.look is not None]
    n = max((family.plan.looks[-1] for family in of_answer), default=0)
    return n if n >= FEWEST else None


def unplanned(looks: Looking, now: int | None, before: Sequence[int], runs: Sequence[Run]) -> Iterator[str]:
    """Yield sentences if interim analyses were not as first planned: their cost, or that seeds count for no verdict.

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
    """Yield a sentence if a plan was prolonged beyond its end, which its level tells."""
    if plan.level > LEVEL:
        end = plan.looks[-1]
        yield (
            f"the plan of looks was to end at {round(end * LEVEL / plan.level)} seeds and went on to {end}: of all its "
            f"looks together, chance alone tells apart {100 * plan.level:.2g} of 100"
        )


def recounted(looks: Sequence[int], n_before: int) -> Iterator[str]:
    """Yield a sentence if seeds had been run before a plan was made, with the cost of that."""
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
