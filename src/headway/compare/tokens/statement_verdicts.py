"""Compare: which published statements on the diversity of heads hold in the runs of an experiment.

A statement is judged in each arm over its seeds: where the 95 % interval (t) of its number lies on one side of the
bound, it holds or it does not; otherwise, and with one seed, that cannot be told. The statements are general, so one
does not hold where more arms speak against it than chance would let. Under each control they are judged again, and
where the published metric was measured too, by that one: so one sees which conclusion comes from which choice.

Paper: X-raying heads (article, May 2024), of one model each, which attended to the future only and did not learn.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from headway.compare.evidence import Comparison
from headway.compare.matches import title
from headway.compare.statistics import LEVEL
from headway.compare.tokens.diversity_loss import LayerAssociation, ProbedRun
from headway.compare.tokens.statement_evidence import Evidence
from headway.compare.tokens.statements import CLAIMS, Claim, Reading
from headway.declare.experiment import Arm, Experiment
from headway.declare.metrics import metric_name
from headway.words import span

Verdict = Literal["holds", "does not hold", "cannot be told"]

HELPS = 0.01
"""A regulariser that lowers the loss by less than this share hardly helps."""


@dataclass(frozen=True, kw_only=True)
class JudgedArm:
    """What one arm says of a statement.

    Attributes:
        arm: its full name.
        seeds: how many could be asked.
        value: the mean of the number that the statement rests on.
        interval: 95 %; None where seeds show no spread.
        also: the mean of a further number, where there is one.
        verdict: on the statement, in this arm.
    """

    arm: str
    seeds: int
    value: float
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


def claims(
    experiment: Experiment,
    probed: Mapping[str, Sequence[ProbedRun]],
    associations: Sequence[LayerAssociation],
    comparisons: Sequence[Comparison],
) -> Iterator[JudgedStatement]:
    """Every statement that the runs can be asked about, without a control and under each.

    Args:
        experiment: what was declared.
        probed: the probed runs of each arm, by its full name.
        associations: what `diversity_loss.associations` said of them.
        comparisons: with their verdicts.
    """
    r2 = _r2_of_runs(associations)
    for control in dict.fromkeys(arm.control for arm in experiment.arms):
        arms = [arm for arm in experiment.arms if arm.control == control and probed.get(arm.full_name)]
        found = {
            arm.full_name: [
                Evidence(progress=one.progress, r2=r2.get((arm.full_name, one.run.seed), {}))
                for one in probed[arm.full_name]
            ]
            for arm in arms
        }
        titles = {arm.full_name: title(arm, experiment) for arm in arms}
        for claim in CLAIMS:
            for reading in claim.readings:
                if any(reading.metric in one.progress.mean for ones in found.values() for one in ones):
                    yield _judged(claim, reading, control, found, titles)
        yield from _regularisers(experiment, control, comparisons)


def _r2_of_runs(
    associations: Sequence[LayerAssociation],
) -> dict[tuple[str, int], dict[tuple[str, str], dict[int, float]]]:
    """R^2 with the probe's loss by run, then by metric and window, then by layer."""
    found: dict[tuple[str, int], dict[tuple[str, str], dict[int, float]]] = {}
    for entry in associations:
        for at, seed in enumerate(entry.seeds if entry.loss == "probe_loss_nats" else ()):
            of_run = found.setdefault((entry.arm, seed), {})
            of_run.setdefault((entry.metric, entry.window), {})[entry.layer] = entry.per_series[at]
            if entry.per_series_changes is not None:
                changes = of_run.setdefault((entry.metric, f"{entry.window}_changes"), {})
                changes[entry.layer] = entry.per_series_changes[at]
    return found


def _judged(
    claim: Claim,
    reading: Reading,
    control: str | None,
    found: Mapping[str, Sequence[Evidence]],
    titles: Mapping[str, str],
) -> JudgedStatement:
    arms: list[JudgedArm] = []
    for name, ones in found.items():
        measured = [one for one in ones if reading.metric in one.progress.mean]
        values = _known([reading.value(one, reading.metric) for one in measured], np.argmin)
        also = _known([reading.also(one, reading.metric) for one in measured], np.argmax) if reading.also else []
        if values:
            mean, interval = interval_over_seeds(values)
            arms.append(
                JudgedArm(
                    arm=name,
                    seeds=len(values),
                    value=mean,
                    interval=interval,
                    also=float(np.mean(also)) if also else None,
                    verdict=verdict_of(interval, reading.bound, reading.below),
                )
            )
    overall = overall_verdict([arm.verdict for arm in arms])
    return JudgedStatement(
        name=claim.name,
        says=claim.says,
        short=claim.short,
        control=control,
        metric=reading.metric,
        as_published=reading.published,
        bound=reading.bound,
        verdict=overall,
        sentence=_sentence(claim, reading, overall, arms, titles),
        arms=tuple(arms),
    )


