"""Verdicts: the meaning of a difference, read off its interval.

* `verdict_of` makes the value that `base.words` turns into a sentence; `sentence_of` does both.
* `comparison_verdict` and `contrast_verdict` add clauses on missing runs.
* `share_finding` is the sentence of the rule `shares`, with what theory says is possible.
* `scope` tells the level and the detectable differences once for a whole family.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from headway.base.text import TEN_TIMES, Amount, capital, counted, decimal, join, listed, span, with_numbers
from headway.base.words import PHRASES, Kind, Verdict, say, verdict_sentence
from headway.config.arms import Arm
from headway.config.contrasts import Contrast
from headway.config.experiment import Experiment
from headway.config.metrics import METRICS, YES_OR_NO, Metric, metric_name
from headway.stats.cells import Cells, Match, RunsOfArm, Weights, done, title, values_of
from headway.stats.evidence import Difference, Family, is_finite
from headway.stats.sequential import FEWEST
from headway.stats.shares import Share
from headway.stats.simultaneous import LEVEL


def sentence_of(
    difference: Difference, family: Family, *, metric: Metric, sides: tuple[str, ...], notes: Sequence[str] = ()
) -> str:
    """Return the sentence for a difference, with clauses on what is missing.

    Args:
        difference: the judged difference.
        family: the family that it was judged in.
        metric: the metric of the difference; without a better direction the sentence does not judge.
        sides: the labels of the two sides, such as "2 heads", or the one label of a contrast that has no sides.
        notes: the clauses that follow, such as those of `shortfall`.

    Examples:
        >>> from headway.stats.sequential import LookPlan
        >>> from headway.config.metrics import METRICS
        >>> family = Family(of="comparisons", metric="eval_mse", control=None, rule="blocks", size=3,
        ...     plan=LookPlan(looks=(5,), margin=1.0), look=1, level=0.05)
        >>> difference = Difference.partly_known(n_pairs=5, means=(0.66, 0.67), estimate=-1.5, interval=(-2.0, -1.0),
        ...     outcome="apart")
        >>> sentence_of(difference, family, metric=METRICS["eval_mse"], sides=("2 heads", "1 head"))
        '2 heads vs 1 head: better, evaluation MSE −1.5 % (simultaneous 95 % CI −2.0 to −1.0; 5 seeds)'
    """
    told = verdict_of(difference, family, metric=metric, sides=sides, in_per_cent=difference.is_logarithmic)
    return "; ".join([verdict_sentence(told), *notes])


def verdict_of(
    difference: Difference, family: Family | None, *, metric: Metric, sides: tuple[str, ...], in_per_cent: bool
) -> Verdict:
    """Return the verdict that a sentence tells.

    Args:
        difference: the judged difference.
        family: the family that it was judged in, if the results have it.
        metric: the metric of the difference.
        sides: the labels of the two sides, or the one label of a contrast that has no sides.
        in_per_cent: True for a change as a share of the second side, False for a number in the metric's unit.
    """
    if difference.of_errors:
        metric = of_errors(metric)
    change, interval = difference.estimate, difference.interval
    factor, unit = unit_of(metric)
    if in_per_cent:
        change, interval, factor = difference.share, difference.share_interval, 1.0
    return Verdict(
        kind=kind_of(difference, family, metric.better, has_sides=len(sides) > 1),
        sides=sides,
        quantity=quantity(metric),
        change=None if change is None or not difference.n_pairs else factor * change,
        interval=None if interval is None else (factor * interval[0], factor * interval[1]),
        unit=None if in_per_cent else unit,
        interval_name=name_of_interval(family),
        seeds=difference.n_pairs,
        awaited=0 if family is None else family.awaited,
        margin=1.0 if family is None else factor * family.margin,
        is_small=difference.outcome == "small",
        more_seeds=difference.seeds_to_settle,
        is_geometric=in_per_cent and family is not None and (family.residual_sd or 0.0) > _LARGE_SPREAD,
        is_planned=family is not None and len(family.plan.looks) > 1,
        chance=difference.chance_to_settle,
    )


_LARGE_SPREAD = 20.0
"""The spread of runs, in 100 ln, from which on a ratio of geometric means differs from one of means."""

POINTS = (YES_OR_NO, "fraction")
"""Units whose differences are percentage points."""


def unit_of(metric: Metric) -> tuple[float, str]:
    """Return how differences in a metric's own unit are written: the factor, and the unit in words."""
    if metric.unit in POINTS:
        return 100.0, "percentage points"
    return 1.0, "" if metric.unit in ("1", "ratio") else metric.unit


_DIRECTIONS: Mapping[str | None, tuple[Kind, Kind]] = {
    None: ("lower", "higher"),
    "lower": ("better", "worse"),
    "higher": ("worse", "better"),
}
"""The verdicts on a negative and on a positive difference, by the better direction of the metric."""


