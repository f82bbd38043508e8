"""The page of `headway ablate`: the loss of a finished model without its heads.

* Tables: a row for each kind of ablation, and for each head;
* `circuit_losses`: the loss with a circuit alone, beside random circuits of as many heads, a panel for each kind;
* `head_intervals` and `pair_intervals`: the effects of heads and of pairs with intervals, a panel for each kind, on one
  scale;
* `estimates`: cheap estimates against exact effects, a panel for each estimate and kind.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headway.base.text import counted, decimal, join, listed
from headway.base.words import say
from headway.causal.ablation_result import (
    MATTERS,
    Ablation,
    Faithfulness,
    estimates_of,
    random_circuits_said,
    share_that_is_told,
    told_heads,
    ways_told,
    within,
)
from headway.causal.effects import KINDS, TOLD, Kind, beyond, interval, named
from headway.causal.self_repair import AblationTogether
from headway.report.charts.atlas import atlas
from headway.report.charts.figure import ARM_COLOURS, QUIET, Figure, Hint, ends, grid, panel
from headway.report.charts.intervals import ENDS, points_with_intervals, strip
from headway.report.charts.lines import Axis, line_bands, rule
from headway.report.charts.page import Row, Table
from headway.report.models.page import OPENING, ModelPage

WAYS: dict[Kind, str] = {"zero": "set to zero", "mean": "set to the mean", "resample": "resampled"}


def ways(found: Ablation) -> Table:
    """A row for each kind of ablation: joint effect, the share of it in single effects, and heads that matter."""
    exact = found.exact
    rows = []
    for kind in KINDS:
        joint = within(exact.joint_mean(kind), interval(exact.joint[kind], exact.tokens))
        cells = (WAYS[kind], joint, percent(share_that_is_told(exact, kind)), _mattering(found, kind))
        rows.append(Row(cells=cells))
    loss = within(found.loss_nats, interval(exact.loss, exact.tokens))
    caption = say("whole_loss", loss=loss, least=MATTERS)
    columns = ("heads are", "without any head", "sum of single effects", "heads that matter")
    return Table(columns=columns, rows=rows, caption=caption)


def heads(found: Ablation) -> Table:
    """A row for each head, those that the loss rises most without, at their mean, first."""
    single = found.exact.single
    ends = {kind: single[kind].interval() for kind in KINDS}
    rows = []
    for (layer, head), _ in single["mean"].ranked():
        changes = [within(float(single[kind].mean[layer][head]), ends[kind][layer][head]) for kind in KINDS]
        rows.append(Row(cells=(named((layer, head)), *changes)))
    caption = "Change in loss when each head is ablated, in nats per token, with 95 % intervals (not simultaneous)."
    return Table(columns=("", *(WAYS[kind] for kind in KINDS)), rows=rows, caption=caption)


def _mattering(found: Ablation, kind: Kind) -> str:
    effects = found.exact.single[kind]
    if np.isnan(np.concatenate(effects.corrected_interval())).all():
        return "–"
    return str(len(beyond(effects, MATTERS)))


def percent(value: float) -> str:
    """A share as a whole number of per cent, which is never minus nothing.

    Examples:
        >>> percent(0.256), percent(-0.001), percent(float("nan"))
        ('26 %', '0 %', '–')
    """
    return f"{round(100 * value)} %".replace("-", "−") if np.isfinite(value) else "–"


_ALL, _NONE, _OWN, _RANDOM = "all heads", "no head", "these heads alone", "other circuits"
_PANEL = 272
_ROWS = (_ALL, _OWN, _RANDOM, _NONE)


def circuit_losses(found: Ablation) -> Figure | None:
    """Draw the loss with all heads, the circuit, each random circuit, and no heads; None if not asked for."""
    if found.circuit is None:
        return None
    one, panels = found.circuit[TOLD], list[Any]()
    for kind, each in found.circuit.items():
        panels.append(_panel_circuit_losses(each, WAYS[kind], named_rows=not panels))
    return Figure(
        name="circuit",
        part="The circuit",
        title=f"Loss with {listed(map(named, one.heads))} alone",
        caption="All heads outside a circuit are ablated. Thick lines are 95 % intervals over sequences, and thin "
        f"lines are {random_circuits_said(one)}. The loss of a good circuit is close to that of the full model.",
        chart=grid(panels, 3, (14, 0)),
    )


def _panel_circuit_losses(found: Faithfulness, title: str, named_rows: bool) -> Any:
    low, high = found.circuit_interval
    points = [
        {"row": _ALL, "loss": found.whole},
        {"row": _OWN, "loss": found.circuit, "low": low, "high": high},
        {"row": _NONE, "loss": found.none},
    ]
    others = [{"row": _RANDOM, "loss": float(loss)} for loss in found.random]
    y = Axis("row", order=_ROWS, ticks={"ticks": False, "domain": False, "grid": False} if named_rows else None)
    domain = ends([found.whole, found.circuit, low, high, found.none, *map(float, found.random)], beside=0.05)
    x = Axis("loss", "nats per token", domain=domain, ticks={"format": "~r", "tickCount": 5})
    shown: list[Hint] = [("row:N", "", "with"), ("loss:Q", ".4~g")]
    ticks = strip(others, x, y, QUIET, kind="tick", thickness=1, height=16, shown=shown)
    marks = points_with_intervals(points, x, y, ARM_COLOURS[0], across=ENDS, thick=3, size=52, shown=shown)
    return panel([ticks, *marks], _PANEL, 110, title)


_ROW = 15
_ACROSS = 3
"""Panels beside one another: of more nothing is left on a narrow screen."""


def interval_panels(
    names: Sequence[str],
    order: Sequence[int],
    panels: Mapping[str, np.ndarray],
    *,
    unit: str = "nats per token",
    matters: float = MATTERS,
    number: str = "~r",
    said: str = "change",
) -> Any:
    """A panel for each way, all on one scale, names at the left.

    Args:
        names: the names of all heads or sets of heads.
        order: the places of the drawn ones among them, and in the panels' arrays.
        panels: the numbers of each thing by title (thing, 5): its value, the ends of an interval of its own, and the
            ends of an interval that holds for all things at once.
        unit: the unit of the values.
        matters: the size from which a value matters, drawn as a dotted line on either side.
        number: the number format of the axis.
        said: the label of a value in the tooltip.
    """
    rows = [names[at] for at in order]
    drawn = {title: numbers[order] for title, numbers in panels.items()}
    x = Axis("value", unit, domain=_domain(drawn), ticks={"format": number, "tickCount": 5, "grid": True})
    lines = [rule([0.0], x=x), rule([-matters, matters], x=x, dash=(2, 3))]
    shown: list[Hint] = [
        ("row:N", "", "head"),
        ("value:Q", ".3~g", said),
        ("own0:Q", ".3~g", "from"),
        ("own1:Q", ".3~g", "to"),
    ]
    charts = []
    for place, (title, numbers) in enumerate(drawn.items()):
        table = [dict(zip(_COLUMNS, (name, *row), strict=True)) for name, row in zip(rows, numbers, strict=True)]
        y = Axis("row", order=rows, ticks=_NAMES if place % _ACROSS == 0 else None)
        marks = points_with_intervals(
            table, x, y, ARM_COLOURS[0], across=("own0", "own1"), wider=("all0", "all1"), thick=3, size=42, shown=shown
        )
        charts.append(panel([*lines, *marks], _PANEL, _ROW * len(rows), title))
    return grid(charts, _ACROSS, (14, 18))


_COLUMNS = ("row", "value", "own0", "own1", "all0", "all1")
_NAMES = {"ticks": False, "domain": False, "labelLimit": 160, "grid": True, "labelOverlap": False}


def _domain(drawn: Mapping[str, np.ndarray]) -> list[float]:
    """Return the ends of an axis that holds all known values, and 0."""
    values = np.nan_to_num(np.concatenate([*drawn.values()], axis=None))
    return ends([0.0, *values.tolist()], beside=0.03)


MOST = 40
"""The largest number of rows."""


def head_intervals(found: Ablation) -> Figure:
    """The effect of every head, the largest first; of many heads those with the largest effect in some way."""
    single = found.exact.single
    names = [named(head) for head, _ in single["mean"].heads()]
    panels = {
        WAYS[kind]: np.column_stack(
            [single[kind].flat(), *map(np.concatenate, (single[kind].interval(), single[kind].corrected_interval()))]
        )
        for kind in KINDS
    }
    size = np.max([np.abs(numbers[:, 0]) for numbers in panels.values()], axis=0)
    mean = single["mean"].flat()
    order = sorted(np.argsort(-size)[:MOST].tolist(), key=lambda at: -mean[at])
    left_out = len(names) - len(order)
    caption = join(
        f"Right of 0, the loss rises without the head; beyond the dotted lines ({MATTERS} nats), the head matters.",
        "Thick lines are 95 % intervals over sequences; thin lines are simultaneous intervals.",
        f"Only the table shows {counted(left_out, 'head')} with smaller effects." if left_out else "",
    )
    return Figure(
        name="effects",
        part="Intervals",
        title="Change in loss when each head is ablated, with intervals",
        caption=caption,
        chart=interval_panels(names, order, panels),
    )


def pair_intervals(found: Ablation) -> Figure | None:
    """Draw the interaction of each measured pair; None if no pair was measured."""
    pairs = found.pairs
    if pairs is None or not pairs.heads:
        return None
    names = [f"{named(one)} and {named(other)}" for one, other in pairs.heads]
    panels = {
        WAYS[kind]: np.column_stack([pairs.mean(kind), *pairs.interval(kind), *pairs.corrected_interval(kind)])
        for kind in pairs.per_sequence
    }
    mean = pairs.mean("mean")
    order = sorted(range(len(names)), key=lambda at: -mean[at])
    caption = (
        "Loss change from ablating both heads, minus the sum of the changes from ablating each one. Right of 0, the "
        "heads are redundant; left of 0, they work together. Thick lines are 95 % intervals over sequences; thin lines "
        "are simultaneous intervals."
    )
    return Figure(
        name="interactions",
        part="Pairs",
        title="Pairwise interactions between heads",
        caption=caption,
        chart=interval_panels(names, order, panels),
    )


ESTIMATES = {
    "michel": "importance (Michel et al.)",
    "first-order": "first-order estimate",
    "integrated": "integrated gradient",
}
_WIDE, _HIGH = 250, 190


def estimates(found: Ablation) -> Figure | None:
    """Estimates against exact effects, a point for each head; None of a single head."""
    exact = {kind: found.exact.single[kind].flat() for kind in KINDS}
    if len(exact["zero"]) < 2:
        return None
    names = [named(head) for head, _ in found.exact.single["zero"].heads()]
    panels = []
    for name in ESTIMATES:
        for kind in KINDS:
            values = estimates_of(found, kind)[name]
            panels.append(_panel_estimates(names, exact[kind], values, name, _title(found, kind, name)))
    return Figure(
        name="estimates",
        part="Estimates",
        title="Cheap estimates against exact effects",
        caption="On a dashed line, the estimate equals the exact loss change, in nats per token. The importance score "
        "of Michel and others has no sign, so its ranks are also compared with those of absolute effects. No rank "
        "correlation is given if no head has a clear effect.",
        chart=grid(panels, len(KINDS), (26, 18)),
    )


def _title(found: Ablation, kind: Kind, name: str) -> str:
    """The way, and how the estimate ranks heads where there is something to rank."""
    rank, sizes = found.agreement[kind][name], found.agreement_of_sizes[kind]
    if kind not in ways_told(found) or not np.isfinite(rank):
        return WAYS[kind]
    of_sizes = f" ({decimal(sizes)} with absolute effects)" if name == "michel" and np.isfinite(sizes) else ""
    return f"{WAYS[kind]}: rank correlation {decimal(rank)}{of_sizes}"


def _panel_estimates(names: list[str], exact: np.ndarray, values: np.ndarray, method: str, title: str) -> Any:
    rows = [{"head": n, "exact": e, "estimate": v} for n, e, v in zip(names, exact, values, strict=True)]
    across, up = ends(exact.tolist(), beside=0.06), ends(values.tolist(), beside=0.06)
    few = {"tickCount": 4, "format": "~r", "grid": True}
    x, y = Axis("exact", "exact", domain=across, ticks=few), Axis("estimate", ESTIMATES[method], domain=up, ticks=few)
    shown: list[Hint] = ["head:N", ("exact:Q", ".3~g"), ("estimate:Q", ".3~g")]
    layers = points_with_intervals(rows, x, y, ARM_COLOURS[0], size=34, opacity=0.75, shown=shown)
    low, high = max(across[0], up[0]), min(across[1], up[1])
    if method != "michel" and low < high:
        line = [{"exact": at, "estimate": at} for at in (low, high)]
        layers = line_bands(line, x, y, QUIET, spread=None, strokeDash=[4, 3], strokeWidth=1) + layers
    return panel(layers, _WIDE, _HIGH, {"text": title, "fontSize": 12, "fontWeight": "normal"})


def ablation_page(found: Ablation) -> ModelPage:
    """The page, drawn; `ablate.html`, `ablate.json` and their figures are its files."""
    return ModelPage(
        verb="ablate",
        title=f"Ablation of heads: {found.name}",
        headline=headline(found),
        second=_together(found),
        read=f"Loss on {found.read}; mean and resample ablation take outputs from {found.other}",
        found=found,
        overview=ways(found),
        heads=heads(found),
        figures=figures(found),
    )


def headline(found: Ablation) -> str:
    """Return the sentence on the heads that matter on their own, by mean ablation."""
    return next(told_heads(found.exact.single[TOLD], TOLD)).sentence


def _together(found: Ablation) -> str:
    """Return the sentence on the heads that show no clear effect alone; empty if they show none together either."""
    repair = found.repair if isinstance(found, AblationTogether) else None
    if repair is None or repair.others is None:
        return ""
    statements = list(repair.group_statements(repair.others))[:2]
    return " ".join(each.sentence for each in statements)


def figures(found: Ablation) -> tuple[Figure, ...]:
    """The grid of mean ablation, effects with intervals, a circuit, pairs, and estimates against exact effects."""
    mattering = [named(head) for head, *_ in beyond(found.exact.single[TOLD], MATTERS)]
    framed = "Orange frames are the heads that matter." if mattering else ""
    every = [
        atlas(
            found.scores,
            metrics=[f"{TOLD}_ablation_nats"],
            labels=found.labels,
            name="effects-atlas",
            part=OPENING,
            title="Change in loss when each head is ablated",
            caption=join("Values are in nats per token; one head at a time is replaced by its mean output.", framed),
            marked=mattering,
        ),
        head_intervals(found),
        circuit_losses(found),
        pair_intervals(found),
        estimates(found),
    ]
    return tuple(filter(None, every))
