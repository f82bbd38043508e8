"""Figures of tasks whose answers are known: accuracies, errors and solved seeds, beside what is possible.

* `accuracies`: each arm seed by seed, beside the best possible accuracy and chance;
* `by_kind`: accuracy by kind of question;
* `errors_by_heads`: numeric errors against the number of heads, marking arms that have as many as needed;
* `solved_map`: the share of seeds in which each arm solves a task, beside what is possible at all.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import Any

import numpy as np

from headway.base.identity import grouped
from headway.base.text import counted, join
from headway.config.lm.synthetic import HopsTask, RetrievalTask
from headway.config.run import RunSpec
from headway.data.synthetic import guessed
from headway.report.charts.figure import (
    INK,
    QUIET,
    WIDTH,
    Datum,
    Figure,
    alt,
    arm_colour,
    charted,
    colours_of_column,
    grid,
    hints,
    panel,
)
from headway.report.charts.intervals import arms_axis, strip
from headway.report.charts.lines import Axis, line_bands
from headway.report.charts.maps import head_map, valued
from headway.report.experiment.data import ArmResults, ReportData, arms_with, colours_of, seed_rows
from headway.report.lm.common import declared
from headway.stats.shares import Share
from headway.stats.verdicts import share_of_seeds

LABELS = 300
ROW = 30
LIMITS = {"best possible": INK, "chance": QUIET}
"""The reference lines beside arms, and their colours."""


def accuracies(material: ReportData) -> Figure | None:
    """Draw a row per arm with a point per seed, and lines at the best possible and at chance; None without arms."""
    arms = arms_with(material, "accuracy")
    if not arms:
        return None
    limits = [row for arm in arms for row in _limits(material, arm)]
    there = {name: colour for name, colour in LIMITS.items() if any(row["what"] == name for row in limits)}
    seeds = seed_rows(arms, "accuracy", "accuracy")
    medians = [{"arm": arm.label, "accuracy": float(np.median(arm.final("accuracy")))} for arm in arms]
    y = arms_axis([arm.label for arm in arms], labelLimit=LABELS, labelFontSize=12)
    x = Axis("accuracy", "share of correct answers", domain=[0, 1])
    colour = colours_of_column("arm", colours_of(arms))
    lines = colours_of_column("what", there, "square")
    layers = [
        strip(limits, x, y, lines, kind="tick", shown=["what:N", "accuracy:Q"], thickness=3, size=ROW - 6),
        strip(seeds, x, y, colour, size=34, opacity=0.45, shown=["arm:N", "seed:N", "accuracy:Q"]),
        strip(medians, x, y, colour, shown=["arm:N", "accuracy:Q"], size=120, filled=False, strokeWidth=2, opacity=1),
    ]
    chart = panel(layers, WIDTH - LABELS - 60, ROW * len(arms)).resolve_scale(color="independent")
    return Figure(
        name="accuracy",
        part="Outcome",
        title="Accuracy at the end of training",
        caption=join(
            f"Each point is a seed (up to {material.n_seeds}), and the ring is the median.",
            "Black lines are the best accuracy that a model of this shape can have."
            if "best possible" in there
            else "",
            "Grey lines are the accuracy of guessing." if "chance" in there else "",
        ),
        chart=chart,
    )


def _limits(material: ReportData, arm: ArmResults) -> list[Datum]:
    limits = {
        "best possible": _best_possible(arm.shown.run.spec, "accuracy"),
        "chance": material.baselines(arm, "accuracy").get("chance"),
    }
    return [{"arm": arm.label, "what": name, "accuracy": at} for name, at in limits.items() if at is not None]


def by_kind(material: ReportData) -> Figure | None:
    """Draw the share of right answers by kind of question, such as the number of hops; None if there is one kind."""
    rows, guesses = [row for arm in material.arms for row in _rows_of_kinds(arm)], _guesses(material)
    if len({row["at"] for row in rows}) < 2:
        return None
    colour = colours_of_column("arm", colours_of(material.arms), "stroke", orient="right", labelLimit=300)
    x = Axis("at", "hops", order=sorted({row["at"] for row in (*rows, *guesses)}), ticks={"labelAngle": 0})
    y = Axis("accuracy", "share of correct answers", domain=[0, 1])
    shown = ["arm:N", "at:O", "accuracy:Q", "low:Q", "high:Q"]
    layers = line_bands(rows, x, y, colour, spread="bar", points=30, strokeWidth=2, shown=shown)
    if guesses:
        layers += line_bands(guesses, x, y, QUIET, spread=None, strokeDash=[4, 3], strokeWidth=1.6)
    return Figure(
        name="accuracy-by-kind",
        part="Outcome",
        title="Accuracy by the number of hops",
        caption=join(
            f"Each point is the mean over up to {counted(material.n_seeds, 'seed')} at the end of training. "
            "Thin lines reach from the worst seed to the best.",
            "The dashed line is the accuracy of a guess that uses only the number of hops, the position and its letter."
            if guesses
            else "",
        ),
        chart=panel(layers, WIDTH - 380, 280),
    )


def _guesses(material: ReportData) -> list[dict[str, float]]:
    """Return the accuracies of answers that need no hop, if all arms get equal questions."""
    tasks = [declared(arm).task for arm in material.arms]
    task = tasks[0]
    if not isinstance(task, HopsTask) or any(other != task for other in tasks):
        return []
    return [{"at": k, "accuracy": share} for k, share in enumerate(guessed(task))]


def _rows_of_kinds(arm: ArmResults) -> Iterator[Datum]:
    by_seed = [run.metrics["accuracy_by_kind"] for run in arm.runs if run.metrics.get("accuracy_by_kind")]
    for kind, shares in enumerate(zip_longest(*by_seed)):
        values = [share for share in shares if share is not None]
        if values:
            ends = {"low": min(values), "high": max(values)}
            yield {"arm": arm.label, "at": kind, "accuracy": float(np.mean(values)), **ends}


SMALLEST = 1e-12
"""The value at which an error of 0 is drawn on a log axis."""


def errors_by_heads(material: ReportData) -> Figure | None:
    """Error over variance against the heads of a layer, a colour per task, a panel per control; None without errors."""
    rows = [row for arm in material.arms for row in _rows_known_errors(arm)]
    if not rows:
        return None
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    colour = colours_of_column(
        "task", {task: arm_colour(at) for at, task in enumerate(tasks)}, "stroke", orient="right"
    )
    heads = sorted({row["heads"] for row in rows})
    panels: list[Any] = []
    for control in dict.fromkeys(row["control"] for row in rows):
        title = "" if control is None else material.experiment.control_label(control)
        layers = _errors([row for row in rows if row["control"] == control], colour, heads)
        panels.append(panel(layers, min(420, 90 * len(heads)), 260, title))
    return Figure(
        name="error-by-heads",
        part="Outcome",
        title="Error by the number of heads",
        caption=join(
            "Mean squared error divided by the variance of the answers, at the end of training. Points are seeds (up "
            f"to {material.n_seeds}), and lines join their medians.",
            "Rings are arms with at least as many heads in all layers as targets."
            if any(r["enough"] for r in rows)
            else "",
        ),
        chart=alt.concat(*panels, columns=2, spacing=30).resolve_scale(y="shared"),
    )


def _errors(rows: list[Datum], colour: Any, heads: list[int]) -> list[Any]:
    x = Axis("heads", "heads of a layer", order=heads, ticks={"labelAngle": 0, "grid": False})
    y = Axis("nmse", "error over variance (log scale)", log=True, scale={"nice": True}, ticks={"format": "~e"})
    places = grouped(rows, itemgetter("task", "heads"))
    medians = [{**some[0], "nmse": float(np.median([row["nmse"] for row in some]))} for some in places.values()]
    return [
        strip(rows, x, y, colour, size=22, opacity=0.5, shown=["arm:N", "seed:N", "nmse:Q"]),
        *line_bands(medians, x, y, colour, spread=None, strokeWidth=2),
        strip(
            [row for row in medians if row["enough"]], x, y, colour, size=170, filled=False, strokeWidth=1.6, opacity=1
        ),
    ]


def _rows_known_errors(arm: ArmResults) -> list[Datum]:
    run = declared(arm)
    return [
        {
            **row,
            "task": run.task.title,
            "heads": max(run.model.layout.n_heads),
            "control": arm.control,
            "nmse": max(row["nmse"], SMALLEST),
            "enough": isinstance(run.task, RetrievalTask) and run.model.layout.total >= run.task.targets,
        }
        for row in seed_rows([arm], "nmse", "nmse")
    ]


PART = "Outcome"


def solved_map(material: ReportData) -> Figure | None:
    """A cell for each arm: tasks by heads, with the threshold of what is possible; None where two arms share one."""
    n_arms = sum(len(arm.final("solved")) > 0 for arm in material.arms)
    rows = [row for arm in material.arms if (row := _row(arm, n_arms)) is not None]
    places = {(row["task"], row["heads"], row["control"]) for row in rows}
    if not rows or len(places) < len(rows):  # arms that differ in something else have no place in a map of heads
        return None
    bounded = any(row["possible"] == "no" for row in rows)
    return Figure(
        name="share-solved",
        part=PART,
        title="Share of seeds that solve the task",
        caption=join(
            f"Share of each arm's seeds (up to {material.n_seeds}) that solve the task, and in brackets the best "
            "accuracy of any seed.",
            f"Tooltips in the HTML report give 95 % intervals, simultaneous for {counted(n_arms, 'arm')}.",
            "In dashed frames, theory says that no model of this shape can solve the task." if bounded else "",
        ),
        chart=_panels(rows),
    )


def _panels(rows: Sequence[Datum]) -> Any:
    """A map for each control, one above the other."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    columns = sorted({row["heads"] for row in rows}, key=lambda heads: (sum(map(int, heads.split("-"))), heads))
    x = Axis("heads", "heads of each layer", order=columns, ticks={"labelAngle": 0})
    y = Axis("task", order=tasks, ticks={"labelLimit": 300})
    blue = {"scheme": "blues", "domain": [0, 1]}
    colour = valued("share", blue, "share of seeds", orient="right", gradientLength=64, tickCount=3)
    shown = ["arm:N", "share:Q", "low:Q", "high:Q", "seeds:Q", "possible:N", "best:Q"]
    shade = alt.condition("datum.share > 0.6", alt.value("white"), alt.value(INK))
    panels = []
    for control, title in {row["control"]: row["panel"] for row in rows}.items():
        points = [row for row in rows if row["control"] == control]
        base = charted(points).encode(x=x.encoded("x"), y=y.encoded("y"))
        # What theory rules out is framed, so that its edge is the threshold.
        framed = base.transform_filter("datum.possible === 'no'")
        frame = framed.mark_rect(filled=False, stroke=INK, strokeWidth=2, strokeDash=[4, 2])
        said = base.mark_text(fontSize=12).encode(text="said:N", color=shade)
        layers = [head_map(points, x, y, colour, shown=shown), frame.encode(tooltip=hints(shown)), said]
        panels.append(panel(layers, 90 * len(columns), 44 * len(tasks), title))
    return grid(panels, 1)


