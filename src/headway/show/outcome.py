"""Show: the final error of every arm, seed by seed, beside the estimators on the same prompts."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headway.show.figure import WIDTH, Figure, inline
from headway.show.material import ArmResults, Material
from headway.show.theme import ESTIMATORS, INK
from headway.show.words import join

METRIC = "eval_mse"
CLOSE = 0.1
"""Arms within this fraction of the best arm's error are drawn once more in a panel of their own."""

SEEDS = 3
"""Seeds from which on an interval is drawn: that of two seeds is 13 standard errors wide on either side."""

LABEL = 200
"""Pixels that the name of an arm may take."""

WIDER = 3.0
"""Those arms are drawn once more only if they lie within a range this many times smaller than that of all arms."""


def final_error(material: Material) -> Figure | None:
    """A row per arm: a point per seed, the mean with its interval, a tick per estimator; None without any error."""
    import altair as alt

    arms = [arm for arm in material.arms if len(arm.final(METRIC))]
    if not arms:
        return None
    best = min(arm.final(METRIC).mean() for arm in arms)
    close = [arm for arm in arms if arm.final(METRIC).mean() <= best * (1 + CLOSE)]
    reach = max(arm.final(METRIC).max() for arm in arms) - best
    zoomed = len(close) < len(arms) and reach > WIDER * (max(arm.final(METRIC).max() for arm in close) - best)
    labels = min(LABEL, 8 * max(len(arm.label) for arm in arms))
    width = (WIDTH - 40) // 2 - labels if zoomed else WIDTH - labels
    panels = [_panel(material, arms, width, "all arms" if zoomed else "", legend=not zoomed)]
    if zoomed:
        panels.append(_panel(material, close, width, f"arms within {100 * CLOSE:.0f} % of the best"))
    several = material.n_seeds > 1
    return Figure(
        name="final-error",
        part="Outcome",
        title="Final error",
        caption=join(
            "Mean squared error on the fixed evaluation prompts, at the prompt length of training.",
            "A small point per seed; the large point is their mean"
            + (
                ", the bar its 95 % interval over seeds (t)."
                if material.n_seeds >= SEEDS
                else "; too few seeds for an interval."
            )
            if several
            else "One seed: a point per arm; the bar is its 95 % interval over prompts.",
            "Ticks: estimators that are not trained, on the same prompts (GD: one step of gradient descent).",
            "They are left out where they lie far from every arm." if _far(material, arms) else "",
            "Right: the same, drawn larger." if zoomed else "",
        ),
        chart=alt.hconcat(*panels, spacing=30),
    )


def _panel(material: Material, arms: Sequence[ArmResults], width: int, title: str, *, legend: bool = True) -> Any:
    import altair as alt

    summary, ticks = [_summary(arm) for arm in arms], list(_ticks(material, arms))
    seeds = [
        {"arm": arm.label, "mse": run.metrics[METRIC], "seed": str(run.seed)}
        for arm in arms
        for run in arm.runs
        if run.metrics.get(METRIC) is not None
    ]
    y = alt.Y(
        "arm:N",
        sort=[arm.label for arm in arms],
        title=None,
        axis=alt.Axis(ticks=False, domain=False, labelLimit=LABEL, labelFontSize=12),
    )
    x = alt.X(
        "mse:Q",
        title="mean squared error",
        scale=alt.Scale(zero=False, nice=False, padding=14),
        axis=alt.Axis(tickCount=8),
    )
    arm_colour = alt.Color(
        "arm:N", legend=None, scale=alt.Scale(domain=[a.label for a in arms], range=[a.colour for a in arms])
    )
    looks = {row["what"]: row["colour"] for row in ticks}
    names = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=list(looks), range=list(looks.values())),
        legend=alt.Legend(symbolType="square", symbolSize=60, orient="bottom", columns=3) if legend else None,
    )
    means = alt.Chart(inline(summary)).encode(y=y, color=arm_colour)
    tooltip = [alt.Tooltip("arm:N"), "mse:Q", "low:Q", "high:Q"]
    layers = [
        alt.Chart(inline(ticks))
        .mark_tick(thickness=2.5, size=26)
        .encode(x=x, y=y, color=names, tooltip=["what:N", "mse:Q"]),
        means.mark_rule(strokeWidth=2.5).encode(x="low:Q", x2="high:Q"),
        means.mark_point(size=110, filled=True, opacity=1, stroke="white", strokeWidth=1).encode(x=x, tooltip=tooltip),
    ]
    if material.n_seeds > 1:
        points = alt.Chart(inline(seeds)).mark_point(size=26, filled=True, opacity=0.9, color=INK)
        layers.append(points.encode(x=x, y=y, tooltip=["arm:N", "seed:N", "mse:Q"]))
    chart = alt.layer(*layers[not ticks :]).resolve_scale(color="independent")
    return chart.properties(width=width, height=44 * len(arms), title=title)


def _summary(arm: ArmResults) -> dict[str, Any]:
    values = arm.final(METRIC)
    if len(values) >= SEEDS:
        from scipy.stats import t

        half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    else:
        half = 1.96 * float(arm.shown.metrics.get(f"{METRIC}_se") or 0.0) if len(values) == 1 else 0.0
    mean = float(values.mean())
    return {"arm": arm.label, "mse": mean, "low": mean - half, "high": mean + half}


def _ticks(material: Material, arms: Sequence[ArmResults]) -> Iterator[dict[str, Any]]:
    low, high = _near(arms)
    for arm in arms:
        for name, (label, colour, _) in ESTIMATORS.items():
            found = material.baselines(arm).get(name)
            if found and found["mse"] is not None and low <= found["mse"] <= high:
                yield {"arm": arm.label, "what": label, "mse": found["mse"], "colour": colour}


def _near(arms: Sequence[ArmResults]) -> tuple[float, float]:
    values = [value for arm in arms for value in arm.final(METRIC)]
    low, high = min(values), max(values)
    margin = max((high - low) * 0.5, low * 0.05)
    return low - margin, high + margin


def _far(material: Material, arms: Sequence[ArmResults]) -> bool:
    low, high = _near(arms)
    found = [b["mse"] for arm in arms for name, b in material.baselines(arm).items() if name in ESTIMATORS]
    return any(mse is not None and not low <= mse <= high for mse in found)
