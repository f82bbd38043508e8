"""Figures of errors: over training, and against the length of the prompt, shorter and longer than in training."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from headway.base.text import join
from headway.report.charts.figure import ESTIMATORS, WIDTH, Datum, Figure, LineStyle, Rows, grid, panel
from headway.report.charts.intervals import strip
from headway.report.charts.lines import Axis, band_said, keyed, keyed_rules, line_bands, rule, step_axis
from headway.report.experiment.data import ArmResults, ReportData, per_seed, solid_lines, training_curve
from headway.report.regression.heads import declared

POINTS = 200
"""Points of a curve, at most."""

REFERENCES = ("gd_best", "debiased_gd_best", "preconditioned_gd", "ridge")
"""Estimators in the figures of all arms; the figure per arm has all there are."""

ERROR = "mean squared error (log scale)"
PANELS = {"train_mse": "training loss", "eval_mse_adjusted": "validation loss"}


def loss(material: ReportData) -> Figure | None:
    """Training and validation loss of every arm over the steps; None when nothing was logged."""
    of_metric = {metric: [row for arm in material.arms for row in _with_luck(arm, metric)] for metric in PANELS}
    rows = {metric: curves for metric, curves in of_metric.items() if curves}
    if not rows:
        return None
    every = [row for curves in rows.values() for row in curves]
    low, high = min(row["low"] for row in every), max(row["high"] for row in every)
    references = _references(material, low)
    low = min([low, *(mse for _, mse in references)])
    linear = min(declared(arm).evaluation.every for arm in material.arms)
    x = step_axis(linear, max(row["step"] for row in every))
    y = Axis("mse", ERROR, domain=[low / 1.05, high * 1.05], log=True, ticks={"tickCount": 6})
    style = keyed("what", [*solid_lines(material.arms), *(style for style, _ in references)])
    panels = []
    for metric, curves in rows.items():
        spread = "band" if any(row["low"] < row["high"] for row in curves) else None
        layers = line_bands(curves, x, y, style, spread=spread, shade=0.2, shown=["what:N", "step:Q", "mse:Q"])
        if metric == "eval_mse_adjusted":
            layers += _final_points(material, x, y, style)
        layers += keyed_rules(references, y, style)
        panels.append(panel(layers, WIDTH // 2 - 40, 300, PANELS[metric]))
    return Figure(
        name="loss",
        part="Training",
        title="Training and validation loss",
        caption=_caption(material),
        chart=grid(panels, 2),
    )


def _with_luck(arm: ArmResults, metric: str) -> Iterator[Datum]:
    """Yield a curve; the band of validation also holds what few prompts leave uncertain, 95 % on the logarithm."""
    luck = {row["step"]: row["se"] for row in training_curve(arm, f"{metric}_se", "se", POINTS)}
    for row in training_curve(arm, metric, "mse", POINTS):
        reach = math.exp(1.96 * luck.get(row["step"], 0.0) / row["mse"])
        yield {**row, "low": row["low"] / reach, "high": row["high"] * reach}


def _final_points(material: ReportData, x: Axis, y: Axis, style: Mapping[str, Any]) -> list[Any]:
    """The error of each arm on the many prompts of the final evaluation, at its last step."""
    rows = [
        {"what": arm.label, "step": declared(arm).training.steps, "mse": float(errors.mean())}
        for arm in material.arms
        if len(errors := arm.final("eval_mse_adjusted")) and errors.mean() > 0
    ]
    if not rows:
        return []
    shown = ["what:N", "mse:Q"]
    return [strip(rows, x, y, style["color"], shown=shown, size=70, opacity=1, stroke="white", strokeWidth=1)]


def _references(material: ReportData, low: float) -> list[tuple[LineStyle, float]]:
    """The estimators' errors and how their rules look, without those far below everything else."""
    if not material.one_task:
        return []
    errors = material.baselines(material.arms[0], "mse")
    return [(ESTIMATORS[name], errors[name]) for name in REFERENCES if name in errors and errors[name] > low / 4]


def _caption(material: ReportData) -> str:
    evaluation = declared(material.arms[0]).evaluation
    luck = any(len(per_seed(arm, "eval_mse_adjusted_se")[0]) for arm in material.arms)
    return join(
        f"During training, the validation loss is measured on only {evaluation.prompts_during:,} fixed prompts, which "
        f"can shift all lines; points are the final evaluation on {evaluation.prompts:,} prompts.",
        band_said(material.n_seeds),
        "Bands around the validation loss also cover the 95 % interval over prompts." if luck else "",
    )


KERNEL: LineStyle = ("kernel estimator of the model", "#000000", (1, 2))
_LEAST_SQUARES = ESTIMATORS["least_squares"]
CURVES = {**ESTIMATORS, "least_squares": (f"{_LEAST_SQUARES[0]} (median)", *_LEAST_SQUARES[1:])}
"""The label, colour and dashes of each estimator's curve; the mean of least squares does not exist at some lengths."""

OPTIMAL = (CURVES["ridge"][0], CURVES["least_squares"][0])
"""Estimators that may leave a panel: they fall far below the models."""


