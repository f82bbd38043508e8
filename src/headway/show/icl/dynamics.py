"""Show: what every head becomes during training: its w and mu, a line per head."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from headway.declare.log_spaced import thinned
from headway.icl.theory import EffectiveLoss
from headway.show.icl.finished_run import declared, has_one_layer
from headway.show.icl.theory import covered
from headway.show.report.report_data import ArmResults, Finished, ReportData
from headway.show.shared.figure import WIDTH, Figure, inline, step_axis
from headway.show.shared.theme import head_domain, head_range
from headway.words import join

POINTS = 120
OTHERS = 4
"""Further seeds that are drawn faintly, at most."""

COLUMNS = 4
THEORY_HEADS = 2
"""Heads up to which mu*(w) is drawn: with more, heads that share a w share its mu in any proportion."""


def dynamics(material: ReportData) -> Figure | None:
    """The w and mu of each head over the steps, a column per arm; None when no arm has them."""
    import altair as alt

    arms = [arm for arm in material.arms if has_one_layer(arm) and len(arm.shown.series("w")[0])]
    if not arms:
        return None
    columns = min(COLUMNS, len(arms))
    width = min(420, (WIDTH - 60) // columns - 75)
    n_heads = max(declared(arm.shown).model.n_heads for arm in arms)
    outputs = range(max(declared(arm.shown).task.d_y for arm in arms))
    rows = [(quantity, output) for quantity in ("w", "mu") for output in outputs]
    bands = [
        alt.hconcat(*(_panel(arm, row, rows, n_heads, width) for arm in arms[start : start + columns]))
        for start in range(0, len(arms), columns)
        for row in rows
    ]
    return Figure(
        name="dynamics",
        part="Heads",
        title="What each head becomes during training",
        caption=_caption(arms),
        chart=alt.vconcat(*bands),
    )


def _panel(arm: ArmResults, row: tuple[str, int], rows: list[tuple[str, int]], n_heads: int, width: int) -> Any:
    import altair as alt

    quantity, output = row
    heads: list[str | alt.FieldName] = [*head_domain(declared(arm.shown).model.n_heads)]
    colour = alt.Color(
        "head:N",
        title="head",
        sort=head_domain(n_heads),
        scale=alt.Scale(domain=head_domain(n_heads), range=head_range(n_heads)),
    )
    name = quantity if declared(arm.shown).task.d_y == 1 else f"{quantity}, output {output + 1}"
    spec = declared(arm.shown)
    x = step_axis(spec.probes.every, spec.training.steps, title="training step" if row == rows[-1] else None)
    # Every y axis takes the same room, so that panels stand in columns.
    y = alt.Y("value:Q", title=name, axis=alt.Axis(minExtent=34, tickCount=5))

    def lines(rows: list[dict[str, Any]], **mark: Any) -> Any:
        chart = alt.Chart(inline(rows)).transform_fold(heads, as_=["head", "value"])
        tooltip = ["head:N", "step:Q", alt.Tooltip("value:Q", title=name), "seed:N"]
        return chart.mark_line(**mark).encode(x=x, y=y, color=colour, detail="seed:N", tooltip=tooltip)

    layers = [
        lines(
            [row for run in arm.runs[1 : 1 + OTHERS] for row in _rows(run, quantity, output)],
            opacity=0.22,
            strokeWidth=1,
        )
    ]
    layers.append(lines(list(_rows(arm.shown, quantity, output))))
    if quantity == "mu" and _has_theory(arm):
        layers.append(lines(list(_theory(arm.shown)), strokeDash=[5, 3], strokeWidth=1.2))
    zero = alt.Chart(inline([{}])).mark_rule(color="#c3c7cd").encode(y=alt.datum(0))
    title = alt.Title(arm.label, anchor="middle") if row == rows[0] else ""
    return alt.layer(zero, *layers[len(arm.runs) == 1 :]).properties(width=width, height=150, title=title)


def _rows(run: Finished, quantity: str, output: int) -> Iterator[dict[str, Any]]:
    steps, values = run.series(quantity)
    values = values[..., output] if values.ndim == 3 else values
    for at in thinned(steps.tolist(), POINTS):
        yield {"step": steps[at], "seed": str(run.seed), **_by_head(values[at])}


def _by_head(values: np.ndarray) -> dict[str, float]:
    return dict(zip(head_domain(len(values)), values, strict=True))


def _has_theory(arm: ArmResults) -> bool:
    return covered(arm) and declared(arm.shown).model.n_heads <= THEORY_HEADS


def _theory(run: Finished) -> Iterator[dict[str, Any]]:
    """mu*(w) from the step on at which it is no longer far larger than any mu, as it is for tiny w."""
    effective = EffectiveLoss.of(declared(run).task)
    limit = 1.1 * float(np.abs(run.series("mu")[1]).max())
    rows = list(_rows(run, "w", 0))
    heads = head_domain(declared(run).model.n_heads)
    best = np.array([effective.best_mu(np.array([row[head] for head in heads])) for row in rows])
    beyond = np.flatnonzero(np.abs(best).max(axis=1) > limit)
    for row, values in list(zip(rows, best, strict=True))[beyond.max(initial=-1) + 1 :]:
        yield {**row, **_by_head(values)}


def _caption(arms: list[ArmResults]) -> str:
    seeds = sorted({arm.shown.seed for arm in arms})
    others = max(len(arm.runs) for arm in arms) - 1
    theory = [arm.label for arm in arms if _has_theory(arm)]
    longest = max(len(arm.shown.series("w")[0]) for arm in arms)
    return join(
        "A line per head, heads coloured alike in every figure: w, the mean diagonal of the x block of its QK circuit, "
        "and mu, the y entry of its OV circuit.",
        f"Strong lines: seed {' or '.join(map(str, seeds))}"
        + (f"; faint lines: {min(others, OTHERS)} further seed{'s' * (min(others, OTHERS) > 1)}" if others else "")
        + (f" of {others}." if others > OTHERS else "."),
        "The order of heads and their signs are free, so seeds are not averaged." if others else "",
        f"Dashed ({', '.join(theory)}): mu*(w), the best mu for the w of that step in the theory's effective loss "
        "(left out while w is so small that it is far larger)."
        if theory
        else "",
        f"The steps are on an axis that is linear up to {declared(arms[0].shown).probes.every:,} and logarithmic "
        "beyond.",
        f"Curves are thinned to at most {POINTS} points." if longest > POINTS else "",
    )
