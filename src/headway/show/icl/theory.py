"""Show: what theory expects of the experiment's task, beside what training found."""

from typing import Any

import numpy as np

from headway.declare.icl.task import Identity
from headway.icl.theory import (
    EffectiveLoss,
    Flow,
    gradient_flow,
    proportional_bayes_risk,
    proportional_gd_risk,
    small_start,
)
from headway.show.icl.finished_run import declared, has_one_layer
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.shared.theme import head_domain, head_range
from headway.words import join

FLOW_TIME = 30.0
STEP = 0.01
STAGES = (5.5, 7.5)
"""Times at which the paper marks the stages of the flow."""

RATIOS = np.geomspace(0.02, 2.0, 80)


def covered(arm: ArmResults) -> bool:
    """Whether the effective loss holds for an arm: one softmax layer, isotropic x, one output that reads all of x."""
    model, task = declared(arm.shown).model, declared(arm.shown).task
    isotropic = isinstance(task.covariance, Identity) and task.d_y == 1 and bool(task.read_mask().all())
    return has_one_layer(arm) and model.attention == "softmax" and isotropic


def flow(material: ReportData) -> Figure | None:
    """Gradient flow of the effective loss of two heads from a small start; None where the theory does not hold."""
    import altair as alt

    arm = _reference(material)
    if arm is None:
        return None
    task = declared(arm.shown).task
    effective, start = EffectiveLoss.of(task), small_start(2)
    path = gradient_flow(effective, start, start, steps=round(FLOW_TIME / STEP), step_size=STEP, every=25)
    panels = [_path(path, path.w, "w"), _path(path, path.mu, "mu", effective), _descent(path, effective)]
    return Figure(
        name="gradient-flow",
        part="Theory",
        title="What theory expects of two heads: gradient flow of the effective loss",
        caption=join(
            f"No training: gradient flow of half the effective loss at d = {task.d_x}, L = {task.n_pairs}, from "
            "w = mu = (0.001, −0.001); time is step size times steps.",
            "Dashed: mu*(w), the best mu for the w of that time (left out where it is far larger than mu).",
            "Right: the loss and, dashed, the value 1 + noise − eta* of its valley; both include the noise of the "
            "query and are in units of the variance of beta·x, where the effective loss lies about 0.02 below the true "
            "risk at d = 5, L = 40.",
            f"Grey: t = {STAGES[0]} and {STAGES[1]}, where the paper parts the stages.",
        ),
        chart=alt.hconcat(*panels),
    )


