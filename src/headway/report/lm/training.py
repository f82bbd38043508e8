"""Figures of training: the loss, learning rates, and pruning without retraining.

* `learning`: the evaluation loss against tokens;
* `learning_rates`: arms at several learning rates, and against their baseline, each at its best rate;
* `against_kept`: the loss of pruned models without further training, by number of heads and by rule;
* `lane_use`: the data lane's share of the residual stream, before each layer and over training.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headway.base.text import join, listed, number
from headway.base.words import say
from headway.config.spec import thinned
from headway.report.charts.figure import (
    ARM_COLOURS,
    QUIET,
    SOLID,
    WIDTH,
    Datum,
    Figure,
    LineStyle,
    Rows,
    colours_of_column,
    ends,
    grid,
    panel,
)
from headway.report.charts.intervals import ENDS, SEEDS, mean_said, over_seeds
from headway.report.charts.lines import STEP_LABEL, Axis, band_said, keyed, keyed_rules, line_bands, rule
from headway.report.charts.page import Row, Table
from headway.report.experiment.data import ArmResults, ReportData, arm_styles, colours_of, training_curve
from headway.report.experiment.laboratory import Statement
from headway.report.lm.common import declared, references_within, values
from headway.stats.lm.claim_verdicts import PrunedAtOnce, pruned_at_once

METRIC = "eval_loss_nats"
POINTS = 150

LATE = 0.4
"""The second row shows training from this share of its steps on."""
ENLARGED = f"from {100 * LATE:.0f} % of training on, enlarged"


_TOKEN_TICKS = {"tickCount": 6, "labelExpr": STEP_LABEL}


def learning(material: ReportData) -> Figure | None:
    """Evaluation loss against the tokens trained on: whole, and the later part again; a column per group."""
    rows = [row for arm in material.arms for row in _rows_learning(arm)]
    if not rows:
        return None
    last = {row["arm"]: row["step"] for row in rows}
    late = [row for row in rows if row["step"] >= LATE * last[row["arm"]]]
    columns = _columns(material)
    several = len(columns) > 1
    width = (WIDTH - 60) // len(columns) - 62 if several else (WIDTH - 60) // 2 - 20
    whole = _ends(material, rows)
    style = keyed("what", _styles(material, whole), nested=False)
    x = Axis("x", "training tokens", scale={"nice": False, "zero": False}, ticks=_TOKEN_TICKS)
    # Vega-Lite warns of a zero on a logarithmic axis, even of one that is refused.
    ticks = {"tickCount": 5, "minExtent": 34}
    y = Axis("loss_nats", "evaluation loss (nats, log scale)", domain=whole, log=True, ticks=ticks)
    panels = [
        panel(_curves(material, rows, arms, x, y, style), width, 230 if several else 260, group)
        for group, arms in columns.items()
    ]
    if len(late) > len(last):  # a curve, and not a point
        domain = ends([row[end] for row in late for end in ENDS], beside=0.06)
        y = replace(y, title="evaluation loss (nats)", domain=domain, log=False)
        panels += [panel(_curves(material, late, arms, x, y, style), width, 260, ENLARGED) for arms in columns.values()]
    return Figure(
        name="learning",
        part="Training",
        title="Evaluation loss during training",
        caption=join(
            _sequences(material),
            band_said(material.n_seeds),
            "Arms that are initialised from others show only their own training."
            if any(arm.shown.run.spec.initial_run for arm in material.arms)
            else "",
        ),
        chart=grid(panels, max(len(columns), 2)),
    )


def _rows_learning(arm: ArmResults) -> Iterator[Datum]:
    tokens_at = {record["step"]: record["tokens"] for record in arm.shown.records if record.get("tokens") is not None}
    per_step = declared(arm).training.batch_size * declared(arm).task.n_ctx
    for row in training_curve(arm, METRIC, "loss_nats", POINTS):
        tokens = tokens_at.get(row["step"], row["step"] * per_step)
        yield {**row, "what": _what(arm), "arm": arm.label, "x": tokens}


def _what(arm: ArmResults) -> str:
    """Return an arm's name in the legend: the scheme's, if a panel is a group."""
    return arm.style.scheme if arm.style.scheme and arm.shown.run.group else arm.label


def _columns(material: ReportData) -> dict[str, list[ArmResults]]:
    """The arms of each panel: those of a group, with the arms of no group beside them in every one."""
    groups = material.experiment.groups
    columns = {name: [arm for arm in material.arms if arm.shown.run.group == name] for name in groups}
    columns = {name: arms for name, arms in columns.items() if arms}
    alone = [arm for arm in material.arms if arm.shown.run.group not in groups]
    if len(columns) < 2:
        return {"": list(material.arms)}
    return {name: [*arms, *alone] for name, arms in columns.items()}


def _sequences(material: ReportData) -> str:
    evaluations = (declared(arm).evaluation for arm in material.arms)
    (during, final), *others = {(each.sequences_during, each.sequences) for each in evaluations}
    if others:
        return "Loss on the same held-out sequences."
    rest = "all" if final is None else f"{final:,}"
    return f"Curves show the loss on {during:,} held-out sequences; tables show the final loss, on {rest} sequences."


def _ends(material: ReportData, rows: Rows) -> list[float]:
    lows, highs = ([row[end] for row in rows] + list(values(material).values()) for end in ENDS)
    return [0.97 * min(lows), 1.03 * max(highs)]


def _styles(material: ReportData, domain: Sequence[float]) -> list[LineStyle]:
    dashes = {arm.name: SOLID if arm.shown.run.group else arm.style.dash for arm in material.arms}
    arms = {_what(arm): (_what(arm), arm.colour, dashes[arm.name]) for arm in material.arms}
    return [*arms.values(), *(style for style, _ in references_within(material, domain))]


def _curves(
    material: ReportData, rows: Rows, arms: Sequence[ArmResults], x: Axis, y: Axis, style: Mapping[str, Any]
) -> list[Any]:
    assert y.domain is not None
    rows = [row for arm in arms for row in rows if row["arm"] == arm.label]
    shown = ["arm:N", "step:Q", ("x:Q", "", x.title or ""), "loss_nats:Q"]
    spread = "band" if material.n_seeds > 1 else None
    layers = line_bands(rows, x, y, {**style, "detail": "arm:N"}, spread=spread, clip=True, shown=shown)
    return layers + keyed_rules(references_within(material, y.domain), y, style)


def learning_rates(material: ReportData) -> Table | None:
    """A row per arm; None where no other rates were tried."""
    entries = material.results.learning_rates
    factors = sorted({rate.factor for entry in entries for rate in entry.rates})
    if not entries:
        return None
    named, rows = arm_styles(material.experiment), []
    for entry in entries:
        means = {rate.factor: rate.mean for rate in entry.rates}
        best = f"x{entry.best:g}" + (" (edge of the tested range)" if entry.at_edge else "")
        verdicts = "\n".join(c.verdict for c in entry.comparisons) or "–"
        cells = (named[entry.arm].label, *(number(means.get(f)) for f in factors), best, verdicts)
        rows.append(Row(cells=cells, colour=named[entry.arm].colour))
    return Table(
        columns=("", *(f"x{factor:g}" for factor in factors), "best", "vs its baseline, both at their best rate"),
        rows=rows,
        caption="Mean evaluation loss at each multiple of the learning rate, and the best multiple.",
    )


_MUCH = 0.01
"""A share of the loss."""
_KEPT = "heads kept (%)"
_METHODS = {
    "random": ("random heads", QUIET, (4, 3)),
    "magnitude": ("magnitude (norm of W_V W_O)", ARM_COLOURS[7], SOLID),
    "output": ("output (norm of the output)", ARM_COLOURS[5], SOLID),
    "alike": ("alike (weaker of the most similar two)", ARM_COLOURS[1], SOLID),
    "alike-either": ("alike-either (one of these two at random)", ARM_COLOURS[1], (4, 3)),
    "taylor": ("taylor (Michel's importance)", ARM_COLOURS[0], SOLID),
    "ablation": ("ablation (exact effect)", ARM_COLOURS[2], SOLID),
    "gates": ("gates (learned, L0 penalty)", ARM_COLOURS[3], SOLID),
    "budget": ("budget (learned, relaxed top-k)", ARM_COLOURS[4], SOLID),
}
"""The name, colour and dashes of each method; those that draw are dashed: random heads, the floor of the others, and
either of two."""


def against_kept(material: ReportData) -> Figure | None:
    """The rise of the loss against the share of heads kept, a line per method; None without two shares of one."""
    every = _found(material)
    last = [one for one in every if one.step == max(each.step for each in every)]
    shares = {method: {one.kept for one in last if one.method == method} for method in _METHODS}
    if max(map(len, shares.values())) < 2:
        return None
    methods = [method for method in _METHODS if shares[method]]
    rows = [
        {"what": _METHODS[method][0], "x": 100 * kept, **over_seeds(rises, "rise"), "seeds": len(rises)}
        for method in methods
        for kept, rises in [
            (1.0, [0.0]),
            *((one.kept, list(one.rises.values())) for one in last if one.method == method),
        ]
    ]
    styles = [_METHODS[method] for method in methods]
    return Figure(
        name="pruned",
        part="Outcome",
        title="Rise of the loss after pruning",
        caption=join(
            "Rise of the loss over the unpruned model of the same seed, without further training.",
            f"Each point is {mean_said(material.n_seeds)}.",
        ),
        chart=_pruned_lines(rows, styles),
    )


def prunable(material: ReportData) -> Statement | None:
    """Return how many heads can go at each step without a clear rise of the loss, by the upper end of its interval.

    None where they were taken at one step, or where seeds are too few for an interval.
    """
    pruned = _found(material)
    steps = sorted({one.step for one in pruned})
    if len(steps) < 2 or material.n_seeds < SEEDS:
        return None
    shares = []
    for step in steps:
        # A mean alone may be below the threshold by chance.
        certain = [one for one in pruned if one.step == step and len(one.rises) >= SEEDS]
        fitting = [1 - p.kept for p in certain if over_seeds(list(p.rises.values()))["high"] <= _MUCH * p.loss]
        kind = "prunable_at" if fitting else "not_prunable_at"
        shares.append(say(kind, percent=100 * max(fitting, default=0.0), step=step))
    return Statement(sentence=say("prunable", shares=listed(shares)), colour=QUIET)


def _found(material: ReportData) -> list[PrunedAtOnce]:
    finals = {arm.name: {run.seed: run.metrics for run in arm.runs} for arm in material.arms}
    steps = {arm.name: arm.shown.run.steps for arm in material.arms}
    return list(pruned_at_once(material.experiment.arms, finals, steps))


def _pruned_lines(rows: Sequence[Datum], styles: Sequence[LineStyle]) -> Any:
    ticks = {"values": sorted({row["x"] for row in rows}), "format": ",.0f"}
    x = Axis("x", _KEPT, scale={"reverse": True, "nice": False, "zero": False}, ticks=ticks)
    y = Axis("rise", "rise of the evaluation loss (nats per token)")
    style = keyed("what", styles, nested=False)
    shown = ["what:N", ("x:Q", "", _KEPT), "rise:Q", "low:Q", "high:Q", "seeds:Q"]
    lines = line_bands(rows, x, y, style, shade=0.14, points=60, shown=shown)
    return panel([rule([0.0], y=y, dash=(1, 3)), *lines], WIDTH - 60, 420)


LANE_SHARE = "lane_share"
LANE_POINTS = 120
LANE_PLACES = ("#1d3557", "#2f6db3", "#56b4e9", "#2a9d5c", "#9acd32", "#d4a017", "#e4572e", "#c2185b", "#8e44ad")
"""Colours of the places along the stream, from the first layer on; more places share the ends' mixture."""


