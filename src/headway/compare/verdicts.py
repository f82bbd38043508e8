"""Compare: what a difference means, in one plain sentence, read off its interval.

Told apart, the same within a margin, or neither yet, and then about how many more seeds settle it. A verdict is made
from the values alone; how sure it is, and what could have been seen, is told once for a whole family: see `scope`.
"""

from collections.abc import Sequence

from headway.compare.evidence import JudgedDifference, JudgedFamily
from headway.compare.paired_verdicts import paired_finding
from headway.compare.sides import Sides, about
from headway.declare.metrics import METRICS, Metric
from headway.words import Amount, brief, counted, number


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
        >>> from headway.compare.look_plan import LookPlan
        >>> from headway.declare.metrics import METRICS
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
    """Of a difference that has no sides."""
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
    """Why there is no verdict, with the estimate where there is one; None where there is a verdict."""
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
    """What holds for all of a family, in a sentence: how sure its intervals are, and what could have been seen."""
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
