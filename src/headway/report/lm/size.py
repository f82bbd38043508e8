"""Figures of model size: loss against heads and against parameters, and the cost of an arm.

* `loss_against_heads`: a labelled point per arm and a fitted curve per scheme of layouts;
* `loss_against_parameters`: a point per arm and a curve through the plain models;
* `cost`: the time of a training step and the memory, from solo timings alone. Runs of a sweep share the machine, so
  their own seconds are no measurement.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headway.base.text import counted, join, listed, number
from headway.base.words import say
from headway.config.lm.run import is_text
from headway.report.charts import intervals
from headway.report.charts.figure import (
    QUIET,
    SCHEME_COLOURS,
    SOLID,
    WIDTH,
    Datum,
    Figure,
    alt,
    charted,
    colours_of_column,
    ends,
    grid,
    log_ends,
    panel,
)
from headway.report.charts.intervals import ENDS, mean_said, names_beside, over_seeds, points_with_intervals, strip
from headway.report.charts.lines import Axis, keyed, line_bands
from headway.report.experiment.data import ArmResults, ReportData, arms_with, colours_of, seed_rows
from headway.report.lm.common import LOSS, declared, loss_metric, named_rules
from headway.stats.lm.plain_curve import is_plain, on_curve
from headway.stats.lm.scaling import PARAMETERS, PUBLISHED_FORM, Fit

METRIC = "eval_loss_nats"
POINTS = 120
SIZE = (WIDTH - 60, 440)

SIDES = {
    "ascending": (intervals.NE, intervals.N, intervals.E),
    "constant": (intervals.NE, intervals.E, intervals.SE),
    "descending": (intervals.SW, intervals.S, intervals.W),
}
"""The preferred sides of a point's name by scheme: schemes have nearly equal totals."""

FORMS = dict(zip(PARAMETERS, ("exp(−b n) + c, as published", "a exp(−b n) + c"), strict=True))


def loss_against_heads(material: ReportData) -> Figure | None:
    """Draw the loss against heads; None unless arms with a loss differ in total heads, and not by depth alone.

    Also None for groups of different sizes: their losses differ by size.
    """
    arms = arms_with(material, METRIC)
    if not _differ_in_heads(arms):
        return None
    fits = [fit for fit in entries(material) if fit.params]
    points, bands = [_point_against_heads(material, arm, fits) for arm in arms], list(_bands(fits))
    seeds = [float(value) for arm in arms for value in arm.final(METRIC)]
    domain = ends([*seeds, *(row[end] for row in [*points, *bands] for end in ENDS)], beside=0.1)
    y = Axis("loss_nats", loss_metric(material).axis, domain=domain)
    low, *_, high = sorted(row["heads"] for row in points)
    reach = 0.13 * (high - low)
    width = [low - reach / 2, high + reach]
    x = Axis("heads", "n, heads in all layers", domain=width, ticks={"tickMinStep": 1})
    present = {declared(arm).scheme for arm in arms}
    palette = {scheme or "other": SCHEME_COLOURS[scheme] for scheme in SCHEME_COLOURS if scheme in present}
    colour = colours_of_column("scheme", palette, "circle")
    layers = [*named_rules(material, y), *_fitted(list(_lines(fits, arms)), bands, x, y, colour)]
    layers += [_notes(material), *_points(points, arms, x, y, colour)]
    layers += names_beside(points, x, y, colour, size=SIZE, first=lambda row: SIDES.get(row["scheme"], ()))
    return Figure(
        name="heads",
        part="Outcome",
        title="Loss against the number of heads",
        caption=_caption(material, fits, any(row["unfitted"] for row in points)),
        chart=panel(layers, *SIZE),
    )


def total(arm: ArmResults) -> int:
    """Heads of all layers of an arm."""
    return declared(arm).model.layout.total


def _differ_in_heads(arms: Sequence[ArmResults]) -> bool:
    """Return whether arms of one size, or of one group, differ in total heads, and not by depth alone."""
    in_layers = {heads for arm in arms for heads in declared(arm).model.layout.n_heads}
    comparable = len(set(map(_parameters, arms))) < 2 or _differ_in_size(arms)
    return min(len(set(map(total, arms))), len(in_layers)) > 1 and comparable


