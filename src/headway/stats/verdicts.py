"""Verdicts: the meaning of a difference, in one plain sentence.

A sentence is read off the interval: a clear difference, no difference beyond a margin, or no clear difference yet, with
the number of further seeds that would settle it. It is made from the values alone. `scope` tells the level and the
detectable differences once for a whole family.

`paired_finding` words the rule `paired`. An arm beats another only if the test says so after Holm's correction.
Otherwise the sentence names the detectable difference, and how many seeds would detect more. `Sides` names the two
sides of a difference in the grammar of a sentence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.base.text import Amount, brief, counted, is_plural, number
from headway.config.metrics import METRICS, Metric
from headway.stats.evidence import JudgedDifference, JudgedFamily
from headway.stats.paired import LEVEL


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The names of the two sides in a sentence, the better direction, and the metric if it has to be named.

    Examples:
        >>> Sides(first="2 heads", second="1 head", better="lower").outcome(-1.0)
        '2 heads beat 1 head'
        >>> Sides(first="1 head", second="2 heads", better="lower", metric="kernel_mse").outcome(0.5)
        '1 head loses to 2 heads in kernel_mse'
    """

    first: str
    second: str
    better: str | None
    metric: str | None = None

    @property
    def both(self) -> str:
        """The names of both sides, set apart by commas if one side is a list."""
        if any(" and " in side for side in (self.first, self.second)):
            return f"{self.first}, and {self.second},"
        return f"{self.first} and {self.second}"

    @property
    def on(self) -> str:
        """The phrase that names the metric, or an empty text."""
        return f" in {self.metric}" if self.metric else ""

    @property
    def differ(self) -> str:
        """The clause that says that the two sides differ."""
        return f"{self.first} {'differ' if is_plural(self.first) else 'differs'} from {self.second}"

    def improves(self, difference: float) -> bool | None:
        """Return whether a difference is an improvement; None if neither direction is better."""
        return None if self.better is None else (difference < 0) == (self.better == "lower")

    def outcome(self, difference: float, hedge: str = "") -> str:
        """Return the clause that tells which side is ahead, without an amount."""
        improves = self.improves(difference)
        if improves is None:
            be = f"{hedge}be" if hedge else "is"
            return (
                f"{self.metric} {be} {'lower' if difference < 0 else 'higher'} for {self.first} than for {self.second}"
            )
        s = "" if hedge or is_plural(self.first) else "s"
        verb = f"{hedge}beat{s}" if improves else f"{hedge}lose{s} to"
        return f"{self.first} {verb} {self.second}{self.on}"


def about(n: int) -> str:
    """A number of seeds to two digits: the spread it rests on is known no better, and far numbers not at all.

    Examples:
        >>> about(9), about(123), about(123_456)
        ('about 9', 'about 120', 'more than 1,000')
    """
    return f"about {n}" if n < 100 else f"about {float(f'{n:.1e}'):.0f}" if n < 1000 else "more than 1,000"


def paired_finding(c: JudgedDifference, metric: Metric, words: Sides) -> str:
    """Return the sentence for a paired t test, with Holm's correction."""
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


