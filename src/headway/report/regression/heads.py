"""Figures of the heads of in-context models: w and mu over training, and the final circuits.

`dynamics` draws a line per head. `final_circuits` draws the QK and OV circuits of every head as maps: blue for
negative, red for positive, white for zero.

`declared` and `circuits_of` read a run's specification and its final circuits, for all figures of in-context runs.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from headway.base.text import join
from headway.config.regression import IclRun, Identity, OneLayer, RegressionTask, Stack
from headway.config.spec import thinned
from headway.icl.circuits import circuits
from headway.icl.theory import EffectiveLoss
from headway.report.charts.figure import (
    INK,
    QUIET,
    WIDTH,
    Datum,
    Figure,
    alt,
    charted,
    colours_of_column,
    grid,
    head_colours,
    panel,
)
from headway.report.charts.lines import Axis, line_bands, step_axis
from headway.report.charts.maps import about_zero, head_map, valued
from headway.report.experiment.data import ArmResults, Finished, ReportData
from headway.store.run import Run


def declared(arm: ArmResults) -> IclRun:
    """Return the specification of an arm's shown run."""
    spec = arm.shown.run.spec
    assert isinstance(spec, IclRun)
    return spec


def has_one_layer(arm: ArmResults) -> bool:
    """Return whether an arm's model is a single layer, whose heads are w and mu."""
    return isinstance(declared(arm).model, OneLayer)


def circuits_of(run: Finished) -> dict[str, np.ndarray]:
    """QK (layer, head, D, D) and OV (layer, head, d_y, D) of the trained weights."""
    return run.once(_circuits)


def _circuits(run: Run) -> dict[str, np.ndarray]:
    assert isinstance(run.spec, IclRun)
    return circuits(run.weights(), run.spec.model, run.spec.task)


def covered(arm: ArmResults) -> bool:
    """Return whether the effective loss holds for an arm: one softmax layer, isotropic x, one output of all of x."""
    model, task = declared(arm).model, declared(arm).task
    isotropic = isinstance(task.covariance, Identity) and task.d_y == 1 and bool(task.read_mask().all())
    return has_one_layer(arm) and model.attention == "softmax" and isotropic


DEAD = 0.01
"""The share of the summed |mu w| of all heads below which a head is dead."""


def dead_heads(run: Finished) -> int:
    """Return how many heads of a one-layer model carry less than `DEAD` of its step size, for every output."""
    w, mu = (np.array(run.metrics[name], dtype=float) for name in ("w", "mu"))
    steps = np.abs(w * mu)
    return int((steps < DEAD * steps.sum(axis=0)).reshape(len(steps), -1).all(axis=1).sum())


POINTS = 120
OTHERS = 4
"""Further seeds that are drawn faintly, at most."""

COLUMNS = 4
THEORY_HEADS = 2
"""Heads up to which mu*(w) is drawn: with more, heads that share a w share its mu in any proportion."""