def _row(arm: ArmResults, n_arms: int) -> Datum | None:
    """Return the row of an arm; None if its runs have no yes or no."""
    solved = arm.final("solved")
    if not len(solved):
        return None
    run = declared(arm)
    share = Share(yes=int((solved > 0).sum()), n=len(solved))
    low, high = share.interval_among(n_arms)
    best = max(arm.final("accuracy"), default=0.0)
    parts = (ATTENTION_ALONE if run.model.mlp == "none" else "with an MLP") + ", keys smeared" * run.model.smeared_keys
    return {
        "arm": arm.label,
        "task": run.task.title,
        "heads": "-".join(map(str, run.model.layout.n_heads)),
        "control": parts if arm.control is None else arm.control,
        # The arms of a panel share their control, or the parts of their model if those tell it.
        "panel": parts if arm.control is None or parts != ATTENTION_ALONE else arm.control,
        "share": share.value,
        "low": low,
        "high": high,
        "seeds": share.n,
        "best": float(best),
        "possible": _possible(run),
        "said": f"{share_of_seeds(share.value)} ({best:.3f})",
    }


ATTENTION_ALONE = "attention alone"


def _best_possible(run: RunSpec, metric: str) -> float | None:
    return run.task.best_possible(run.model).get(metric)


def _possible(run: RunSpec) -> str:
    best = _best_possible(run, "solved")
    return "not known" if best is None else "yes" if best > 0 else "no"
