"""The runs of a directory and what was said of them, as warnings read it.

An `Answer` is a verdict with what it is about, so that a change of its arms can be held against it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from headway.config.arms import Arm
from headway.config.experiment import Experiment
from headway.config.metrics import METRICS
from headway.config.run import PER_BYTE
from headway.stats.cells import Match, RunsOfArm, Weights, done, title, values_of
from headway.stats.contrasts import JudgedContrast
from headway.stats.evidence import Comparison, Family, family_of, interval_of_mean
from headway.stats.learning_rates import RatesOfArm
from headway.stats.sequential import FEWEST, Looking
from headway.stats.simultaneous import LEVEL
from headway.stats.verdicts import sides_of
from headway.store.run import Run


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A difference that was answered, of arms without a control.

    Attributes:
        difference: the judged difference.
        weights: the weights of its arms, by full name.
        effect: the logarithm of the ratio of its two sides, or of the margin within which they are the same. Shares are
            not symmetric: -67 % and +200 % are the same factor of 3.
        sides: the names of its sides, or of the contrast.
        apart: the difference between its sides as a share, or the margin within which they are the same.
    """

    difference: Comparison | JudgedContrast
    weights: Weights
    effect: float
    sides: tuple[str, ...]
    apart: float

    def is_exceeded(self, shares: Mapping[str, float]) -> bool:
        """Return whether the larger of two weighted mean changes, one per side, exceeds the answer's difference."""
        return max(self._side(shares, 1), self._side(shares, -1)) > self.effect

    def _side(self, shares: Mapping[str, float], sign: int) -> float:
        side = {arm: abs(weight) for arm, weight in self.weights.items() if sign * weight > 0}
        moved = sum(weight * math.log1p(shares.get(arm, 0.0)) for arm, weight in side.items())
        return moved / sum(side.values())


