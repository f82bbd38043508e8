"""Comparisons and contrasts of arms, judged together by the rule that the document names.

* `judged` judges a family of differences by the rule: `blocks`, `paired` or `shares`.
* `contrasts_judged` judges the contrasts that the document declares: differences between arms, or means of arms. They
  are a family of their own in the primary metric, and again under each control.
* `comparisons` judges every comparison of two arms that the runs of a directory allow, with its verdict.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import numpy as np

from headway.base.text import counted, listed
from headway.config.arms import Arm
from headway.config.contrasts import Contrast
from headway.config.experiment import Experiment
from headway.config.metrics import METRICS, YES_OR_NO, Metric
from headway.config.run import PER_BYTE
from headway.stats.blocks import LEVEL, FamilyVerdict
from headway.stats.cells import Cells, Match, RunsOfArm, Weights, seed_seconds, title
from headway.stats.evidence import LOGARITHM, Comparison, JudgedDifference, JudgedFamily, Kind, Rule
from headway.stats.notes import left_out, shortfall
from headway.stats.paired import compare, corrected, is_finite, paired
from headway.stats.sequential import FEWEST, InterimDecision, Looking, LookPlan, follow
from headway.stats.shares import Solver, all_pairs, compare_shares, share_finding
from headway.stats.verdicts import verdict
from headway.store.run import Run


@dataclass(frozen=True, kw_only=True)
class ContrastFamily:
    """A family of differences, in the order of their questions."""

    of: Kind
    metric: str
    control: str | None
    differences: Sequence[Weights]
    cells: Cells
    runs: RunsOfArm


def judged(asked: ContrastFamily, rule: Rule, looks: Looking) -> tuple[JudgedFamily, tuple[JudgedDifference, ...]]:
    """Judge a family by a rule; by `paired` if values are 0 or below, since they have no logarithm."""
    if looks.seeds:
        asked = replace(asked, cells=asked.cells.at(looks.seeds))
    plan = looks.plan_of(len(asked.cells.seeds))
    family, found = _judged(asked, rule, plan, looks)
    costs = [seed_seconds(weights, asked.runs) for weights in asked.differences]
    unit = LOGARITHM if family.rule == "blocks" else METRICS[asked.metric].unit
    return family, tuple(replace(one, seed_s=cost, unit=unit) for one, cost in zip(found, costs, strict=True))


def _judged(
    asked: ContrastFamily, rule: Rule, plan: LookPlan, looks: Looking
) -> tuple[JudgedFamily, tuple[JudgedDifference, ...]]:
    if METRICS[asked.metric].unit == YES_OR_NO and all_pairs(asked.differences):
        return _by_shares(asked, plan)
    if rule == "paired" or not asked.cells.have_logarithms:
        return _by_pairs(asked, plan)
    return _in_blocks(asked, plan, looks)


def evidence_of(one: JudgedDifference) -> dict[str, object]:
    """Return the fields of a comparison or contrast that a `JudgedDifference` holds."""
    return {field.name: getattr(one, field.name) for field in fields(JudgedDifference)}


def _in_blocks(
    asked: ContrastFamily, plan: LookPlan, looks: Looking
) -> tuple[JudgedFamily, tuple[JudgedDifference, ...]]:
    cells, rows = asked.cells, asked.cells.rows(asked.differences)
    # An arm that has no folder at all is not run; nothing waits for it.
    ended = cells.ended | ~(cells.asked.any(1, keepdims=True) if looks.awaits_what_has_no_folder else cells.asked)
    followed = follow(plan, cells.as_logarithms().values, rows, ended)
    found = followed.family
    family = JudgedFamily(
        of=asked.of,
        metric=asked.metric,
        control=asked.control,
        rule="blocks",
        size=len(rows),
        plan=plan,
        look=None if followed.look is None else followed.look + 1,
        level=found.level,
        residual_sd=_known(math.sqrt(found.residual_variance)),
        freedom=_known(found.freedom),
        d0=_known(found.prior_freedom),
        pairing=_known(found.pairing),
        wild=tuple(cells.arms[at] for at in found.wild),
    )
    said = zip(asked.differences, followed.contrasts, strict=True)
    return family, tuple(_evidence(asked, plan, found, at, *one) for at, one in enumerate(said))


def _evidence(
    asked: ContrastFamily, plan: LookPlan, family: FamilyVerdict, at: int, weights: Weights, settled: InterimDecision
) -> JudgedDifference:
    judged = settled.judged
    n_seeds = None if settled.look is None else plan.looks[settled.look]
    # Nothing is concluded before a look, nor from two seeds, so that no interval is shown there.
    concluded = settled.look is not None and settled.outcome not in ("few", "none")
    interval = judged.interval if concluded else None

    sides = asked.cells.sides(weights, n_seeds)
    first, second = (np.array(list(side.values())) for side in sides)
    difference = float((first - second).mean()) if len(first) else None
    level = abs(float(second.mean())) if len(first) else 0.0

    def shown(value: float | None) -> float | None:
        return _known(value) if concluded else None

    return JudgedDifference(
        metric=asked.metric,
        control=asked.control,
        rule="blocks",
        n_pairs=len(first),
        means=(float(first.mean()), float(second.mean())) if len(first) else None,
        difference=difference,
        relative=_scale(weights) * difference / level if difference is not None and level else None,
        estimate=_known(judged.estimate),
        interval=interval,
        se=_known(judged.se),
        freedom=_known(judged.freedom),
        bound=shown(judged.bound),
        p=shown(judged.p),
        p_family=shown(judged.p_family),
        outcome=settled.outcome,
        detectable=shown(judged.detectable),
        seeds_for_margin=_seeds(family.seeds_for(plan.margin, at)) if concluded else None,
        seeds=tuple(sides[0]),
        look=None if settled.look is None else settled.look + 1,
    )


def _by_pairs(asked: ContrastFamily, plan: LookPlan) -> tuple[JudgedFamily, tuple[JudgedDifference, ...]]:
    """Judge each difference by a paired t test, with Holm's correction for their number."""
    found = []
    for weights in asked.differences:
        sides = asked.cells.sides(weights)
        pairs = paired(*sides)
        one = compare(pairs, metric=asked.metric, arm="first", baseline="second", control=asked.control)
        relative = None if one.relative is None else _scale(weights) * one.relative
        found.append(replace(one, relative=relative, seeds=tuple(sides[0]), look=1))
    return _by_holm(asked, plan, "paired", found)


