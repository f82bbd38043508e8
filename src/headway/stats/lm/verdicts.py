"""Verdicts on transformers in words: published claims, loss against heads, and loss against parameters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import get_args

from headway.base.text import Amount, counted, number, span
from headway.config.metrics import metric_name
from headway.stats.evidence import Difference
from headway.stats.lm.claims import Claim, JudgedArm, Reading, Verdict
from headway.stats.lm.diversity import FEWEST_SEEDS
from headway.stats.sequential import FEWEST


def untested(n_seeds: int) -> str:
    """Return why an association has no p; empty if seeds are enough.

    Examples:
        >>> untested(3), untested(4)
        ('cannot be tested with 3 seeds: the test needs 4', '')
    """
    if n_seeds >= FEWEST_SEEDS:
        return ""
    return f"cannot be tested with {'one seed' if n_seeds == 1 else f'{n_seeds} seeds'}: the test needs {FEWEST_SEEDS}"


def claim_sentence(
    claim: Claim, reading: Reading, overall: Verdict, arms: Sequence[JudgedArm], titles: Mapping[str, str]
) -> str:
    """Return a statement, what becomes of it, in which arms, and the numbers that this rests on.

    Args:
        claim: the statement.
        reading: the statement as a number.
        overall: the verdict of all arms.
        arms: the verdict of each arm.
        titles: the label of each arm, by full name.
    """
    if not arms:
        return f"{claim.says}: cannot be told, since no model here has the layers, heads or probes that the claim needs"
    values = [arm.value for arm in arms if arm.value is not None]
    also = [arm.also for arm in arms if arm.also is not None]
    said = (reading.said if values else reading.said_untested).format(
        metric=metric_name(reading.metric), value=span(values) if values else "–", also=span(also) if also else "–"
    )
    seeds = max(arm.seeds for arm in arms)
    what = f"{overall}{where(arms, titles)}" if values else untested(seeds)
    return f"{claim.says}: {what}; {'by arm, ' * (len(arms) > 1)}{said}"


def where(arms: Sequence[JudgedArm], titles: Mapping[str, str]) -> str:
    """Return a phrase that tells which arms give which verdict, or how few seeds they have."""
    seeds = max(arm.seeds for arm in arms)
    if seeds < FEWEST:
        return f" with {'one seed' if seeds == 1 else counted(seeds, 'seed')}"
    counts = Counter(arm.verdict for arm in arms)
    if len(arms) == 1:
        return f" ({seeds} seeds)"
    if len(counts) == 1:
        return f" in all {len(arms)} arms" if "holds" in counts else f" in any of {len(arms)} arms"
    parts = [
        f"{verdict} in {titles[named[0]] if len(named) == 1 else len(named)}"
        for verdict in get_args(Verdict)
        if (named := [arm.arm for arm in arms if arm.verdict == verdict])
    ]
    return f" (of {len(arms)} arms: {', '.join(parts)})"


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
    name, against = schemes
    amount = Amount.of_share(relative, interval)
    if n_seeds == 1:
        ends = (number(end, 4) for end in (loss, loss / (1 + relative)))
        return f"at {at} heads, {name} and {against} cannot be compared: one seed ({' and '.join(ends)} nats)"
    if interval is None:
        reason = "the curves have as many parameters as points" if n_seeds else "no seed finished in every arm"
        side = "below" if relative < 0 else "above"
        return (
            f"at {at} heads, the curve of {name} lies {amount(abs(relative))} {side} {against} (no interval: {reason})"
        )
    if n_seeds < FEWEST or interval[0] <= 0 <= interval[1]:
        why = f"{name} and {against}: too few seeds to say ({n_seeds})"
        why = why if n_seeds < FEWEST else f"no clear difference between {name} and {against}"
        return f"at {at} heads, {why}: {amount(relative)}, 95 % interval {amount(*interval)}"
    return f"at {at} heads, {name} is {better_by(relative, interval, f' than {against}')}"


def better_by(relative: float, interval: tuple[float, float], than: str = "") -> str:
    """Return how much better or worse a loss is, with an interval that excludes 0."""
    sign, amount = -1 if relative < 0 else 1, Amount.of_share(relative, interval)
    said = f"{amount(abs(relative))} {'better' if relative < 0 else 'worse'}{than}"
    return f"{said}, 95 % interval {amount(*sorted(sign * end for end in interval))}"


def size_sentence(title: str, found: Difference, interval: tuple[float, float] | None, n_models: int) -> str:
    """Return a sentence on a model against the curve of plain models at its own size, one of several models."""
    relative, seeds = found.relative, counted(found.n_pairs, "seed")
    if relative is None or found.means is None:
        return f"{title} cannot be compared with plain models of its size: no seed gave a result for all of them"
    if found.n_pairs == 1:
        mine, theirs = (number(mean, 3) for mean in found.means)
        return f"{title} cannot be compared with plain models of its size: one seed ({mine} and {theirs} nats)"
    side, amount = "below" if relative < 0 else "above", Amount.of_share(relative, interval)
    lies = f"lies {amount(abs(relative))} {side} the curve of plain models of its size"
    if interval is None:
        why = f"too few seeds to say ({found.n_pairs})" if found.n_pairs < FEWEST else f"no spread over {seeds}"
        return f"{title}: {why}; so far it {lies}"
    sure = "" if interval[0] > 0 or interval[1] < 0 else ", which may be chance"
    ends = amount(*sorted((1 if relative >= 0 else -1) * end for end in interval))
    return f"{title} {lies}, {'simultaneous ' * (n_models > 1)}95 % interval {ends}{sure}"
