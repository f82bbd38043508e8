"""Verdicts: the meaning of a difference, in one plain sentence.

A sentence is read off the interval: a clear difference, no difference beyond a margin, or no clear difference yet, with
the number of further seeds that would settle it. It is made from the values alone. `scope` tells the level and the
detectable differences once for a whole family.

* `comparison_verdict` and `contrast_verdict` add clauses on what is missing; `verdict` words the difference alone.
* `paired_finding` words the rule `paired`. An arm beats another only if the test says so after Holm's correction.
  Otherwise the sentence names the detectable difference, and how many seeds would detect more.
* `share_finding` words the rule `shares`, and what theory says is possible.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scipy.special import stdtrit

from headway.base.text import TEN_TIMES, Amount, brief, counted, is_plural, listed, number
from headway.config.arms import Arm
from headway.config.contrasts import Contrast
from headway.config.experiment import Experiment
from headway.config.metrics import METRICS, Metric
from headway.stats.blocks import reading
from headway.stats.cells import Cells, Match, RunsOfArm, Weights, done, title, values_of
from headway.stats.evidence import Difference, Family
from headway.stats.paired import is_finite
from headway.stats.sequential import FEWEST
from headway.stats.shares import Share
from headway.stats.simultaneous import LEVEL


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

    def outcome(self, difference: float, hedge: str = "") -> str:
        """Return the clause that tells which side is ahead, without an amount."""
        if self.better is None:
            be = f"{hedge}be" if hedge else "is"
            return (
                f"{self.metric} {be} {'lower' if difference < 0 else 'higher'} for {self.first} than for {self.second}"
            )
        s = "" if hedge or is_plural(self.first) else "s"
        verb = f"{hedge}beat{s}" if (difference < 0) == (self.better == "lower") else f"{hedge}lose{s} to"
        return f"{self.first} {verb} {self.second}{self.on}"


def about(n: int) -> str:
    """A number of seeds to two digits: the spread it rests on is known no better, and far numbers not at all.

    Examples:
        >>> about(9), about(123), about(123_456)
        ('about 9', 'about 120', 'more than 1,000')
    """
    return f"about {n}" if n < 100 else f"about {float(f'{n:.1e}'):.0f}" if n < 1000 else "more than 1,000"


def paired_finding(c: Difference, metric: Metric, words: Sides) -> str:
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


def _without_test(c: Difference, metric: Metric, words: Sides) -> str:
    assert c.difference is not None
    advice = "one paired seed: no interval; run at least 3 seeds"
    if c.n_pairs > 1:
        advice = f"the same for all {c.n_pairs} seeds: no spread, so no interval"
    if c.difference == 0:
        return f"{words.both} do not differ{words.on}, {advice}"
    differ = "differ" if is_plural(words.first) else "differs"
    return f"{words.first} {differ} from {words.second}{words.on} by {_amount(c, metric)(c.difference)}, {advice}"


def _seeds(needed: Sequence[int]) -> str:
    """A number, with its range where one is known and not boundless."""
    low, high = min(needed), max(needed)
    return about(needed[0]) + (f" ({low} to {high})" if low < high < 1_000 else "")


def _amount(c: Difference, metric: Metric) -> Amount:
    """Writes differences as percentages of the baseline's mean, or in the metric's unit where it has none."""
    assert c.difference is not None
    factor, unit = 1.0, "" if metric.unit in ("1", "ratio") else f" {metric.unit}"
    # A share of ten times or more is no readable per cent.
    if c.relative and c.difference and max(map(abs, c.share_interval or (c.relative,))) < TEN_TIMES:
        factor, unit = 100 * c.relative / c.difference, " %"
    return Amount.within(*(c.interval or (0.0, 2 * c.difference)), factor=factor, unit=unit)


def _p(p: float) -> str:
    if p < 0.001:
        return "p < .001"
    text = f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
    return f"p = {text.removeprefix('0')}"


def verdict(
    difference: Difference,
    family: Family,
    *,
    metric: Metric,
    sides: tuple[str, str] | None,
    label: str = "",
    notes: Sequence[str] = (),
) -> str:
    """The sentence for a difference.

    Args:
        difference: as it was judged.
        family: that it was judged in.
        metric: what was compared; where `better` is None the sentence does not judge.
        sides: labels of the two sides, such as "2 heads"; None for a difference that only has a name.
        label: that name, or what the document calls it.
        notes: clauses to be added, such as those of `shortfall`.

    Examples:
        >>> from headway.stats.sequential import LookPlan
        >>> from headway.config.metrics import METRICS
        >>> family = Family(of="comparisons", metric="eval_mse", control=None, rule="blocks", size=3,
        ...     plan=LookPlan(looks=(5,), margin=1.0), look=1, level=0.05)
        >>> difference = Difference.partly_known(n_pairs=5, means=(0.66, 0.67), estimate=-1.5, interval=(-2.0, -1.0),
        ...     outcome="apart")
        >>> verdict(difference, family, metric=METRICS["eval_mse"], sides=("2 heads", "1 head"))
        '2 heads beat 1 head by 1.5 % (1.0 to 2.0 %), 5 seeds'
    """
    if family.of_errors:
        metric = of_errors(metric)
    named = metric.name if metric.better is None or not metric.primary else None
    words = None if sides is None else Sides(first=sides[0], second=sides[1], better=metric.better, metric=named)
    if difference.rule != "paired":
        said = _finding(difference, family, metric, words, label)
    else:
        said = _paired_value(difference, label) if words is None else paired_finding(difference, metric, words)
    return "; ".join([said, *notes])


def of_errors(metric: Metric) -> Metric:
    """Return the metric of what is missing to 1, such as the share of wrong answers.

    Examples:
        >>> of_errors(METRICS["accuracy"]).name
        'errors (1 − accuracy)'
    """
    told = {"name": f"errors (1 − {metric.name})", "unit": "1", "sentence": f"1 less the {metric.sentence}"}
    return metric.model_copy(update={**told, "better": "lower", "primary": False})


def comparison_verdict(
    difference: Difference, family: Family, match: Match, metric: Metric, experiment: Experiment, runs: RunsOfArm
) -> str:
    """Return the sentence for two arms, with clauses on runs without a result."""
    sides = title(match.arm, experiment), title(match.baseline, experiment)
    mine, theirs = (values_of(arm, metric.name, runs) for arm in (match.arm, match.baseline))
    excluded = [s for s in sorted(mine.keys() & theirs.keys()) if not (is_finite(mine[s]) and is_finite(theirs[s]))]
    notes = [*left_out(excluded)]
    for arm, name in zip((match.arm, match.baseline), sides, strict=True):
        notes += shortfall(name, [run.status for run in runs.get(arm.full_name, {}).values()])
    if no_merit := match.no_merit(metric.name):
        metric = metric.model_copy(update={"better": None})
        notes.append(no_merit)
    if family.rule == "shares":
        solvers = (_solver(match.arm, sides[0]), _solver(match.baseline, sides[1]))
        return "; ".join([share_finding(difference, *solvers, task=solvers[0].task), *notes])
    return verdict(difference, family, metric=metric, sides=sides, notes=notes)


def _solver(arm: Arm, label: str) -> "Solver":
    possible = arm.resolved_spec.task.best_possible(arm.resolved_spec.model).get("solved")
    return Solver(label=label, possible=None if possible is None else possible > 0, task=arm.resolved_spec.task.title)


def contrast_verdict(
    difference: Difference,
    family: Family,
    contrast: Contrast,
    experiment: Experiment,
    *,
    cells: Cells,
    weights: Weights,
    runs: RunsOfArm,
    is_late: bool,
) -> str:
    """Return the sentence for a contrast of the document, with clauses on what it lacks."""
    notes = ["asked after an answer was seen"] if is_late else []
    notes += _missing(contrast, weights, cells, runs, experiment)
    sides = sides_of(contrast, experiment)
    label = called(contrast, experiment)
    said = verdict(difference, family, metric=METRICS[difference.metric], sides=sides, label=label, notes=notes)
    # A side that is a row of arms has no name of its own: the question has.
    if sides is not None and any(side.startswith("the mean of ") for side in sides):
        said = f"{contrast.name}: {said}"
    return said if difference.control is None else f"under {experiment.control_label(difference.control)}, {said}"


def _missing(
    contrast: Contrast, weights: Weights, cells: Cells, runs: RunsOfArm, experiment: Experiment
) -> Iterator[str]:
    """Yield a clause for what a contrast lacks: arms without a finished run, values, and runs that gave no result."""
    if without := cells.without(weights):
        named = [title(experiment.arm(name), experiment) for name in without]
        which = listed(named) if len(named) < 4 else f"{len(named)} of its {counted(len(contrast.weights), 'arm')}"
        yield f"{which} {'has' if len(named) == 1 else 'have'} no finished run"
    arms = [experiment.arm(name) for name in weights]
    every = [run for arm in arms for run in done(arm, runs)]
    yield from left_out(sorted({r.seed for r in every if not is_finite(r.metrics.get(experiment.primary, 0.0))}))
    statuses = [[run.status for run in runs.get(arm.full_name, {}).values()] for arm in arms]
    if len(arms) == 2:
        for arm, of_arm in zip(arms, statuses, strict=True):
            yield from shortfall(title(arm, experiment), of_arm)
    else:
        yield from shortfall("its arms", [status for of_arm in statuses for status in of_arm])


def shortfall(label: str, statuses: Sequence[str]) -> list[str]:
    """Return a clause for each way in which runs of an arm gave no result.

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
    """Return a clause for the seeds whose values are missing or not finite.

    Examples:
        >>> left_out([3])
        ['seed 3 is left out, where a value is not finite']
    """
    if not seeds:
        return []
    are = "seed {} is" if len(seeds) == 1 else "seeds {} are"
    return [f"{are.format(', '.join(map(str, seeds)))} left out, where a value is not finite"]


