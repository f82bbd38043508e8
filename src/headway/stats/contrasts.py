"""Comparisons and contrasts of arms, judged together.

* `judged` judges the differences of a question: by `blocks`, or by `shares` if each run says yes or no.
* `contrasts_judged` judges the contrasts that the document declares: differences between arms, or means of arms. They
  are a family of their own in the primary metric, and again under each control.
* `comparisons` judges every comparison of two arms that the runs of a directory allow, with its verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from headway.config.contrasts import Contrast
from headway.config.experiment import Experiment
from headway.config.metrics import METRICS, YES_OR_NO, Metric
from headway.config.run import PER_BYTE
from headway.stats.blocks import PlanState, run_plan
from headway.stats.cells import Cells, Match, MeasuredRuns, RunsOfArm, Weights, done, has_metric
from headway.stats.evidence import LOGARITHM, Comparison, Difference, Family, Kind, holm, paired, untested_difference
from headway.stats.sequential import Looking, LookPlan
from headway.stats.shares import all_pairs, compare_shares
from headway.stats.simultaneous import LEVEL
from headway.stats.verdicts import comparison_verdict, contrast_verdict

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

_PER_TOKEN = "nats per token"


@dataclass(frozen=True, kw_only=True)
class Question:
    """Differences that are asked together, and the runs that answer them."""

    of: Kind
    metric: str
    control: str | None
    differences: Sequence[Weights]
    cells: Cells
    runs: MeasuredRuns

    @classmethod
    def from_runs(
        cls,
        differences: Sequence[Weights],
        runs: MeasuredRuns,
        *,
        metric: str,
        of: Kind = "comparisons",
        control: str | None = None,
    ) -> "Question":
        """Collect the values of every arm that a difference names."""
        cells = Cells.from_runs((arm for weights in differences for arm in weights), metric, runs)
        return cls(of=of, metric=metric, control=control, differences=differences, cells=cells, runs=runs)


def judged(question: Question, looks: Looking) -> tuple[Family, tuple[Difference, ...]]:
    """Judge differences as one family, each with its own estimate, interval and p."""
    if looks.seeds:
        question = replace(question, cells=question.cells.at(looks.seeds))
    unit, of_errors = METRICS[question.metric].unit, _is_near_ceiling(question, looks)
    if of_errors:
        question = replace(question, cells=question.cells.as_errors())
    family = Family(
        of=question.of,
        of_errors=of_errors,
        metric=question.metric,
        control=question.control,
        rule="blocks",
        size=len(question.differences),
        plan=looks.plan_of(len(question.cells.seeds)),
        look=1,
        level=LEVEL,
    )
    if unit == YES_OR_NO and all_pairs(question.differences):
        family, differences = _by_shares(question, replace(family, rule="shares"), looks)
    else:
        unit = LOGARITHM if question.cells.size is None else unit
        family, differences = _in_blocks(question, family, looks)
    return family, tuple(
        replace(
            difference,
            metric=family.metric,
            control=family.control,
            rule=family.rule,
            unit=unit,
            of_errors=of_errors,
        )
        for difference, weights in zip(differences, question.differences, strict=True)
    )


_CEILING = 0.9


def _is_near_ceiling(question: Question, looks: Looking) -> bool:
    """Return whether errors are compared: 0.999 and 1 of right answers differ by all errors that there are.

    A plan that is open keeps the comparison that it began with.
    """
    metric = METRICS[question.metric]
    if metric.unit != "fraction" or metric.better != "higher" or looks.plan is not None:
        return False
    # All runs of the directory, so that a control is compared as the rest is.
    values = Cells.from_runs(question.runs, question.metric, question.runs).values
    values = values[np.isfinite(values)]
    return bool(len(values) and np.median(values) > _CEILING and values.max() <= 1)


def _in_blocks(question: Question, family: Family, looks: Looking) -> tuple[Family, list[Difference]]:
    cells, rows = question.cells, question.cells.rows(question.differences)
    *_, state = follow(family.plan, cells, rows, _ended(cells, looks), METRICS[question.metric])
    test = state.test
    family = replace(
        family,
        look=state.look,
        level=test.level,
        wild=tuple(cells.arms[row] for row in test.wild),
        size_of_values=cells.size,
    )
    if spread := test.spread:
        family = replace(
            family,
            residual_sd=cells.one_per_cent * math.sqrt(spread.mean_square),
            freedom=spread.freedom,
        )
    every = enumerate(question.differences)
    return family, [_with_means(cells, family.plan, state, index, weights) for index, weights in every]


def _ended(cells: Cells, looks: Looking) -> Bool[np.ndarray, "arm seed"]:
    """Return the runs that nothing waits for: those that ended, and those that nobody asked for."""
    # An arm that has no folder at all is not run, even under a plan.
    awaited = cells.asked.any(1, keepdims=True) if looks.awaits_what_has_no_folder else cells.asked
    return cells.ended | ~awaited


def follow(
    plan: LookPlan,
    cells: Cells,
    weights: Float[np.ndarray, "contrast arm"],
    ended: Bool[np.ndarray, "arm seed"],
    metric: Metric,
) -> Iterator[PlanState]:
    """Yield the states of a plan, with contrasts in 100 ln, or in the metric's unit if a value is 0 or below."""
    unit = LOGARITHM if cells.size is None else metric.unit
    for state in run_plan(plan, cells.in_per_cent().values, weights, ended):
        contrasts = [replace(contrast.times(cells.one_per_cent), unit=unit) for contrast in state.contrasts]
        yield replace(state, contrasts=tuple(contrasts))


