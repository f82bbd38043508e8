"""Show: how large the models are: loss against trained parameters, and what the parameters are for."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.compare.tokens.plain_curve import is_plain, on_curve
from headway.declare.tokens.parameters import PARTS, parameters_of
from headway.declare.tokens.run import is_text
from headway.errors import DeclarationError
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared import labels
from headway.show.shared.figure import WIDTH, Figure, ends, inline, log_ends
from headway.show.shared.parameters import PART_COLOURS
from headway.show.shared.summary import SEEDS, over_seeds
from headway.show.shared.theme import QUIET
from headway.show.tokens.finished_run import declared
from headway.show.tokens.ngram_rules import below_and_above, rules
from headway.words import counted, join, together

METRIC = "eval_loss_nats"
SIZE = (WIDTH - 60, 420)
_POINTS = 61


def loss_against_parameters(material: ReportData) -> Figure | None:
    """A labelled point per arm and the curve through the plain models; None unless those of arms differ.

    None of tasks that are no text either: what a plain model of a size would reach is known of text.
    """
    import altair as alt

    if not is_text(material.run):
        return None
    arms = [arm for arm in material.arms if len(arm.final(METRIC)) and arm.shown.metrics.get("n_parameters")]
    if len({arm.shown.metrics["n_parameters"] for arm in arms if arm.control is None}) < 2:
        return None
    points = [_point(arm) for arm in arms]
    plain = sorted((row for row in points if row["plain"]), key=lambda row: row["parameters"])
    low, high = min(row["low"] for row in points), max(row["high"] for row in points)
    domain = ends([low, high], beside=0.1)
    # To the right of the last point its name has to stand.
    width = log_ends([row["parameters"] for row in points], left=0.04, right=0.18)
    x = alt.X(
        "parameters:Q",
        title="trained parameters (millions, logarithmic axis)",
        scale=alt.Scale(type="log", domain=width, nice=False),
        axis=alt.Axis(tickCount=8, format="~g"),
    )
    scale = alt.Scale(domain=domain, nice=False, zero=False)
    y, low_y = (
        alt.Y(f"{end}:Q", title="evaluation loss (nats per token)", scale=scale) for end in ("loss_nats", "low")
    )
    colours = alt.Scale(domain=[arm.label for arm in arms], range=[arm.colour for arm in arms])
    colour = alt.Color("arm:N", scale=colours, legend=None)
    chart = alt.Chart(inline(points)).encode(x=x)
    layers = [*rules(material, domain, "loss_nats")]
    if len(plain) > 1:
        layers.append(alt.Chart(inline(_joined(plain))).mark_line(color=QUIET, strokeWidth=1.6).encode(x=x, y=y))
    layers.append(chart.mark_rule(strokeWidth=1.8).encode(y=low_y, y2="high:Q", color=colour))
    tooltip = ["arm:N", "parameters:Q", "loss_nats:Q", "low:Q", "high:Q"]
    for control in (True, False):
        rows = [row for row in points if row["control"] == control]
        style: dict[str, Any] = {"filled": False, "fill": "white"} if control else {"filled": True}
        mark = alt.Chart(inline(rows)).mark_point(size=95, opacity=1, strokeWidth=1.8, **style)
        layers += [mark.encode(x=x, y=y, color=colour, tooltip=tooltip)] if rows else []
    # A point under a control has the colour of its arm, whose name stands there already.
    named = [row for row in points if not row["control"]] or points
    layers += labels.text_layers(named, _names(named, (width, domain)), {"x": x, "y": y, "color": colour})
    return Figure(
        name="parameters",
        part="Outcome",
        title="Loss against trained parameters",
        caption=join(
            "A point per arm, labelled as declared: the mean over "
            f"{counted(material.n_seeds, 'seed')}"
            + (", with its 95 % interval (t)." if material.n_seeds >= SEEDS else ".")
            if material.n_seeds > 1
            else "A point per arm, one seed.",
            "The line joins the plain models, those without a lane and with full matrices: what a plain model of that "
            "size would reach."
            if len(plain) > 1
            else "Only one size of plain model is here, so there is no curve to lie below.",
            "Hollow, in the colour of its arm: under a control." if any(row["control"] for row in points) else "",
            below_and_above(material, domain),
        ),
        chart=alt.layer(*layers).properties(width=SIZE[0], height=SIZE[1]),
    )


def _joined(plain: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    """The curve that other models are compared with, in points near each other."""
    sizes, losses = ([row[key] for row in plain] for key in ("parameters", "loss_nats"))
    return [
        {"parameters": at, "loss_nats": on_curve(at, sizes, losses)}
        for at in sorted({*sizes, *np.geomspace(sizes[0], sizes[-1], _POINTS).tolist()})
    ]


def _point(arm: ArmResults) -> dict[str, Any]:
    mean = over_seeds(arm.final(METRIC))
    return {
        "arm": arm.label,
        "label": arm.look.point,
        "control": arm.control is not None,
        "plain": is_plain(declared(arm.shown).model) and arm.control is None,
        "parameters": arm.shown.metrics["n_parameters"] / 1e6,
        "loss_nats": mean.mean,
        "low": mean.low,
        "high": mean.high,
    }


def _names(points: Sequence[dict[str, Any]], axes: tuple[Sequence[float], Sequence[float]]) -> list[labels.Side]:
    (left, right), (low, high) = axes
    named = [
        labels.Named(
            x=SIZE[0] * math.log(row["parameters"] / left) / math.log(right / left),
            y=SIZE[1] * (high - row["loss_nats"]) / (high - low),
            name=row["label"],
        )
        for row in points
    ]
    return labels.sides(named, width=SIZE[0], height=SIZE[1])


def parameters_by_part(material: ReportData) -> Figure | None:
    """A stacked bar per size of model; None where the tokenizer's folder is not at hand any more."""
    import altair as alt

    try:
        counts = {arm.label: _counts(arm) for arm in material.arms if arm.control is None}
    except DeclarationError:
        return None  # the number of tokens is not known without the folder
    bars: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for label, found in counts.items():
        bars.setdefault(tuple(found.items()), []).append(label)
    if not bars:
        return None
    names = {key: together(labels, len(counts)) for key, labels in bars.items()}
    rows = [
        {"arm": names[key], "part": part, "parameters": n, "share": n / sum(m for _, m in key), "order": at}
        for key in bars
        for at, (part, n) in enumerate(key)
        if n
    ]
    parts = [part for part in PARTS if any(row["part"] == part for row in rows)]
    colours = alt.Scale(domain=parts, range=[PART_COLOURS[part] for part in parts])
    chart = alt.Chart(inline(rows)).encode(
        x=alt.X("parameters:Q", title="trained parameters", axis=alt.Axis(format="~s", tickCount=8)),
        y=alt.Y("arm:N", title=None, sort=list(names.values()), axis=alt.Axis(labelLimit=320, ticks=False)),
        color=alt.Color("part:N", scale=colours, legend=alt.Legend(title=None, orient="bottom", symbolType="square")),
        order="order:Q",
        tooltip=["arm:N", "part:N", alt.Tooltip("parameters:Q", format=","), alt.Tooltip("share:Q", format=".1%")],
    )
    return Figure(
        name="parts",
        part="Model",
        title="What the parameters are for",
        caption=join(
            "Counted from the declaration, which is what the built model has.",
            "Arms with the same counts share a bar." if any(len(labels) > 1 for labels in bars.values()) else "",
        ),
        chart=chart.mark_bar(height=22).properties(width=WIDTH - 260, height=38 * len(bars)),
    )


def _counts(arm: ArmResults) -> Mapping[str, int]:
    spec = declared(arm.shown)
    counts: Counter[str] = Counter()
    for parameter in parameters_of(spec.model, spec.task.vocab_size):
        counts[parameter.part] += math.prod(parameter.shape)
    return {part: counts[part] for part in PARTS}