def _differ_in_size(arms: Sequence[ArmResults]) -> bool:
    """Return whether arms that are compared with one another differ in size."""
    return len({(arm.group, _parameters(arm)) for arm in arms}) > len({arm.group for arm in arms})


def _parameters(arm: ArmResults) -> float | None:
    return arm.shown.metrics.get("n_parameters")


def entries(material: ReportData) -> list[Fit]:
    """The fits through the arms of a material that holds those of one control only."""
    return [fit for fit in material.results.fits if fit.control in material.controls]


def _scheme(arm: ArmResults) -> str:
    return declared(arm).scheme or "other"


def _point_against_heads(material: ReportData, arm: ArmResults, fits: Sequence[Fit]) -> Datum:
    return {
        "arm": arm.label,
        "layout": str(declared(arm).model.layout),
        # The figure is of one control, which its title names.
        "label": material.experiment.arm(arm.name.partition("+")[0]).label,
        "scheme": _scheme(arm),
        "heads": total(arm),
        "unfitted": bool(fits) and not any(arm.name in fit.arms for fit in fits),
        **over_seeds(arm.final(METRIC), "loss_nats"),
    }


def _lines(fits: Sequence[Fit], arms: Sequence[ArmResults]) -> Iterator[Datum]:
    for fit in fits:
        params = {"a": 1.0, **(fit.params or {})}
        totals = [total(arm) for arm in arms if arm.name in fit.arms]
        for n in np.linspace(min(totals), max(totals), POINTS):
            loss = params["a"] * np.exp(-params["b"] * n) + params["c"]
            yield {"scheme": fit.scheme, "form": FORMS[fit.form], "heads": n, "loss_nats": loss}


def _bands(fits: Sequence[Fit]) -> Iterator[Datum]:
    for fit in fits:
        band = fit.band if fit.form == PUBLISHED_FORM else None
        for n, low, high in zip(band.n, band.low, band.high, strict=True) if band else ():
            yield {"scheme": fit.scheme, "heads": n, "low": low, "high": high}


def _fitted(lines: list[Datum], bands: list[Datum], x: Axis, y: Axis, colour: Any) -> list[Any]:
    """Fitted curves, solid for the published form, and their bands."""
    layers, style = [], {"color": colour, "detail": "scheme:N"}
    if bands:
        layers.append(line_bands(bands, x, y, style, shade=0.13, clip=True)[0])
    if lines:
        forms = [name for name in FORMS.values() if any(row["form"] == name for row in lines)]
        published = FORMS[PUBLISHED_FORM]
        dash = keyed("form", [(name, QUIET, SOLID if name == published else (3, 3)) for name in forms])["strokeDash"]
        style = {"color": colour, "strokeDash": dash}
        layers += line_bands(lines, x, y, style, spread=None, clip=True, strokeWidth=1.6, shown=["scheme:N", "form:N"])
    return layers


def _points(points: list[Datum], arms: Sequence[ArmResults], x: Axis, y: Axis, colour: Any) -> list[Any]:
    """Seeds, and means with their intervals."""
    seeds = [
        {**row, "scheme": _scheme(arm), "heads": total(arm)}
        for arm in arms
        if len(arm.runs) > 1
        for row in seed_rows([arm], METRIC, "loss_nats")
    ]
    shown = ["arm:N", "layout:N", "heads:Q", "loss_nats:Q", "low:Q", "high:Q"]
    interval, *means = points_with_intervals(
        points, x, y, colour, up=ENDS, size=90, hollow="unfitted", shown=shown, strokeWidth=1.8
    )
    if not seeds:
        return [interval, *means]
    shown = ["arm:N", "seed:N", "loss_nats:Q"]
    ticks = strip(seeds, x, y, colour, kind="tick", shown=shown, orient="horizontal", size=9, opacity=0.7)
    return [interval, ticks, *means]


_FEWEST_FITTED = 2
"""Through so few arms nobody asked for a curve."""


