"""Show: the QK and OV circuits of every head as maps, blue for negative, red for positive, white for zero."""

import json
from typing import Any

import numpy as np

from headway.declare.icl.model import Stack
from headway.declare.icl.task import RegressionTask
from headway.show.icl.finished_run import circuits_of, declared, has_one_layer
from headway.show.report.report_data import ArmResults
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.shared.theme import INK, QUIET
from headway.words import join

COLUMNS = 8
COLOURS = ("#174a86", "#6ea6d0", "#ffffff", "#ef9a7e", "#a01528")
"""From the most negative entry over zero to the most positive one."""

PALE = " The y column is pale: the query's y is 0, so it is never used nor trained."

Tiles = dict[tuple[str, str], np.ndarray]
"""Maps by the titles of their row and column."""


def final_circuits(arm: ArmResults) -> Figure:
    """QK above OV for each head at the end of training, of the arm's shown seed."""
    import altair as alt

    task, found = declared(arm.shown).task, circuits_of(arm.shown)
    n_layers, n_heads = found["qk"].shape[:2]
    size = max(70, min(120, WIDTH // min(COLUMNS, n_heads) - 24))
    inputs = _coordinates(task)
    rows = {"qk": inputs, "ov": inputs[task.d_x :]}
    grids = [
        _grid(
            {
                (f"layer {layer}" if n_layers > 1 else "", f"head {head}"): found[kind][layer, head]
                for layer in range(n_layers)
                for head in range(first, min(first + COLUMNS, n_heads))
            },
            task,
            rows[kind],
            size,
            legend=kind.upper(),
            largest=_largest(found[kind], task, kind == "qk" and has_one_layer(arm)),
            pale=kind == "qk" and has_one_layer(arm),
        )
        for first in range(0, n_heads, COLUMNS)
        for kind in rows
    ]
    return Figure(
        name=f"circuits-{arm.name}",
        part="Heads",
        title=f"QK and OV circuits at the end: {arm.label}",
        caption=join(
            f"Seed {arm.shown.seed}. Above, QK: row = the token that is seen, column = the token that looks."
            f"{PALE * has_one_layer(arm)} Below, OV: what a seen token adds to the output.",
            "The OV of every layer is multiplied by the final map."
            if isinstance(declared(arm.shown).model, Stack)
            else "",
            "All QK share one scale and all OV another, both centred at 0; a line parts the x block from y.",
        ),
        chart=alt.vconcat(*grids, spacing=16).resolve_scale(color="independent"),
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
    task = declared(arm.shown).task
    size = max(70, min(max(84, 13 * task.d_token), WIDTH // len(steps) - 24))
    untrained = has_one_layer(arm)
    largest = max(_largest(qk, task, untrained) for qk in probed.values())
    return Figure(
        name=f"steps-{arm.name}",
        part="Heads",
        title=f"QK circuits during training: {arm.label}",
        caption=f"Seed {arm.shown.seed}. A row per head, a column per probed step, one scale for all, centred at 0; "
        f"a line parts the x block from y.{PALE * untrained}",
        chart=_grid(tiles, task, _coordinates(task), size, legend="QK", largest=largest, pale=untrained),
    )


def _grid(
    tiles: Tiles, task: RegressionTask, rows: list[str], size: int, *, legend: str, largest: float, pale: bool
) -> Any:
    """Maps in rows and columns, each with a line between the x block and y, whose columns may be pale."""
    import altair as alt

    columns = _coordinates(task)
    cell = size / len(columns)
    data = [
        {"down": down, "across": across, "row": row, "column": column, "value": tile[i, j]}
        for (down, across), tile in tiles.items()
        for i, row in enumerate(rows)
        for j, column in enumerate(columns)
    ]
    axis = alt.Axis(
        ticks=False, domain=False, labels=cell >= 12, labelFontSize=9, labelAngle=0, title=None, labelColor=QUIET
    )
    scale = alt.Scale(range=list(COLOURS), domain=[-largest, largest], domainMid=0, interpolate="rgb", clamp=True)
    key = alt.Legend(title=legend, gradientLength=min(100, max(50, cell * len(rows))), tickCount=3)
    cells = alt.Chart().encode(
        x=alt.X("column:N", sort=columns, axis=axis, scale=alt.Scale(padding=0)),
        y=alt.Y("row:N", sort=rows, axis=axis, scale=alt.Scale(padding=0)),
        color=alt.Color("value:Q", scale=scale, legend=key),
        opacity=alt.condition(f"!{json.dumps(pale)} || indexof(datum.column, 'y') < 0", alt.value(1), alt.value(0.25)),
        tooltip=["across:N", "row:N", "column:N", "value:Q"],
    )
    line = alt.Chart(inline([{}])).mark_rule(color=INK, strokeWidth=1)
    parts = [line.encode(x=alt.XDatum(columns[task.d_x], bandPosition=0))]
    if len(rows) > task.d_y:
        parts.append(line.encode(y=alt.YDatum(columns[task.d_x], bandPosition=0)))
    layered = alt.layer(cells.mark_rect(stroke="#eceef1", strokeWidth=0.5), *parts, data=inline(data))
    downs, acrosses = (list(dict.fromkeys(title[k] for title in tiles)) for k in (0, 1))
    return layered.properties(width=size, height=cell * len(rows)).facet(
        row=alt.Row("down:N", sort=downs, header=alt.Header(title=None, labelAngle=0, labelAlign="left")),
        column=alt.Column("across:N", sort=acrosses, header=alt.Header(title=None, labelPadding=4)),
        bounds="flush",
        spacing=14,
    )


def _coordinates(task: RegressionTask) -> list[str]:
    outputs = ["y"] if task.d_y == 1 else [f"y{k + 1}" for k in range(task.d_y)]
    return [f"x{i + 1}" for i in range(task.d_x)] + outputs


def _largest(values: np.ndarray, task: RegressionTask, only_x_columns: bool) -> float:
    seen = values[..., : task.d_x] if only_x_columns else values
    return float(np.abs(seen).max()) or 1.0
