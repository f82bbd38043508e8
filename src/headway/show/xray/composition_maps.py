"""Show: how much of what earlier heads write later heads read, for all pairs of heads of a model."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from headway.heads.findings import COMPOSITIONS, brief
from headway.heads.scores import Composition
from headway.show.shared.figure import WIDTH, Figure, inline
from headway.show.shared.head_colours import colours
from headway.show.shared.theme import QUIET
from headway.words import join

SIDE = 60
"""At most so many heads on a side of a map."""


def composition_maps(found: Composition, labels: Mapping[str, str]) -> Figure | None:
    """A map for each of Q-, K- and V-composition; None for a model of one layer, or of one head."""
    import altair as alt

    tables = {kind: np.asarray(getattr(found, kind)) for kind in COMPOSITIONS}
    if not np.isfinite(tables["q"]).any():
        return None
    names = [f"{labels[attention]}H{head}" for attention, head in found.heads]
    kept = sorted({int(at) for at in np.linspace(0, len(names) - 1, min(SIDE, len(names))).round()})
    side = (WIDTH - 60) // 3 - 60
    shown = {kind: table[np.ix_(kept, kept)] for kind, table in tables.items()}
    scale, _ = colours("0 to 1", list(shown.values()))
    legend = alt.Legend(title="composition", orient="bottom", gradientLength=260, tickCount=5)
    colour = alt.Color("value:Q", scale=scale, legend=legend)
    # The last layer writes to none, the first reads none.
    known = np.isfinite(shown["q"])
    rows, columns = known.any(1), known.any(0)
    writers, readers = ([names[at] for at, some in zip(kept, which, strict=True) if some] for which in (rows, columns))
    panels = [
        _map(shown[kind][np.ix_(rows, columns)], writers, readers, said, side, colour)
        for kind, said in COMPOSITIONS.items()
    ]
    return Figure(
        name="composition",
        part="Composition",
        title="How heads compose",
        caption=join(
            "Rows: the earlier head, which writes; columns: the later head, which reads, into its queries, keys or "
            f"values. The Frobenius norm of the product over those of its factors: circuits at random to one another "
            f"have about {brief(found.null)}.",
            f"Thinned: {len(kept)} of {len(names)} heads are drawn, evenly spaced." if len(kept) < len(names) else "",
        ),
        chart=alt.hconcat(*panels, spacing=18),
    )


def _map(value: np.ndarray, writers: list[str], readers: list[str], title: str, side: int, colour: Any) -> Any:
    import altair as alt

    cell = side / max(value.shape)
    rows = [
        {"x": j, "right": j + 1, "y": i, "below": i + 1, "pair": f"{writer} → {reader}", "value": value[i, j]}
        for i, writer in enumerate(writers)
        for j, reader in enumerate(readers)
        if np.isfinite(value[i, j])
    ]
    return (
        alt.Chart(inline(rows))
        .mark_rect(stroke="white", strokeWidth=1 if cell >= 10 else 0.3)
        .encode(
            x=alt.X("x:Q", title=None, axis=_axis(readers, cell, -90), scale=_scale(0, len(readers))),
            x2="right:Q",
            y=alt.Y("y:Q", title=None, axis=_axis(writers, cell, 0), scale=_scale(len(writers), 0)),
            y2="below:Q",
            color=colour,
            tooltip=["pair:N", alt.Tooltip("value:Q", format=".3f")],
        )
        .properties(width=cell * len(readers), height=cell * len(writers), title=title)
    )


def _scale(first: int, last: int) -> Any:
    import altair as alt

    return alt.Scale(domain=[first, last], nice=False, zero=False)


def _axis(names: list[str], cell: float, angle: int) -> Any:
    """Names of heads in the middle of their cells, as many as there is room for."""
    import altair as alt

    every = next(2**power for power in range(12) if 2**power * cell >= 13)
    return alt.Axis(
        values=[at + 0.5 for at in range(0, len(names), every)],
        labelExpr=f"{json.dumps(names)}[datum.value - .5]",
        labelAngle=angle,
        ticks=False,
        domain=False,
        grid=False,
        labelFontSize=9,
        labelColor=QUIET,
        labelOverlap=False,
    )