def verdict(
    found: JudgedDifference,
    family: JudgedFamily,
    *,
    metric: Metric,
    sides: tuple[str, str] | None,
    label: str = "",
    notes: Sequence[str] = (),
) -> str:
    """The sentence for a difference.

    Args:
        found: what seeds say of it.
        family: that it was judged in.
        metric: what was compared; where `better` is None the sentence does not judge.
        sides: labels of the two sides, such as "2 heads"; None for a difference that only has a name.
        label: that name, or what the document calls it.
        notes: clauses to be added, such as those of `shortfall`.

    Examples:
        >>> from headway.stats.sequential import LookPlan
        >>> from headway.config.metrics import METRICS
        >>> family = JudgedFamily(of="comparisons", metric="eval_mse", control=None, rule="blocks", size=3,
        ...     plan=LookPlan(looks=(5,), margin=1.0), look=1, level=0.05)
        >>> one = JudgedDifference(metric="eval_mse", control=None, rule="blocks", n_pairs=5, means=(0.66, 0.67),
        ...     difference=-0.01, relative=-0.015, estimate=-1.5, interval=(-2.0, -1.0), se=0.1, freedom=8.0, bound=3.0,
        ...     p=1e-5, p_family=1e-5, outcome="apart", detectable=0.4, seeds_for_margin=(3, 2, 4))
        >>> verdict(one, family, metric=METRICS["eval_mse"], sides=("2 heads", "1 head"))
        '2 heads beat 1 head by 1.5 % (1.0 to 2.0 %), 5 seeds'
    """
    named = metric.name if metric.better is None or not metric.primary else None
    if sides is None:
        said = _paired_value(found, label) if found.rule == "paired" else _value(found, family, metric, label)
        return "; ".join([said, *notes])
    words = Sides(first=sides[0], second=sides[1], better=metric.better, metric=named)
    said = paired_finding(found, metric, words) if found.rule == "paired" else _finding(found, family, metric, words)
    return "; ".join([said, *notes])


def _finding(c: JudgedDifference, family: JudgedFamily, metric: Metric, words: Sides) -> str:
    if (unsaid := _unsaid(c, family, metric, words.both, words.on)) is not None:
        return unsaid
    share, (low, high) = _shares(c)
    write, seeds, margin = _writer(low, high), counted(c.n_pairs, "seed"), f"{family.plan.margin:g} %"
    if c.is_told:
        sign = -1 if share < 0 else 1
        by = f"{write(abs(share))} ({write(*sorted((sign * low, sign * high)))}), {seeds}"
        return f"{words.outcome(share)} by {f'less than {margin}: ' if c.outcome == 'small' else ''}{by}"
    difference = f"{write(share)} ({write(low, high)}), {seeds}"
    if c.outcome == "same":
        return f"{words.both} are the same within {margin}{words.on}: difference {difference}"
    return f"{words.both} are not told apart yet{words.on}: {difference}{_cost(c, margin)}"


def _value(c: JudgedDifference, family: JudgedFamily, metric: Metric, label: str) -> str:
    """Return the sentence for a difference without sides."""
    if (unsaid := _unsaid(c, family, metric, label, "")) is not None:
        return unsaid
    share, (low, high) = _shares(c)
    write, margin = _writer(low, high), f"{family.plan.margin:g} %"
    amount = f"{write(share)} ({write(low, high)}), {counted(c.n_pairs, 'seed')}"
    if c.outcome == "small":
        return f"{label} is not 0, and less than {margin}: {amount}"
    if c.outcome == "same":
        return f"{label} is 0 within {margin}: {amount}"
    return f"{label} is {amount}" if c.is_told else f"{label} is not told from 0 yet: {amount}{_cost(c, margin)}"


def _paired_value(c: JudgedDifference, label: str) -> str:
    share, interval = c.share, c.share_interval
    if share is None:
        return f"{label} cannot be judged: no seed gave a result for all of its arms"
    amount = Amount.of_share(share, interval)
    doubt = "no interval" if interval is None else f"interval {amount(*interval)}"
    open_end = "" if c.p is None or c.is_told else "; it may as well be none"
    seeds = counted(c.n_pairs, "seed")
    return f"{label} is {amount(share)} of the mean of what is subtracted ({doubt}, {seeds}){open_end}"


