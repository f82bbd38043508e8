"""Verdicts on transformers in words: published claims, loss against heads, and loss against parameters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import get_args

from headway.base.text import Amount, Value, capital, filled, number, span
from headway.base.words import STATEMENTS, UNTESTED, say
from headway.config.metrics import metric_name
from headway.stats.evidence import Difference
from headway.stats.lm.claims import JudgedArm, Verdict
from headway.stats.lm.diversity import FEWEST_SEEDS
from headway.stats.sequential import FEWEST


def untested(n_seeds: int) -> str:
    """Return why an association has no p; empty if seeds are enough.

    Examples:
        >>> untested(3), untested(4)
        ('cannot be tested with 3 seeds: the test needs 4', '')
    """
    return "" if n_seeds >= FEWEST_SEEDS else say("untested", n=n_seeds, least=FEWEST_SEEDS)


def claim_sentence(
    name: str, metric: str, overall: Verdict, arms: Sequence[JudgedArm], titles: Mapping[str, str]
) -> str:
    """Return a statement, what becomes of it, in which arms, and the numbers that this rests on.

    Args:
        name: the name of the statement.
        metric: the name of the metric that it is judged by.
        overall: the verdict of all arms.
        arms: the verdict of each arm.
        titles: the label of each arm, by full name.
    """
    says, _, evidence = STATEMENTS[name]
    if not arms:
        return say("untold", says=says)
    values = [arm.value for arm in arms if arm.value is not None]
    also = [arm.also for arm in arms if arm.also is not None]
    verdict = with_arms(arms, overall, titles)
    if not values:
        evidence, verdict = UNTESTED[name], untested(max(arm.seeds for arm in arms))
    evidence = filled(
        evidence,
        metric=metric_name(metric),
        value=span(values) if values else "–",
        also=span(also) if also else "–",
    )
    if len(arms) > 1:
        return say("claim_by_arm", says=says, verdict=verdict, evidence=evidence)
    return say("claim", says=says, verdict=verdict, evidence=capital(evidence))


def with_arms(arms: Sequence[JudgedArm], overall: Verdict, titles: Mapping[str, str]) -> str:
    """Return the verdict of all arms, with the arms that give each verdict, or with how few seeds they have."""
    seeds = max(arm.seeds for arm in arms)
    counts = Counter(arm.verdict for arm in arms)
    if seeds < FEWEST:
        return say("with_few", verdict=overall, n=seeds)
    if len(arms) == 1:
        return say("in_one", verdict=overall, n=seeds)
    if len(counts) == 1:
        return say("in_all" if "holds" in counts else "in_any", verdict=overall, n=len(arms))
    parts = []
    for verdict in get_args(Verdict):
        named = [titles[arm.arm] for arm in arms if arm.verdict == verdict]
        if named:
            parts.append(f"{verdict} in {named[0] if len(named) == 1 else len(named)}")
    return say("in_some", verdict=overall, n=len(arms), counts=", ".join(parts))


def scheme_sentence(
    schemes: tuple[str, str],
    at: int,
    relative: float,
    interval: tuple[float, float] | None,
    *,
    loss: float,
    n_seeds: int,
) -> str:
    """Return a sentence on the curves of two schemes at a total number of heads.

    Examples:
        >>> scheme_sentence(("descending", "constant"), 180, -0.012, (-0.02, -0.004), loss=1.6, n_seeds=3)
        'at 180 heads, descending is 1.2 % better than constant, 95 % interval 0.4 to 2.0 %'
    """
    kind = _kind(interval, n_seeds)
    if n_seeds == 1:
        kind = "one_seed"
    elif interval is not None and n_seeds < FEWEST:
        kind = "few"
    said = _said(relative, interval) | {"at": at, "name": schemes[0], "against": schemes[1], "n": n_seeds}
    other_loss = loss / (1 + relative)
    losses = (number(loss, 4), number(other_loss, 4))
    reason = say("curve_as_many" if n_seeds else "curve_no_seed")
    return say(f"schemes_{kind}", **said, losses=losses, reason=reason)


def apart_sentence(relative: float, interval: tuple[float, float] | None, n_seeds: int) -> str:
    """Return a phrase on how much better or worse one of two curves is."""
    return say(f"curve_{_kind(interval, n_seeds)}", **_said(relative, interval))


def size_sentence(title: str, found: Difference, interval: tuple[float, float] | None, n_models: int) -> str:
    """Return a sentence on a model against the curve of plain models at its own size, one of several models."""
    if found.relative is None or found.means is None:
        return say("size_no_seed", name=title)
    if found.n_pairs == 1:
        losses = tuple(number(mean, 3) for mean in found.means)
        return say("size_one_seed", name=title, losses=losses)
    kind = _kind(interval, found.n_pairs)
    reason = say("curve_few" if found.n_pairs < FEWEST else "curve_no_spread", n=found.n_pairs)
    name = f"{'simultaneous ' * (n_models > 1)}95 % interval"
    return say(f"size_{kind}", **_said(found.relative, interval), name=title, interval_name=name, reason=reason)


def _kind(interval: tuple[float, float] | None, n_seeds: int) -> str:
    if interval is None:
        return "none"
    return "open" if n_seeds < FEWEST or interval[0] <= 0 <= interval[1] else "apart"


def _said(relative: float, interval: tuple[float, float] | None) -> dict[str, Value]:
    """Return a relative difference of losses in words, with its sign and as an amount to one side."""
    write, is_less = Amount.of_share(relative, interval), relative < 0
    low, high = interval or (relative, relative)
    amounts = (-high, -low) if is_less else (low, high)
    return {
        "change": write(relative),
        "ends": write(low, high),
        "amount": write(abs(relative)),
        "interval": write(*amounts),
        "side": "better" if is_less else "worse",
        "place": "below" if is_less else "above",
    }