def lengths_by_arm(material: ReportData) -> Figure | None:
    """The model, its kernel estimator and the other estimators, a panel per arm."""
    arms = [arm for arm in material.arms if _curve(arm)]
    if not arms:
        return None
    drawn = {arm.name: _rows_of(material, arm) for arm in arms}
    everything = [row for rows in drawn.values() for row in rows]
    styles = _styles(arms, everything)
    columns = min(len(arms), 2 if len(arms) <= 4 else 3)
    width = (WIDTH - 60) // columns - 45
    panels = [
        _panel({declared(arm).task.n_pairs}, drawn[arm.name], styles, (min(width, 640), 260), title=arm.label)
        for arm in arms
    ]
    return Figure(
        name="lengths-by-arm",
        part="Prompt length",
        title="Error against prompt length, with untrained estimators",
        caption=join(
            f"Curves show seed {' or '.join(sorted({str(arm.shown.seed) for arm in arms}))}, with 95 % bootstrap "
            "intervals over the prompts.",
            "The kernel estimator uses only w and mu of each head." if any("kernel" in _curve(a) for a in arms) else "",
            "The vertical line marks the training prompt length.",
        ),
        chart=grid(panels, columns),
    )


def lengths(material: ReportData) -> Figure | None:
    """Draw all arms in one panel, with the estimators of their task if they share one."""
    arms = [arm for arm in material.arms if _curve(arm)]
    if not arms:
        return None
    rows = [row for arm in arms for row in _mean_rows(arm)]
    if material.one_task:
        rows += _estimators(material, arms[0], REFERENCES)
    return Figure(
        name="lengths",
        part="Prompt length",
        title="Error against prompt length",
        caption=join(
            band_said(material.n_seeds) or "Bands are 95 % bootstrap intervals over the prompts.",
            "The vertical line marks the training prompt length.",
        ),
        chart=_panel(
            {declared(arm).task.n_pairs for arm in arms}, rows, _styles(arms, rows), (WIDTH - 60, 360), nested=True
        ),
    )


def _styles(arms: Sequence[ArmResults], rows: Rows) -> list[LineStyle]:
    drawn = {row["what"] for row in rows}
    return [*solid_lines(arms), *(style for style in (KERNEL, *CURVES.values()) if style[0] in drawn)]


def _rows_of(material: ReportData, arm: ArmResults) -> list[Datum]:
    """The model, its kernel estimator and all estimators."""
    curve = _curve(arm)
    names = {"model": arm.label, "kernel": KERNEL[0]}
    rows = [row for key, name in names.items() if key in curve for row in _rows(name, curve["n_pairs"], curve[key])]
    return rows + _estimators(material, arm, tuple(CURVES))


def _panel(
    lengths: set[int],
    rows: Rows,
    styles: Sequence[LineStyle],
    size: tuple[float, float],
    *,
    nested: bool = False,
    title: str | None = None,
) -> Any:
    # Below all but the estimators that nothing trained comes near.
    floor = min(row["low"] for row in rows if row["what"] not in OPTIMAL) / 1.6
    high = max(row["high"] for row in rows)
    x = Axis("n_pairs", "pairs in the prompt (log scale)", log=True, ticks={"format": "d", "tickCount": 8})
    y = Axis("mse", ERROR, domain=[floor, high * 1.2], log=True, ticks={"tickCount": 6})
    shown = ["what:N", "n_pairs:Q", "mse:Q", "low:Q", "high:Q"]
    curves = line_bands(list(_above(rows, floor)), x, y, keyed("what", styles, nested=nested), shown=shown)
    return panel([rule(sorted(lengths), x=x, colour="#b8bdc6"), *curves], *size, title)


def _above(rows: Rows, floor: float) -> Iterator[Datum]:
    """Return curves down to where they cross the floor, and no further: clipping costs seconds for each picture."""
    for at, row in enumerate(rows):
        if row["mse"] >= floor:
            yield {**row, "low": max(row["low"], floor)}
            continue
        for other in (*rows[at - 1 : at], *rows[at + 1 : at + 2]):
            if other["what"] == row["what"] and other["mse"] > floor:
                share = np.log(other["mse"] / floor) / np.log(other["mse"] / row["mse"])
                crossing = other["n_pairs"] * (row["n_pairs"] / other["n_pairs"]) ** share
                yield {"what": row["what"], "n_pairs": crossing, "mse": floor, "low": floor, "high": floor}


def _curve(arm: ArmResults) -> Mapping[str, Any]:
    """The shown run's curves, if its model has an error that a log axis can hold."""
    curve = arm.shown.curves.get("error_by_length") or {}
    return curve if any(curve.get("model", {}).get("mse") or ()) else {}


def _rows(what: str, n_pairs: Sequence[int], curve: Mapping[str, Sequence[float]]) -> Iterator[Datum]:
    for length, mse, low, high in zip(n_pairs, curve["mse"], curve["low"], curve["high"], strict=True):
        if mse is not None and mse > 0:
            yield {"what": what, "n_pairs": length, "mse": mse, "low": low or mse, "high": high or mse}


def _mean_rows(arm: ArmResults) -> Iterator[Datum]:
    curves = [run.curves["error_by_length"] for run in arm.runs if run.curves.get("error_by_length")]
    if len(curves) == 1:
        yield from _rows(arm.label, curves[0]["n_pairs"], curves[0]["model"])
        return
    errors = np.array([curve["model"]["mse"] for curve in curves], dtype=float)
    summary = {"mse": errors.mean(axis=0), "low": errors.min(axis=0), "high": errors.max(axis=0)}
    yield from _rows(arm.label, curves[0]["n_pairs"], summary)


def _estimators(material: ReportData, arm: ArmResults, names: Sequence[str]) -> list[Datum]:
    references = material.references(arm)
    curves = {name: asdict(curve) for name, curve in references.by_length.items()}
    return [row for name in names if name in curves for row in _rows(CURVES[name][0], references.lengths, curves[name])]