def sides_of(contrast: Contrast, experiment: Experiment) -> tuple[str, str] | None:
    """Return the names of a contrast's two sides in sentences; single arms keep their usual names."""
    if contrast.sides is None:
        return None
    arms = (list(contrast.first), list(contrast.second))
    first, second = (_side(side, of, experiment) for side, of in zip(contrast.sides, arms, strict=True))
    return first, second


def _side(side: str, arms: Sequence[str], experiment: Experiment) -> str:
    titles = [title(experiment.arm(arm), experiment) for arm in arms]
    if len(arms) == 1:
        return titles[0]
    return f"the mean of {listed(titles)}" if side == listed(arms) else side


_TOLD = 6
"""At most this many arms of a weighted sum are named one by one."""


def called(contrast: Contrast, experiment: Experiment) -> str:
    """Return the name of a contrast without sides, and what it asks.

    Examples:
        >>> from headway.config.load import load
        >>> experiment = load("icl-heads", settings=["contrasts={curve: {h1: 1, h2: -1.5, h4: 0.5}}"])
        >>> called(experiment.contrasts[0], experiment)
        'curve (1 head − 1.5 x 2 heads + 0.5 x 4 heads)'
    """
    if len(contrast.weights) > _TOLD:
        return f"{contrast.label} (a weighted sum of {len(contrast.weights)} arms)"
    said = ""
    for arm, weight in contrast.weights.items():
        sign = (" − " if weight < 0 else " + ") if said else ("−" if weight < 0 else "")
        factor = "" if abs(weight) == 1 else f"{abs(weight):.3g} x "
        said += f"{sign}{factor}{title(experiment.arm(arm), experiment)}"
    return f"{contrast.label} ({said})"