def kind_of(difference: Difference, family: Family | None, better: str | None, *, has_sides: bool = True) -> Kind:
    """Return what a difference says, before doubts."""
    if family is not None and family.look is None:
        return "waiting"
    if difference.is_told and difference.estimate is not None:
        return _DIRECTIONS[better][difference.estimate > 0] if has_sides else "differs"
    if difference.outcome != "same":
        kinds: Mapping[str, Kind] = {"open": "open", "few": "few"}
        return kinds.get(difference.outcome, "none")
    if not has_sides:
        return "zero"
    return "same" if better else "alike"


def name_of_interval(family: Family | None) -> str:
    """Return the name of a family's intervals, such as `simultaneous 95 % CI`."""
    if family is None or family.rule == "shares":
        return f"{100 * (1 - LEVEL):.3g} % CI"
    name = f"{100 * (1 - family.plan.level):.3g} % CI"
    return f"simultaneous {name}" if family.size > 1 else name


_QUANTITIES = {"solved": "share of seeds that solve the task"}


def quantity(metric: Metric) -> str:
    """Return the name of a metric in sentences."""
    return _QUANTITIES.get(metric.name, metric_name(metric.name))


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
    return sentence_of(difference, family, metric=metric, sides=sides, notes=notes)


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
    notes = [say("late")] if is_late else []
    notes += _missing(weights, cells, runs, experiment)
    sides = sides_of(contrast, experiment) or (called(contrast, experiment),)
    said = sentence_of(difference, family, metric=METRICS[difference.metric], sides=sides, notes=notes)
    # A side that is a row of arms has no name of its own: the question has.
    rows = listed(contrast.first), listed(contrast.second)
    if contrast.titles is None and contrast.sides == rows and len(contrast.weights) > 2:
        said = f"{contrast.name}: {said}"
    if difference.control is None:
        return said
    return say("under_control", control=experiment.control_label(difference.control), verdict=said)


def _missing(weights: Weights, cells: Cells, runs: RunsOfArm, experiment: Experiment) -> Iterator[str]:
    """Yield a clause for what a contrast lacks: arms without a finished run, values, and runs that gave no result."""
    if without := cells.without(weights):
        named = [title(experiment.arm(name), experiment) for name in without]
        yield say("no_finished_run", arms=tuple(named))
    arms = list(map(experiment.arm, weights))
    every = [run for arm in arms for run in done(arm, runs)]
    diverged = {run.seed for run in every if not is_finite(run.metrics.get(experiment.primary, 0.0))}
    yield from left_out(sorted(diverged))
    statuses = [[run.status for run in runs.get(arm.full_name, {}).values()] for arm in arms]
    labels = [title(arm, experiment) for arm in arms]
    if len(arms) > 2:
        labels, statuses = ["its arms"], [list(chain(*statuses))]
    for label, of_arm in zip(labels, statuses, strict=True):
        yield from shortfall(label, of_arm)


def shortfall(label: str, statuses: Sequence[str]) -> list[str]:
    """Return a clause for each way in which runs of an arm gave no result.

    Examples:
        >>> shortfall("8 heads", ["done", "failed", "failed", "waiting"])
        ['2 of 4 runs of 8 heads failed', '1 of 4 runs of 8 heads not finished']
    """
    known = ("failed", "damaged")
    unfinished = [status for status in statuses if status != "done"]
    counts = Counter(status if status in known else "open" for status in unfinished)
    return [say(f"runs_{how}", n=counts[how], runs=len(statuses), arm=label) for how in (*known, "open") if counts[how]]


def left_out(seeds: Sequence[int]) -> list[str]:
    """Return a clause for the seeds whose values are missing or not finite.

    Examples:
        >>> left_out([3])
        ['seed 3 left out: a value is not finite']
    """
    if not seeds:
        return []
    return [say("left_out", seeds=with_numbers("seed", seeds))]


def sides_of(contrast: Contrast, experiment: Experiment) -> tuple[str, str] | None:
    """Return the names of a contrast's two sides in sentences; single arms keep their usual names."""
    if contrast.sides is None or contrast.titles is not None:
        return contrast.titles
    first, second = contrast.sides
    return _side(first, list(contrast.first), experiment), _side(second, list(contrast.second), experiment)


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
        return say("weighted_sum", name=contrast.label, n=len(contrast.weights))
    said = ""
    for arm, weight in contrast.weights.items():
        sign = (" − " if weight < 0 else " + ") if said else ("−" if weight < 0 else "")
        factor = "" if abs(weight) == 1 else f"{abs(weight):.3g} x "
        said += f"{sign}{factor}{title(experiment.arm(arm), experiment)}"
    return f"{contrast.label} ({said})"