def dynamics(material: ReportData) -> Figure | None:
    """The w and mu of each head over the steps, a column per arm; None when no arm has them."""
    arms = [arm for arm in material.arms if has_one_layer(arm) and len(arm.shown.series("w")[0])]
    if not arms:
        return None
    columns = min(COLUMNS, len(arms))
    width = min(420, (WIDTH - 60) // columns - 75)
    n_heads = max(declared(arm).model.n_heads for arm in arms)
    outputs = range(max(declared(arm).task.d_y for arm in arms))
    rows = [(quantity, output) for quantity in ("w", "mu") for output in outputs]
    bands = [
        grid([_panel(arm, row, rows, n_heads, width) for arm in arms[start : start + columns]], columns)
        for start in range(0, len(arms), columns)
        for row in rows
    ]
    return Figure(
        name="dynamics",
        part="Heads",
        title="w and mu of each head during training",
        caption=_caption(arms),
        chart=grid(bands, 1),
    )


def _panel(arm: ArmResults, row: tuple[str, int], rows: list[tuple[str, int]], n_heads: int, width: int) -> Any:
    quantity, output = row
    spec = declared(arm)
    heads: list[Any] = [*head_colours(spec.model.n_heads)]
    style = {
        "color": colours_of_column("head", head_colours(n_heads), "stroke", title="head", orient="right"),
        "detail": "seed:N",
    }
    name = quantity if spec.task.d_y == 1 else f"{quantity}, output {output + 1}"
    x = step_axis(spec.probes.every, spec.training.steps, titled=row == rows[-1])
    # Every y axis takes the same room, so that panels stand in columns.
    y = Axis("value", name, ticks={"minExtent": 34, "tickCount": 5})

    def lines(rows: Iterable[Datum], **line: Any) -> list[Any]:
        chart = charted(rows).transform_fold(heads, as_=["head", "value"])
        shown = ["head:N", "step:Q", ("value:Q", "", name), "seed:N"]
        return line_bands(chart, x, y, style, spread=None, shown=shown, **line)

    layers = [charted([{}]).mark_rule(color="#c3c7cd").encode(y=alt.datum(0))]
    if len(arm.runs) > 1:
        others = [row for run in arm.runs[1 : 1 + OTHERS] for row in _rows(run, quantity, output)]
        layers += lines(others, opacity=0.22, strokeWidth=1)
    layers += lines(_rows(arm.shown, quantity, output))
    if quantity == "mu" and _has_theory(arm):
        layers += lines(_theory(arm), strokeDash=[5, 3], strokeWidth=1.2)
    return panel(layers, width, 150, {"text": arm.label, "anchor": "middle"} if row == rows[0] else "")


def _rows(run: Finished, quantity: str, output: int) -> Iterator[Datum]:
    steps, values = run.series(quantity)
    values = values[..., output] if values.ndim == 3 else values
    for at in thinned(steps.tolist(), POINTS):
        yield {"step": steps[at], "seed": str(run.seed), **_by_head(values[at])}


def _by_head(values: np.ndarray) -> dict[str, float]:
    return dict(zip(head_colours(len(values)), values, strict=True))


def _has_theory(arm: ArmResults) -> bool:
    return covered(arm) and declared(arm).model.n_heads <= THEORY_HEADS


def _theory(arm: ArmResults) -> Iterator[Datum]:
    """mu*(w) from the step on at which it is no longer far larger than any mu, as it is for tiny w."""
    run, effective = arm.shown, EffectiveLoss.of(declared(arm).task)
    limit = 1.1 * float(np.abs(run.series("mu")[1]).max())
    rows = list(_rows(run, "w", 0))
    heads = head_colours(declared(arm).model.n_heads)
    best = np.array([effective.best_mu(np.array([row[head] for head in heads])) for row in rows])
    beyond = np.flatnonzero(np.abs(best).max(axis=1) > limit)
    for row, values in list(zip(rows, best, strict=True))[beyond.max(initial=-1) + 1 :]:
        yield {**row, **_by_head(values)}


def _caption(arms: list[ArmResults]) -> str:
    seeds = sorted({arm.shown.seed for arm in arms})
    return join(
        "Per head, w is the mean diagonal entry of the QK circuit's x block, and mu is the y entry of the OV circuit.",
        f"Dark lines are seed {' or '.join(map(str, seeds))}"
        + (f", and faint lines are other seeds (at most {OTHERS})." if any(arm.runs[1:] for arm in arms) else "."),
        "Dashed lines are the mu that minimises the theory's effective loss at the current w."
        if any(map(_has_theory, arms))
        else "",
    )


CIRCUIT_MAPS_COLUMNS = 8
COLOURS = ("#174a86", "#6ea6d0", "#ffffff", "#ef9a7e", "#a01528")
"""Colours from the most negative entry over zero to the most positive one."""

PALE = " The pale y column is never used or trained, since the query's y is 0."

Tiles = dict[tuple[str, str], np.ndarray]
"""Maps by the titles of their row and column."""


def final_circuits(arm: ArmResults) -> Figure:
    """QK above OV for each head at the end of training, of the arm's shown seed."""
    task, found = declared(arm).task, circuits_of(arm.shown)
    n_layers, n_heads = found["qk"].shape[:2]
    size = max(70, min(120, WIDTH // min(CIRCUIT_MAPS_COLUMNS, n_heads) - 24))
    inputs = _coordinates(task)
    rows = {"qk": inputs, "ov": inputs[task.d_x :]}
    grids = [
        _maps(
            {
                (f"layer {layer}" if n_layers > 1 else "", f"head {head}"): found[kind][layer, head]
                for layer in range(n_layers)
                for head in range(first, min(first + CIRCUIT_MAPS_COLUMNS, n_heads))
            },
            task,
            rows[kind],
            size,
            legend=kind.upper(),
            largest=_largest(found[kind], task, kind == "qk" and has_one_layer(arm)),
            pale=kind == "qk" and has_one_layer(arm),
        )
        for first in range(0, n_heads, CIRCUIT_MAPS_COLUMNS)
        for kind in rows
    ]
    return Figure(
        name=f"circuits-{arm.name}",
        part="Heads",
        title=f"QK and OV circuits at the end of training: {arm.label}",
        caption=join(
            "QK (above) has keys in rows and queries in columns. OV (below) is what a key's token adds to the output "
            f"(seed {arm.shown.seed}).{PALE * has_one_layer(arm)}",
            "The OV of every layer is multiplied by the final map." if isinstance(declared(arm).model, Stack) else "",
        ),
        chart=grid(grids, 1, (16, 16)).resolve_scale(color="independent"),
    )


def circuit_steps(arm: ArmResults) -> Figure | None:
    """QK of each head at the probed steps, a row per head; None when no step was probed."""
    steps = arm.shown.run.head_steps()
    if not steps:
        return None
    probed = {step: arm.shown.run.head_arrays(step)["qk"] for step in steps}
    n_layers, n_heads = next(iter(probed.values())).shape[:2]
    tiles = {
        (f"head {head}" if has_one_layer(arm) else f"L{layer}H{head}", f"step {step:,}"): qk[layer, head]
        for layer in range(n_layers)
        for head in range(n_heads)
        for step, qk in probed.items()
    }
    task = declared(arm).task
    size = max(70, min(max(84, 13 * task.d_token), WIDTH // len(steps) - 24))
    untrained = has_one_layer(arm)
    largest = max(_largest(qk, task, untrained) for qk in probed.values())
    return Figure(
        name=f"steps-{arm.name}",
        part="Heads",
        title=f"QK circuits during training: {arm.label}",
        caption=f"Each map shows the QK circuit of one head (seed {arm.shown.seed}) at a step.{PALE * untrained}",
        chart=_maps(tiles, task, _coordinates(task), size, legend="QK", largest=largest, pale=untrained),
    )


def _maps(
    tiles: Tiles, task: RegressionTask, rows: list[str], size: int, *, legend: str, largest: float, pale: bool
) -> Any:
    """Maps in rows and columns, each with a line between the x block and y, whose columns may be pale."""
    columns = _coordinates(task)
    cell = size / len(columns)
    data = [
        {"down": down, "across": across, "row": row, "column": column, "value": tile[i, j]}
        for (down, across), tile in tiles.items()
        for i, row in enumerate(rows)
        for j, column in enumerate(columns)
    ]
    ticks = {"ticks": False, "domain": False, "labels": cell >= 12, "labelFontSize": 9, "labelAngle": 0}
    x, y = (
        Axis(column, order=names, scale={"padding": 0}, ticks={**ticks, "labelColor": QUIET})
        for column, names in (("column", columns), ("row", rows))
    )
    key = {"orient": "right", "gradientLength": min(100, max(50, cell * len(rows))), "tickCount": 3}
    cells = head_map(
        alt.Chart(), x, y, valued("value", about_zero(largest, COLOURS), legend, **key), gap=0.5, stroke="#eceef1",
        opacity=alt.condition(f"!{json.dumps(pale)} || indexof(datum.column, 'y') < 0", alt.value(1), alt.value(0.25)),
        shown=["across:N", "row:N", "column:N", "value:Q"],
    )  # fmt: skip
    line = charted([{}]).mark_rule(color=INK, strokeWidth=1)
    parts = [line.encode(x=alt.XDatum(columns[task.d_x], bandPosition=0))]
    if len(rows) > task.d_y:
        parts.append(line.encode(y=alt.YDatum(columns[task.d_x], bandPosition=0)))
    downs, acrosses = (list(dict.fromkeys(title[k] for title in tiles)) for k in (0, 1))
    return panel([cells, *parts], size, cell * len(rows), rows=data).facet(
        row=alt.Row("down:N", sort=downs, header={"title": None, "labelAngle": 0, "labelAlign": "left"}),
        column=alt.Column("across:N", sort=acrosses, header={"title": None, "labelPadding": 4}),
        bounds="flush",
        spacing=14,
    )


def _coordinates(task: RegressionTask) -> list[str]:
    outputs = ["y"] if task.d_y == 1 else [f"y{k + 1}" for k in range(task.d_y)]
    return [f"x{i + 1}" for i in range(task.d_x)] + outputs


def _largest(values: np.ndarray, task: RegressionTask, only_x_columns: bool) -> float:
    seen = values[..., : task.d_x] if only_x_columns else values
    return float(np.abs(seen).max()) or 1.0