def _known(values: Sequence[float | np.ndarray | None], layer: Callable[[np.ndarray], Any]) -> list[float]:
    """A number per seed; of several, those of one layer, chosen by the mean over seeds.

    The smallest of each seed by itself would be smaller than that of any layer.
    """
    rows = np.array([np.atleast_1d(value) for value in values if value is not None], dtype=float)
    if not rows.size:
        return []
    rows = rows[np.isfinite(rows).any(1)]
    rows = rows[:, np.isfinite(rows).all(0)]
    return list(rows[:, layer(rows.mean(0))]) if rows.size else []


def interval_over_seeds(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """The mean over seeds and its 95 % interval, None where seeds show no spread."""
    mean = float(np.mean(values))
    if len(values) < 2 or np.ptp(values) == 0:
        return mean, None
    from scipy.special import stdtrit

    half = float(stdtrit(len(values) - 1, 1 - LEVEL / 2) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return mean, (mean - half, mean + half)


def verdict_of(interval: tuple[float, float] | None, bound: float, below: bool) -> Verdict:
    """Whether an interval lies on one side of the bound; `below`: on which it has to lie for the statement to hold."""
    if interval is None or interval[0] <= bound <= interval[1]:
        return "cannot be told"
    return "holds" if (interval[1] < bound) == below else "does not hold"


def overall_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """What arms say together: most must tell that it holds, a few are enough against it.

    A few are as many as chance gives in fewer than 1 of 20 cases: of 2 arms one, of 3 to 14 two.

    Examples:
        >>> overall_verdict(["holds", "holds", "cannot be told"])
        'holds'
        >>> overall_verdict(["holds", "does not hold"])
        'does not hold'
        >>> overall_verdict(["does not hold", *["cannot be told"] * 7])
        'cannot be told'
        >>> overall_verdict(["does not hold", "does not hold", *["holds"] * 6])
        'does not hold'
    """
    from scipy.stats import binom

    against = verdicts.count("does not hold")
    if against and binom.sf(against - 1, len(verdicts), LEVEL / 2) < LEVEL:
        return "does not hold"
    return "holds" if 2 * verdicts.count("holds") > len(verdicts) else "cannot be told"


def _sentence(
    claim: Claim, reading: Reading, overall: Verdict, arms: Sequence[JudgedArm], titles: Mapping[str, str]
) -> str:
    if not arms:
        return f"{claim.says}: cannot be told, since no model here has the layers, heads or probes that it takes"
    also = [arm.also for arm in arms if arm.also is not None]
    said = reading.said.format(
        metric=metric_name(reading.metric), value=span(arm.value for arm in arms), also=span(also) if also else "–"
    )
    return f"{claim.says}: {overall}{where_it_holds(arms, titles)}; {'by arm, ' * (len(arms) > 1)}{said}"


def where_it_holds(arms: Sequence[JudgedArm], titles: Mapping[str, str]) -> str:
    """In which arms, where there are several, and why none tells."""
    if all(arm.seeds == 1 for arm in arms):
        return " with one seed"
    counts = Counter(arm.verdict for arm in arms)
    if len(arms) == 1:
        return f" ({arms[0].seeds} seeds)"
    if len(counts) == 1:
        return f" in all {len(arms)} arms" if "holds" in counts else f" in any of {len(arms)} arms"
    parts = [
        f"{verdict} in {titles[named[0]] if len(named) == 1 else len(named)}"
        for verdict in get_args(Verdict)
        if (named := [arm.arm for arm in arms if arm.verdict == verdict])
    ]
    return f" (of {len(arms)} arms: {', '.join(parts)})"


_HARDLY_HELP = "Diversity regularisers hardly help decoder-only models"


def _regularisers(
    experiment: Experiment, control: str | None, comparisons: Sequence[Comparison]
) -> Iterator[JudgedStatement]:
    """Whether arms with a diversity regulariser beat those without by 1 % or more."""
    arms = {arm.full_name: arm for arm in experiment.arms}
    titles = {name: title(arm, experiment) for name, arm in arms.items()}
    judged = [
        _helped(c, share)
        for c in comparisons
        if c.metric == "eval_loss_nats" and c.control == control and (share := c.share) is not None
        if regularised(arms[c.arm]) and not regularised(arms[c.baseline])
    ]
    if judged:
        overall = overall_verdict([arm.verdict for arm in judged])
        said = f"the loss changes by {span(100 * arm.value for arm in judged)} %; help is 1 % less loss or more"
        yield JudgedStatement(
            name="regularisers-hardly-help",
            says=_HARDLY_HELP,
            short="regularisers hardly help",
            control=control,
            metric="eval_loss_nats",
            as_published=False,
            bound=-HELPS,
            verdict=overall,
            sentence=f"{_HARDLY_HELP}: {overall}{where_it_holds(judged, titles)}; {said}",
            arms=tuple(judged),
        )


def _helped(c: Comparison, share: float) -> JudgedArm:
    interval = c.share_interval
    verdict = verdict_of(interval, -HELPS, below=False)
    return JudgedArm(arm=c.arm, seeds=c.n_pairs, value=share, interval=interval, also=None, verdict=verdict)


def regularised(arm: Arm) -> bool:
    """Whether an arm is trained with a regulariser of its heads."""
    return bool(arm.template.content()["training"].get("regularizers"))
