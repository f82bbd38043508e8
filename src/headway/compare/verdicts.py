"""Compare: what a comparison means, in one plain sentence.

A verdict is made from the values alone. An arm beats another only where the test says so after Holm's
correction; otherwise the sentence says what could have been seen, and how many seeds would see more.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.compare.statistics import LEVEL, Comparison
from headway.declare.metrics import Metric
from headway.words import Amount, counted, is_plural

EXECUTION_KEYS = ("device", "trainer", "instruction_set", "threads", "compile", "versions", "processor", "system")
"""What of a run's execution can change its bits or its speed; the two halves of a pair should agree in it."""


def verdict(comparison: Comparison, *, metric: Metric, arm: str, baseline: str, notes: Sequence[str] = ()) -> str:
    """The sentence for a comparison.

    Args:
        comparison: with `p_holm` filled in.
        metric: what was compared; where `better` is None the sentence does not judge.
        arm: label of the arm, such as "2 heads".
        baseline: label of the baseline.
        notes: clauses to be added, such as those of `shortfall`.

    Examples:
        >>> from headway.declare.metrics import METRICS
        >>> one = Comparison(metric="eval_mse", arm="h2", baseline="h1", control=None, group=None, n_pairs=5,
        ...     difference=-0.763, relative=-0.533, interval=(-0.769, -0.757), p=1e-9, p_holm=1e-9,
        ...     detectable=0.01, seeds_for_1pct=3, verdict="")
        >>> verdict(one, metric=METRICS["eval_mse"], arm="2 heads", baseline="1 head")
        '2 heads beat 1 head by 53.3 % (95 % interval 52.9 to 53.7 %, p < .001, 5 paired seeds)'
    """
    named = metric.better is None or not metric.primary
    words = _Words(arm=arm, baseline=baseline, better=metric.better, metric=metric.name if named else None)
    return "; ".join([_finding(comparison, metric, words), *notes])


def shortfall(label: str, statuses: Sequence[str]) -> list[str]:
    """A clause for each way in which runs of an arm gave no result.

    Examples:
        >>> shortfall("8 heads", ["done", "failed", "failed", "waiting"])
        ['2 of 4 runs of 8 heads failed', '1 of 4 runs of 8 heads is not finished']
    """
    known = ("failed", "damaged")
    counts = Counter(status if status in known else "open" for status in statuses if status != "done")
    said = {
        "failed": "failed",
        "damaged": "is damaged" if counts["damaged"] == 1 else "are damaged",
        "open": "is not finished" if counts["open"] == 1 else "are not finished",
    }
    return [f"{counts[how]} of {counted(len(statuses), 'run')} of {label} {said[how]}" for how in said if counts[how]]


def left_out(seeds: Sequence[int]) -> list[str]:
    """A clause for the seeds whose values are missing or not finite.

    Examples:
        >>> left_out([3])
        ['seed 3 is left out, where a value is not finite']
    """
    if not seeds:
        return []
    are = "seed {} is" if len(seeds) == 1 else "seeds {} are"
    return [f"{are.format(', '.join(map(str, seeds)))} left out, where a value is not finite"]


def execution_warning(
    arm: str, baseline: str, executions: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
) -> str | None:
    """A warning when the two halves of pairs were not executed alike, else None.

    Args:
        arm: label of the arm.
        baseline: label of the baseline.
        executions: what `run.json` holds under `execution`, of the arm and of the baseline, for each pair.

    Examples:
        >>> execution_warning("2 heads", "1 head", [({"threads": 1}, {"threads": 2}), ({"threads": 1}, {"threads": 1})])
        '2 heads and 1 head were not executed alike in 1 of 2 pairs (threads 1 against 2): a difference between them may come from that, above all in speed and memory'
    """  # noqa: E501 - a doctest's output stands on one line
    differing = [_differences(*pair) for pair in executions]
    affected = sum(bool(found) for found in differing)
    if not affected:
        return None
    kinds = dict.fromkeys(text for found in differing for text in found)
    return (
        f"{arm} and {baseline} were not executed alike in {affected} of {counted(len(executions), 'pair')} "
        f"({'; '.join(kinds)}): a difference between them may come from that, above all in speed and memory"
    )


