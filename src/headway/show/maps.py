"""Show: the QK and OV circuits of every head as maps, blue for negative, red for positive, white for zero."""

from typing import Any

import numpy as np

from headway.declare.model import Stack
from headway.declare.task import RegressionTask
from headway.show.figure import WIDTH, Figure, inline, join
from headway.show.material import ArmResults

COLUMNS = 8


def final_circuits(arm: ArmResults) -> Figure:
    """QK above OV for each head at the end of training, of the arm's shown seed."""
    import altair as alt

    task, found = arm.shown.spec.task, arm.shown.circuits()
    n_layers, n_heads = found["qk"].shape[:2]
    size = max(56, min(150, WIDTH // min(COLUMNS, n_heads) - 20))
    coordinates = _coordinates(task)
    bands = []
    for layer in range(n_layers):
        heads = {_head(arm, layer, head): head for head in range(n_heads)}
        qk = {name: found["qk"][layer, head] for name, head in heads.items()}
        ov = {name: found["ov"][layer, head] for name, head in heads.items()}
        outputs = coordinates[task.d_x :]
        bands.append(_maps(qk, task, coordinates, size, "QK", _largest(found["qk"])))
        bands.append(_maps(ov, task, outputs, size, "OV", _largest(found["ov"])))
    return Figure(
        name=f"circuits-{arm.name}",
        part="Heads",
        title=f"QK and OV circuits at the end: {arm.label}",
        caption=join(
            f"Seed {arm.shown.seed}. Above, QK: row = the token that is seen, column = the token that looks "
            "(its y column only ever multiplies 0). Below, OV: what a seen token adds to the output.",
            "The OV of every layer is multiplied by the final map." if isinstance(arm.shown.spec.model, Stack) else "",
            "All QK share one scale and all OV another, both centred at 0; a line parts the x block from y.",
        ),
        chart=alt.vconcat(*bands).resolve_scale(color="independent"),
    )


def circuit_steps(arm: ArmResults) -> Figure | None:
    """QK of each head at the probed steps, a row per head; None when no step was probed."""
    import altair as alt

    steps = arm.shown.run.head_steps()
    if not steps:
        return None
    probed = {step: arm.shown.run.head_arrays(step)["qk"] for step in steps}
    n_layers, n_heads = next(iter(probed.values())).shape[:2]
    task = arm.shown.spec.task
    largest = max(_largest(qk) for qk in probed.values())
    size = max(56, min(120, WIDTH // len(steps) - 20))
    rows = [
        _maps(
            {f"step {step:,}": qk[layer, head] for step, qk in probed.items()},
            task,
            _coordinates(task),
            size,
            _head(arm, layer, head),
            largest,
            titled=layer == head == 0,
        )
        for layer in range(n_layers)
        for head in range(n_heads)
    ]
    return Figure(
        name=f"steps-{arm.name}",
        part="Heads",
        title=f"QK circuits during training: {arm.label}",
        caption=f"Seed {arm.shown.seed}. A row per head, a column per probed step, one scale for all, centred at 0; "
        "a line parts the x block from y.",
        chart=alt.vconcat(*rows, spacing=10),
    )


def _maps(
    tiles: dict[str, np.ndarray],
    task: RegressionTask,
    rows: list[str],
    size: int,
    title: str,
    largest: float,
    *,
    titled: bool = True,
) -> Any:
    """Maps side by side, one per tile, with a line between the x block and y."""
    import altair as alt

    columns = _coordinates(task)
    cell = size / len(columns)
    data = [
        {"tile": name, "row": row, "column": column, "value": tile[i, j]}
        for name, tile in tiles.items()
        for i, row in enumerate(rows)
        for j, column in enumerate(columns)
    ]
    labels = alt.Axis(
        ticks=False, domain=False, labels=cell >= 10, labelFontSize=9, labelAngle=0, title=None, labelColor="#6b7280"
    )
    x = alt.X("column:N", sort=columns, axis=labels, scale=alt.Scale(padding=0))
    y = alt.Y("row:N", sort=rows, axis=labels, scale=alt.Scale(padding=0))
    scale = alt.Scale(scheme="redblue", reverse=True, domain=[-largest, largest], domainMid=0)
    legend = alt.Legend(title=title if title in ("QK", "OV") else "QK", gradientLength=min(100, max(50, size)), tickCount=3)
    cells = alt.Chart().mark_rect().encode(
        x=x,
        y=y,
        color=alt.Color("value:Q", scale=scale, legend=legend),
        tooltip=["tile:N", "row:N", "column:N", "value:Q"],
    )
    line = alt.Chart(inline([{}])).mark_rule(color="#22262b", strokeWidth=1)
    parts = [line.encode(x=alt.XDatum(columns[task.d_x], bandPosition=0))]
    if len(rows) > task.d_y:
        parts.append(line.encode(y=alt.YDatum(columns[task.d_x], bandPosition=0)))
    layered = alt.layer(cells, *parts, data=inline(data)).properties(width=size, height=cell * len(rows))
    header = alt.Header(title=None, labels=titled, labelPadding=4)
    # One head, or two, stand in a grid of their own; more than COLUMNS wrap.
    return layered.facet(facet=alt.Facet("tile:N", sort=list(tiles), header=header), columns=COLUMNS).properties(title=title)


def _head(arm: ArmResults, layer: int, head: int) -> str:
    return f"head {head}" if arm.one_layer else f"L{layer}H{head}"


def _coordinates(task: RegressionTask) -> list[str]:
    outputs = ["y"] if task.d_y == 1 else [f"y{k + 1}" for k in range(task.d_y)]
    return [f"x{i + 1}" for i in range(task.d_x)] + outputs


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values).max()) or 1.0