@dataclass(frozen=True, kw_only=True)
class Case:
    """The runs of a directory, and what was said of them: all that a warning is read from.

    Attributes:
        experiment: the whole document.
        runs: the runs of every arm.
        path: the results directory.
        matches: the pairs of compared arms.
        looks: the plan of interim analyses.
        seen: the numbers of seeds that verdicts were given on.
        runs_seen: the seeds of each arm that a verdict rested on, verdict by verdict.
        contrasts: the contrasts of the document, judged.
        comparisons: the comparisons of two arms, judged.
        families: the families of both.
        rates: the effect of learning rates in each arm.
    """

    experiment: Experiment
    runs: RunsOfArm
    path: Path = Path()
    matches: Sequence[Match] = ()
    looks: Looking = field(default_factory=lambda: Looking(margin=1.0))
    seen: Sequence[int] = ()
    runs_seen: Sequence[Mapping[str, Sequence[int]]] = ()
    contrasts: Sequence[JudgedContrast] = ()
    comparisons: Sequence[Comparison] = ()
    families: Sequence[Family] = ()
    rates: Sequence[RatesOfArm] = ()

    @property
    def every_run(self) -> list[Run]:
        """The runs of all arms."""
        return [run for of_arm in self.runs.values() for run in of_arm.values()]

    def title(self, arm: str) -> str:
        """Return the name of an arm in sentences."""
        return title(self.experiment.arm(arm), self.experiment)

    @cached_property
    def answers(self) -> list[Answer]:
        """The answers in the primary metric without a control; contrasts first."""
        contrasts = {contrast.name: contrast for contrast in self.experiment.contrasts}
        answers = []
        every: list[Comparison | JudgedContrast] = [*self.contrasts, *self.comparisons]
        for judged in every:
            share = judged.share
            if judged.control is not None or judged.metric != self.experiment.primary or judged.rule == "shares":
                continue
            if share is None or not judged.is_settled:
                continue
            family = family_of(judged, self.families)
            margin = self.experiment.margin if family is None else family.plan.margin
            apart = margin / 100 if judged.outcome == "same" else max(share, _LEAST_DIFFERENCE - 1)
            sides: tuple[str, ...]
            weights: Weights
            if isinstance(judged, Comparison):
                sides = self.title(judged.arm), self.title(judged.baseline)
                weights = {judged.arm: 1.0, judged.baseline: -1.0}
            else:
                contrast = contrasts[judged.name]
                sides = sides_of(contrast, self.experiment) or (judged.label,)
                weights = contrast.weights
            answer = Answer(
                difference=judged,
                weights=weights,
                effect=abs(math.log1p(apart)),
                sides=sides,
                apart=abs(apart),
            )
            answers.append(answer)
        return answers

    @cached_property
    def plain_arms(self) -> list[Arm]:
        """The arms without a control that do the first arm's task, and so differ in merit alone."""
        plain = [arm for arm in self.experiment.arms if arm.control is None]
        tasks = [arm.resolved_spec.task.compared_content(self.experiment.primary) for arm in plain]
        return [arm for arm, task in zip(plain, tasks, strict=True) if task == tasks[0]]

    @cached_property
    def means(self) -> dict[str, float]:
        """The primary metric of each plain arm, the mean over its seeds."""
        values = {a.full_name: values_of(a, self.experiment.primary, self.runs).values() for a in self.plain_arms}
        finite = {arm: [v for v in of_arm if v is not None and np.isfinite(v)] for arm, of_arm in values.items()}
        return {arm: float(np.mean(of_arm)) for arm, of_arm in finite.items() if of_arm}

    @cached_property
    def now(self) -> int | None:
        """The seeds that the answer rests on without a plan; None before there are verdicts."""
        if self.looks.plan is not None:
            return None
        primary = self.experiment.primary
        of_answer = [f for f in self.families if f.metric == primary and f.control is None and f.look is not None]
        n = max((family.plan.looks[-1] for family in of_answer), default=0)
        return n if n >= FEWEST else None

    @cached_property
    def runs_now(self) -> dict[str, tuple[int, ...]]:
        """The seeds of every arm without a control that have a result."""
        seeds = {}
        for arm in self.experiment.arms:
            finished = done(arm, self.runs) if arm.control is None else []
            if finished:
                seeds[arm.full_name] = tuple(sorted(run.seed for run in finished))
        return seeds

    @cached_property
    def bigram_losses(self) -> dict[str, tuple[float, float]]:
        """The mean loss of every arm that has one, and that of the bigram model on its text."""
        losses = {}
        for arm in self.experiment.arms:
            keys = ("eval_loss_nats", "bigram_loss_nats")
            pairs = [tuple(map(run.metrics.get, keys)) for run in done(arm, self.runs)]
            if known := [pair for pair in pairs if None not in pair]:
                loss, bigram = np.mean(np.array(known, dtype=float), axis=0)
                losses[arm.full_name] = float(loss), float(bigram)
        return losses

    @property
    def untrained(self) -> list[str]:
        """The arms that are no better than counting pairs of tokens."""
        return [arm for arm, (loss, bigram) in self.bigram_losses.items() if loss >= bigram]

    def falls(self, *, decaying: bool = False) -> dict[str, float]:
        """The certain falls of the arms whose learning rate decays to 0, or of the others."""
        trainings = {arm: self.experiment.arm(arm).resolved_spec.training for arm in self._falls}
        constant = {arm for arm, of in trainings.items() if getattr(of, "lr_schedule", "constant") == "constant"}
        return {arm: fall for arm, fall in self._falls.items() if (arm not in constant) == decaying}

    @cached_property
    def _falls(self) -> dict[str, float]:
        """The share by which each plain arm's primary metric certainly fell in the last tenth of training.

        It is the lower end of an interval over seeds, which holds for all arms at once (Bonferroni); arms without a
        certain fall are left out.
        """
        # In the course of training bits per byte are not recorded, and nats per token of an arm fall by the same share.
        recorded = "eval_loss_nats" if self.experiment.primary == PER_BYTE else self.experiment.primary
        falls: dict[str, float] = {}
        for arm in self.plain_arms:
            of_arm = [fall for run in done(arm, self.runs) if (fall := _fall(run.records(), recorded)) is not None]
            if len(of_arm) < FEWEST or arm.full_name not in self.means:
                continue
            mean, interval = interval_of_mean(of_arm, LEVEL / len(self.plain_arms))
            least = mean if interval is None else interval[0]
            if least > 0:
                falls[arm.full_name] = least
        return falls

    @cached_property
    def gains(self) -> dict[str, float]:
        """The share by which each arm is certainly worse at the document's learning rate than at another one."""
        return {entry.arm: gain for entry in self.rates if (gain := max(rate.gain for rate in entry.rates)) > 0}

    def beyond(self, changes: Mapping[str, float]) -> "Beyond":
        """Return the arms whose changes exceed the answers' differences; without an answer, how far arms are apart."""
        if len(self.means) < 2 or METRICS[self.experiment.primary].better != "lower":
            return Beyond()
        if not self.answers:
            best, *_, worst = sorted(self.means, key=lambda arm: self.means[arm])
            apart = self.means[worst] / self.means[best] - 1 if self.means[best] > 0 else math.inf
            arms = {arm: share for arm, share in changes.items() if share > max(apart, _LEAST_CHANGE)}
            sides = self.title(best), self.title(worst)
            return Beyond(arms=tuple(arms), most=_largest(arms), sides=sides, apart=apart)
        exceeded = [answer for answer in self.answers if answer.is_exceeded(changes)]
        if not exceeded:
            return Beyond()
        logs = {arm: math.log1p(share) for arm, share in changes.items()}
        arms = {a: s for a, s in logs.items() if any(a in each.weights and s > each.effect for each in exceeded)}
        first = exceeded[0]
        most = _largest({arm: share for arm, share in arms.items() if arm in first.weights})
        return Beyond(arms=tuple(arms), answers=tuple(exceeded), most=most, sides=first.sides, apart=first.apart)


@dataclass(frozen=True, kw_only=True)
class Beyond:
    """Arms whose change is too large, the answers that it affects, and the difference of the first of them."""

    arms: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    most: str = ""
    sides: tuple[str, ...] = ()
    apart: float = 0.0


def _largest(shares: Mapping[str, float]) -> str:
    return max(shares, key=lambda arm: shares[arm], default="")


_LEAST_DIFFERENCE = 1e-9
"""The least difference, as a share of the other side, so that no difference counts as 0."""

_LEAST_CHANGE = 0.005
"""Without an answer, a smaller relative change of a metric gives no warning."""

_LAST = 0.1
"""The last tenth of training."""


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
    start = (1 - _LAST) * series[-1][0]
    if series[-2][0] < (1 - 2 * _LAST) * series[-1][0]:
        return None  # a fall that came early looks like one at the end
    steps, values = (np.array(column, dtype=float) for column in zip(*series, strict=True))
    return float(np.exp(np.interp(start, steps, np.log(values))) / values[-1] - 1) if values.min() > 0 else None
