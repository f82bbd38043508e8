"""Compare: what a paired t test means, in one plain sentence: the words of the rule `paired`.

An arm beats another only where the test says so after Holm's correction; otherwise the sentence says what could have
been seen, and how many seeds would see more.
"""

from collections.abc import Sequence

from headway.compare.evidence import JudgedDifference
from headway.compare.sides import Sides, about
from headway.compare.statistics import LEVEL
from headway.declare.metrics import Metric
from headway.words import Amount, counted


def paired_finding(c: JudgedDifference, metric: Metric, words: Sides) -> str:
    """What a paired t test says, with Holm's correction."""
    if c.n_pairs == 0 or c.difference is None:
        return f"{words.both} cannot be compared{words.on}: no seed gave a result for both"
    if c.interval is None or c.p is None:
        return _without_test(c, metric, words)
    amount = _amount(c, metric)
    p_family = c.p if c.p_family is None else c.p_family
    if c.p >= LEVEL:
        seeds = counted(c.n_pairs, "paired seed")
        return (
            f"{words.both} cannot be told apart{words.on} (difference {amount(c.difference)}, "
            f"interval {amount(*c.interval)}; {seeds} would detect {amount(c.detectable or 0.0)})"
            + (f"; a 1 % difference would need {_seeds(c.seeds_for_margin)} seeds" if c.seeds_for_margin else "")
        )
    sign = -1 if c.difference < 0 else 1
    size = f"{amount(abs(c.difference))} (95 % interval {amount(*sorted(sign * end for end in c.interval))}"
    pairs = counted(c.n_pairs, "paired seed")
    if p_family >= LEVEL:
        return (
            f"{words.outcome(c.difference, 'may ')} by {size}, {_p(c.p)}, {pairs}), "
            f"but {_p(p_family)} corrected for the number of comparisons; more seeds would tell"
        )
    # The correction is worth a word only where it shows.
    corrected = "" if _p(c.p) == _p(p_family) else f", corrected {_p(p_family)}"
    return f"{words.outcome(c.difference)} by {size}, {_p(c.p)}{corrected}, {pairs})"


def _without_test(c: JudgedDifference, metric: Metric, words: Sides) -> str:
    assert c.difference is not None
    advice = "one paired seed: no interval; run at least 3 seeds"
    if c.n_pairs > 1:
        advice = f"the same for all {c.n_pairs} seeds: no spread, so no interval"
    if c.difference == 0:
        return f"{words.both} do not differ{words.on}, {advice}"
    return f"{words.differ}{words.on} by {_amount(c, metric)(c.difference)}, {advice}"


def _seeds(needed: Sequence[int]) -> str:
    """A number, with its range where one is known and not boundless."""
    low, high = min(needed), max(needed)
    return about(needed[0]) + (f" ({low} to {high})" if low < high < 1_000 else "")


def _amount(c: JudgedDifference, metric: Metric) -> Amount:
    """Writes differences as percentages of the baseline's mean, or in the metric's unit where it has none."""
    assert c.difference is not None
    factor, unit = 1.0, "" if metric.unit in ("1", "ratio") else f" {metric.unit}"
    if c.relative and c.difference:
        factor, unit = 100 * c.relative / c.difference, " %"
    return Amount.within(*(c.interval or (0.0, 2 * c.difference)), factor=factor, unit=unit)


def _p(p: float) -> str:
    if p < 0.001:
        return "p < .001"
    text = f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
    return f"p = {text.removeprefix('0')}"