def _with_means(cells: Cells, plan: LookPlan, state: PlanState, index: int, weights: Weights) -> Difference:
    """Return a contrast with the means of its sides, without what is not concluded yet."""
    judged = state.contrasts[index]
    sides = paired(*cells.sides(weights, None if judged.look is None else plan.looks[judged.look - 1]))
    # A difference is relative to a mean of arms, whatever its weights add up to.
    scale = math.fsum(-weight for weight in weights.values() if weight < 0)
    means = untested_difference(sides, scale=scale)
    judged = replace(
        judged,
        n_pairs=means.n_pairs,
        means=means.means,
        difference=means.difference,
        relative=means.relative,
        seeds=means.seeds,
    )
    # Nothing is concluded before a look, nor from two seeds, so that no interval is shown there.
    if judged.look is None or judged.outcome in ("few", "none"):
        return replace(judged, interval=None, bound=None, p=None, p_family=None, detectable=None)
    if judged.outcome != "open" or (settling := state.test.settling(plan, index)) is None:
        return judged
    return replace(judged, seeds_to_settle=settling[0], chance_to_settle=settling[1])


def _by_shares(question: Question, family: Family, looks: Looking) -> tuple[Family, list[Difference]]:
    """Judge pairs of arms at the last look of the plan, with Holm's correction for the pairs that could differ.

    Paper: Tarone, Biometrics 46 (1990), 515-522: a discrete test that no outcome could make significant, given what it
    conditions on, cannot err and needs no share of the level. Here that is a pair of which each seed said the same.
    """
    plan, cells = family.plan, question.cells
    ended = _ended(cells, looks)
    made = [n for n in plan.looks if n <= ended.shape[1] and ended[:, :n].all()]
    look = len(made) or None
    level = plan.level_at(look or 1)
    sides = [cells.sides(weights, made[-1] if made else None) for weights in question.differences]
    differences = [compare_shares(first, second, look=look) for first, second in sides]
    # Pairs that cannot err keep their p.
    could_differ = [first != second for first, second in sides]
    corrected = holm([each.p if could else None for each, could in zip(differences, could_differ, strict=True)])
    judged_shares = []
    for difference, p_family in zip(differences, corrected, strict=True):
        p = difference.p if p_family is None else p_family
        if p is not None:
            difference = replace(difference, p_family=p, outcome="apart" if p < level else "open")
        judged_shares.append(difference)
    return replace(family, look=look, level=level), judged_shares


@dataclass(frozen=True, kw_only=True)
class JudgedContrast(Difference):
    """A contrast in one metric.

    Attributes:
        name: the name in the document.
        label: the label in figures and sentences.
        values: the difference by seed, on the scale of `estimate`.
        sentence: the verdict in words; empty if an arm of it was not chosen.
        late: True if the contrast was added after an answer was known, so that no plan has it.
        has_sides: True if it is a difference of two means of arms, one of which can be better.
    """

    of: ClassVar[Kind] = "contrasts"

    name: str
    label: str
    values: Mapping[int, float]
    sentence: str
    late: bool = False
    has_sides: bool = True


def contrasts_judged(
    experiment: Experiment, runs: RunsOfArm, looks: Looking
) -> tuple[tuple[JudgedContrast, ...], tuple[Family, ...]]:
    """Judge the contrasts of an experiment without a control, and under each control that has runs."""
    controls = dict.fromkeys(arm.control for arm in experiment.arms if arm.full_name in runs)
    contrasts, families = list[JudgedContrast](), dict[str | None, Family]()
    for control in controls:
        asked = _asked(experiment, control, runs)
        planned = None if control is not None else looks.asked
        late = [] if planned is None else [each for each in asked if planned.get(each.name, {}) != each.weights]
        # What was added after an answer was known leaves the bounds of what was planned as they are.
        for together in ([contrast for contrast in asked if contrast not in late], late):
            if together:
                judged_here, family = _under(experiment, control, together, runs, looks, is_late=together is late)
                contrasts += judged_here
                families.setdefault(control, family)
    return tuple(contrasts), tuple(families.values())


