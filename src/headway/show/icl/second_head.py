"""Show: what a second head is worth, by length and dimension: trained, by exact risk and by the effective loss."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from headway.declare.icl.task import RegressionTask
from headway.icl.second_head import effective_worth, effective_worth_at, exact_worth, worth_in_the_limit
from headway.show.icl.finished_run import declared
from headway.show.icl.theory import covered
from headway.show.report.laboratory import Statement
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.shared.theme import INK, QUIET, arm_colour
from headway.words import counted, join

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
    import altair as alt

    worths = worths_of(material)
    if not worths:
        return None
    dimensions = sorted({worth.task.d_x for worth in worths})
    names = [f"d = {d}" for d in dimensions]
    colour = alt.Color(
        "dimension:N",
        title=None,
        sort=names,
        scale=alt.Scale(domain=names, range=[arm_colour(i) for i in range(len(names))]),
    )
    x = alt.X(
        "length:Q", title="prompt length over dimension, L / d", scale=alt.Scale(type="log", nice=False, padding=12)
    )
    title = "error of one head ÷ error of two"
    y = alt.Y("worth:Q", title=title, scale=alt.Scale(zero=False))
    tooltip = ["dimension:N", "pairs:Q", "worth:Q", "low:Q", "high:Q", "exact:Q", "effective:Q", "seeds:Q"]
    rows = [_row(worth) for worth in worths]
    trained = alt.Chart(inline(rows)).encode(x=x, color=colour, tooltip=tooltip)
    exact = alt.Chart(inline([{**row, "worth": row["exact"]} for row in rows])).mark_line(strokeWidth=1.6)
    chart = alt.layer(
        *_effective(worths, x, y),
        exact.encode(x=x, y=y, color=colour, detail="dimension:N", tooltip=tooltip),
        trained.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title=title), y2="high:Q"),
        trained.mark_point(filled=True, size=70, opacity=1).encode(y=y),
    )
    limits = ", ".join(f"{worth_in_the_limit(d):.2f} for d = {d}" for d in dimensions)
    return Figure(
        name="second-head",
        part="Outcome",
        title="What the second head is worth",
        caption=join(
            "Points: error of one head over that of two, the median over up to "
            f"{counted(_most(worths), 'seed')}{_interval_said(worths)}.",
            "Lines: the same of the least true risks, simulated with fixed draws.",
            "Dashed: by the effective loss, the same for all d, which tends to e.",
            f"As prompts grow, the true one tends to {limits}, and to e only as d grows.",
        ),
        chart=chart.properties(width=WIDTH - 320, height=340),
    )


def worth_statement(material: ReportData) -> Sequence[Statement]:
    """What the longest prompts say, and which of the two theories the models follow."""
    worths = worths_of(material)
    if not worths:
        return ()
    longest = max(worths, key=lambda worth: worth.task.n_pairs / worth.task.d_x)
    ends = "" if math.isnan(longest.low) else f" ({longest.low:.2f} to {longest.high:.2f})"
    return (
        Statement(
            sentence=f"At d = {longest.task.d_x} and {counted(longest.task.n_pairs, 'pair')} one head misses "
            f"{longest.found:.2f} times as much as two{ends}; {longest.exact:.2f} by exact risk, "
            f"{longest.effective:.2f} by the effective loss. {_nearer_said(worths)}",
            colour=INK,
        ),
    )


def nearer(worth: Worth) -> str | None:
    """Which theory a task is nearer to, `exact` or `effective`, with all of its interval; None where it is open."""
    between = math.sqrt(worth.exact * worth.effective)
    upper, lower = ("exact", "effective") if worth.exact > worth.effective else ("effective", "exact")
    return upper if worth.low > between else lower if worth.high < between else None


def _nearer_said(worths: Sequence[Worth]) -> str:
    found = [nearer(worth) for worth in worths]
    return (
        f"Of {counted(len(worths), 'task')}, each by its own 95 % interval: nearer to the exact risk than to the "
        f"effective loss {found.count('exact')}, nearer to the effective loss {found.count('effective')}, not told "
        f"{found.count(None)}"
    )


def worths_of(material: ReportData) -> tuple[Worth, ...]:
    """Of each task without noise that has arms with one head and with two, by dimension and length."""
    arms: dict[str, dict[int, ArmResults]] = {}
    tasks: dict[str, RegressionTask] = {}
    for arm in material.arms:
        task, model = declared(arm.shown).task, declared(arm.shown).model
        if arm.control is None and covered(arm) and task.noise_variance == 0 and model.n_heads in (1, 2):
            key = repr(task)
            tasks[key] = task
            arms.setdefault(key, {}).setdefault(model.n_heads, arm)
    found = [worth for key, both in arms.items() if len(both) == 2 and (worth := _worth(tasks[key], both[1], both[2]))]
    if len(found) < LEAST:
        return ()
    return tuple(sorted(found, key=lambda worth: (worth.task.d_x, worth.task.n_pairs)))


def _worth(task: RegressionTask, one: ArmResults, two: ArmResults) -> Worth | None:
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
    draws = min(10_000, max(1_000, ENTRIES // n_pairs))
    return exact_worth(task, draws), effective_worth(task)


def _row(worth: Worth) -> dict[str, Any]:
    return {
        "dimension": f"d = {worth.task.d_x}",
        "length": worth.task.n_pairs / worth.task.d_x,
        "pairs": worth.task.n_pairs,
        "worth": worth.found,
        "low": worth.low,
        "high": worth.high,
        "exact": worth.exact,
        "effective": worth.effective,
        "seeds": worth.seeds,
    }


def _effective(worths: Sequence[Worth], x: Any, y: Any) -> tuple[Any, Any, Any]:
    """The curve of the effective loss, and e, which it tends to."""
    import altair as alt

    lengths = [worth.task.n_pairs / worth.task.d_x for worth in worths]
    grid = np.geomspace(min(lengths), max(lengths), 40)
    rows = [{"length": at, "worth": effective_worth_at(at)} for at in grid]
    curve = alt.Chart(inline(rows)).mark_line(strokeDash=[5, 3], color=QUIET, strokeWidth=1.6).encode(x=x, y=y)
    limit = alt.Chart(inline([{"worth": math.e, "said": "e", "length": min(lengths)}])).encode(y=y)
    rule = limit.mark_rule(color=QUIET, strokeWidth=0.8)
    said = limit.mark_text(dy=-8, color=QUIET, fontSize=13, fontStyle="italic").encode(x=x, text="said:N")
    return curve, rule, said


def _interval_said(worths: Sequence[Worth]) -> str:
    return "; fewer than six give no interval" if all(math.isnan(w.low) for w in worths) else " with its 95 % interval"


def _most(worths: Sequence[Worth]) -> int:
    return max(worth.seeds for worth in worths)