def _finding(c: Difference, family: Family, metric: Metric, words: Sides | None, label: str) -> str:
    """Return the sentence for a difference by the rule `blocks`; without sides, by its label."""
    what, on = (label, "") if words is None else (words.both, words.on)
    if (unsaid := _unsaid(c, family, metric, what, on)) is not None:
        return unsaid
    share, interval = c.share, c.share_interval
    assert share is not None
    assert interval is not None
    write = Amount.of_share(share, interval, margin=family.deciding_margin(c))
    seeds, margin = counted(c.n_pairs, "seed"), f"{family.plan.margin:g} %"
    amount = f"{write(share)} ({write(*interval)}), {seeds}"
    if words is None:
        said = {
            "apart": f"is {amount}",
            "small": f"is not 0, and less than {margin}: {amount}",
            "same": f"is 0 within {margin}: {amount}",
            "open": f"is not told from 0 yet: {amount}{_cost(c, margin)}",
        }
        return f"{label} {said[c.outcome]}"
    if c.is_told:
        sign = -1 if share < 0 else 1
        size = f"{write(abs(share))} ({write(*sorted(sign * end for end in interval))}), {seeds}"
        return f"{words.outcome(share)} by {f'less than {margin}: ' if c.outcome == 'small' else ''}{size}"
    if c.outcome == "same":
        return f"{what} are the same within {margin}{on}: difference {amount}"
    return f"{what} are not told apart yet{on}: {amount}{_cost(c, margin)}"