def _notes(material: ReportData) -> Any:
    """The notes on the fits, in the upper right corner of the panel."""
    notes: dict[str, list[str]] = {}
    for fit in entries(material):
        if fit.note and len(fit.arms) > _FEWEST_FITTED:
            notes.setdefault(f"{FORMS[fit.form]}: {fit.note}", []).append(fit.scheme)
        if fit.other and fit.form == PUBLISHED_FORM:
            better = f"b = {number(fit.other['b'], 2)}, c = {number(fit.other['c'], 4)}"
            notes[f"{FORMS[fit.form]}: a second minimum fits better ({better})"] = [fit.scheme]
    lines = [f"{', '.join(schemes)} with {note}" for note, schemes in notes.items()]
    text = charted([{"note": "\n".join(lines)}]).mark_text(
        align="right", baseline="top", lineBreak="\n", color=QUIET, fontSize=11
    )
    return text.encode(x=alt.value(SIZE[0]), y=alt.value(0), text="note:N")


def _caption(material: ReportData, fits: Sequence[Fit], outside: bool) -> str:
    banded = any(fit.band for fit in fits if fit.form == PUBLISHED_FORM)
    return join(
        f"Each point is an arm, labelled by its heads per layer: {mean_said(material.n_seeds)}.",
        f"Curves are least-squares fits per scheme{', with 95 % bootstrap bands over seeds' if banded else ''}."
        if fits
        else "",
        "Hollow points are not used in a fit." if outside else "",
    )


SIZES_SIZE = (WIDTH - 60, 420)
_POINTS = 61


def loss_against_parameters(material: ReportData) -> Figure | None:
    """A labelled point per arm and the curve through the plain models; None unless compared arms differ in size.

    Also None for tasks other than text: only for text is the loss of a plain model of a given size known.
    """
    if not is_text(material.run):
        return None
    arms = [arm for arm in arms_with(material, METRIC) if _parameters(arm)]
    if not _differ_in_size(material.under(None).arms):
        return None
    points = [_point_against_parameters(arm) for arm in arms]
    plain = sorted((row for row in points if row["plain"]), key=lambda row: row["parameters"])
    width = log_ends([row["parameters"] for row in points])
    x = Axis(
        "parameters",
        "trained parameters (millions, logarithmic axis)",
        domain=width,
        log=True,
        ticks={"tickCount": 8, "format": "~g"},
    )
    y = Axis("loss_nats", LOSS.axis, domain=ends([row[end] for row in points for end in ENDS], beside=0.1))
    colour = colours_of_column("arm", colours_of(arms))
    layers = list(named_rules(material, y))
    if len(plain) > 1:
        layers += line_bands(_joined(plain), x, y, QUIET, spread=None, strokeWidth=1.6)
    shown = ["arm:N", "parameters:Q", "loss_nats:Q", "low:Q", "high:Q"]
    layers += points_with_intervals(
        points, x, y, colour, up=ENDS, size=95, hollow="control", shown=shown, strokeWidth=1.8
    )
    # A point under a control has the colour of its arm, whose name stands there already.
    layers += names_beside([row for row in points if not row["control"]], x, y, colour, size=SIZES_SIZE)
    return Figure(
        name="parameters",
        part="Outcome",
        title="Loss against trained parameters",
        caption=join(
            f"Each point is an arm: {mean_said(material.n_seeds)}.",
            "The line interpolates the loss of plain models (no lane, full-rank matrices)." if len(plain) > 1 else "",
            "Hollow points are arms under a control." if any(row["control"] for row in points) else "",
        ),
        chart=panel(layers, *SIZES_SIZE),
    )


def _joined(plain: Sequence[Datum]) -> list[dict[str, float]]:
    """The curve that other models are compared with, in points near each other."""
    sizes, losses = ([row[key] for row in plain] for key in ("parameters", "loss_nats"))
    return [
        {"parameters": at, "loss_nats": on_curve(at, sizes, losses)}
        for at in sorted({*sizes, *np.geomspace(sizes[0], sizes[-1], _POINTS).tolist()})
    ]


def _point_against_parameters(arm: ArmResults) -> Datum:
    return {
        "arm": arm.label,
        "label": arm.style.point,
        "control": arm.control is not None,
        "plain": is_plain(declared(arm).model) and arm.control is None,
        "parameters": arm.shown.metrics["n_parameters"] / 1e6,
        **over_seeds(arm.final(METRIC), "loss_nats"),
    }