def _path(path: Flow, values: np.ndarray, name: str, effective: EffectiveLoss | None = None) -> Any:
    import altair as alt

    heads = head_domain(2)
    colour = alt.Color("head:N", title="head", scale=alt.Scale(domain=heads, range=head_range(2)))

    def lines(drawn: np.ndarray, **mark: Any) -> Any:
        rows = [
            {"time": t, "head": h, "value": v}
            for t, row in zip(path.time, drawn, strict=True)
            for h, v in zip(heads, row, strict=True)
        ]
        chart = alt.Chart(inline(rows)).mark_line(**mark)
        return chart.encode(
            x=alt.X("time:Q", title="time"),
            y=alt.Y("value:Q", title=name),
            color=colour,
            tooltip=["head:N", "time:Q", "value:Q"],
        )

    layers = [_stages(), lines(values)]
    if effective is not None:
        best = np.array([effective.best_mu(w) for w in path.w])
        layers.append(
            lines(np.where(np.abs(best) < 1.3 * np.abs(values).max(), best, np.nan), strokeDash=[5, 3], strokeWidth=1.2)
        )
    return alt.layer(*layers).properties(width=WIDTH // 3 - 75, height=220)


def _descent(path: Flow, effective: EffectiveLoss) -> Any:
    import altair as alt

    rows = [{"time": t, "loss": loss} for t, loss in zip(path.time, path.loss, strict=True)]
    line = alt.Chart(inline(rows)).mark_line(color="#22262b")
    line = line.encode(
        x=alt.X("time:Q", title="time"), y=alt.Y("loss:Q", title="effective loss"), tooltip=["time:Q", "loss:Q"]
    )
    valley = alt.Chart(inline([{"loss": effective.valley_loss()}])).mark_rule(strokeDash=[4, 2], color="#7d838c")
    return alt.layer(_stages(), line, valley.encode(y="loss:Q")).properties(width=WIDTH // 3 - 75, height=220)


def _stages() -> Any:
    import altair as alt

    return alt.Chart(inline([{"time": t} for t in STAGES])).mark_rule(color="#c3c7cd").encode(x="time:Q")


def proportional(material: ReportData) -> Figure | None:
    """The risks when d and L grow together, and where the arms ended; None where the theory does not hold."""
    import altair as alt

    reference = _reference(material)
    if reference is None:
        return None
    noise = EffectiveLoss.of(declared(reference.shown).task).noise
    names = {"best gradient descent step": ("#22262b", [4, 2]), "ridge (Bayes)": ("#a07d4b", [8, 3, 2, 3])}
    risks = dict(zip(names, (proportional_gd_risk, proportional_bayes_risk), strict=True))
    rows = [{"what": what, "ratio": r, "risk": risk(float(r), noise)} for what, risk in risks.items() for r in RATIOS]
    arms = [
        arm
        for arm in material.arms
        if covered(arm) and arm.shown.task == reference.shown.task and len(arm.final("eval_mse"))
    ]
    palette = {name: colour for name, (colour, _) in names.items()} | {arm.label: arm.colour for arm in arms}
    colour = alt.Color("what:N", title=None, scale=alt.Scale(domain=list(palette), range=list(palette.values())))
    dash = alt.StrokeDash(
        "what:N", legend=None, scale=alt.Scale(domain=list(names), range=[d for _, d in names.values()])
    )
    x = alt.X("ratio:Q", title="d / L", scale=alt.Scale(type="log", nice=False))
    y = alt.Y("risk:Q", title="risk ÷ variance of beta·x", scale=alt.Scale(type="log"))
    tooltip = ["what:N", "ratio:Q", "risk:Q"]
    lines = alt.Chart(inline(rows)).mark_line().encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tooltip)
    # Rings around one another, so that arms that ended alike can all be seen.
    rings = [{**_ended(arm), "size": 40 + 90 * at} for at, arm in enumerate(arms)]
    points = alt.Chart(inline(rings)).mark_point(strokeWidth=2, opacity=1)
    size = alt.Size("size:Q", scale=None)
    chart = alt.layer(lines, points.encode(x=x, y=y, color=colour, size=size, tooltip=tooltip))
    return Figure(
        name="proportional-regime",
        part="Theory",
        title="Risk when d and L grow together",
        caption=join(
            f"Lines: limits for large d and L at a fixed ratio, noise variance {noise:.3g} of the signal's, "
            "the query's noise included.",
            "Rings: where the arms ended (mean over seeds), at their finite d and L." if arms else "",
            "Both axes are logarithmic.",
        ),
        chart=chart.properties(width=WIDTH - 420, height=260),
    )


def _ended(arm: ArmResults) -> dict[str, Any]:
    task = declared(arm.shown).task
    signal = task.d_x * task.variance_of_beta
    noise = 0.0 if task.noisy_query else task.noise_variance
    return {
        "what": arm.label,
        "ratio": task.d_x / task.n_pairs,
        "risk": (arm.final("eval_mse").mean() + noise) / signal,
    }


def _reference(material: ReportData) -> ArmResults | None:
    """The baseline arm, or else the first arm, that the theory covers."""
    known = [arm for arm in material.arms if covered(arm)]
    chosen = [arm for arm in known if arm.name == material.experiment.baseline]
    return next(iter(chosen or known), None)