def _unsaid(c: JudgedDifference, family: JudgedFamily, metric: Metric, what: str, on: str) -> str | None:
    """Return a sentence on why there is no verdict, with the estimate if there is one; None if there is a verdict."""
    if c.n_pairs == 0 or c.means is None or c.share is None:
        which = "both" if family.of == "comparisons" else "all of its arms"
        return f"{what} cannot be compared{on}: no seed gave a result for {which}"
    seeds, so_far = counted(c.n_pairs, "seed"), Amount.of_share(c.share, None)(c.share)
    if family.look is None:
        awaited = counted(family.awaited, "seed")
        return f"{what}: no verdict{on} before every run of the look at {awaited} has ended; so far {so_far} ({seeds})"
    if c.n_pairs == 1:
        unit = "" if metric.unit in ("1", "ratio") else f" {metric.unit}"
        return f"{what} cannot be compared{on}: one seed ({' and '.join(number(m, 3) for m in c.means)}{unit})"
    if c.outcome == "few":
        return f"{what}: too few seeds to say ({c.n_pairs}){on}; so far {so_far}"
    if c.interval is None:
        return f"{what} cannot be compared{on}: the same difference at each of {seeds} ({so_far}), so no spread"
    return None


def _shares(c: JudgedDifference) -> tuple[float, tuple[float, float]]:
    share, interval = c.share, c.share_interval
    assert share is not None
    assert interval is not None
    return share, interval


def _writer(low: float, high: float) -> Amount:
    return Amount.within(low, high, factor=100.0, unit=" %")


def _cost(c: JudgedDifference, margin: str) -> str:
    """About how many more seeds settle an open question, as a clause."""
    if not c.seeds_for_margin:
        return ""
    more, low, high = (max(1, n - c.n_pairs) for n in c.seeds_for_margin)
    far = f" ({low} to {high})" if low < high < _FAR else ""
    time = f", about {brief(more * c.seed_s)} of training" if c.seed_s and more < _FAR else ""
    seeds = f"{about(more)} more seed{'' if more == 1 else 's'}{far}"
    return f"; {seeds} {'settles' if more == 1 else 'settle'} {margin}{time}"


_FAR = 1_000
"""Numbers of seeds from which on it does not matter how many."""


def scope(family: JudgedFamily, found: Sequence[JudgedDifference]) -> str:
    """Return a sentence for a whole family: the level of its intervals, and the differences that it can detect."""
    of = {"comparisons": "comparison", "contrasts": "contrast"}[family.of]
    if family.rule == "paired":
        why = "" if any(c.interval for c in found) else ", of which none has an interval yet"
        return f"{counted(family.size, of)} by paired t tests: 95 % intervals one by one, p with Holm's correction{why}"
    if family.rule == "shares":
        return (
            f"{counted(family.size, of)} of shares of seeds: Wilson's 95 % intervals, and McNemar's exact test of "
            "pairs (mid-p) with Holm's correction"
        )
    better = {"lower": "; less is better", "higher": "; more is better", None: ""}[METRICS[family.metric].better]
    if family.look is None:
        return f"no interval before the look at {counted(family.awaited, 'seed')}, for which runs are missing{better}"
    looks = f"look {family.look} of {len(family.plan.looks)}"
    if not any(c.interval for c in found):
        return f"{looks}, at {counted(family.awaited, 'seed')}: no interval; it takes 3 seeds or more{better}"
    sure = f"{100 * (1 - family.plan.level):.3g} %"  # less than 95 % where a plan was prolonged
    together = f"intervals that hold for all {family.size} {of}s at once"
    for_all = f"{sure} {together}" if family.size > 1 else f"a {sure} interval"
    parts = [f"{for_all}, at {looks}", *_detectable(found)]
    if family.pairing is not None:
        parts.append(f"seeds explain {max(0, round(100 * family.pairing))} % of the spread")
    return "; ".join(parts) + better


def _detectable(found: Sequence[JudgedDifference]) -> list[str]:
    sizes = sorted(size for c in found if (size := c.as_share(c.detectable)) is not None)
    if not sizes:
        return []
    write = Amount.of_share(sizes[0], None)
    span = write(sizes[0]) if write(sizes[0]) == write(sizes[-1]) else write(sizes[0], sizes[-1])
    return [f"a true difference of {span} is told apart in 80 of 100 experiments"]