def _paired_value(c: Difference, label: str) -> str:
    share, interval = c.share, c.share_interval
    if share is None:
        return f"{label} cannot be judged: no seed gave a result for all of its arms"
    amount = Amount.of_share(share, interval)
    doubt = "no interval" if interval is None else f"interval {amount(*interval)}"
    open_end = "" if c.p is None or c.is_told else "; it may as well be none"
    seeds = counted(c.n_pairs, "seed")
    return f"{label} is {amount(share)} of the mean of what is subtracted ({doubt}, {seeds}){open_end}"


def _unsaid(c: Difference, family: Family, metric: Metric, what: str, on: str) -> str | None:
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


def _cost(c: Difference, margin: str) -> str:
    """Return how many more seeds settle an open question with which chance, as a clause."""
    if c.seeds_to_settle is None or c.chance_to_settle is None:
        return ""
    return f"; {more_seeds(c.seeds_to_settle, c.chance_to_settle, margin, c.seed_s)}"


def more_seeds(more: int, chance: float, margin: str, seconds: float | None) -> str:
    """Return how many more seeds settle a margin, with which chance, and how long they train.

    Examples:
        >>> more_seeds(5, 0.812, "1 %", 60.0)
        'about 5 more seeds settle 1 % with a chance of about 80 %, about 5 min 00 s of training'
        >>> more_seeds(2048, 0.3, "1 %", 60.0)
        'more than 1,000 more seeds settle 1 %'
    """
    said = f"{about(more)} more seed{' settles' if more == 1 else 's settle'} {margin}"
    if more >= _FAR:
        return said
    time = f", about {brief(more * seconds)} of training" if seconds else ""
    return f"{said} with a chance of about {round(10 * chance)}0 %{time}"


_FAR = 1_000
"""Numbers of seeds from which on it does not matter how many."""


def scope(family: Family, differences: Sequence[Difference]) -> str:
    """Return a sentence for a whole family: its intervals' level and what it can detect."""
    of = {"comparisons": "comparison", "contrasts": "contrast"}[family.of]
    if family.rule == "paired":
        why = "" if any(c.interval for c in differences) else ", of which none has an interval yet"
        why += "; of errors, since values are near a ceiling" if family.of_errors else ""
        return f"{counted(family.size, of)} by paired t tests: 95 % intervals one by one, p with Holm's correction{why}"
    if family.rule == "shares":
        return (
            f"{counted(family.size, of)} of shares of seeds: Wilson's 95 % intervals one by one, and McNemar's exact "
            "test of pairs (mid-p) with Holm's correction"
        )
    better = {"lower": "; less is better", "higher": "; more is better", None: ""}[METRICS[family.metric].better]
    if family.of_errors:
        better = f"; near a ceiling {of_errors(METRICS[family.metric]).name} are compared; less is better"
    if family.look is None:
        return f"no interval before the look at {counted(family.awaited, 'seed')}, for which runs are missing{better}"
    looks = f"look {family.look} of {len(family.plan.looks)}"
    if not any(c.interval for c in differences):
        enough = max((c.n_pairs for c in differences), default=0) >= FEWEST
        few = f"it takes {FEWEST} seeds that all arms of a difference have"
        why = "no difference varies from seed to seed" if enough else few
        return f"{looks}, at {counted(family.awaited, 'seed')}: no interval; {why}{better}"
    sure = f"{100 * (1 - family.plan.level):.3g} %"  # less than 95 % where a plan was prolonged
    here = sum(not getattr(each, "late", False) for each in differences)
    besides = family.size - here
    more = f"at once for the {counted(here, of)} here and {besides} more that {'was' if besides == 1 else 'were'} asked"
    together = f"intervals that hold {more if besides > 0 else f'for all {family.size} {of}s at once'}"
    for_all = f"{sure} {together}" if family.size > 1 else f"a {sure} interval"
    parts = [f"{for_all}, at {looks}", *_detectable(differences), *_settled_alone(family, differences)]
    if family.pairing is not None:
        parts.append(f"seeds explain {max(0, round(100 * family.pairing))} % of the spread")
    if family.baseline_seeds is not None and not family.odd and family.awaited < family.baseline_seeds:
        parts.append(f"the baseline is taken to vary like the other arms: a test takes {family.baseline_seeds} seeds")
    return "; ".join(parts) + better


