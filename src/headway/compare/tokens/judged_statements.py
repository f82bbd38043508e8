"""Compare: what becomes of a published statement, in one arm and in all of them, and that in words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from headway.compare.look_plan import FEWEST
from headway.compare.tokens.association import untested
from headway.compare.tokens.statements import Claim, Reading
from headway.declare.metrics import metric_name
from headway.words import counted, span

Verdict = Literal["holds", "does not hold", "cannot be told"]


@dataclass(frozen=True, kw_only=True)
class JudgedArm:
    """What one arm says of a statement.

    Attributes:
        arm: its full name.
        seeds: how many could be asked.
        value: the mean of the number that the statement rests on; of a number per layer, of the layer where it is
            least. None where it takes more seeds.
        interval: 95 %; None with one seed or two, and where seeds show no spread. Of a number per layer it is that of
            the least of all layers, whichever that is, and holds for all arms at once.
        also: the mean of a further number, where there is one.
        verdict: on the statement, in this arm.
    """

    arm: str
    seeds: int
    value: float | None
    interval: tuple[float, float] | None
    also: float | None
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class JudgedStatement:
    """What becomes of a published statement without a control, or under one, by one metric.

    Attributes:
        name: of the statement.
        says: what was published.
        short: what it is called in a row of others.
        control: what the arms are under.
        metric: that it is read off.
        as_published: whether that is the metric as it was published.
        bound: on which side of it the number has to lie.
        verdict: of all arms together.
        sentence: that in words.
        arms: what each says.
    """

    name: str
    says: str
    short: str
    control: str | None
    metric: str
    as_published: bool
    bound: float
    verdict: Verdict
    sentence: str
    arms: tuple[JudgedArm, ...]


def sentence(
    claim: Claim, reading: Reading, overall: Verdict, arms: Sequence[JudgedArm], titles: Mapping[str, str]
) -> str:
    """A statement, what becomes of it, in which arms, and the numbers that this rests on.

    Args:
        claim: the statement.
        reading: as a number.
        overall: the verdict of all arms.
        arms: what each says.
        titles: what an arm is called, by its full name.
    """
    if not arms:
        return f"{claim.says}: cannot be told, since no model here has the layers, heads or probes that it takes"
    values = [arm.value for arm in arms if arm.value is not None]
    also = [arm.also for arm in arms if arm.also is not None]
    said = (reading.said if values else reading.said_untested).format(
        metric=metric_name(reading.metric), value=span(values) if values else "–", also=span(also) if also else "–"
    )
    seeds = max(arm.seeds for arm in arms)
    what = f"{overall}{where(arms, titles)}" if values else untested(seeds)
    return f"{claim.says}: {what}; {'by arm, ' * (len(arms) > 1)}{said}"


def where(arms: Sequence[JudgedArm], titles: Mapping[str, str]) -> str:
    """In which arms, where there are several, and why none tells."""
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