COST_SIZE = (WIDTH // 2 - 60, 300)
COSTS = {"step_s": "seconds per training step", "memory_mib": "peak memory (MiB)"}


def cost(material: ReportData) -> Figure | None:
    """Against total heads, or parameters where heads are as many; None without timings of several sizes."""
    arms = [arm for arm in material.arms if arm.name in material.timings]
    if not arms:
        return None
    by_heads = len({total(arm) for arm in arms}) > 1
    rows = [_row(material, arm, by_heads) for arm in arms]
    panels = [
        panel(_costs(rows, column, by_heads), *COST_SIZE, title)
        for column, title in COSTS.items()
        if all(row[column] is not None for row in rows)
    ]
    if not panels or len({row["x"] for row in rows}) < 2:
        return None
    return Figure(
        name="cost",
        part="Cost",
        title=f"Time and memory against the number of {'heads' if by_heads else 'parameters'}",
        caption=join(
            f"Each arm was timed briefly, separate from training{_executed(material, arms)}.",
            "Bars span the repeated step times.",
            "Memory excludes what the process used before the model was built.",
        ),
        chart=grid(panels, 2, (40, 0)),
    )


def busy(material: ReportData) -> str:
    """Return a sentence on the arms whose speed is not measured, as the machine was busy; empty for none."""
    timed = [arm for arm in material.arms if arm.name in material.timings]
    unmeasured = [arm.label for arm in timed if material.timings[arm.name]["step_s"] is None]
    if not unmeasured:
        return ""
    arms = "all arms" if len(unmeasured) == len(timed) else listed(unmeasured)
    return say("busy", arms=arms)


def _row(material: ReportData, arm: ArmResults, by_heads: bool) -> Datum:
    timing = material.timings[arm.name]
    memory = timing.get("memory_bytes")
    low, high = timing.get("step_s_range") or (timing["step_s"],) * 2
    return {
        "arm": arm.label,
        "label": arm.style.point,
        "what": arm.style.scheme if by_heads and arm.style.scheme else arm.label,
        "colour": arm.colour,
        "x": total(arm) if by_heads else arm.shown.metrics.get("n_parameters", 0) / 1e6,
        "step_s": timing["step_s"],
        "low": low,
        "high": high,
        "memory_mib": None if memory is None else memory / 2**20,
        "tokens_per_s": timing.get("tokens_per_s"),
    }


def _costs(rows: list[Datum], column: str, by_heads: bool) -> list[Any]:
    places = [row["x"] for row in rows]
    reach = 0.3 * (max(places) - min(places)) or 1
    x = Axis(
        "x",
        "heads in all layers" if by_heads else "parameters (millions)",
        domain=[max(0, min(places) - reach), max(places) + reach],
        ticks={"tickMinStep": 1} if by_heads else {},
    )
    top = 1.1 * max(row["high"] if column == "step_s" else row[column] or 0.0 for row in rows)
    y = Axis(column, COSTS[column], domain=[0, top])
    colour = colours_of_column("what", {row["what"]: row["colour"] for row in rows}, "circle" if by_heads else None)
    layers = points_with_intervals(
        rows, x, y, colour, up=ENDS if column == "step_s" else None, thick=1.6, opacity=0.75, stroke="white",
        strokeWidth=0.5, shown=["arm:N", "x:Q", "step_s:Q", "tokens_per_s:Q", "memory_mib:Q"],
    )  # fmt: skip
    return layers if by_heads else layers + names_beside(rows, x, y, colour, size=COST_SIZE)


def _executed(material: ReportData, arms: Sequence[ArmResults]) -> str:
    executions = [material.timings[arm.name].get("execution") or {} for arm in arms]
    devices = sorted({str(e["device"]) for e in executions if e.get("device")})
    threads = sorted({e["threads"] for e in executions if e.get("threads")})
    if not devices:
        return ""
    *others, most = threads or [0]
    of_threads = f", {''.join(f'{n} or ' for n in others)}{counted(most, 'thread')}" if most else ""
    return f" (on {', '.join(devices)}{of_threads})"