def scope(family: Family, differences: Sequence[Difference]) -> str:
    """Return the sentences for a whole family: its intervals' level and what it can detect."""
    of = family.of.removesuffix("s")
    if family.rule == "shares":
        return say("wilson", of=counted(family.size, of), look=_at_look(family))
    metric = METRICS[family.metric]
    better = "" if metric.better is None else say("direction", direction=capital(metric.better))
    if family.of_errors:
        metric = of_errors(metric)
        better = say("of_errors", errors=metric.name)
    if family.look is None:
        return join(say("before", n=family.awaited), better)
    if not any(c.interval for c in differences):
        enough = max((c.n_pairs for c in differences), default=0) >= FEWEST
        reason = say("no_spread") if enough else say("few_shared", least=FEWEST)
        return join(say("no_interval", n=family.awaited, reason=reason), better)
    sure = f"{100 * (1 - family.plan.level):.3g} %"  # less than 95 % where a plan was prolonged
    here = sum(not getattr(each, "late", False) for each in differences)
    besides = family.size - here
    kind = "one_interval" if family.size == 1 else "intervals_here" if besides > 0 else "intervals"
    said = say(kind, sure=sure, of=of, n=family.size, here=counted(here, of), more=besides, look=_at_look(family))
    return join(said, _detectable(differences, metric), better)


def carried_by(family: Family, differences: Sequence[Difference]) -> str:
    """Return which assumption carries the verdicts of three to five seeds; empty for more seeds or no verdict."""
    n = max((one.n_pairs for one in differences if one.is_settled), default=0)
    if family.rule != "blocks" or not FEWEST <= n <= _FEW:
        return ""
    return say("carried_by", n=n, least_p=2.0 ** (1 - n))


_FEW = 5
"""Seeds up to which signs alone cannot reach the usual level."""


def _at_look(family: Family) -> str:
    looks = len(family.plan.looks)
    return say("at_look", look=family.look, looks=looks) if looks > 1 and family.look is not None else ""


def _detectable(differences: Sequence[Difference], metric: Metric) -> str:
    in_unit = bool(differences) and not differences[0].is_logarithmic
    sizes = sorted(
        size for c in differences if (size := c.detectable if in_unit else c.as_share(c.detectable)) is not None
    )
    if not sizes:
        return ""
    if in_unit:
        factor, unit = unit_of(metric)
        said = f"{span([factor * size for size in sizes])} {unit}".rstrip()
    else:
        write = Amount.of_share(sizes[0] if sizes[-1] < TEN_TIMES else sizes[-1], None)
        one = write(sizes[0]) == write(sizes[-1])
        said = write(sizes[0]) if one else write.prefix + write(sizes[0], sizes[-1])
    return say("detectable", amount=said)


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
        '3 heads vs 2 heads: better, 3-bit parity solved in 41 of 64 seeds (95 % CI 52 to 75 %) against 0 of 64 seeds (95 % CI 0 to 6 %); in theory 2 heads cannot solve it'
    """  # noqa: E501 - a doctest's output stands on one line
    if c.n_pairs == 0 or c.means is None:
        return f"{first.label} vs {second.label}: {say('no_seeds', quantity=task)}"
    shares = [Share(yes=round(mean * c.n_pairs), n=c.n_pairs) for mean in c.means]
    of_first, of_second = map(_solved_in, shares)
    if c.is_told:
        said = "better" if c.means[0] > c.means[1] else "worse"
    elif c.p is None:
        said = PHRASES["waiting" if c.look is None else "few"]
    elif _is_settled(first, second, c.means):
        said = say("settled_by_theory")
    else:
        said = f"{PHRASES['open']} (p = {c.p if c.p_family is None else c.p_family:.2f})"
    other = f"{second.task} solved in " if second.task and second.task != task else ""
    impossible = dict.fromkeys(side.label for side in (first, second) if side.possible is False)
    counts = {"n": of_first, "against": of_second}
    solved = say("solved", first=first.label, second=second.label, phrase=said, task=task, other=other, **counts)
    return "; ".join([solved, *(say("cannot_solve", arm=label) for label in impossible)])


def _is_settled(first: Solver, second: Solver, shares: tuple[float, float]) -> bool:
    """Return whether theory decides: neither side can solve the task, or one cannot and the other does in some seed."""
    cannot = first.possible is False, second.possible is False
    return all(cannot) or (cannot[0] and shares[1] > 0) or (cannot[1] and shares[0] > 0)


def _solved_in(share: Share) -> str:
    low, high = (f"{100 * float(share_of_seeds(end)):g}" for end in share.interval)
    return say("solved_in", n=share.yes, seeds=share.n, low=low, high=high)


def share_of_seeds(value: float) -> str:
    """Return a share with two digits, or with more where two would read as 0 or 1.

    Examples:
        >>> share_of_seeds(0.64), share_of_seeds(1.0), share_of_seeds(0.0)
        ('0.64', '1.00', '0.00')
        >>> share_of_seeds(299 / 300), share_of_seeds(1 / 300)
        ('0.997', '0.003')
    """
    digits = 2
    while 0 < value < 1 and round(value, digits) in (0.0, 1.0):
        digits += 1
    return decimal(value, digits)
