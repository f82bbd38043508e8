"""Compare: differences that are asked together, judged together by the rule that the document names."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from headway.compare.blocks import LEVEL, FamilyVerdict
from headway.compare.cells import Cells, RunsOfArm, Weights
from headway.compare.evidence import LOGARITHM, Comparison, JudgedDifference, JudgedFamily, Kind, Rule
from headway.compare.look_plan import FEWEST, LookPlan, Settled, follow
from headway.compare.looks import Looking
from headway.compare.seed_time import seed_seconds
from headway.compare.shares import all_pairs, compare_shares
from headway.compare.statistics import compare, corrected, paired
from headway.declare.metrics import METRICS, YES_OR_NO


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A family of differences, in the order in which they were asked."""

    of: Kind
    metric: str
    control: str | None
    differences: Sequence[Weights]
    cells: Cells
    runs: RunsOfArm


def judged(asked: Asked, rule: Rule, looks: Looking) -> tuple[JudgedFamily, tuple[JudgedDifference, ...]]:
    """A family by a rule; by `paired` where values are 0 or below, so that they have no logarithm."""
    if looks.seeds:
        asked = replace(asked, cells=asked.cells.at(looks.seeds))
    plan = looks.plan_of(len(asked.cells.seeds))
    family, found = _judged(asked, rule, plan, looks)
    costs = [seed_seconds(weights, asked.runs) for weights in asked.differences]
    unit = LOGARITHM if family.rule == "blocks" else METRICS[asked.metric].unit
    return family, tuple(replace(one, seed_s=cost, unit=unit) for one, cost in zip(found, costs, strict=True))


def _judged(
    asked: Asked, rule: Rule, plan: LookPlan, looks: Looking
) -> tuple[JudgedFamily, tuple[JudgedDifference, ...]]:
    if METRICS[asked.metric].unit == YES_OR_NO and all_pairs(asked.differences):
        return _by_shares(asked, plan)
    if rule == "paired" or not asked.cells.have_logarithms:
        return _by_pairs(asked, plan)
    return _in_blocks(asked, plan, looks)


def evidence_of(one: JudgedDifference) -> dict[str, object]:
    """What a more special value says as evidence."""
    return {field.name: getattr(one, field.name) for field in fields(JudgedDifference)}


def _in_blocks(asked: Asked, plan: LookPlan, looks: Looking) -> tuple[JudgedFamily, tuple[JudgedDifference, ...]]:
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
    asked: Asked, plan: LookPlan, family: FamilyVerdict, at: int, weights: Weights, settled: Settled
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


def _by_pairs(asked: Asked, plan: LookPlan) -> tuple[JudgedFamily, tuple[JudgedDifference, ...]]:
    """By paired t tests, each difference by itself, with Holm's correction for their number."""
    found = []
    for weights in asked.differences:
        sides = asked.cells.sides(weights)
        pairs = paired(*sides)
        one = compare(pairs, metric=asked.metric, arm="first", baseline="second", control=asked.control)
        relative = None if one.relative is None else _scale(weights) * one.relative
        found.append(replace(one, relative=relative, seeds=tuple(sides[0]), look=1))
    return _by_holm(asked, plan, "paired", found)


def _by_shares(asked: Asked, plan: LookPlan) -> tuple[JudgedFamily, tuple[JudgedDifference, ...]]:
    """By McNemar's test of each pair of arms, with Holm's correction for the number of those that could be told apart.

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
    asked: Asked, plan: LookPlan, rule: Rule, found: Sequence[Comparison], *, silent: Sequence[bool] = ()
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
    """What a difference is multiplied by to be relative to a mean of arms, whatever its weights add up to."""
    return math.fsum(-weight for weight in weights.values() if weight < 0)


def _known(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