def _by_shares(asked: ContrastFamily, plan: LookPlan) -> tuple[JudgedFamily, tuple[JudgedDifference, ...]]:
    """Judge pairs of arms by McNemar's test, with Holm's correction for the number of pairs that could differ.

    Paper: Tarone, Biometrics 46 (1990), 515-522: a discrete test that no outcome could make significant, given what it
    conditions on, cannot err and needs no share of the level. Here that is a pair of which each seed said the same.
    """
    every = [asked.cells.sides(weights) for weights in asked.differences]
    found = [
        replace(compare_shares(*sides, metric=asked.metric, control=asked.control), seeds=tuple(sides[0]), look=1)
        for sides in every
    ]
    return _by_holm(asked, plan, "shares", found, silent=[first == second for first, second in every])


def _by_holm(
    asked: ContrastFamily, plan: LookPlan, rule: Rule, found: Sequence[Comparison], *, silent: Sequence[bool] = ()
) -> tuple[JudgedFamily, tuple[JudgedDifference, ...]]:
    """Differences that were tested each by itself as one family, at one look, but for those that cannot err."""
    family = JudgedFamily(
        of=asked.of,
        metric=asked.metric,
        control=asked.control,
        rule=rule,
        size=len(found),
        plan=plan,
        look=1,
        level=LEVEL,
    )
    passed_over = list(silent) or [False] * len(found)
    told = iter(corrected(one for one, over in zip(found, passed_over, strict=True) if not over))
    every = [replace(one, p_family=one.p) if over else next(told) for one, over in zip(found, passed_over, strict=True)]
    return family, tuple(JudgedDifference(**evidence_of(one)) for one in every)  # type: ignore[arg-type]