def _asked(experiment: Experiment, control: str | None, runs: RunsOfArm) -> list[Contrast]:
    """Return the contrasts of the arms; under a control, those whose arms all have runs under it."""
    names = _names(experiment, control)
    return [
        contrast
        for contrast in experiment.contrasts
        if control is None or all(names[arm] in runs for arm in contrast.weights)
    ]


def _names(experiment: Experiment, control: str | None) -> dict[str, str]:
    """The full names of arms under a control; an arm that it does not change is itself under it."""
    arms = [arm for arm in experiment.arms if arm.control == control]
    return {arm.name: arm.name if arm.is_no_op else arm.full_name for arm in arms}


def _under(
    experiment: Experiment,
    control: str | None,
    contrasts: Sequence[Contrast],
    runs: RunsOfArm,
    looks: Looking,
    *,
    is_late: bool,
) -> tuple[list[JudgedContrast], Family]:
    names = _names(experiment, control)
    weights = [{names[arm]: weight for arm, weight in contrast.weights.items()} for contrast in contrasts]
    question = Question.from_runs(weights, runs, metric=experiment.primary, of="contrasts", control=control)
    family, differences = judged(question, looks)
    return [
        JudgedContrast(
            **vars(difference),
            name=contrast.name,
            label=contrast.label,
            values=_values(difference, question.cells, arms),
            late=is_late,
            has_sides=bool(contrast.sides or contrast.titles),
            # Arms that were not chosen have no folder, and a question about them is not told.
            sentence=contrast_verdict(
                difference, family, contrast, experiment, cells=question.cells, weights=arms, runs=runs, is_late=is_late
            )
            if looks.awaits_what_has_no_folder or arms.keys() <= runs.keys()
            else "",
        )
        for contrast, difference, arms in zip(contrasts, differences, weights, strict=True)
    ], family


def _values(difference: Difference, cells: Cells, weights: Weights) -> dict[int, float]:
    """Return the difference of each seed, on the scale of the estimate."""
    if difference.of_errors:
        cells = cells.as_errors()
    if difference.is_logarithmic:
        cells = cells.in_per_cent()
    first, second = cells.sides(weights)
    return {seed: first[seed] - second[seed] for seed in difference.seeds}


def comparisons(
    matches: Sequence[Match], runs: RunsOfArm, experiment: Experiment, looks: Looking
) -> tuple[tuple[Comparison, ...], tuple[Family, ...]]:
    """Judge one comparison per match and metric with a better direction; those of the primary metric come first.

    Nats per token of different tokens are not compared. Bits per byte are the same comparison as those, so they are
    told only where they are the primary metric. What is compared in one metric without a control is a family, and so
    is what is compared under each control: one that is run later is another question, and leaves the answer as it was.
    """
    compared, families = list[Comparison](), list[Family]()
    for metric in sorted(METRICS.values(), key=lambda metric: metric.name != experiment.primary):
        if metric.better is None or (metric.name == PER_BYTE and experiment.primary != PER_BYTE):
            continue
        every = (run for of_arm in runs.values() for run in of_arm.values())
        if not any(has_metric(run, metric.name) for run in every):
            continue
        measured = [match for match in matches if _is_measured(match, metric.name, runs) and is_compared(match, metric)]
        for control in dict.fromkeys(match.control for match in measured):
            together = [match for match in measured if match.control == control]
            question = Question.from_runs(
                [match.weights for match in together], runs, metric=metric.name, control=control
            )
            family, differences = judged(question, looks)
            families.append(family)
            compared += [
                Comparison(
                    **vars(difference),
                    arm=match.arm.full_name,
                    baseline=match.baseline.full_name,
                    group=match.group,
                    verdict=comparison_verdict(difference, family, match, metric, experiment, runs),
                )
                for match, difference in zip(together, differences, strict=True)
            ]
    return tuple(compared), tuple(families)


def is_compared(match: Match, metric: Metric) -> bool:
    """Return whether a difference in a metric has a meaning; nats per token of different tokens have none."""
    return not (match.other_texts and metric.unit == _PER_TOKEN)


def _is_measured(match: Match, metric: str, runs: RunsOfArm) -> bool:
    """Return whether both arms measure a metric; an arm without finished runs counts as measuring it."""
    finished = [done(arm, runs) for arm in (match.arm, match.baseline)]
    return all(not of_arm or any(has_metric(run, metric) for run in of_arm) for of_arm in finished)
