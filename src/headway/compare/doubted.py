"""Compare: which answers are worth nothing: those about less than training, or the learning rate, still changes.

Each answer is held against its own difference, or where it says "the same" against the margin: what an experiment
also compares, and is far apart, excuses nothing.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headway.compare.cells import Weights
from headway.compare.contrasts import JudgedContrast, sides_of
from headway.compare.evidence import Comparison, Doubt, JudgedFamily
from headway.compare.matches import title
from headway.declare.experiment import Experiment
from headway.declare.metrics import metric_name
from headway.words import Amount

_LEAST = 1e-9
"""What one side is at least of the other, where it is nothing."""

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
        """Whether shares by which arms change move one of its sides by more: the larger of two weighted means."""
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
    """What was answered in the primary metric without a control; contrasts first."""
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
        effect = abs(math.log1p(margin / 100 if same else max(share, _LEAST - 1)))
        of_arms = {one.arm: 1.0, one.baseline: -1.0} if isinstance(one, Comparison) else weights[one.name]
        apart = f"the same within {margin:g} %" if same else f"{_per_cent(abs(share))} apart"
        named = _named(experiment, one)
        said = f"{named} are {apart}" if " and " in named else f"{named} is {apart.removesuffix(' apart')}"
        found.append(Answer(one=one, weights=of_arms, effect=effect, sentence=said))
    return found


def _named(experiment: Experiment, one: Comparison | JudgedContrast) -> str:
    if isinstance(one, Comparison):
        return " and ".join(title(experiment.arm(arm), experiment) for arm in (one.arm, one.baseline))
    contrast = next(asked for asked in experiment.contrasts if asked.name == one.name)
    sides = sides_of(contrast, experiment)
    return one.label if sides is None else " and ".join(sides)


def untrained(answer: Answer, arms: Collection[str]) -> bool:
    """Whether no arm of an answer is better than what needs no training."""
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