def lane_use(material: ReportData) -> Figure | None:
    """The lane's share of the stream's squared norm; None without a lane."""
    arms = [arm for arm in material.arms if has_lane(arm) and arm.shown.metrics.get(LANE_SHARE)]
    if not arms:
        return None
    over = [arm for arm in arms if len(arm.shown.series(LANE_SHARE)[0]) > 1]
    columns = min(4, max(1, len(over)))
    width = (WIDTH - 60) // columns - 50
    rows = [_at_the_end(arms)]
    if over:
        rows.append(grid([_over_training(arm, width) for arm in over], columns))
    return Figure(
        name="lane-use",
        part="Data lane",
        title="The lane's share of the stream",
        caption=join(
            "The lane's share of the stream's squared norm, averaged over tokens.",
            f"Each point is {mean_said(material.n_seeds)}.",
            f"Curves over training are of seed {' or '.join(sorted({str(arm.shown.seed) for arm in over}))}, and grey "
            "lines are the lane's share of the width."
            if over
            else "",
        ),
        chart=grid(rows, 1).resolve_scale(color="independent"),
    )


LANE_AXIS = Axis("share", "share in the lane", domain=[0, 1], ticks={"format": "%"})


def has_lane(arm: ArmResults) -> bool:
    """Return whether the model of an arm has a data lane."""
    model = declared(arm).model
    return model.embedding_width < model.d_model