def _seeds(needed: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Two seeds tell nothing, however small the spread."""
    return None if needed is None else tuple(max(FEWEST, n) for n in needed)


def _scale(weights: Weights) -> float:
    """Return the factor that makes a difference relative to a mean of arms, whatever its weights add up to."""
    return math.fsum(-weight for weight in weights.values() if weight < 0)


def _known(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, kw_only=True)
class JudgedContrast(JudgedDifference):
    """A contrast in one metric.

    Attributes:
        name: the name in the document.
        label: the label in figures and sentences.
        values: the difference by seed, on the scale of `estimate`.
        sentence: the verdict in words.
        late: whether the contrast was asked after an answer was seen, so that no plan has it.
    """

    of: ClassVar[Kind] = "contrasts"

    name: str
    label: str
    values: Mapping[int, float]
    sentence: str
    late: bool = False


def contrasts_judged(
    experiment: Experiment, runs: RunsOfArm, looks: Looking
) -> tuple[tuple[JudgedContrast, ...], tuple[JudgedFamily, ...]]:
    """Judge the contrasts of an experiment without a control, and under each control that has runs."""
    controls = dict.fromkeys(arm.control for arm in experiment.arms if arm.full_name in runs)
    found, families = list[JudgedContrast](), list[JudgedFamily]()
    for control in controls:
        contrasts = _asked(experiment, control, runs)
        late = [] if control is not None else [one for one in contrasts if _is_late(one, looks)]
        # What was asked after an answer was seen leaves the bounds of what was planned as they are.
        for together in ([one for one in contrasts if one not in late], late):
            if together:
                said, family = _under(experiment, control, together, runs, looks, is_late=together is late)
                found += said
                families += [family] if all(one.control != control for one in families) else []
    return tuple(found), tuple(families)


def _is_late(contrast: Contrast, looks: Looking) -> bool:
    """Return whether a contrast is missing from the plan of interim analyses."""
    return looks.asked is not None and dict(looks.asked.get(contrast.name, {})) != dict(contrast.weights)


def _asked(experiment: Experiment, control: str | None, runs: RunsOfArm) -> list[Contrast]:
    """Return the contrasts that the document names, and other contrasts whose arms all have runs."""
    names = _names(experiment, control)
    named = bool(experiment.document.contrasts)
    return [one for one in experiment.contrasts if named or all(names[arm] in runs for arm in one.weights)]


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
) -> tuple[list[JudgedContrast], JudgedFamily]:
    names = _names(experiment, control)
    weights = [{names[arm]: weight for arm, weight in one.weights.items()} for one in contrasts]
    cells = Cells.of((name for one in weights for name in one), experiment.primary, runs)
    asked = ContrastFamily(
        of="contrasts", metric=experiment.primary, control=control, differences=weights, cells=cells, runs=runs
    )
    family, evidence = judged(asked, experiment.verdicts, looks)
    return [
        JudgedContrast(
            **vars(found),
            name=one.name,
            label=one.label,
            values=_values(found, cells, weight),
            late=is_late,
            sentence=_sentence_contrasts(
                found, family, one, _missing(one, weight, cells, runs, experiment), experiment, is_late
            ),
        )
        for one, found, weight in zip(contrasts, evidence, weights, strict=True)
    ], family


def _values(found: JudgedDifference, cells: Cells, weights: Mapping[str, float]) -> dict[int, float]:
    """Return the difference of each seed, on the scale of the estimate."""
    if found.rule == "blocks":
        cells = cells.as_logarithms()
    first, second = cells.sides(weights)
    return {seed: first[seed] - second[seed] for seed in found.seeds}


def _sentence_contrasts(
    found: JudgedDifference,
    family: JudgedFamily,
    contrast: Contrast,
    missing: Iterable[str],
    experiment: Experiment,
    is_late: bool,
) -> str:
    control, notes = found.control, [*(["asked after an answer was seen"] if is_late else []), *missing]
    metric, sides = METRICS[found.metric], sides_of(contrast, experiment)
    said = verdict(found, family, metric=metric, sides=sides, label=called(contrast, experiment), notes=notes)
    # A side that is a row of arms has no name of its own: the question has.
    if sides is not None and any(side.startswith("the mean of ") for side in sides):
        said = f"{contrast.name}: {said}"
    return said if control is None else f"under {experiment.control_label(control)}, {said}"


def _missing(
    contrast: Contrast, weights: Weights, cells: Cells, runs: RunsOfArm, experiment: Experiment
) -> Iterator[str]:
    """A clause for what a contrast lacks: arms without a finished run, values, and runs that gave no result."""
    if without := cells.without(weights):
        named = [title(experiment.arm(name), experiment) for name in without]
        which = listed(named) if len(named) < 4 else f"{len(named)} of its {counted(len(contrast.weights), 'arm')}"
        yield f"{which} {'has' if len(named) == 1 else 'have'} no finished run"
    of_arms = {arm: list(runs.get(arm, {}).values()) for arm in weights}
    done = [run for of_arm in of_arms.values() for run in of_arm if run.status == "done"]
    bad = {run.seed for run in done if not is_finite(run.metrics.get(experiment.primary, 0.0))}
    yield from left_out(sorted(bad))
    if len(weights) == 2:
        for arm, of_arm in of_arms.items():
            yield from shortfall(title(experiment.arm(arm), experiment), [run.status for run in of_arm])
    else:
        yield from shortfall("its arms", [run.status for of_arm in of_arms.values() for run in of_arm])


def sides_of(contrast: Contrast, experiment: Experiment) -> tuple[str, str] | None:
    """Return the names of a contrast's two sides in sentences; single arms keep their usual names."""
    if contrast.sides is None:
        return None
    arms = (list(contrast.first), list(contrast.second))
    first, second = (_side(side, of, experiment) for side, of in zip(contrast.sides, arms, strict=True))
    return first, second


def _side(side: str, arms: Sequence[str], experiment: Experiment) -> str:
    titles = [title(experiment.arm(arm), experiment) for arm in arms]
    if len(arms) == 1:
        return titles[0]
    return f"the mean of {listed(titles)}" if side == listed(arms) else side


def called(contrast: Contrast, experiment: Experiment) -> str:
    """A contrast that has no sides by its name and what it asks.

    Examples:
        >>> from headway.config.load import load
        >>> experiment = load("icl-heads", settings=["contrasts={curve: {h1: 1, h2: -1.5, h4: 0.5}}"])
        >>> called(experiment.contrasts[0], experiment)
        'curve (1 head − 1.5 x 2 heads + 0.5 x 4 heads)'
    """
    if len(contrast.weights) > _TOLD:
        return f"{contrast.label} (a weighted sum of {len(contrast.weights)} arms)"
    said = ""
    for arm, weight in contrast.weights.items():
        sign = (" − " if weight < 0 else " + ") if said else ("−" if weight < 0 else "")
        factor = "" if abs(weight) == 1 else f"{abs(weight):.3g} x "
        said += f"{sign}{factor}{title(experiment.arm(arm), experiment)}"
    return f"{contrast.label} ({said})"


_TOLD = 6
"""At most this many arms of a weighted sum are named one by one."""


_PER_TOKEN = "nats per token"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Comparisons, and the families in which they were judged."""

    comparisons: tuple[Comparison, ...]
    families: tuple[JudgedFamily, ...]


def comparisons(matches: Sequence[Match], runs: RunsOfArm, experiment: Experiment, looks: Looking) -> Compared:
    """Judge one comparison per match and metric with a better direction; those of the primary metric come first.

    Nats per token of different tokens are not compared. Bits per byte are the same comparison as those, so they are
    told only where they are the primary metric. What is compared in one metric without a control is a family, and so
    is what is compared under each control: one that is run later is another question, and leaves the answer as it was.
    """
    found: list[Comparison] = []
    families: list[JudgedFamily] = []
    for metric in sorted(METRICS.values(), key=lambda metric: metric.name != experiment.primary):
        if metric.better is None or (metric.name == PER_BYTE and experiment.primary != PER_BYTE):
            continue
        if not _anybody_has(metric.name, runs):
            continue
        measured = [match for match in matches if _is_measured(match, metric.name, runs) and is_compared(match, metric)]
        for control in dict.fromkeys(match.control for match in measured):
            together = [match for match in measured if match.control == control]
            family, said = family_of(together, metric, runs, experiment, looks)
            families.append(family)
            found += said
    return Compared(comparisons=tuple(found), families=tuple(families))


def family_of(
    matches: Sequence[Match], metric: Metric, runs: RunsOfArm, experiment: Experiment, looks: Looking
) -> tuple[JudgedFamily, list[Comparison]]:
    """Judge matches, all under one control, together in a metric."""
    weights: list[Weights] = [{m.arm.full_name: 1.0, m.baseline.full_name: -1.0} for m in matches]
    cells = Cells.of((name for one in weights for name in one), metric.name, runs)
    asked = ContrastFamily(
        of="comparisons", metric=metric.name, control=matches[0].control, differences=weights, cells=cells, runs=runs
    )
    family, evidence = judged(asked, experiment.verdicts, looks)
    return family, [
        Comparison(
            **vars(one),
            arm=match.arm.full_name,
            baseline=match.baseline.full_name,
            group=match.group,
            verdict=_sentence_comparisons(one, family, match, metric, runs, experiment),
        )
        for match, one in zip(matches, evidence, strict=True)
    ]


def _sentence_comparisons(
    one: JudgedDifference, family: JudgedFamily, match: Match, metric: Metric, runs: RunsOfArm, experiment: Experiment
) -> str:
    arm, baseline = (title(arm, experiment) for arm in (match.arm, match.baseline))
    notes = [
        *left_out(_not_finite(match, metric.name, runs)),
        *shortfall(arm, _statuses(match.arm, runs)),
        *shortfall(baseline, _statuses(match.baseline, runs)),
    ]
    if family.rule == "shares":
        solvers = (_solver(match.arm, arm), _solver(match.baseline, baseline))
        no_merit = match.no_merit(metric.name)
        said = share_finding(one, *solvers, task=solvers[0].task)
        return "; ".join([said, *notes, *([no_merit] if no_merit else [])])
    if no_merit := match.no_merit(metric.name):
        metric = metric.model_copy(update={"better": None})
        notes.append(no_merit)
    return verdict(one, family, metric=metric, sides=(arm, baseline), notes=notes)


def _solver(arm: Arm, label: str) -> Solver:
    task = arm.resolved_spec.task
    possible = task.best_possible(arm.resolved_spec.model).get("solved")
    return Solver(label=label, possible=None if possible is None else possible > 0, task=task.title)


def _not_finite(match: Match, metric: str, runs: RunsOfArm) -> list[int]:
    """The seeds that both have, of which a value is not a finite number."""
    mine, theirs = (values_of(arm, metric, runs) for arm in (match.arm, match.baseline))
    return [s for s in sorted(mine.keys() & theirs.keys()) if not (is_finite(mine[s]) and is_finite(theirs[s]))]


def is_compared(match: Match, metric: Metric) -> bool:
    """Return whether a difference in a metric has a meaning; nats per token of different tokens have none."""
    return not (match.other_texts and metric.unit == _PER_TOKEN)


def _is_measured(match: Match, metric: str, runs: RunsOfArm) -> bool:
    """Return whether both arms measure a metric; an arm without finished runs counts as measuring it."""
    finished = [done(arm, runs) for arm in (match.arm, match.baseline)]
    return all(not of_arm or any(_has(run, metric) for run in of_arm) for of_arm in finished)


def _anybody_has(metric: str, runs: RunsOfArm) -> bool:
    return any(_has(run, metric) for of_arm in runs.values() for run in of_arm.values() if run.status == "done")


def values_of(arm: Arm, metric: str, runs: RunsOfArm) -> dict[int, float | None]:
    """A final metric of an arm by seed; None where it was not finite."""
    return {run.seed: run.metrics[metric] for run in done(arm, runs) if _has(run, metric)}


def _has(run: Run, metric: str) -> bool:
    """Return whether a run ended with a number for a metric (None: not finite); lists are not compared."""
    value = run.metrics.get(metric, ()) if run.status == "done" else ()
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def done(arm: Arm, runs: RunsOfArm) -> list[Run]:
    """The finished runs of an arm."""
    return [run for run in runs.get(arm.full_name, {}).values() if run.status == "done"]


def _statuses(arm: Arm, runs: RunsOfArm) -> list[str]:
    return [run.status for run in runs.get(arm.full_name, {}).values()]
