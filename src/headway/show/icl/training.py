"""Show: how the error falls during training."""

from collections.abc import Iterator
from typing import Any

from headway.declare.log_spaced import thinned
from headway.show.icl.finished_run import declared
from headway.show.report.report_data import ReportData
from headway.show.report.seed_series import per_seed
from headway.show.shared.figure import WIDTH, Figure, Look, inline, keyed, step_axis
from headway.show.shared.theme import ESTIMATORS, SOLID
from headway.words import counted, join, number

POINTS = 200
"""Points of a curve, at most."""

REFERENCES = ("gd_best", "debiased_gd_best", "preconditioned_gd", "ridge")

PANELS = {"train_mse": "training loss", "eval_mse_adjusted": "validation loss"}


def loss(material: ReportData) -> Figure | None:
    """Training and validation loss of every arm over the steps; None when nothing was logged."""
    import altair as alt

    rows = {metric: list(_curves(material, metric)) for metric in PANELS}
    rows = {metric: curve for metric, curve in rows.items() if curve}
    if not rows:
        return None
    every = [row for curve in rows.values() for row in curve]
    low, high = min(row["low"] for row in every), max(row["high"] for row in every)
    references, below = _references(material, low)
    low = min([low, *(mse for _, mse in references)])
    y = alt.Y(
        "mse:Q",
        title="mean squared error",
        scale=alt.Scale(type="log", domain=[low / 1.05, high * 1.05], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    first, last = _first(material), max(row["step"] for row in every)
    arms: list[Look] = [(arm.label, arm.colour, SOLID) for arm in material.arms]
    look = keyed("what", [*arms, *(look for look, _ in references)])
    panels = []
    for metric, curve in rows.items():
        base = alt.Chart(inline(curve)).encode(x=step_axis(first, last), color=look["color"])
        layers = [base.mark_line().encode(y=y, **look, tooltip=["what:N", "step:Q", "mse:Q"])]
        if material.n_seeds > 1:
            layers.insert(0, base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q"), y2="high:Q"))
        if references:
            rules = alt.Chart(inline([{"what": name, "mse": mse} for (name, _, _), mse in references])).mark_rule()
            layers.append(rules.encode(y=y, **look, tooltip=["what:N", "mse:Q"]))
        panels.append(alt.layer(*layers).properties(width=WIDTH // 2 - 40, height=300, title=PANELS[metric]))
    return Figure(
        name="loss",
        part="Training",
        title="Training and validation loss",
        caption=_caption(material, rows, below),
        chart=alt.hconcat(*panels),
    )


def _first(material: ReportData) -> int:
    """The steps between evaluations: up to there the axis is linear."""
    return min(declared(arm.shown).evaluation.every for arm in material.arms)


def _curves(material: ReportData, metric: str) -> Iterator[dict[str, Any]]:
    for arm in material.arms:
        steps, values = per_seed(arm, metric)
        for at in thinned(steps.tolist(), POINTS) if len(steps) else []:
            column = values[:, at]
            yield {
                "what": arm.label,
                "step": steps[at],
                "mse": column.mean(),
                "low": column.min(),
                "high": column.max(),
            }


def _references(material: ReportData, low: float) -> tuple[list[tuple[Look, float]], list[str]]:
    """The estimators' errors and how their rules look, and a sentence's end for those far below everything else."""
    if not material.one_task:
        return [], []
    baselines = material.baselines(material.arms[0])
    found = {name: baselines[name]["mse"] for name in REFERENCES if "mse" in baselines.get(name, {})}
    drawn = [(ESTIMATORS[name], mse) for name, mse in found.items() if mse > low / 4]
    return drawn, [f"{ESTIMATORS[name][0]} ({number(mse, 3)})" for name, mse in found.items() if mse <= low / 4]


def _caption(material: ReportData, rows: dict[str, Any], below: list[str]) -> str:
    longest = max(len(per_seed(arm, metric)[0]) for arm in material.arms for metric in rows)
    seeds = counted(material.n_seeds, "seed")
    prompts = declared(material.arms[0].shown).evaluation.prompts_during
    return join(
        "Left: mean squared error on the fresh prompts of training, averaged since the last logged step. "
        f"Right: on {prompts:,} fixed prompts, their luck taken out as far as debiased GD on the same prompts shows it."
        if len(rows) == 2
        else f"The {' and '.join(PANELS[m] for m in rows)}.",
        f"A line is the mean over {seeds}; its band reaches from the smallest to the largest seed."
        if material.n_seeds > 1
        else "One seed, so no band.",
        "Dashed lines: estimators that are not trained (GD: one step of gradient descent), on the prompts of the final "
        "evaluation."
        if material.one_task
        else "",
        f"Below the axis: {', '.join(below)}." if below else "",
        "Lines of arms are nested, so that all are seen where they coincide." if len(material.arms) > 1 else "",
        f"The error is on a logarithmic axis, and so are the steps beyond {_first(material):,}.",
        f"Curves are thinned to at most {POINTS} points." if longest > POINTS else "",
    )