def _differences(arm: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    mine, theirs = _flat(arm), _flat(baseline)
    # What only one of them records (torch's version, by a run that needs none) is no difference of its own.
    return [
        f"{key.replace('_', ' ')} {mine[key]} against {theirs[key]}"
        for key in sorted(mine.keys() & theirs.keys())
        if mine[key] != theirs[key]
    ]


def _flat(execution: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key in EXECUTION_KEYS:
        value = execution.get(key)
        values |= value if isinstance(value, Mapping) else {} if value is None else {key: value}
    return values


def _finding(c: Comparison, metric: Metric, words: "_Words") -> str:
    if c.n_pairs == 0 or c.difference is None:
        return f"{words.both} cannot be compared{words.on}: no seed gave a result for both"
    if c.interval is None or c.p is None:
        return _without_test(c, metric, words)
    amount = _amount(c, metric)
    p_holm = c.p if c.p_holm is None else c.p_holm
    if c.p >= LEVEL:
        seeds = counted(c.n_pairs, "paired seed")
        return (
            f"{words.both} cannot be told apart{words.on} (difference {amount(c.difference)}, "
            f"interval {amount(*c.interval)}; {seeds} would detect {amount(c.detectable or 0.0)})"
            + (f"; a 1 % difference would need {_about(c.seeds_for_1pct)} seeds" if c.seeds_for_1pct else "")
        )
    sign = -1 if c.difference < 0 else 1
    size = f"{amount(abs(c.difference))} (95 % interval {amount(*sorted(sign * end for end in c.interval))}"
    pairs = counted(c.n_pairs, "paired seed")
    if p_holm >= LEVEL:
        return (
            f"{words.outcome(c.difference, 'may ')} by {size}, {_p(c.p)}, {pairs}), "
            f"but {_p(p_holm)} corrected for the number of comparisons; more seeds would tell"
        )
    # The correction is worth a word only where it shows.
    corrected = "" if _p(c.p) == _p(p_holm) else f", corrected {_p(p_holm)}"
    return f"{words.outcome(c.difference)} by {size}, {_p(c.p)}{corrected}, {pairs})"


def _without_test(c: Comparison, metric: Metric, words: "_Words") -> str:
    assert c.difference is not None
    advice = "one paired seed: no interval; run at least 3 seeds"
    if c.n_pairs > 1:
        advice = f"the same for all {c.n_pairs} seeds: no spread, so no interval"
    if c.difference == 0:
        return f"{words.both} do not differ{words.on}, {advice}"
    judged = {True: " (better)", False: " (worse)", None: ""}[words.improves(c.difference)]
    return f"{words.differ}{words.on} by {_amount(c, metric)(c.difference)}{judged}, {advice}"


@dataclass(frozen=True, kw_only=True)
class _Words:
    """The two labels in the grammar of a sentence."""

    arm: str
    baseline: str
    better: str | None
    metric: str | None

    @property
    def both(self) -> str:
        return f"{self.arm} and {self.baseline}"

    @property
    def on(self) -> str:
        return f" in {self.metric}" if self.metric else ""

    @property
    def differ(self) -> str:
        return f"{self.arm} {'differ' if is_plural(self.arm) else 'differs'} from {self.baseline}"

    def improves(self, difference: float) -> bool | None:
        return None if self.better is None else (difference < 0) == (self.better == "lower")

    def outcome(self, difference: float, hedge: str = "") -> str:
        improves = self.improves(difference)
        if improves is None:
            be = f"{hedge}be" if hedge else "is"
            return (
                f"{self.metric} {be} {'lower' if difference < 0 else 'higher'} for {self.arm} than for {self.baseline}"
            )
        s = "" if hedge or is_plural(self.arm) else "s"
        verb = f"{hedge}beat{s}" if improves else f"{hedge}lose{s} to"
        return f"{self.arm} {verb} {self.baseline}{self.on}"


def _amount(c: Comparison, metric: Metric) -> Amount:
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


def _about(n: int) -> str:
    """A number of seeds to two digits: the spread it rests on is known no better, and far numbers not at all."""
    return f"about {n}" if n < 100 else f"about {float(f'{n:.1e}'):.0f}" if n < 1000 else "more than 1,000"
