"""Show: loss against the total number of heads, a labelled point per arm and a fitted curve per scheme of layouts."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headway.compare.tokens.falling import PARAMETERS, PUBLISHED_FORM
from headway.compare.tokens.fits import Fit
from headway.show.report.report_data import ArmResults, ReportData
from headway.show.shared import labels
from headway.show.shared.figure import WIDTH, Figure, ends, inline
from headway.show.shared.summary import SEEDS, over_seeds
from headway.show.shared.theme import SCHEME_COLOURS
from headway.show.tokens.final_losses import loss_of
from headway.show.tokens.finished_run import declared
from headway.show.tokens.ngram_rules import below_and_above, rules
from headway.words import counted, join, listed, number

METRIC = "eval_loss_nats"
POINTS = 120
SIZE = (WIDTH - 60, 440)

SIDES = {
    "ascending": (labels.NE, labels.N, labels.E),
    "constant": (labels.NE, labels.E, labels.SE),
    "descending": (labels.SW, labels.S, labels.W),
}
"""Where a point's name is tried first: schemes have nearly the same totals, so each has a side of its own."""

FORMS = dict(zip(PARAMETERS, ("exp(−b n) + c, as published", "a exp(−b n) + c"), strict=True))


def loss_against_heads(material: ReportData) -> Figure | None:
    """None unless arms with a loss have different totals, and not for their depth alone."""
    import altair as alt

    arms = [arm for arm in material.arms if len(arm.final(METRIC))]
    in_layers = {heads for arm in arms for heads in declared(arm.shown).model.layout.n_heads}
    if len({total(arm) for arm in arms}) < 2 or len(in_layers) < 2:
        return None
    fits = [fit for fit in entries(material) if fit.params]
    points, lines, bands = [_point(material, arm, fits) for arm in arms], list(_lines(fits, arms)), list(_bands(fits))
    seeds = [float(value) for arm in arms for value in arm.final(METRIC)]
    domain = ends([*seeds, *(row[end] for row in [*points, *bands] for end in ("low", "high"))], beside=0.1)
    scale = alt.Scale(domain=domain, nice=False, zero=False)
    y, low_y = (alt.Y(f"{end}:Q", title=loss_of(material).axis, scale=scale) for end in ("loss_nats", "low"))
    totals = [row["heads"] for row in points]
    reach = 0.13 * (max(totals) - min(totals))
    width = [min(totals) - reach / 2, max(totals) + reach]
    x = alt.X(
        "heads:Q",
        title="heads in all layers",
        scale=alt.Scale(domain=width, nice=False),
        axis=alt.Axis(tickMinStep=1),
    )
    schemes = [name for name in SCHEME_COLOURS if any(_scheme(arm) == _named(name) for arm in arms)]
    colour = alt.Color(
        "scheme:N",
        scale=alt.Scale(domain=[_named(n) for n in schemes], range=[SCHEME_COLOURS[n] for n in schemes]),
        legend=alt.Legend(title=None, orient="bottom", symbolType="circle", symbolStrokeWidth=0, symbolSize=110),
    )
    layers = [*rules(material, domain, "loss_nats"), *_fitted(lines, bands, x, (y, low_y), colour)]
    layers += _drawn(points, arms, x, (y, low_y), colour)
    layers += labels.text_layers(points, _names(points, (width, domain)), {"x": x, "y": y, "color": colour})
    return Figure(
        name="heads",
        part="Outcome",
        title="Loss against the number of heads",
        caption=_caption(material, arms, fits, domain),
        chart=alt.layer(*layers).properties(width=SIZE[0], height=SIZE[1]),
    )


def total(arm: ArmResults) -> int:
    """Heads of all layers of an arm."""
    return declared(arm.shown).model.layout.total


def entries(material: ReportData) -> list[Fit]:
    """The fits through the arms of a material that holds those of one control only."""
    return [fit for fit in material.results.fits if fit.control in material.controls]


def _scheme(arm: ArmResults) -> str:
    return _named(declared(arm.shown).scheme)


def _named(scheme: str | None) -> str:
    return scheme or "other"


def _point(material: ReportData, arm: ArmResults, fits: Sequence[Fit]) -> dict[str, Any]:
    mean = over_seeds(arm.final(METRIC))
    return {
        "arm": arm.label,
        "layout": str(declared(arm.shown).model.layout),
        # The figure is of one control, which its title names.
        "label": material.experiment.arm(arm.name.partition("+")[0]).label,
        "scheme": _scheme(arm),
        "heads": total(arm),
        "fitted": not fits or any(arm.name in fit.arms for fit in fits),
        "loss_nats": mean.mean,
        "low": mean.low,
        "high": mean.high,
    }


def _lines(fits: Sequence[Fit], arms: Sequence[ArmResults]) -> Iterator[dict[str, Any]]:
    for fit in fits:
        params = {"a": 1.0, **(fit.params or {})}
        totals = [total(arm) for arm in arms if arm.name in fit.arms]
        for n in np.linspace(min(totals), max(totals), POINTS):
            loss = params["a"] * np.exp(-params["b"] * n) + params["c"]
            yield {"scheme": fit.scheme, "form": FORMS[fit.form], "heads": n, "loss_nats": loss}