def _places(n: int) -> list[str]:
    return [*(f"layer {layer}" for layer in range(n - 1)), "final norm"]


def _at_the_end(arms: Sequence[ArmResults]) -> Any:
    rows = []
    for arm in arms:
        shares = np.array([run.metrics[LANE_SHARE] for run in arm.runs if run.metrics.get(LANE_SHARE)], dtype=float)
        for place, column in zip(_places(shares.shape[1]), shares.T, strict=True):
            rows.append({"what": arm.label, "place": place, **over_seeds(column, "share")})
    places = _places(max(len(arm.shown.metrics[LANE_SHARE]) for arm in arms))
    x = Axis("place", "before", order=places, scale={"padding": 0.4}, ticks={"labelAngle": 0})
    colour = colours_of_column("what", colours_of(arms), "stroke", columns=4)
    lines = line_bands(
        rows, x, LANE_AXIS, colour, spread="bar", points=60, shown=["what:N", "place:N", ("share:Q", ".1%")]
    )
    return panel(lines, WIDTH - 80, 270, "at the end of training")


def _over_training(arm: ArmResults, width: int) -> Any:
    places, model = _places(arm.shown.series(LANE_SHARE)[1].shape[1]), declared(arm).model
    ticks = {"tickCount": 3, "labelExpr": STEP_LABEL}
    palette = {place: LANE_PLACES[at % len(LANE_PLACES)] for at, place in enumerate(places)}
    colour = colours_of_column("place", palette, "stroke", title="before", columns=5)
    shown = ["place:N", "step:Q", ("share:Q", ".1%")]
    x = Axis("step", "training step", ticks=ticks)
    lines = line_bands(list(_rows(arm, places)), x, LANE_AXIS, colour, spread=None, strokeWidth=1.8, shown=shown)
    even = rule([1 - model.embedding_width / model.d_model], y=LANE_AXIS, colour="#b4b8bf", dash=(4, 3))
    return panel([even, *lines], width, 190, arm.label)


def _rows(arm: ArmResults, places: Sequence[str]) -> Iterator[Datum]:
    steps, shares = arm.shown.series(LANE_SHARE)
    for at in thinned(steps.tolist(), LANE_POINTS):
        for place, share in zip(places, shares[at], strict=True):
            yield {"place": place, "step": steps[at], "share": share}
