"""Figures of theory: what it predicts for the experiment's task, beside the result of training.

`second_head` draws the benefit of a second head by length and dimension: trained, by exact risk, and by the effective
loss.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from headway.base.text import counted, join
from headway.base.words import say
from headway.config.regression import RegressionTask
from headway.icl import theory
from headway.icl.second_head import effective_worth, effective_worth_at, exact_worth, worth_in_the_limit
from headway.report.charts.figure import (
    INK,
    QUIET,
    WIDTH,
    Datum,
    Figure,
    arm_colour,
    charted,
    colours_of_column,
    panel,
)
from headway.report.charts.intervals import ENDS, points_with_intervals, strip
from headway.report.charts.lines import Axis, line_bands, rule
from headway.report.experiment.data import ArmResults, ReportData, colours_of
from headway.report.experiment.laboratory import Statement
from headway.report.regression.heads import covered, declared

RATIOS = np.geomspace(0.02, 2.0, 80)


LIMITS = {
    "best gradient descent step": (theory.proportional_gd_risk, INK, [4, 2]),
    "ridge (Bayes)": (theory.proportional_bayes_risk, "#a07d4b", [8, 3, 2, 3]),
}
"""The risk, colour and dashes of each limit of large d and L."""


def proportional(material: ReportData) -> Figure | None:
    """The risks when d and L grow together, and where the arms ended; None where the theory does not hold."""
    reference = _reference(material)
    if reference is None:
        return None
    noise = theory.EffectiveLoss.of(declared(reference).task).noise
    arms = [
        arm
        for arm in material.arms
        if covered(arm) and arm.shown.task == reference.shown.task and len(arm.final("eval_mse"))
    ]
    palette = {name: colour for name, (_, colour, _) in LIMITS.items()} | colours_of(arms)
    colour = colours_of_column("what", palette, "stroke", orient="right")
    x = Axis("ratio", "d / L (log scale)", log=True)
    y = Axis("risk", "risk ÷ variance of beta·x (log scale)", log=True, scale={"nice": True})
    shown, layers = ["what:N", "ratio:Q", "risk:Q"], []
    for what, (risk, _, dash) in LIMITS.items():
        rows = [{"what": what, "ratio": ratio, "risk": risk(float(ratio), noise)} for ratio in RATIOS]
        layers += line_bands(rows, x, y, colour, spread=None, strokeDash=dash, shown=shown)
    for at, arm in enumerate(arms):  # rings around one another, so that arms that ended alike can all be seen
        ring: dict[str, Any] = {"size": 40 + 90 * at, "filled": False, "strokeWidth": 2, "opacity": 1}
        layers.append(strip([_ended(arm)], x, y, colour, shown=shown, **ring))
    return Figure(
        name="proportional-regime",
        part="Theory",
        title="Risk when d and L grow together",
        caption=join(
            "Lines are the limits as dimension d and prompt length L grow at a fixed ratio. "
            f"The noise variance is {noise:.3g} times the signal variance; the query's target has the same noise.",
            "Rings are the final errors of the arms (means over seeds), at finite d and L." if arms else "",
        ),
        chart=panel(layers, WIDTH - 420, 260),
    )


def _ended(arm: ArmResults) -> Datum:
    task = declared(arm).task
    signal = task.d_x * task.variance_of_beta
    noise = 0.0 if task.noisy_query else task.noise_variance
    return {
        "what": arm.label,
        "ratio": task.d_x / task.n_pairs,
        "risk": (arm.final("eval_mse").mean() + noise) / signal,
    }


def _reference(material: ReportData) -> ArmResults | None:
    """The baseline arm, or else the first arm, that the theory covers."""
    covered_arms = [arm for arm in material.arms if covered(arm)]
    chosen = [arm for arm in covered_arms if arm.name == material.experiment.baseline]
    return next(iter(chosen or covered_arms), None)


ENTRIES = 400_000
"""Scores that an exact risk is simulated with; its ratio then is right to about 1 %."""
LEAST = 2
"""Tasks with one head and with two, from which on the figure says something."""


@dataclass(frozen=True, kw_only=True)
class Worth:
    """The error of one head over that of two, of a task: what was found, with its interval, and what was to be."""

    task: RegressionTask
    found: float
    low: float
    high: float
    seeds: int
    exact: float
    effective: float


def second_head(material: ReportData) -> Figure | None:
    """The ratio of the errors of one and two heads; None where fewer than two tasks have both, without noise."""
    worths = worths_of(material)
    if not worths:
        return None
    dimensions = sorted({worth.task.d_x for worth in worths})
    palette = {_named(d): arm_colour(at) for at, d in enumerate(dimensions)}
    colour = colours_of_column("dimension", palette, "stroke", orient="right")
    x = Axis("length", "prompt length over dimension, L / d", log=True, scale={"padding": 12})
    y = Axis("worth", "error of one head ÷ error of two", scale={"zero": False})
    shown = ["dimension:N", "pairs:Q", "worth:Q", "low:Q", "high:Q", "exact:Q", "effective:Q", "seeds:Q"]
    rows = [
        {
            "dimension": _named(worth.task.d_x),
            "length": worth.task.n_pairs / worth.task.d_x,
            "pairs": worth.task.n_pairs,
            "worth": worth.found,
            **{name: getattr(worth, name) for name in ("low", "high", "exact", "effective", "seeds")},
        }
        for worth in worths
    ]
    exact = [{**row, "worth": row["exact"]} for row in rows]
    layers = [
        *_effective(worths, x, y),
        *line_bands(exact, x, y, colour, spread=None, strokeWidth=1.6, shown=shown),
        *points_with_intervals(rows, x, y, colour, up=ENDS, thick=2, size=70, shown=shown),
    ]
    unknown = all(math.isnan(worth.low) for worth in worths)
    interval = "" if unknown else ", with 95 % intervals"
    return Figure(
        name="second-head",
        part="Outcome",
        title="Benefit of a second head",
        caption=join(
            f"Points are medians over up to {counted(max(worth.seeds for worth in worths), 'seed')}{interval}. "
            "Solid lines are the ratio of the lowest exact risks, simulated with fixed draws.",
            "The dashed line is the prediction of the effective loss, an approximation that tends to e for all d.",
        ),
        chart=panel(layers, WIDTH - 320, 340),
    )


def worth_statement(material: ReportData) -> Sequence[Statement]:
    """Return a sentence on the longest prompts, and on which of the two theories the models follow."""
    worths = worths_of(material)
    if not worths:
        return ()
    longest = max(worths, key=lambda worth: worth.task.n_pairs / worth.task.d_x)
    ends = "" if math.isnan(longest.low) else f" ({longest.low:.2f} to {longest.high:.2f})"
    sides = [nearer(worth) for worth in worths]
    said = say(
        "two_heads",
        d=longest.task.d_x,
        n=longest.task.n_pairs,
        found=longest.found,
        ends=ends,
        exact=longest.exact,
        effective=longest.effective,
        tasks=len(sides),
        near_exact=sides.count("exact"),
        near_effective=sides.count("effective"),
        near_neither=sides.count(None),
    )
    return (Statement(sentence=said, colour=INK),)


def nearer(worth: Worth) -> str | None:
    """Return the theory that a task is nearer to with its whole interval, `exact` or `effective`; None if open."""
    between = math.sqrt(worth.exact * worth.effective)
    upper, lower = ("exact", "effective") if worth.exact > worth.effective else ("effective", "exact")
    return upper if worth.low > between else lower if worth.high < between else None


def worths_of(material: ReportData) -> tuple[Worth, ...]:
    """Return the benefit for each task without noise with arms of one head and of two, by dimension and length."""
    arms: dict[str, dict[int, ArmResults]] = {}
    for arm in material.arms:
        task, model = declared(arm).task, declared(arm).model
        if arm.control is None and covered(arm) and task.noise_variance == 0 and model.n_heads in (1, 2):
            arms.setdefault(repr(task), {}).setdefault(model.n_heads, arm)
    worths = [worth for both in arms.values() if len(both) == 2 and (worth := _worth(both[1], both[2]))]
    if len(worths) < LEAST:
        return ()
    return tuple(sorted(worths, key=lambda worth: (worth.task.d_x, worth.task.n_pairs)))


def _worth(one: ArmResults, two: ArmResults) -> Worth | None:
    task = declared(one).task
    first, second = one.by_seed("eval_mse_adjusted"), two.by_seed("eval_mse_adjusted")
    ratios = [math.log(first[seed] / second[seed]) for seed in sorted(first.keys() & second.keys())]
    if not ratios:
        return None
    # Not the mean: now and then two heads stay at what one can do, for many steps.
    middle, (low, high) = _median(ratios)
    exact, effective = _theory(task.d_x, task.n_pairs)
    return Worth(
        task=task,
        found=math.exp(middle),
        low=math.exp(low),
        high=math.exp(high),
        seeds=len(ratios),
        exact=exact,
        effective=effective,
    )


def _median(values: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """The median, and its 95 % interval between two of the values; NaN for both ends of fewer than six.

    Examples:
        >>> _median([3.0, 1.0, 2.0, 5.0, 4.0, 6.0])
        (3.5, (1.0, 6.0))
    """
    from scipy.stats import binom

    ordered, n = sorted(values), len(values)
    outside = int(binom.ppf(0.025, n, 0.5)) - 1  # each end may be as far in as leaves 2.5 % beyond it
    ends = (ordered[outside], ordered[-1 - outside]) if outside >= 0 else (math.nan, math.nan)
    return float(np.median(ordered)), ends


@lru_cache(maxsize=256)
def _theory(d_x: int, n_pairs: int) -> tuple[float, float]:
    task = RegressionTask(kind="regression", d_x=d_x, n_pairs=n_pairs)
    return exact_worth(task, min(10_000, max(1_000, ENTRIES // n_pairs))), effective_worth(task)


def _named(d_x: int) -> str:
    return f"d = {d_x} (long prompts: {worth_in_the_limit(d_x):.2f})"


def _effective(worths: Sequence[Worth], x: Axis, y: Axis) -> list[Any]:
    """The curve of the effective loss, and e, which it tends to."""
    lengths = [worth.task.n_pairs / worth.task.d_x for worth in worths]
    rows = [
        {"length": at, "worth": effective_worth_at(at)} for at in np.geomspace(min(lengths), max(lengths), 40).tolist()
    ]
    curve = line_bands(rows, x, y, QUIET, spread=None, strokeDash=[5, 3], strokeWidth=1.6)
    name = charted([{"worth": math.e, "said": "e", "length": min(lengths)}])
    said = name.mark_text(dy=-8, color=QUIET, fontSize=13, fontStyle="italic")
    return [*curve, rule([math.e], y=y, width=0.8), said.encode(x=x.encoded("x"), y=y.encoded("y"), text="said:N")]