def _bands(fits: Sequence[Fit]) -> Iterator[dict[str, Any]]:
    for fit in fits:
        band = fit.band if fit.form == PUBLISHED_FORM else None
        for n, low, high in zip(band.n, band.low, band.high, strict=True) if band else ():
            yield {"scheme": fit.scheme, "heads": n, "low": low, "high": high}


def _fitted(
    lines: list[dict[str, Any]], bands: list[dict[str, Any]], x: Any, ys: tuple[Any, Any], colour: Any
) -> list[Any]:
    import altair as alt

    (y, low_y), layers = ys, []
    if bands:
        area = alt.Chart(inline(bands)).mark_area(opacity=0.13, clip=True)
        layers.append(area.encode(x=x, y=low_y, y2="high:Q", color=colour, detail="scheme:N"))
    if lines:
        forms = [name for name in FORMS.values() if any(row["form"] == name for row in lines)]
        dash = alt.StrokeDash(
            "form:N",
            sort=forms,
            scale=alt.Scale(
                domain=forms, range=[[1, 0] if form == FORMS[PUBLISHED_FORM] else [3, 3] for form in forms]
            ),
            legend=alt.Legend(title=None, orient="bottom", symbolType="stroke"),
        )
        mark = alt.Chart(inline(lines)).mark_line(clip=True, strokeWidth=1.6)
        layers.append(mark.encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=["scheme:N", "form:N"]))
    return layers


def _drawn(
    points: list[dict[str, Any]], arms: Sequence[ArmResults], x: Any, ys: tuple[Any, Any], colour: Any
) -> list[Any]:
    """Seeds, and means with their intervals."""
    import altair as alt

    y, low_y = ys
    chart = alt.Chart(inline(points)).encode(x=x, color=colour)
    tooltip = ["arm:N", "layout:N", "heads:Q", "loss_nats:Q", "low:Q", "high:Q"]
    layers = [chart.mark_rule(strokeWidth=1.8).encode(y=low_y, y2="high:Q")]
    seeds = [
        {"arm": arm.label, "scheme": _scheme(arm), "heads": total(arm), "seed": str(seed), "loss_nats": loss}
        for arm in arms
        if len(arm.runs) > 1
        for seed, loss in arm.by_seed(METRIC).items()
    ]
    if seeds:
        small = alt.Chart(inline(seeds)).mark_tick(orient="horizontal", size=9, thickness=1.4, opacity=0.7)
        layers.append(small.encode(x=x, y=y, color=colour, tooltip=["arm:N", "seed:N", "loss_nats:Q"]))
    for fitted in (True, False):
        rows = [row for row in points if row["fitted"] == fitted]
        style: dict[str, Any] = {"filled": True} if fitted else {"filled": False, "fill": "white"}
        mark = alt.Chart(inline(rows)).mark_point(size=90, opacity=1, strokeWidth=1.8, **style)
        layers += [mark.encode(x=x, y=y, color=colour, tooltip=tooltip)] if rows else []
    return layers


def _names(points: list[dict[str, Any]], axes: tuple[Sequence[float], Sequence[float]]) -> list[labels.Side]:
    (left, right), (low, high) = axes
    named = [
        labels.Named(
            x=SIZE[0] * (row["heads"] - left) / (right - left),
            y=SIZE[1] * (high - row["loss_nats"]) / (high - low),
            name=row["label"],
            first=SIDES.get(row["scheme"], ()),
        )
        for row in points
    ]
    return labels.sides(named, width=SIZE[0], height=SIZE[1])


def _caption(material: ReportData, arms: Sequence[ArmResults], fits: Sequence[Fit], domain: Sequence[float]) -> str:
    fitted = {name for fit in fits for name in fit.arms}
    outside = [arm.label for arm in arms if arm.name not in fitted]
    published = [fit for fit in fits if fit.form == PUBLISHED_FORM]
    notes: dict[str, list[str]] = {}
    for fit in entries(material):
        if fit.note:
            notes.setdefault(f"{FORMS[fit.form]}: {fit.note}", []).append(fit.scheme)
    others = [
        f"for {fit.scheme} b = {number(fit.other['b'], 2)}, c = {number(fit.other['c'], 4)} fits the points "
        "better still"
        for fit in published
        if fit.other
    ]
    return join(
        "A point per arm, labelled with its heads layer by layer"
        + (
            f": the mean over {counted(material.n_seeds, 'seed')} (short lines)"
            + (", with its 95 % interval (t)." if material.n_seeds >= SEEDS else "; too few seeds for an interval.")
            if material.n_seeds > 1
            else ", one seed."
        ),
        "Curves are least-squares fits per scheme; n is the number of heads." if fits else "",
        "Bands: 95 % of the curves (as published) refitted to resampled seeds, the same for every arm, widened for "
        "their small number."
        if any(fit.band for fit in published)
        else "",
        *(f"{', '.join(schemes).capitalize()} with {note}." for note, schemes in notes.items()),
        f"Of the two minima of the published form, {listed(others)}." if others else "",
        f"Hollow, and not in any fit: {listed(outside)}." if fits and outside else "",
        below_and_above(material, domain),
    )