def _settled_alone(family: Family, differences: Sequence[Difference]) -> Iterator[str]:
    """Yield how many open differences would have a verdict without the others, so that an added arm is no riddle."""
    known = [c for c in differences if c.outcome == "open" and c.se and c.freedom and c.estimate is not None]
    reaches = [(c, float(stdtrit(c.freedom, 1 - family.level / 2)) * c.se) for c in known if c.se]
    alone = [replace(c, interval=(c.estimate - reach, c.estimate + reach)) for c, reach in reaches if c.estimate]
    if (n := sum(reading(c, family.plan.margin) != "open" for c in alone)) and family.size > 1:
        yield f"by itself {n} open {family.of[:-1]} would have a verdict: each that is added widens every interval"


def _detectable(differences: Sequence[Difference]) -> list[str]:
    sizes = sorted(size for c in differences if (size := c.as_share(c.detectable)) is not None)
    if not sizes:
        return []
    write = Amount.of_share(sizes[0] if sizes[-1] < TEN_TIMES else sizes[-1], None)
    one = write(sizes[0]) == write(sizes[-1])
    span = write(sizes[0]) if one else write.prefix + write(sizes[0], sizes[-1])
    return [f"this experiment can detect differences of about {span} (80 % power)"]


_MOST_DIGITS = 9


@dataclass(frozen=True, kw_only=True)
class Solver:
    """A side of a comparison: its name, and whether such a model can solve the task; None if that is unknown.

    `task` is what it is asked, where the two sides are asked different things.
    """

    label: str
    possible: bool | None = None
    task: str = ""


def share_finding(c: Difference, first: Solver, second: Solver, *, task: str) -> str:
    """Return the sentence that compares two shares of paired seeds.

    Examples:
        >>> from headway.stats.shares import compare_shares
        >>> difference = compare_shares({s: float(s < 41) for s in range(64)}, dict.fromkeys(range(64), 0.0))
        >>> share_finding(difference, Solver(label="3 heads", possible=True), Solver(label="2 heads", possible=False),
        ...     task="3-bit parity")
        '3 heads solve 3-bit parity in 41 of 64 seeds (95 % CI 52 to 75 %); 2 heads in 0 of 64 (95 % CI 0 to 6 %): theory shows that 2 heads cannot'
    """  # noqa: E501 - a doctest's output stands on one line
    if c.n_pairs == 0 or c.means is None:
        return f"{first.label} and {second.label} cannot be compared: no seed gave a result for both"
    sides = [Share(yes=round(mean * c.n_pairs), n=c.n_pairs) for mean in c.means]
    verb = "solve" if is_plural(first.label) else "solves"
    said = f"{first.label} {verb} {task} in {_told(sides[0], unit=True)}{_cannot(first)}"
    other = f" {second.task}" if second.task and second.task != task else ""
    said += f"; {second.label}{other} in {_told(sides[1], unit=False)}{_cannot(second)}"
    if c.is_told or c.p is None or _is_settled(first, second, c.means):
        return said
    return (
        f"{said}; no clear difference, p = {f'{c.p_family if c.p_family is not None else c.p:.2f}'.removeprefix('0')}"
    )


def _is_settled(first: Solver, second: Solver, shares: tuple[float, float]) -> bool:
    """Return whether theory decides: neither side can solve the task, or one cannot and the other does in some seed."""
    cannot = first.possible is False, second.possible is False
    return all(cannot) or (cannot[0] and shares[1] > 0) or (cannot[1] and shares[0] > 0)


def _told(share: Share, *, unit: bool) -> str:
    of = counted(share.n, "seed") if unit else f"{share.n}"
    low, high = (f"{100 * float(decimal(end)):g}" for end in share.interval)
    return f"{'all' if share.yes == share.n else share.yes} of {of} (95 % CI {low} to {high} %)"


def _cannot(side: Solver) -> str:
    return f": theory shows that {side.label} cannot" if side.possible is False else ""


def decimal(value: float) -> str:
    """Return a share with two digits, or with more where two would read as 0 or 1.

    Examples:
        >>> decimal(0.64), decimal(1.0), decimal(0.0)
        ('.64', '1.00', '0')
        >>> decimal(299 / 300), decimal(1 / 300)
        ('.997', '.003')
    """
    if value in (0.0, 1.0):
        return "1.00" if value else "0"
    digits = 2
    while digits < _MOST_DIGITS and round(value, digits) in (0.0, 1.0):
        digits += 1
    return f"{value:.{digits}f}".removeprefix("0")
